"""Templates as rows: the body of a version and the head of a template as JSON, read back with strict types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import InvalidTemplate, StoreCorrupt
from warmstart.profile.values import TaskType
from warmstart.sessions.rows import to_time
from warmstart.sessions.values import clean
from warmstart.templates.items import sources_in
from warmstart.templates.values import SessionSeed, State, WarmTemplate


class Summary(NamedTuple):
    """A template without its seed: what a choice among thousands needs. The counts are kept beside the rest."""

    id: str
    name: str
    description: str
    task_type: TaskType
    tags: tuple[str, ...]
    project: str
    agent: str
    sources: tuple[str, ...]
    version: int
    state: State
    created_at: datetime
    updated_at: datetime
    tools: Mapping[str, str]
    origin: str
    tasks: tuple[str, ...]
    used: int = 0
    successes: int = 0
    failures: int = 0


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a version holds: all of a template that a change can change, except for its state."""

    name: str
    description: str
    task_type: TaskType
    tags: tuple[str, ...]
    project: str
    agent: str
    sources: tuple[str, ...]
    tools: dict[str, str]
    origin: str
    allowed: tuple[str, ...]
    described_by: str
    seed: SessionSeed


CHANGEABLE = frozenset((*Body.__struct_fields__, "state"))

# Gives what `decode` takes, for every version of every template; conditions on the version may follow.
BODIES = (
    "SELECT t.id, t.created_at, v.version, v.at, v.state, v.body, t.used, t.successes, t.failures "
    "FROM templates t "
    "JOIN template_versions v ON v.template = t.id"
)

_ENCODE = msgspec.json.Encoder().encode
_BODY = msgspec.json.Decoder(Body).decode
_HEAD = msgspec.json.Decoder(Summary).decode
_COUNTS = 3  # the last fields of a summary, which are not part of a head


def encode_body(template: WarmTemplate) -> str:
    """The body of a version as JSON."""
    return _ENCODE(_body(template)).decode()


def encode_head(template: WarmTemplate) -> str:
    """The head of a template as JSON: its summary without the counts. It must have its id, version and times."""
    return _ENCODE(
        Summary(
            id=template.id,
            name=template.name,
            description=template.description,
            task_type=template.task_type,
            tags=template.tags,
            project=template.project,
            agent=template.agent,
            sources=template.sources,
            version=template.version,
            state=template.state,
            created_at=_known(template.created_at),
            updated_at=_known(template.updated_at),
            tools=dict(template.tools),
            origin=template.origin,
            tasks=tuple(task.text for task in template.seed.tasks),
        )[:-_COUNTS]
    ).decode()


def decode_head(id: str, text: str, used: int, successes: int, failures: int) -> Summary:
    """The summary of a template from its head and its counts; raises `StoreCorrupt` if it is damaged."""
    try:
        return _HEAD(text)._replace(used=used, successes=successes, failures=failures)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise StoreCorrupt(_damaged(f"the template {id!r}", error)) from error


def decode(row: tuple[Any, ...]) -> WarmTemplate:
    """The template of a row of `BODIES`; raises `StoreCorrupt` if it is damaged."""
    name, created_at, version, at, state, text, used, successes, failures = row
    try:
        body = _BODY(text)
        known: State = msgspec.convert(state, State)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError) as error:
        raise StoreCorrupt(_damaged(f"version {version} of the template {name!r}", error)) from error
    return WarmTemplate(
        id=name,
        version=version,
        state=known,
        created_at=to_time(created_at),
        updated_at=to_time(at),
        used=used,
        successes=successes,
        failures=failures,
        **{name: getattr(body, name) for name in Body.__struct_fields__},
    )


def checked(template: WarmTemplate) -> WarmTemplate:
    """The template as it will be read back; raises `InvalidTemplate` where a value is of the wrong type.

    What no database can hold in a text is replaced.
    """
    try:
        body = msgspec.convert(_cleaned(msgspec.to_builtins(_body(template))), Body)
        msgspec.convert(template.state, State)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidTemplate(f"the template {template.name!r} cannot be kept: {error}") from error
    return replace(template, **{name: getattr(body, name) for name in Body.__struct_fields__})


def sources_of(template: WarmTemplate) -> list[str]:
    """Every session that a template owes something to, each once."""
    noted = (session for note in template.seed.notes for session in note.sessions)
    return list(dict.fromkeys((*template.sources, *sources_in(template.seed), *noted)))


def _body(template: WarmTemplate) -> dict[str, object]:
    values: dict[str, object] = {name: getattr(template, name) for name in Body.__struct_fields__}
    values["tools"] = dict(template.tools) if isinstance(template.tools, Mapping) else template.tools
    return values


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, (list, tuple)):
        return [_cleaned(part) for part in value]
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(part) for name, part in value.items()}
    return value


def _known(time: datetime | None) -> datetime:
    if time is None:
        raise ValueError("a template that is kept has its times")
    return time


def _damaged(what: str, error: Exception) -> str:
    return f"{what} is damaged ({error}); delete the template, or restore the store from a backup"
