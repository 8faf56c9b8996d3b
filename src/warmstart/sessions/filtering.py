"""Choosing sessions in SQL."""

from __future__ import annotations

from warmstart.sessions.rows import to_seconds
from warmstart.sessions.store import Filter
from warmstart.sessions.values import clean

_ALL = 2**62
_TERMS = {
    "id": "s.id = :id",
    "agent": "s.agent = :agent",
    "project": "(s.project = :project OR substr(s.project, length(s.project) - length(:project)) = '/' || :project)",
    "since": "s.started_at >= :since",
    "until": "s.started_at < :until",
    "outcome": "s.outcome = :outcome",
    "parent_id": "s.parent_id = :parent_id",
}


def where(filter: Filter) -> tuple[str, dict[str, object]]:
    """The condition on sessions `s` that the filter stands for, and its parameters, among them `limit`."""
    wanted: dict[str, object] = {
        "id": clean(filter.id),
        "agent": clean(filter.agent),
        "project": clean(filter.project),
        "since": to_seconds(filter.since),
        "until": to_seconds(filter.until),
        "outcome": filter.outcome,
        "parent_id": filter.parent_id,
    }
    given = {name: value for name, value in wanted.items() if value not in (None, "")}
    condition = " AND ".join(_TERMS[name] for name in given) or "true"
    return condition, {**given, "limit": filter.limit if filter.limit > 0 else _ALL}
