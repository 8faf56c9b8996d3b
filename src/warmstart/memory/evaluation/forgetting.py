"""Whether what was deleted is really gone, and how long after."""

from __future__ import annotations

import time
from typing import Literal, get_args

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.values import Forgetting
from warmstart.memory.evaluation.visitors import Visitors

Look = Literal["retrieve", "query", "list"]
_FACTS = {
    "locker": "The bicycle is in locker seventeen.",
    "plant": "Waters the ficus on Sundays.",
    "printer": "Prints on the second floor only.",
    "lamp": "Prefers the desk lamp at half brightness.",
    "umbrella": "Lost the striped umbrella on a tram.",
}
_PATIENCE = 5.0  # seconds
_PAUSE = 0.02


def forgetting(backend: MemoryBackend, visitors: Visitors) -> Forgetting | None:
    """Delete entries and look for them until they are gone. Nothing where there is nothing to forget."""
    user = visitors.new("forgetting")
    for key, value in _FACTS.items():
        visitors.wrote(user, key)
        backend.store(user, key, value)
    kept = [key for key in _FACTS if backend.retrieve(user, key) is not None]
    if not kept:
        return None
    last: dict[Look, float | None] = dict.fromkeys(get_args(Look), 0.0)
    pending: dict[tuple[Look, str], float] = {}
    in_history = 0

    def look(name: Look, key: str, deleted: float) -> None:
        looked = time.monotonic()
        if _is_there(backend, user, name, key):
            pending[name, key] = deleted
        else:
            pending.pop((name, key), None)
            last[name] = max(last[name] or 0.0, (looked - deleted) * 1000)

    for key in kept:
        backend.delete(user, key)
        deleted = time.monotonic()
        for name in last:
            look(name, key, deleted)
        in_history += any(version.value == _FACTS[key] for version in backend.history(user, key))
    until = time.monotonic() + _PATIENCE
    while pending and time.monotonic() < until:
        time.sleep(_PAUSE)
        for (name, key), deleted in list(pending.items()):
            look(name, key, deleted)
    for name, _ in pending:
        last[name] = None
    return Forgetting(
        entries=len(kept),
        retrieve_ms=last["retrieve"],
        query_ms=last["query"],
        list_ms=last["list"],
        in_history=in_history,
        waited_ms=_PATIENCE * 1000,
    )


def _is_there(backend: MemoryBackend, user: str, look: Look, key: str) -> bool:
    if look == "retrieve":
        return backend.retrieve(user, key) is not None
    if look == "list":
        return key in backend.list_keys(user)
    return any(entry.key == key or entry.value == _FACTS[key] for entry in backend.query(user, _FACTS[key]))
