"""The tables of the package `memory`; their SQL is in `migrations`.

Each user has a number, and his writes are counted in a range of their own, `number << 40` and up. A new entry takes the
number of its write as its id. A write over it changes the entry where it is, and a trigger keeps what it was before as
a row of history, whose id is the number of that write: `past` of the entry, and through `prior` back to the first.

The index is brought up to date later, up to the write `indexed` of the user. An entry that was written over meanwhile
then gets `past` for its id, so that the order of ids is the order of writes again. A range begins with a row of the
scope -1 that is no entry; it takes over the number of an entry that is forgotten, so that no number is given twice.
"""

from __future__ import annotations

from warmstart.storage.database import migrations_of

BITS = 40  # of a number that count a user's writes

MIGRATIONS = migrations_of("memory", __file__)
