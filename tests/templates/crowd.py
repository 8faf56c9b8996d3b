"""Templates by their sub-tasks, one or a thousand of them, and sessions that do what they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Message, Session, SessionOutcome, ToolCall, ToolResult
from warmstart.templates.item import Item, Source, ToolCallExample
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import SessionSeed, WarmTemplate

PROJECT = "/home/mara/shop"
BEGAN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

_VERBS = ("fix", "add", "remove", "rename", "migrate", "document", "profile", "cache", "validate", "refactor", "deploy")
_THINGS = [
    f"{one} {other}"
    for one in ("invoice", "checkout", "search", "login", "refund", "shipping", "coupon", "payment", "currency")
    for other in ("totals", "button", "index", "form", "webhook", "label", "parser", "retry", "history")
]
_PLACES = ("staging", "warehouse", "mobile", "desktop", "partner", "nightly", "legacy", "german", "admin", "archive")


def seed_for(tasks: Sequence[str], *, session: str = "s1") -> SessionSeed:
    """What is carried for some sub-tasks."""
    sources = (Source(session),)
    calls = (
        ToolCallExample("Bash", "python -m pytest -q tests/test_cart.py", "4 passed"),
        ToolCallExample("Bash", "ruff check .", "ok"),
    )
    rule = Item(kind="instruction", text="Run the tests before every commit.", sources=sources)
    return SessionSeed(items=(rule, *(Item(kind="example", text=task, calls=calls, sources=sources) for task in tasks)))


def template_for(*tasks: str, session: str = "s1", **fields: Any) -> WarmTemplate:
    """A template that is good for some sub-tasks."""
    made: dict[str, Any] = {
        "name": tasks[0] if tasks else "nothing",
        "seed": seed_for(tasks, session=session),
        "project": PROJECT,
        "agent": "claude-code",
        "task_type": "code",
        "sources": (session,),
        "tools": {"Bash": "", "Edit": ""},
    }
    return WarmTemplate(**{**made, **fields})


def crowd(number: int, *, seed: int = 1, project: str = PROJECT) -> list[WarmTemplate]:
    """So many different templates, as many sessions would leave them."""
    random = Random(seed)

    def task() -> str:
        what = f"{random.choice(_VERBS)} the {random.choice(_PLACES)} {random.choice(_THINGS)}"
        return f"{what} in module{random.randrange(400)}"

    return [
        template_for(
            *(task() for _ in range(random.randint(2, 7))),
            session=f"session-{each}",
            name=f"template {each}",
            description=f"How to {task()}, then {task()}.",
            tags=(random.choice(_PLACES), random.choice(_VERBS)),
            project=project,
        )
        for each in range(number)
    ]


def fill(store: SQLTemplateStore, number: int, *, seed: int = 1, project: str = PROJECT) -> list[WarmTemplate]:
    """Keep so many templates, in one write."""
    with store.database.transaction():
        return [store.add(each) for each in crowd(number, seed=seed, project=project)]


def outcomes(store: SQLTemplateStore, template: str, *, successes: int, failures: int, arm: str = "warm") -> None:
    """Sessions that started from a template, or were held out from it, and how they ended."""
    ended = ["success"] * successes + ["failure"] * failures
    with store.database.transaction() as connection:
        connection.executemany(
            "INSERT INTO template_uses (session, arm, template, version, at, outcome, settled_at) "
            "VALUES (?, ?, ?, 1, ?, ?, ?)",
            [
                (f"{template}-{arm}-{each}", arm, template, store.now().timestamp(), came_to, store.now().timestamp())
                for each, came_to in enumerate(ended)
            ],
        )


def happened(
    store: SQLSessionStore,
    native_id: str,
    *calls: tuple[str, dict[str, Any]],
    request: str = "Fix the rounding of the totals in the cart",
    outcome: SessionOutcome = "unknown",
    project: str = PROJECT,
    agent: str = "claude-code",
    worked: bool = True,
    days: float = 0.0,
    **fields: Any,
) -> Session:
    """A session in which these calls were made."""
    at = BEGAN + timedelta(days=days)
    session = Session(
        agent=agent,
        native_id=native_id,
        project=project,
        started_at=at,
        ended_at=at + timedelta(minutes=5),
        outcome=outcome,
        judge="log" if outcome != "unknown" else "",
        evidence="said so" if outcome != "unknown" else "",
        **fields,
    )
    messages = [Message(native_id=f"{native_id}-0", role="user", text=request, timestamp=at)]
    for number, (tool, arguments) in enumerate(calls):
        call = ToolCall(id=f"{native_id}-c{number}", name=tool, arguments=json.dumps(arguments))
        result = ToolResult(
            call_id=call.id,
            outcome="ok" if worked else "error",
            text="done" if worked else "Error: no",
            flag=None if worked else True,
        )
        messages += [
            Message(native_id=f"{native_id}-{number}a", role="assistant", tool_calls=(call,), timestamp=at),
            Message(native_id=f"{native_id}-{number}t", role="tool", tool_results=(result,), timestamp=at),
        ]
    store.append(session, messages)
    return store.get(session.id)
