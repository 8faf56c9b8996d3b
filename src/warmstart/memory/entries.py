"""What is given to be remembered, made ready to be kept: valid, without secrets, with its scope and its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import InvalidEntry
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SCOPES, View
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean

_ENCODE = msgspec.json.Encoder().encode


class Given(NamedTuple):
    """An entry as it is kept. `scope` is its place in `SCOPES`, `place` the project or agent that it is for."""

    key: str
    scope: int
    place: str
    value: str
    expires_at: float | None
    metadata: str


def prepared(
    key: str, value: str, metadata: Mapping[str, Any] | None, *, view: View | None, redactor: Redactor | None
) -> Given:
    """Raises `InvalidEntry` for what cannot be kept as it is."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise InvalidEntry(f"key and value must be text, not {key!r} and {value!r}; write it out, as JSON perhaps")
    key, value = clean(key), clean(value)
    if redactor is not None:
        key, value = _redacted(redactor, key, value)
    if not metadata:
        return Given(key, 0, "", value, None, "")
    kept = dict(metadata)
    scope, place = _scope(kept, view)
    expires_at = _moment(kept.get(EXPIRES_AT))
    text = _json(kept)
    if redactor is not None and redactor.find(text):
        text = _json(_without_secrets(redactor, kept))
    return Given(key, scope, place, value, expires_at, text)


def _redacted(redactor: Redactor, key: str, value: str) -> tuple[str, str]:
    """Both without secrets. What is a secret may show only by the name that it goes by: a password, say."""
    name = f"{key}: "
    findings = redactor.find(name + value)
    if not findings:
        return key, value
    if findings[0].start < len(name):
        return redactor.clean(key), redactor.clean(value)
    return key, redactor.clean(name + value)[len(name) :]


def _without_secrets(redactor: Redactor, value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return _redacted(redactor, name, value)[1]
    if isinstance(value, Mapping):
        return {redactor.clean(str(key)): _without_secrets(redactor, inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(redactor, inner, name) for inner in value]
    return value


def _json(metadata: Mapping[str, Any]) -> str:
    try:
        return _ENCODE(metadata).decode()
    except UnicodeEncodeError:  # halves of pairs, which are no text
        return _ENCODE(json.loads(clean(json.dumps(metadata, ensure_ascii=False)))).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(
            f"the metadata cannot be written as JSON ({error}); give texts, numbers and lists"
        ) from error


def _scope(metadata: dict[str, Any], view: View | None) -> tuple[int, str]:
    """The scope of an entry and whose it is, which the view says where the metadata does not."""
    scope = metadata.get(SCOPE) or "user"
    if scope not in SCOPES:
        raise InvalidEntry(f"there is no scope {scope!r}; give one of {', '.join(SCOPES)}")
    if scope == "user":
        return 0, ""
    field = PROJECT if scope == "project" else AGENT
    place = metadata.get(field) or (getattr(view, field) if view else "")
    if not place or not isinstance(place, str):
        raise InvalidEntry(f"an entry of the scope {scope!r} must say which {scope}, in its metadata as {field!r}")
    metadata[field] = place
    return SCOPES.index(scope), clean(place)


def _moment(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 1e15:
        return float(given)
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            moment = None
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    raise InvalidEntry(f"{EXPIRES_AT!r} is no time: {given!r}; give seconds since 1970 or a date like 2027-01-31")
