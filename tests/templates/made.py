"""Templates built by hand, as extraction would make them, for every test of the room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from warmstart.sessions.values import session_id
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Note,
    Recovery,
    SessionSeed,
    Source,
    Task,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

# Two independent sessions that a template comes from.
FIRST = session_id("claude-code", "first")
SECOND = session_id("codex", "second")


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 10, 14, 25, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def go(self, **by: float) -> None:
        self.at += timedelta(**by)


def source(session: str = FIRST, message: str = "m1") -> tuple[Source, ...]:
    return (Source(session, message),)


def both(message: str = "m1") -> tuple[Source, ...]:
    return Source(FIRST, message), Source(SECOND, message)


def seed(**parts: Any) -> SessionSeed:
    """A seed with something of each kind from two sessions; `parts` take the place of what it has."""
    made: dict[str, Any] = {
        "contexts": (
            Context(text="Run the tests before every commit.", said_by="user", sources=both()),
            Context(text="You are working in the repository of the shop.", said_by="system", sources=source()),
        ),
        "cards": (
            ToolCard(
                tool="Bash",
                exemplars=(
                    Exemplar(arguments='{"command": "python -m pytest -q"}', sources=both("m4")),
                    Exemplar(arguments='{"command": "git status --short"}', sources=source(SECOND, "m9")),
                ),
                conventions=(Convention(text='pytest is run as "python -m pytest -q"', count=4, sources=both("m4")),),
                fixes=(
                    Fix(
                        error="No module named pytest",
                        change="`python -m pytest` from the virtual environment",
                        count=2,
                        sources=both("m3"),
                    ),
                ),
            ),
            ToolCard(
                tool="Edit",
                exemplars=(
                    Exemplar(
                        arguments='{"file_path": "src/shop/cart.py", "old_string": "a", "new_string": "b"}',
                        sources=source(message="m6"),
                    ),
                ),
            ),
        ),
        "demonstrations": (
            Demonstration(
                task="Fix the rounding of the totals",
                acts=(
                    Act("Read", '{"file_path": "src/shop/cart.py"}', "def total(items):\n    return sum(items)"),
                    Act("Bash", '{"command": "python -m pytest -q tests/test_cart.py"}', "4 passed in 0.21s"),
                ),
                evidence="the tests passed",
                sources=source(message="m6"),
            ),
            Demonstration(
                task="Add a column to the report of {{date}}",
                acts=(Act("Bash", '{"command": "make report-{{date}}"}', "wrote report.csv"),),
                evidence="exit code 0",
                sources=source(SECOND, "m7"),
            ),
        ),
        "recoveries": (
            Recovery(
                tool="Bash",
                failed='{"command": "pytest"}',
                error="pytest: command not found",
                worked='{"command": "python -m pytest -q"}',
                change="run as a module",
                count=2,
                sources=both("m3"),
            ),
        ),
        "patterns": (UserPattern(text="asks for small commits", sources=source()),),
        "markers": (
            Marker(kind="file", value="src/shop/cart.py", use="changed", count=3, sources=source(message="m6")),
            Marker(kind="url", value="https://docs.example.com/rounding", use="fetched", sources=source(SECOND)),
        ),
        "tasks": (
            Task("Fix the rounding of the totals", Source(FIRST, "m1")),
            Task("Add a column to the report", Source(SECOND, "m1")),
        ),
        "notes": (Note("the newer way to run the tests was taken", (FIRST, SECOND)),),
    }
    return SessionSeed(**{**made, **parts})


def template(**fields: Any) -> WarmTemplate:
    """A template as extraction would make it, not kept yet; `fields` take the place of what it has."""
    made: dict[str, Any] = {
        "name": "shop",
        "seed": seed(),
        "description": "How to work on the shop: tests, totals, reports.",
        "task_type": "code",
        "tags": ("python", "shop"),
        "project": "/home/mara/shop",
        "agent": "claude-code",
        "sources": (FIRST, SECOND),
        "tools": {"Bash": "0badcafe", "Edit": "", "Read": ""},
    }
    return WarmTemplate(**{**made, **fields})


def use(
    store: SQLTemplateStore, template: str, *, outcome: str = "", arm: str = "warm", session: str = "s", task: str = ""
) -> None:
    """A session that started from a template."""
    with store.database.transaction() as connection:
        connection.execute(
            "INSERT INTO template_uses (session, arm, template, version, at, task, outcome) "
            "VALUES (?, ?, ?, 1, ?, ?, ?)",
            (session, arm, template, store.now().timestamp(), task, outcome),
        )
