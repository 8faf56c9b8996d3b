"""Memory as one tool for agents: every answer is JSON, and every error says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.config import ambient_settings
from warmstart.errors import EntryNotFound, InvalidEntry, WarmstartError
from warmstart.memory.backend import Delivery, MemoryBackend, NullBackend
from warmstart.memory.values import MemoryEntry

_DELIVERY_SECONDS = 2.0  # how long a write waits for a server

# In a file of its own, for hosts that register the tool without importing it.
MEMORY_BACKEND_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

_TYPES = {"string": (str, "a string"), "object": (Mapping, "an object"), "boolean": (bool, "true or false")}


class _Call(NamedTuple):
    """The arguments of a call, with their types checked."""

    backend: MemoryBackend
    user_id: str
    key: str
    value: str
    query_text: str | None
    metadata: Mapping[str, Any] | None
    dialectic: bool | None


def memory_backend(
    action: str,
    user_id: str = "default",
    key: str | None = None,
    value: str | None = None,
    query_text: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    dialectic: bool | None = None,
) -> str:
    """Run one action on the configured memory and return the result as JSON. Never raises.

    `dialectic` also asks the backend's language model, if it has one.
    """
    from warmstart.memory.selection import get_memory_backend

    try:
        if action not in _ACTIONS:
            raise InvalidEntry(f"unknown action {action!r:.80}; use one of: {', '.join(_ACTIONS)}")
        given = {"user_id": user_id, "key": key, "value": value, "query_text": query_text}
        _check_types({**given, "metadata": metadata, "dialectic": dialectic})
        if not (user_id or "").strip():
            raise InvalidEntry("user_id must not be empty; leave it out for the user 'default'")
        if action in ("store", "retrieve", "delete") and not (key or "").strip():
            raise InvalidEntry(f"{action} needs key: the name of the fact, such as 'pref_editor'")
        call = _Call(get_memory_backend(), user_id, key or "", value or "", query_text, metadata or None, dialectic)
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
    delivery = Delivery(backend)
    if not backend.store(call.user_id, call.key, call.value, call.metadata):
        raise InvalidEntry(f"{backend.backend_name} did not store {call.key!r}; try again, or see the action 'info'")
    return {"key": call.key, "backend": backend.backend_name, **_note(backend), **_queued(delivery)}


def _retrieve(call: _Call) -> dict[str, Any]:
    entry = call.backend.retrieve(call.user_id, call.key)
    if entry is None:
        raise EntryNotFound(f"there is no entry {call.key!r}; the action 'list' shows the keys, 'query' searches")
    return entry_dict(entry)


def _query(call: _Call) -> dict[str, Any]:
    if call.query_text is None:
        raise InvalidEntry("query needs query_text: what to look for, or an empty string for the newest entries")
    found = query_entries(call.backend, call.user_id, call.query_text, dialectic=call.dialectic)
    return {"results": [entry_dict(entry) for entry in found], "count": len(found)}


def _list(call: _Call) -> dict[str, Any]:
    keys = call.backend.list_keys(call.user_id)
    return {"keys": keys, "count": len(keys)}


def _delete(call: _Call) -> dict[str, Any]:
    delivery = Delivery(call.backend)
    if not call.backend.delete(call.user_id, call.key):
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
    from warmstart.memory.evaluation import evaluate_backends

    if call.backend.is_cloud:  # only the user may decide that
        raise InvalidEntry(
            f"evaluating {call.backend.backend_name} sends hundreds of made-up memories away from this machine; ask "
            "the user to run `warmstart memory evaluate`, which says what it sends"
        )
    return evaluate_backends([call.backend])


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
