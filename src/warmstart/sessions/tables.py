"""The tables of the package `sessions`. Their SQL is in `migrations`; the rows of a message are in `schema.py`."""

from __future__ import annotations

from datetime import UTC, datetime

from warmstart.storage.database import migrations_of

MIGRATIONS = migrations_of("sessions", __file__)

IN_PROJECT = "(s.project = :project OR substr(s.project, length(s.project) - length(:project)) = '/' || :project)"
# Where texts are used: the table, its message column and its text column.
TEXT_USES = (
    ("messages", "pk", "text"),
    ("messages", "pk", "reasoning"),
    ("tool_calls", "message", "arguments"),
    ("tool_results", "message", "text"),
)


def to_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
