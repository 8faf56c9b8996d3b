"""Memory as one tool for agents: every answer is JSON, and every failure says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from warmstart.config import ambient_settings
from warmstart.errors import WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.null import NullBackend
from warmstart.memory.remote import Delivery, Remote
from warmstart.memory.values import MemoryEntry

Action = Literal["store", "retrieve", "query", "list", "delete", "info", "evaluate"]
ACTIONS: tuple[Action, ...] = get_args(Action)
_DELIVERY_SECONDS = 2.0  # that a write waits for a server which answers

# As data, for hosts that register the tool without importing it.
MEMORY_BACKEND_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


class _Wrong(Exception):
    """What was asked for cannot be done as it was asked; the text says what to do."""


class _Given(NamedTuple):
    """The arguments of a call, which are of the right kind."""

    action: Action
    user_id: str
    key: str
    value: str
    query_text: str
    metadata: dict[str, Any] | None


def memory_backend(
    action: str,
    user_id: str = "default",
    key: str | None = None,
    value: str | None = None,
    query_text: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Do one thing with the configured memory and tell the result as JSON. Never raises."""
    try:
        given = _checked(action, user_id, key, value, query_text, metadata)
        return _written({"success": True, "action": given.action, **_DO[given.action](given)})
    except (_Wrong, WarmstartError) as error:
        return _failed(str(error))
    except Exception as error:  # an agent is told, whatever it was: its turn must not end here
        return _failed(f"memory failed ({type(error).__name__}: {error}); go on without it and tell the user")


def _checked(action: object, user_id: object, key: object, value: object, query: object, metadata: object) -> _Given:
    known = next((name for name in ACTIONS if name == action), None)
    if known is None:
        raise _Wrong(f"unknown action {action!r:.80}; use one of: {', '.join(ACTIONS)}")
    texts = {"user_id": user_id, "key": key, "value": value, "query_text": query}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            hint = "; write it as text, as JSON perhaps" if name == "value" else ""
            raise _Wrong(f"{name} must be a string, not {type(text).__name__} {text!r:.80}{hint}")
    if not isinstance(user_id, str) or not user_id.strip():
        raise _Wrong("user_id must not be empty; leave it out for the user 'default'")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise _Wrong(f"metadata must be an object, not {type(metadata).__name__} {metadata!r:.80}")
    _require(known, texts)
    return _Given(known, user_id, str(key or ""), str(value or ""), str(query or ""), dict(metadata or {}) or None)


def _require(action: Action, texts: Mapping[str, object]) -> None:
    """What this action needs, and how much of it there may be."""
    if action in ("store", "retrieve", "delete") and not str(texts["key"] or "").strip():
        raise _Wrong(f"{action} needs key: the name of the fact, such as 'pref_editor'")
    if action == "query" and texts["query_text"] is None:
        raise _Wrong("query needs query_text: what to look for, or an empty string for the newest entries")
    if action != "store":
        return
    value = texts["value"]
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("store needs value: the fact in a sentence; to forget a key use the action 'delete'")
    limit = ambient_settings().memory_max_value
    if len(value) > limit:
        raise _Wrong(
            f"value has {len(value):,} characters and the limit is {limit:,}; store the gist, split it over several "
            "keys, or ask the user to raise memory.max_value in config.toml"
        )


def _backend() -> MemoryBackend:
    from warmstart.memory.selection import get_memory_backend

    return get_memory_backend()


def _store(given: _Given) -> dict[str, Any]:
    backend = _backend()
    delivery = Delivery(backend)
    if not backend.store(given.user_id, given.key, given.value, given.metadata):
        raise _Wrong(f"{backend.backend_name} did not keep {given.key!r}; try again, or see the action 'info'")
    return {"key": given.key, "backend": backend.backend_name, **_note(backend), **_queued(delivery)}


def _retrieve(given: _Given) -> dict[str, Any]:
    entry = _backend().retrieve(given.user_id, given.key)
    if entry is None:
        raise _Wrong(f"there is no entry {given.key!r}; the action 'list' shows the keys, 'query' searches by words")
    return {"entry": entry_dict(entry)}


def _query(given: _Given) -> dict[str, Any]:
    found = _backend().query(given.user_id, given.query_text)
    return {"count": len(found), "entries": [entry_dict(entry) for entry in found]}


def _list(given: _Given) -> dict[str, Any]:
    keys = _backend().list_keys(given.user_id)
    return {"count": len(keys), "keys": keys}


def _delete(given: _Given) -> dict[str, Any]:
    backend = _backend()
    delivery = Delivery(backend)
    if not backend.delete(given.user_id, given.key):
        raise _Wrong(f"there is no entry {given.key!r} to delete; the action 'list' shows the keys")
    return {"key": given.key, **_queued(delivery)}


def _info(given: _Given) -> dict[str, Any]:
    backend = _backend()
    available = backend.is_available()
    return {
        "backend": backend.backend_name,
        "is_cloud": backend.is_cloud,
        "is_available": available,
        "entries": len(backend.list_keys(given.user_id)) if available else None,
        "max_value": ambient_settings().memory_max_value,
        **({"waiting": backend.status().waiting} if available and isinstance(backend, Remote) else {}),
        **_note(backend),
    }


def _note(backend: MemoryBackend) -> dict[str, str]:
    """A write that goes nowhere is never silent."""
    if isinstance(backend, NullBackend):
        return {"note": 'memory is switched off and nothing is kept; memory.backend = "local" in config.toml keeps it'}
    return {}


def _queued(delivery: Delivery) -> dict[str, Any]:
    """That a write waits to be sent, if it does; an error where waiting does not help."""
    waits = delivery.finish(_DELIVERY_SECONDS)
    return {"queued": True, "note": waits} if waits else {}


def _evaluate(given: _Given) -> dict[str, Any]:
    from warmstart.memory.evaluation import evaluate_backends

    backend = _backend()
    if backend.is_cloud:  # an agent's word is not enough for that
        raise _Wrong(
            f"evaluating {backend.backend_name} sends hundreds of invented memories away from this machine; ask the "
            "user to run `warmstart memory evaluate`, which says what it sends"
        )
    return {"report": evaluate_backends([backend]).to_dict()}


_DO: dict[Action, Callable[[_Given], dict[str, Any]]] = {
    "store": _store,
    "retrieve": _retrieve,
    "query": _query,
    "list": _list,
    "delete": _delete,
    "info": _info,
    "evaluate": _evaluate,
}


def entry_dict(entry: MemoryEntry) -> dict[str, Any]:
    """An entry as JSON has it."""
    return {
        "key": entry.key,
        "value": entry.value,
        "user_id": entry.user_id,
        "created_at": moment(entry.created_at),
        "updated_at": moment(entry.updated_at),
        "metadata": dict(entry.metadata),
    }


def moment(seconds: float | None) -> str | None:
    """A time as JSON has it; nothing for what is no time."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return None


def _failed(error: str) -> str:
    return _written({"success": False, "error": " ".join(error.split())})


def _written(answer: Mapping[str, Any]) -> str:
    # Half a character becomes an escape, so that every reader of JSON takes it.
    text = json.dumps(answer, ensure_ascii=False, default=str)
    return text if text.isprintable() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
