"""Prepare an entry for storage: check it, replace secrets, and work out its scope and expiry."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import InvalidEntry
from warmstart.memory.authors import PROJECT, SCOPE, place_of
from warmstart.memory.values import EXPIRES_AT, SCOPES, MemoryEntry, View
from warmstart.redact.redactor import Finding, Redactor
from warmstart.sessions.values import clean

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode

MAX_NAME = 500  # characters of a key, a user id, a project or an agent
_MAX_INDEXED = 2000  # bytes of a key and its scope, for an index of PostgreSQL
_MAX_METADATA = 64 * 1024  # bytes

# Names that may belong to a secret.
_SUSPECT = re.compile("pass|pwd|pswd|secret|token|credential|key|auth|salt|pw", re.IGNORECASE).search
_PASSWORD = re.compile("(?:password|passwd|passphrase|passcode|pwd|pswd|secret)s?$", re.IGNORECASE).search
_DIGITS = re.compile(r"[0-9]{4,}(?:\.[0-9]+)?").fullmatch
_NEUTRAL_NAMES = {"value", "values", "current", "new", "old", "text", "plain", "raw", "data", "content", "default"}
_NUMBER = "[redacted:password:0000]"  # no fingerprint: a short number could be guessed from it


class Prepared(NamedTuple):
    """An entry ready to be stored; `place` is that of `MemoryEntry`."""

    key: str
    place: str
    value: str
    metadata: str = ""
    expires_at: float | None = None


class Row(NamedTuple):
    """An entry in the database. For searches, `former` has its previous values."""

    id: int
    user_id: str
    key: str
    place: str
    value: str
    metadata: str
    created_at: float
    updated_at: float
    since: float
    expires_at: float | None
    former: str = ""

    @property
    def is_current(self) -> bool:
        return self.expires_at is None or self.expires_at > time.time()

    @property
    def text(self) -> str:
        """What is indexed."""
        return f"{self.key} {self.value} {self.metadata} {self.former}"

    def entry(self, user_id: str) -> MemoryEntry:
        metadata = _DECODE(self.metadata) if self.metadata else {}
        return MemoryEntry(self.key, self.value, user_id, self.created_at, self.updated_at, metadata)


def prepare(
    key: str, value: str, metadata: Mapping[str, Any] | None, *, view: View | None, redactor: Redactor | None
) -> Prepared:
    """Raises `InvalidEntry` for what cannot be stored."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise InvalidEntry(f"key and value must be text, not {key!r} and {value!r}; write them as text, such as JSON")
    key, value = clean(key), clean(value)
    if redactor is not None:
        key, value = _redact(redactor, key, value)
    if len(key) > MAX_NAME:
        raise InvalidEntry(f"a key has at most {MAX_NAME} characters, not {len(key)}; put the rest into the value")
    if not isinstance(metadata, Mapping | None):
        raise InvalidEntry(f"metadata must be an object with names and values, not {metadata!r}")
    if not metadata:
        return Prepared(key, "", value)
    said = dict(metadata)
    scope = _scope(said, view)
    expires_at = _moment(said.get(EXPIRES_AT))
    text = _json(said)
    if redactor is not None:
        before = _DECODE(text)
        try:
            said = _redact_metadata(redactor, before)
        except RecursionError:
            raise InvalidEntry("the metadata is nested too deeply; use texts, numbers and lists") from None
        for name in {scope, PROJECT} & said.keys() - {"user"}:
            said[name] = redactor.clean(str(said[name]))
        if said != before:
            text = _json(said)
    place = place_of(said)
    _check_size(key, place.partition(":")[2], text)
    return Prepared(key, place, value, text, expires_at)


def check_user(user_id: str) -> None:
    """Raises `InvalidEntry` for a user id that cannot be stored."""
    check_texts({"a user id": user_id})
    if len(user_id) > MAX_NAME:
        raise InvalidEntry(f"a user id has at most {MAX_NAME} characters, not {len(user_id)}; use a shorter one")


def check_texts(texts: Mapping[str, object]) -> None:
    """Raises `InvalidEntry` if a key, a query or a user id is not text."""
    for what, text in texts.items():
        if not isinstance(text, str):
            raise InvalidEntry(f"{what} must be text, not {text!r}")


def clean_view(view: View, redactor: Redactor | None) -> View:
    """The view with its names as they are stored."""
    names = map(clean, (view.project, view.agent, view.note))
    return View(*(map(redactor.clean, names) if redactor is not None else names))


def _check_size(key: str, name: str, metadata: str) -> None:
    if len(name) > MAX_NAME:
        raise InvalidEntry(f"a project or agent has at most {MAX_NAME} characters, not {len(name)}; use a shorter name")
    if len(key.encode()) + len(name.encode()) > _MAX_INDEXED:
        raise InvalidEntry(f"the key and its project have more than {_MAX_INDEXED} bytes together; use a shorter key")
    if len(metadata) * 4 > _MAX_METADATA and len(metadata.encode()) > _MAX_METADATA:
        raise InvalidEntry(f"the metadata has more than {_MAX_METADATA} bytes as JSON; put long text into the value")


# -- secrets


def _redact(redactor: Redactor, key: str, value: str) -> tuple[str, str]:
    """Key and value without secrets. Often only the key, such as `password`, reveals that a value is one."""
    name = f"{key}: "
    findings = redactor.find(name + value)
    if findings and findings[0].start < len(key) and (clean_key := redactor.clean(key)) != key:
        return _redact(redactor, clean_key, value)  # what is left of the key may be a telling name
    value = _replace(value, findings, len(name))
    if len(value.split(None, 1)) == 1 and _SUSPECT(key):
        value = _redact_word(redactor, key, value)
    return key, value


def _redact_word(redactor: Redactor, name: str, value: str) -> str:
    """A single word under a name such as `passwords`, replaced if it is a secret."""
    for each in dict.fromkeys((name, name.removesuffix("s"))):
        if _DIGITS(value) and _PASSWORD(each):
            return _NUMBER
        before = f'"{each}": "'  # quoted, because unquoted it might pass as code
        if findings := redactor.find(f'{before}{value}"'):
            return _replace(value, findings, len(before))
    return value


def _replace(value: str, findings: list[Finding], before: int) -> str:
    """The value with its findings replaced; `before` is the number of characters searched in front of it."""
    parts, at = [], 0
    for finding in findings:
        start, end = (min(max(place - before, 0), len(value)) for place in (finding.start, finding.end))
        if start < end:
            parts += [value[at:start], finding.replacement]
            at = end
    return "".join([*parts, value[at:]])


def _redact_metadata(redactor: Redactor, value: Any, names: tuple[str, ...] = ()) -> Any:
    """Metadata without secrets. Any name on the path to a value may reveal that it is one."""
    if isinstance(value, dict):
        return {
            redactor.clean(name): _redact_metadata(redactor, inner, (*names, name)) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_redact_metadata(redactor, inner, names) for inner in value]
    if isinstance(value, str):
        for name in reversed(names):
            value = _redact(redactor, name, value)[1]
    elif isinstance(value, int | float) and not isinstance(value, bool) and _DIGITS(str(value)):
        name = next((name for name in reversed(names) if name.lower() not in _NEUTRAL_NAMES), "")
        if _PASSWORD(name):
            return _NUMBER
    return value


# -- metadata


def _json(metadata: Mapping[str, Any]) -> str:
    try:
        return _ENCODE(metadata).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return _ENCODE(json.loads(clean(json.dumps(metadata, ensure_ascii=False)))).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(f"the metadata cannot be written as JSON ({error}); use texts, numbers and lists") from error


def _scope(metadata: dict[str, Any], view: View | None) -> str:
    """The scope of an entry. If the name of its project or agent is missing, it becomes the view's."""
    scope = metadata.get(SCOPE) or "user"
    if scope not in SCOPES:
        raise InvalidEntry(f"there is no scope {scope!r}; use one of {', '.join(SCOPES)}")
    if isinstance(metadata.get(PROJECT), str):
        metadata[PROJECT] = clean(metadata[PROJECT])
    if scope == "user":
        return scope
    name = metadata.get(scope) or (getattr(view, scope) if view else "")
    if not name or not isinstance(name, str):
        raise InvalidEntry(f"an entry of the scope {scope!r} needs the name of its {scope}, as {scope!r} in metadata")
    metadata[scope] = clean(name)
    return str(scope)


def _moment(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 1e15:
        return float(given)
    try:
        moment = datetime.fromisoformat(str(given))
    except ValueError:
        advice = "use seconds since 1970 or a date like 2027-01-31"
        raise InvalidEntry(f"{EXPIRES_AT!r} is not a time: {given!r}; {advice}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
