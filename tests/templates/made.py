"""Templates built by hand, as extraction would make them, for every test of the package."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from warmstart.sessions.values import session_id
from warmstart.templates.audit import Use, why
from warmstart.templates.item import Item, Source, ToolCallExample
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import SessionSeed, WarmTemplate

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


def revision(store: SQLTemplateStore) -> int:
    """A number that grows with every write that summaries could show."""
    rows = store.select("SELECT number FROM template_revision")
    return int(rows[0][0]) if rows else 0


def source(session: str = FIRST, message: str = "m1") -> tuple[Source, ...]:
    return (Source(session, message),)


def both(message: str = "m1") -> tuple[Source, ...]:
    return Source(FIRST, message), Source(SECOND, message)


def item(kind: str, text: str, **fields: Any) -> Item:
    """An item of the first session."""
    return Item(kind=kind, text=text, **{"sources": source(), **fields})  # type: ignore[arg-type]


def seed(**kinds: tuple[Item, ...]) -> SessionSeed:
    """A seed with something of each kind from two sessions; `kinds` replace all items of a kind."""
    march = {"first_seen": datetime(2026, 3, 2, 9, tzinfo=UTC), "last_seen": datetime(2026, 3, 9, 17, tzinfo=UTC)}
    made: dict[str, tuple[Item, ...]] = {
        "instruction": (
            item("instruction", "Run the tests before every commit.", sources=both(), **march),
            item("instruction", "You are working in the repository of the shop."),
        ),
        "correction": (item("correction", "no, use the decimal module", sources=source(SECOND, "m5")),),
        "command": (
            item("command", "python -m pytest -q", tool="test", count=4, worked=4, sources=both("m4"), **march),
            item("command", "ruff check .", tool="lint", worked=1, sources=source(SECOND, "m9")),
        ),
        "trap": (
            item(
                "trap",
                "pytest: command not found",
                tool="pytest",
                calls=(ToolCallExample("shell", "pytest"), ToolCallExample("shell", "python -m pytest -q")),
                count=2,
                sources=both("m3"),
            ),
        ),
        "decision": (item("decision", "we round half to even", sources=source(message="m8")),),
        "reference": (item("reference", "https://docs.example.com/rounding", sources=source(SECOND)),),
        "file": (
            item("file", "src/shop/cart.py", tool="edit", count=3, sources=source(message="m6")),
            item("file", "tests/test_cart.py", tool="read", sources=source(SECOND, "m2")),
        ),
        "example": (
            item(
                "example",
                "Fix the rounding of the totals",
                calls=(
                    ToolCallExample("Read", '{"file_path": "src/shop/cart.py"}', "ok, 34 lines"),
                    ToolCallExample("shell", "python -m pytest -q tests/test_cart.py", "4 passed"),
                ),
                sources=source(message="m6"),
            ),
            item(
                "example",
                "Add a column to the report",
                calls=(ToolCallExample("shell", "make build", "ok"),),
                sources=source(SECOND, "m7"),
            ),
        ),
        "habit": (item("habit", "asks for small commits"),),
        "open": (item("open", "branch: rounding", sources=source(SECOND, "")),),
    }
    assert kinds.keys() <= made.keys()
    return SessionSeed(items=tuple(one for items in {**made, **kinds}.values() for one in items))


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


def uses(store: SQLTemplateStore) -> list[Use]:
    """How all sessions started, the newest first."""
    rows = store.database.connection.execute("SELECT session FROM template_uses ORDER BY id DESC").fetchall()
    return [why(store, session)[0] for (session,) in rows]
