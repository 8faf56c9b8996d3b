"""Every start leaves a row: session, template and version, items, why, with which probability, how many tokens.

Sessions that were held out and those for which nothing fit leave theirs too, because an effect can only be measured
against them. A host names a session by the agent's own id or by ours; a row keeps what was given, and is found by both.
How a session ended comes from its profile, as soon as the session is in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from warmstart.errors import SessionNotFound
from warmstart.profile.profiler import profile_of
from warmstart.profile.values import TaskType
from warmstart.sessions.bad_sessions import BAD_SESSION, log_skip
from warmstart.storage.sql import placeholders
from warmstart.templates.lifecycle import Counts, count_uses, total
from warmstart.templates.selection import Arm, Choice, Task
from warmstart.templates.store import SQLTemplateStore, Summary
from warmstart.templates.template import State

_MAX_TASK = 300  # characters of a task that are kept
_MAX_OPEN = 200  # starts without an outcome that are settled at a time, the newest
_MAX_SETTLED = 100  # latest starts whose sessions may have gone on since
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One row of the audit: how a session started and what came of it.

    `session` is the id that the host gave. `items` are the ids of what was injected. `outcome` is empty while it is not
    known; `errors` and `calls` are those of the session.
    """

    id: int
    session: str
    arm: Arm
    at: datetime
    project: str = ""
    agent: str = ""
    template: str = ""
    version: int = 0
    task: str = ""
    why: str = ""
    propensity: float = 1.0
    tokens: int = 0
    items: tuple[str, ...] = ()
    outcome: Literal["", "success", "failure"] = ""
    errors: int | None = None
    calls: int | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)


_COLUMNS = tuple(Use.__dataclass_fields__)


def record(store: SQLTemplateStore, choice: Choice, task: Task, *, tokens: int = 0, items: Collection[str] = ()) -> Use:
    """Keep how the session of a task started. One that has a row already keeps that one, which is returned.

    The task is redacted and shortened; `tokens` and `items` are what was injected.
    """
    template = choice.template
    policy = {**choice.policy._asdict(), "odds": dict(choice.odds)}
    if template is not None:
        policy |= {"template": template.id, "sure": template.sure, "similarity": template.similarity}
    row = {
        "session": store.name(task.session),
        "arm": choice.arm,
        "at": store.now().timestamp(),
        "project": store.name(task.project or ""),
        "agent": store.name(task.agent),
        "template": template.id if template else None,
        "version": template.version if template else None,
        "task": store.words(" ".join(task.text.split()))[:_MAX_TASK],
        "why": store.words(choice.why),
        "propensity": choice.propensity,
        "tokens": tokens,
        "items": _ENCODE(list(items)).decode(),
        "policy": _ENCODE(policy).decode(),
    }
    with store.database.transaction() as connection:
        if known := started(store, task.session):
            return known
        (number,) = connection.execute(
            f"INSERT INTO template_uses ({', '.join(row)}) VALUES ({placeholders(row)}) RETURNING id", [*row.values()]
        ).fetchone()
    return _uses(store, "id = ?", number)[0]


def started(store: SQLTemplateStore, session: str) -> Use | None:
    """How a session started, if that is known; for an empty id it never is."""
    return next(iter(_uses_of(store, session)), None) if session else None


def why(store: SQLTemplateStore, session: str) -> list[Use]:
    """How a session started and why: none where no start was recorded.

    The session is named by its id, the agent's own id, or, once it is stored, a unique beginning of either. Raises
    `SessionNotFound` for one of which nothing at all is known.
    """
    return _uses_of(store, session) or _uses_of(store, store.sessions.get(session).id)


def _uses_of(store: SQLTemplateStore, session: str) -> list[Use]:
    """The rows of a session by our id or by the agent's own, oldest first."""
    given = store.name(session)
    rows = store.select("SELECT id, native_id FROM sessions WHERE id = ?1 OR native_id = ?1 LIMIT 2", given)
    names = sorted({given, *rows[0]} if len(rows) == 1 else {given})
    return _uses(store, f"session IN ({placeholders(names)}) ORDER BY id", *names)


def _uses(store: SQLTemplateStore, condition: str, *values: Any) -> list[Use]:
    found = []
    for each in store.select(f"SELECT {', '.join(_COLUMNS)} FROM template_uses WHERE {condition}", *values):
        row = dict(zip(_COLUMNS, each, strict=True))
        row["at"] = datetime.fromtimestamp(row["at"], UTC)
        row["items"] = tuple(msgspec.json.decode(row["items"], type=list[str]))
        row["policy"] = msgspec.json.decode(row["policy"], type=dict[str, Any])
        found.append(Use(**{**row, "template": row["template"] or "", "version": row["version"] or 0}))
    return found


def settle(store: SQLTemplateStore, *, tools: Mapping[str, str] | None = None) -> int:
    """Record the outcome of sessions that have one by now, with their errors and calls; returns how many there are.

    `tools` is the user's own table of what tools are for. A session whose outcome is unknown stays open. One that went
    on since, or whose outcome somebody changed, is judged again.
    """
    rows = store.select(
        "SELECT u.id, s.id FROM template_uses u JOIN sessions s ON s.id = u.session OR s.native_id = u.session "
        "WHERE u.id IN (SELECT id FROM template_uses WHERE settled_at IS NULL ORDER BY at DESC LIMIT ?1) "
        "OR (u.id > (SELECT max(id) FROM template_uses) - ?2 AND u.settled_at IS NOT NULL "
        "AND (s.ended_at > u.settled_at OR s.outcome NOT IN ('unknown', u.outcome))) "
        "ORDER BY s.agent = u.agent",  # two agents may give the same id: the right one comes last, and counts
        _MAX_OPEN,
        _MAX_SETTLED,
    )
    return sum(_settle(store, use, session, tools) for use, session in dict(rows).items())


def _settle(store: SQLTemplateStore, use: int, session: str, tools: Mapping[str, str] | None) -> bool:
    try:
        profile = profile_of(store.sessions, store.sessions.get(session), tools=tools)
    except (SessionNotFound, StopIteration):
        return False  # another process deleted it
    except BAD_SESSION as error:
        log_skip(session, error)
        return False
    if profile.outcome.value == "unknown":
        return False
    counts = (profile.markers.errors, profile.markers.calls, store.now().timestamp())
    with store.database.transaction() as connection:
        connection.execute(
            "UPDATE template_uses SET outcome = ?, errors = ?, calls = ?, settled_at = ? WHERE id = ?",
            (profile.outcome.value, *counts, use),
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """All templates. `usage` is of all of them together, `examples` counts their procedures.

    `abstained` and `open` count sessions: those for which nothing fit, and those without a known outcome.
    """

    templates: int
    examples: int
    states: Mapping[State, int]
    types: Mapping[TaskType, int]
    usage: Counts
    abstained: int
    open: int
    lines: tuple[tuple[Summary, Counts], ...]


def stats(store: SQLTemplateStore) -> Statistics:
    """The statistics of a store, the most used templates first."""
    counts = count_uses(store)
    summaries = store.summaries()
    ((abstained, unsettled),) = store.select(
        "SELECT (SELECT count(*) FROM template_uses WHERE arm = 'abstained'), "
        "(SELECT count(*) FROM template_uses WHERE outcome = '' AND arm <> 'abstained')"
    )
    lines = ((each, counts.get(each.id, Counts())) for each in summaries)
    return Statistics(
        templates=len(summaries),
        examples=sum(len(each.tasks) for each in summaries),
        states=Counter(each.state for each in summaries),
        types=Counter(each.task_type for each in summaries),
        usage=total(counts.values()),
        abstained=int(abstained),
        open=int(unsettled),
        lines=tuple(sorted(lines, key=lambda line: (-line[1].used, line[0].name, line[0].id))),
    )
