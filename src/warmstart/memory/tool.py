"""Memory as one tool for agents: every answer is JSON, and every error says what to do.

What an agent stores is a note of its project, with the agent as its author, whatever its arguments say. The agent sees
its project's notes and everything the user stored, whose value wins where both have a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.config import ambient_settings
from warmstart.errors import EntryNotFound, InvalidEntry, WarmstartError
from warmstart.memory.authors import (
    AGENT,
    AUTHOR,
    CANDIDATE,
    NO_PROJECT,
    PROJECT,
    SCOPE,
    UNKNOWN_AGENT,
    USER,
    author_of,
    is_note,
)
from warmstart.memory.backend import MAX_ENTRIES, Delivery, MemoryBackend, NullBackend, local_copy
from warmstart.memory.values import MemoryEntry, View
from warmstart.sessions.projects import resolve_project

_DELIVERY_SECONDS = 2.0  # how long a write waits for a server
ASKED_MODEL = "honcho answer"  # the source of an answer by Honcho's language model
DIALECTIC_COST = "Honcho's language model: a call on its server, which costs money and takes up to 20 seconds"

# In a file of its own, for hosts that register the tool without importing it.
MEMORY_BACKEND_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

_TYPES = {"string": (str, "a string"), "object": (Mapping, "an object"), "boolean": (bool, "true or false")}


class Caller(NamedTuple):
    """The agent that calls the tool, and its project. The program says so; the model's arguments cannot."""

    agent: str = UNKNOWN_AGENT
    project: str = "."

    @property
    def author(self) -> str:
        """The agent's name as it is stored; never the user's."""
        name = re.sub(r"[^\w. -]+", " ", self.agent).strip()[:40].lower()
        return UNKNOWN_AGENT if name in ("", USER) else name

    @property
    def place(self) -> str:
        """The project whose notes the agent reads and writes."""
        return resolve_project(self.project) or NO_PROJECT


class _Call(NamedTuple):
    """The arguments of a call, with their types checked. `backend` is what the caller sees, `notes` only its notes."""

    configured: MemoryBackend
    backend: MemoryBackend
    notes: MemoryBackend
    caller: Caller
    user_id: str
    key: str
    value: str
    query_text: str | None
    metadata: Mapping[str, Any]
    dialectic: bool | None


def memory_backend(
    action: str,
    user_id: str = "default",
    key: str | None = None,
    value: str | None = None,
    query_text: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    dialectic: bool | None = None,
    *,
    caller: Caller | None = None,
) -> str:
    """Run one action on the configured memory and return the result as JSON. Never raises.

    `dialectic` also asks the backend's language model, if it has one, which costs money and takes seconds. `caller` is
    for the program that offers the tool; without it, the project is that of the working directory.
    """
    from warmstart.memory.selection import get_memory_backend

    try:
        if action not in _ACTIONS:
            raise InvalidEntry(f"unknown action {action!r:.80}; use one of: {', '.join(_ACTIONS)}")
        texts = {"user_id": user_id, "key": key, "value": value, "query_text": query_text}
        _check_types({**texts, "metadata": metadata, "dialectic": dialectic})
        if not (user_id or "").strip():
            raise InvalidEntry("user_id must not be empty; leave it out for the user 'default'")
        if action in ("store", "retrieve", "delete") and not (key or "").strip():
            raise InvalidEntry(f"{action} needs key: the name of the fact, such as 'pref_editor'")
        caller = Caller() if caller is None else caller
        if not isinstance(caller, Caller):
            raise InvalidEntry("caller is set by the program that offers the tool; leave it out")
        backend, place = get_memory_backend(), caller.place
        seen, notes = backend.at(View(project=place, note=place)), backend.at(View(note=place))
        given = (user_id, key or "", value or "", query_text, metadata or {}, dialectic)
        call = _Call(backend, seen, notes, caller, *given)
        return _dump({"success": True, "action": action, **_ACTIONS[action](call)})
    except WarmstartError as error:
        return _failed(str(error))
    except Exception as error:  # must not end an agent's turn
        return _failed(f"memory failed ({type(error).__name__}: {error}); go on without it and tell the user")


def _check_types(arguments: Mapping[str, object]) -> None:
    for name, given in arguments.items():
        kind, expected = _TYPES[MEMORY_BACKEND_SCHEMA["parameters"]["properties"][name]["type"]]
        if given is not None and not isinstance(given, kind):
            hint = "; write it as text, as JSON perhaps" if name == "value" else ""
            raise InvalidEntry(f"{name} must be {expected}, not {type(given).__name__} {given!r:.80}{hint}")


def _store(call: _Call) -> dict[str, Any]:
    backend, limit = call.backend, ambient_settings().memory_max_value
    if not call.value.strip():
        raise InvalidEntry("store needs value: the fact in a sentence; to forget a key use the action 'delete'")
    if len(call.value) > limit:
        raise InvalidEntry(
            f"value has {len(call.value):,} characters and the limit is {limit:,}; store the gist, split it over "
            "several keys, or ask the user to raise memory.max_value in config.toml"
        )
    before = _check_before(call)
    metadata = _metadata(call, before)
    delivery = Delivery(backend)
    if not backend.store(call.user_id, call.key, call.value, metadata):
        raise InvalidEntry(f"{backend.backend_name} did not store {call.key!r}; try again, or see the action 'info'")
    answer = {"key": call.key, "backend": backend.backend_name, SCOPE: PROJECT, **_note(backend), **_queued(delivery)}
    if before is not None and author_of(before.metadata) == USER:
        advice = f"ask them to run `warmstart memory promote {call.key}`"
        answer["note"] = f"the user's own value for this key stays in force; to replace it, {advice}"
    elif backend.stays_local(metadata):
        answer.setdefault("note", "it stays on this machine; the setting memory.honcho.send_scoped sends it too")
    return answer


def _check_before(call: _Call) -> MemoryEntry | None:
    """The entry that has the key now. Raises `InvalidEntry` if the user may still keep a sentence under it."""
    place = call.caller.place
    with local_copy(call.configured) as backend:
        if backend is None:
            return None
        note = backend.at(View(note=place)).retrieve(call.user_id, call.key)
        if note is not None and note.metadata.get(CANDIDATE):
            raise InvalidEntry(f"{call.key!r} is a sentence that the user has not confirmed yet; use another key")
        return backend.at(View(project=place, note=place)).retrieve(call.user_id, call.key)


def _metadata(call: _Call, before: MemoryEntry | None) -> dict[str, Any]:
    """The metadata of a note: what the agent gave, except who wrote it and where it is shown."""
    metadata = {name: value for name, value in call.metadata.items() if name not in (AGENT, CANDIDATE)}
    metadata |= {AUTHOR: call.caller.author, PROJECT: call.caller.place}
    if metadata.get(SCOPE) == AGENT:
        metadata[SCOPE] = PROJECT
    if before is not None and before.place == "" and author_of(before.metadata) != USER:
        del metadata[PROJECT]  # an earlier version stored it for all projects, and would hide the note
        metadata[SCOPE] = USER
    return metadata


def _retrieve(call: _Call) -> dict[str, Any]:
    entry = call.backend.retrieve(call.user_id, call.key)
    if entry is None or entry.metadata.get(CANDIDATE):
        raise EntryNotFound(f"there is no entry {call.key!r}; the action 'list' shows the keys, 'query' searches")
    return _answer(entry)


def _query(call: _Call) -> dict[str, Any]:
    if call.query_text is None:
        raise InvalidEntry("query needs query_text: what to look for, or an empty string for the newest entries")
    found = query_entries(call.backend, call.user_id, call.query_text, dialectic=call.dialectic)
    found = [entry for entry in found if not entry.metadata.get(CANDIDATE)]
    answer = {"results": [_answer(entry) for entry in found], "count": len(found)}
    if any(entry.metadata.get("source") == ASKED_MODEL for entry in found):
        answer["note"] = f"one result is from {DIALECTIC_COST}"
    return answer


def _list(call: _Call) -> dict[str, Any]:
    notes = call.notes.query(call.user_id, "", limit=MAX_ENTRIES)
    hidden = {entry.key for entry in notes if entry.metadata.get(CANDIDATE)}
    keys = [key for key in call.backend.list_keys(call.user_id) if key not in hidden]
    return {"keys": keys, "count": len(keys)}


def _delete(call: _Call) -> dict[str, Any]:
    delivery = Delivery(call.backend)
    if not (call.notes.delete(call.user_id, call.key) or call.backend.delete(call.user_id, call.key)):
        raise EntryNotFound(f"there is no entry {call.key!r} to delete; the action 'list' shows the keys")
    note = {"note": call.backend.deletion_note} if call.backend.deletion_note else {}
    return {"key": call.key, **note, **_queued(delivery)}


def _info(call: _Call) -> dict[str, Any]:
    backend, available, status = call.backend, call.backend.is_available(), call.backend.status()
    return {
        "backend": backend.backend_name,
        "available": available,
        "is_cloud": backend.is_cloud,
        "entries": len(backend.list_keys(call.user_id)) if available else None,
        "max_value": ambient_settings().memory_max_value,
        **({"server": status.address, "waiting": status.waiting, "error": status.problem} if status else {}),
        **_note(backend),
    }


def _evaluate(call: _Call) -> dict[str, Any]:
    """Compare all configured backends, except those that send memories away: only the user may decide that."""
    from warmstart.memory.evaluation import evaluate_backends
    from warmstart.memory.selection import backend_names, open_backend

    backends: dict[str, MemoryBackend] = {}
    left_out = []
    with ExitStack() as stack:
        for name in backend_names():
            with suppress(WarmstartError):  # it is not configured
                backend = stack.enter_context(closing(open_backend(name, ambient_settings())))
                if not backend.is_cloud:
                    backends[backend.backend_name] = backend
                elif backend.is_available():
                    left_out.append(backend.backend_name)
        if not call.configured.is_cloud:
            backends[call.configured.backend_name] = call.configured
        report = evaluate_backends(list(backends.values()))
    if left_out:
        report["note"] = (
            f"{', '.join(left_out)} was not evaluated, because that sends hundreds of made-up memories away from this "
            "machine; only the user may decide that: ask them to run `warmstart memory evaluate`"
        )
    return report


_ACTIONS: dict[str, Callable[[_Call], dict[str, Any]]] = {
    "store": _store,
    "retrieve": _retrieve,
    "query": _query,
    "list": _list,
    "delete": _delete,
    "info": _info,
    "evaluate": _evaluate,
}


def query_entries(
    backend: MemoryBackend, user_id: str, text: str, limit: int = 10, *, dialectic: bool | None = None
) -> list[MemoryEntry]:
    """Query a backend; those without a language model ignore `dialectic`."""
    from warmstart.memory.honcho import HonchoBackend

    if dialectic is not None and isinstance(backend, HonchoBackend):
        return backend.query(user_id, text, limit, dialectic=dialectic)
    return backend.query(user_id, text, limit)


def _note(backend: MemoryBackend) -> dict[str, str]:
    """A note that nothing is stored, if so."""
    if isinstance(backend, NullBackend):
        return {"note": 'memory is off and nothing is stored; set memory.backend = "local" in config.toml'}
    return {}


def _queued(delivery: Delivery) -> dict[str, Any]:
    """Whether a write still waits to be sent, and why."""
    waits = delivery.finish(_DELIVERY_SECONDS)
    return {"queued": True, "note": waits} if waits else {}


def _answer(entry: MemoryEntry) -> dict[str, Any]:
    """An entry for an agent: times in seconds since 1970, and of a note only the metadata that the agent gave."""
    ours = (AUTHOR, PROJECT) if is_note(entry.metadata) else (AUTHOR,)
    metadata = {name: value for name, value in entry.metadata.items() if name not in ours}
    times = {"created_at": entry.created_at, "updated_at": entry.updated_at}
    return {**entry_dict(entry), **times, "author": author_of(entry.metadata), "metadata": metadata}


def entry_dict(entry: MemoryEntry) -> dict[str, Any]:
    """An entry as an object."""
    return {
        "key": entry.key,
        "value": entry.value,
        "user_id": entry.user_id,
        "created_at": as_datetime(entry.created_at),
        "updated_at": as_datetime(entry.updated_at),
        "metadata": dict(entry.metadata),
    }


def as_datetime(seconds: float | None) -> datetime | None:
    """A time, or None if a datetime cannot represent it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _text(value: object) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


def _failed(error: str) -> str:
    return _dump({"success": False, "error": " ".join(error.split())})


def _dump(answer: Mapping[str, Any]) -> str:
    text = json.dumps(answer, ensure_ascii=False, default=_text)
    # Every JSON parser must accept it, so lone surrogates are replaced.
    return text if text.isprintable() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
