"""All that the index keeps of a user, for a copy: in every scope, with times, former values and deletions."""

from __future__ import annotations

import time
from itertools import groupby
from operator import itemgetter

from warmstart.memory.honcho.index import Index
from warmstart.memory.honcho.versions import told
from warmstart.memory.kept import Kept, Place, place_of
from warmstart.memory.values import SCOPES, MemoryEntry, Scope


def archive(index: Index, user_id: str) -> list[Kept]:
    """All that is kept of a user: what was deleted first, then entries in the order in which they were written."""
    now = time.time()
    entries = {place_of(entry): entry for entry in index.newest(user_id, None, -1)}
    gone, kept = [], []
    for (where, key), rows in groupby(index.log(user_id), key=itemgetter(0, 1)):
        place = _place(key, where)
        versions = told([row[2:] for row in rows], now)
        entry: MemoryEntry | None = entries.get(place)
        former = tuple(each for each in versions if each.value is not None and each.until is not None)
        deletions = tuple(each.since for each in versions if each.value is None)
        if entry is not None:
            kept.append(Kept(user_id, place, entry, former, deletions))
        elif deletions:
            gone.append(Kept(user_id, place, None, (), deletions))
    return [*gone, *sorted(kept, key=lambda each: each.entry.updated_at if each.entry else 0.0)]


def _place(key: str, where: str) -> Place:
    said, _, name = where.partition(":")
    scope: Scope = next((each for each in SCOPES if each == said), "user")
    return Place(key, scope, name)
