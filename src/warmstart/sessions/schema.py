"""The tables of the package `sessions`; their SQL is in `migrations`.

Every text is stored once, in `texts`, under its hash: a file that an agent reads ten times costs its size once, in the
store and in `texts_index`, which is described in `text_index.py`.
"""

from __future__ import annotations

from warmstart.storage.schema import migrations_of

MIGRATIONS = migrations_of("sessions", __file__)
