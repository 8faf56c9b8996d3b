"""Whether what was deleted is really gone, and how long after."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Literal, get_args

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.hooks import Hooks
from warmstart.memory.evaluation.values import Forgetting
from warmstart.memory.evaluation.visitors import Visitors

Look = Literal["retrieve", "query", "list"]
_FACTS = {
    "locker": "The bicycle is in locker seventeen",
    "plant": "Waters the ficus on Sundays",
    "printer": "Prints on the second floor only",
    "lamp": "Prefers the desk lamp at half brightness",
    "umbrella": "Lost the striped umbrella on a tram",
}
_PATIENCE = 5.0  # seconds
_PAUSE = 0.02


def forgetting(backend: MemoryBackend, visitors: Visitors, hooks: Hooks, *, seconds: float = 0.0) -> Forgetting | None:
    """Delete entries and look for them until they are gone. Nothing where there is nothing to forget.

    What queues writes gets `seconds` to deliver them first: what was never sent is easily forgotten.

    Each value has a word that stands nowhere else, which is also looked for in the backend's files, where it says which
    they are.
    """
    user = visitors.new("forgetting")
    names = {key: invented_word() for key in _FACTS}
    facts = {key: f"{fact}, next to the {names[key]}." for key, fact in _FACTS.items()}
    for key, value in facts.items():
        visitors.wrote(user, key)
        backend.store(user, key, value)
    if hooks.flush is not None and seconds:
        hooks.flush(seconds)
    kept = [key for key in facts if backend.retrieve(user, key) is not None]
    if not kept:
        return None
    last: dict[Look, float | None] = dict.fromkeys(get_args(Look), 0.0)
    pending: dict[tuple[Look, str], float] = {}
    in_history = 0

    def look(name: Look, key: str, deleted: float) -> None:
        looked = time.monotonic()
        if _is_there(backend, user, name, key, facts[key]):
            pending[name, key] = deleted
        else:
            pending.pop((name, key), None)
            last[name] = max(last[name] or 0.0, (looked - deleted) * 1000)

    for key in kept:
        backend.delete(user, key)
        deleted = time.monotonic()
        for name in last:
            look(name, key, deleted)
        in_history += any(version.value == facts[key] for version in backend.history(user, key))
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
        in_files=_in_files(hooks.files(), [names[key] for key in kept]) if hooks.files else None,
    )


def _is_there(backend: MemoryBackend, user: str, look: Look, key: str, value: str) -> bool:
    if look == "retrieve":
        return backend.retrieve(user, key) is not None
    if look == "list":
        return key in backend.list_keys(user)
    return any(entry.key == key or entry.value == value for entry in backend.query(user, value))


def invented_word() -> str:
    """A word that nobody has ever said."""
    random = Random()  # noqa: S311
    return "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(6))


def _in_files(files: Iterable[Path], words: list[str]) -> int:
    found: set[str] = set()
    for path in files:
        try:
            held = path.read_bytes()
        except FileNotFoundError:  # those that come and go
            continue
        found.update(word for word in words if word.encode() in held)
    return len(found)
