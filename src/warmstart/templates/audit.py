"""Every session start is logged as a row: session, template and version, items, reason, probability and tokens.

Sessions that were held out, or for which nothing fit, are logged too: an effect can only be measured against them. A
host names a session by the agent's own id or by ours; the row keeps the id it was given and is found by either. The
outcome of a session comes from its profile, once the session is in the store.
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
from warmstart.sessions.sql_store import BAD_SESSION, log_skip
from warmstart.storage.database import placeholders
from warmstart.templates.lifecycle import Counts, count_uses, total
from warmstart.templates.selection import Arm, Choice, Task
from warmstart.templates.store import SQLTemplateStore, Summary
from warmstart.templates.template import State

_MAX_TASK = 300  # characters of a task that are kept
_MAX_OPEN = 200  # newest starts without an outcome to settle in one go
_MAX_SETTLED = 100  # latest settled starts to check for sessions that were continued
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One row of the audit log: how a session started and how it ended.

    `session` is the id that the host gave. `items` are the ids of the injected items. `outcome` is empty until it is
    known; `errors` and `calls` count those of the session.
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
    """Record how the session of a task started, and return the row. A session that already has a row keeps it.

    The task is redacted and truncated; `tokens` and `items` describe what was injected.
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
    """How a session started, if that was recorded; `None` for an empty id."""
    return next(iter(_uses_of(store, session)), None) if session else None


def why(store: SQLTemplateStore, session: str) -> list[Use]:
    """How a session started and why; empty if no start was recorded.

    The session is named by its id, the agent's own id, or, once it is stored, a unique prefix of either. Raises
    `SessionNotFound` if the session is unknown.
    """
    return _uses_of(store, session) or _uses_of(store, store.sessions.get(session).id)


def _uses_of(store: SQLTemplateStore, session: str) -> list[Use]:
    """The rows of a session, by our id or the agent's own, oldest first."""
    name = store.name(session)
    rows = store.select("SELECT id, native_id FROM sessions WHERE id = ?1 OR native_id = ?1 LIMIT 2", name)
    names = sorted({name, *rows[0]} if len(rows) == 1 else {name})
    return _uses(store, f"session IN ({placeholders(names)}) ORDER BY id", *names)


def _uses(store: SQLTemplateStore, condition: str, *values: Any) -> list[Use]:
    uses = []
    for each in store.select(f"SELECT {', '.join(_COLUMNS)} FROM template_uses WHERE {condition}", *values):
        row = dict(zip(_COLUMNS, each, strict=True))
        row["at"] = datetime.fromtimestamp(row["at"], UTC)
        row["items"] = tuple(msgspec.json.decode(row["items"], type=list[str]))
        row["policy"] = msgspec.json.decode(row["policy"], type=dict[str, Any])
        uses.append(Use(**{**row, "template": row["template"] or "", "version": row["version"] or 0}))
    return uses


def settle(store: SQLTemplateStore, *, tools: Mapping[str, str] | None = None) -> int:
    """Record the outcome, errors and calls of sessions that have ended; returns how many were settled.

    `tools` is the user's own table of what tools are for. A session whose outcome is unknown stays open. A session that
    was continued, or whose outcome somebody changed, is settled again.
    """
    rows = store.select(
        "SELECT u.id, s.id FROM template_uses u JOIN sessions s ON s.id = u.session OR s.native_id = u.session "
        "WHERE u.id IN (SELECT id FROM template_uses WHERE settled_at IS NULL ORDER BY at DESC LIMIT ?1) "
        "OR (u.id > (SELECT max(id) FROM template_uses) - ?2 AND u.settled_at IS NOT NULL "
        "AND (s.ended_at > u.settled_at OR s.outcome NOT IN ('unknown', u.outcome))) "
        "ORDER BY s.agent = u.agent",  # two agents may use the same id: the right one comes last and wins
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
    """Statistics of all templates. `usage` adds up all of them, `examples` counts their call examples.

    `abstained` counts the sessions for which nothing fit, `open` those without a known outcome.
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
    """The statistics of a store, most used templates first."""
    counts = count_uses(store)
    summaries = store.summaries()
    ((abstained, unsettled),) = store.select(
        "SELECT (SELECT count(*) FROM template_uses WHERE arm = 'abstained'), "
        "(SELECT count(*) FROM template_uses WHERE outcome = '' AND arm <> 'abstained')"
    )
    lines = ((each, counts.get(each.id, Counts())) for each in summaries)
    return Statistics(
        templates=len(summaries),
        examples=sum(len(template.seed.of("example")) for template in store.list()),
        states=Counter(each.state for each in summaries),
        types=Counter(each.task_type for each in summaries),
        usage=total(counts.values()),
        abstained=int(abstained),
        open=int(unsettled),
        lines=tuple(sorted(lines, key=lambda line: (-line[1].used, line[0].name, line[0].id))),
    )
