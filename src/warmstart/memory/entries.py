"""What is given to be remembered, made ready to be kept: valid, without secrets, with its scope and its end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import InvalidEntry
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SCOPES, View
from warmstart.redact.redactor import Finding, Redactor
from warmstart.sessions.values import clean

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode

LONGEST = 500  # characters of a key, a user's id, a project or an agent
_TOGETHER = 2000  # bytes of a key and of whose it is, which an index of PostgreSQL has room for
_METADATA = 64 * 1024  # bytes of metadata

# Names that may be a secret's, or may have one of several.
_TELLING = re.compile("pass|pwd|pswd|secret|token|credential|key|auth|salt|pw", re.IGNORECASE).search
_PASSWORD = re.compile("(?:password|passwd|passphrase|passcode|pwd|pswd|secret)s?$", re.IGNORECASE).search
_DIGITS = re.compile(r"[0-9]{4,}(?:\.[0-9]+)?").fullmatch
_SAYING_NOTHING = {"value", "values", "current", "new", "old", "text", "plain", "raw", "data", "content", "default"}
_NUMBER = Finding("password", 0, 0, "0000").replacement  # without a fingerprint, by which it could be guessed


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
    if len(key) > LONGEST:
        raise InvalidEntry(f"a key has at most {LONGEST} characters, not {len(key)}; put the rest into the value")
    if not metadata and (metadata is None or isinstance(metadata, Mapping)):
        return Given(key, 0, "", value, None, "")
    if not isinstance(metadata, Mapping):
        raise InvalidEntry(f"the metadata must be names and what they stand for, not {metadata!r}")
    kept = dict(metadata)
    scope, place = _scope(kept, view)
    expires_at = _moment(kept.get(EXPIRES_AT))
    text = _json(kept)
    if redactor is not None:
        given = _DECODE(text)
        try:
            kept = _without_secrets(redactor, given)
        except RecursionError:
            raise InvalidEntry("the metadata is nested too deeply; give texts, numbers and lists") from None
        if scope:
            place = kept[SCOPES[scope]] = redactor.clean(place)
        if kept != given:
            text = _json(kept)
    _check_size(key, place, text)
    return Given(key, scope, place, value, expires_at, text)


def check_user(user_id: str) -> None:
    """Raises `InvalidEntry` for a user's id that cannot be kept."""
    check_text("a user's id", user_id)
    if len(user_id) > LONGEST:
        raise InvalidEntry(f"a user's id has at most {LONGEST} characters, not {len(user_id)}; give a shorter one")


def check_text(what: str, given: object) -> None:
    """Raises `InvalidEntry` where a key, a question or a user's id is no text."""
    if not isinstance(given, str):
        raise InvalidEntry(f"{what} must be text, not {given!r}")


def view_as_kept(view: View, redactor: Redactor | None) -> View:
    """A view by the names that its project and its agent are kept by."""
    project, agent = clean(view.project), clean(view.agent)
    if redactor is not None:
        project, agent = redactor.clean(project), redactor.clean(agent)
    return View(project=project, agent=agent)


def _check_size(key: str, place: str, metadata: str) -> None:
    if len(place) > LONGEST:
        raise InvalidEntry(f"a project or agent has at most {LONGEST} characters, not {len(place)}; give a shorter one")
    if len(key.encode()) + len(place.encode()) > _TOGETHER:
        raise InvalidEntry(f"the key and whose it is have more than {_TOGETHER} bytes together; give a shorter key")
    if len(metadata) * 4 > _METADATA and len(metadata.encode()) > _METADATA:
        raise InvalidEntry(f"the metadata has more than {_METADATA} bytes as JSON; put what is long into the value")


# -- secrets


def _redacted(redactor: Redactor, key: str, value: str) -> tuple[str, str]:
    """Both without secrets. What is a secret may show only by the name that it goes by: a password, say."""
    name = f"{key}: "
    findings = redactor.find(name + value)
    if findings:
        if findings[0].start < len(key) and (cleaned := redactor.clean(key)) != key:
            return _redacted(redactor, cleaned, value)  # what is left of the key is the name
        value = _replaced(value, findings, len(name))
    if len(value.split(None, 1)) == 1 and _TELLING(key):
        value = _named(redactor, key, value)
    return key, value


def _named(redactor: Redactor, name: str, value: str) -> str:
    """A single word by the name of a secret, perhaps of several, without what it is if it is one."""
    names = (name, name[:-1]) if name.endswith("s") else (name,)
    for each in names:
        if _DIGITS(value) and _PASSWORD(each):
            return _NUMBER
        # In quotes also what could be code is one.
        before, text = f'"{each}": "', f'"{each}": "{value}"'
        if findings := redactor.find(text):
            return _replaced(value, findings, len(before))
    return value


def _replaced(value: str, findings: list[Finding], before: int) -> str:
    """A value without what was found in it and in so many characters before it."""
    parts, at = [], 0
    for finding in findings:
        start, end = (min(max(place - before, 0), len(value)) for place in (finding.start, finding.end))
        if start < end:
            parts += [value[at:start], finding.replacement]
            at = end
    return "".join([*parts, value[at:]])


def _without_secrets(redactor: Redactor, value: Any, names: tuple[str, ...] = ()) -> Any:
    """The same without secrets, of which each name that leads to a value may tell that it is one."""
    if isinstance(value, dict):
        return {
            redactor.clean(name): _without_secrets(redactor, inner, (*names, name)) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(redactor, inner, names) for inner in value]
    if isinstance(value, str):
        for name in reversed(names):
            value = _redacted(redactor, name, value)[1]
    elif isinstance(value, int | float) and not isinstance(value, bool) and _DIGITS(str(value)):
        telling = next((name for name in reversed(names) if name.lower() not in _SAYING_NOTHING), "")
        if _PASSWORD(telling):
            return _NUMBER
    return value


# -- metadata


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
    metadata[field] = place = clean(place)
    return SCOPES.index(scope), place


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
