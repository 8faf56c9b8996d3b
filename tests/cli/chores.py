"""Sessions of an agent that calls APIs, each a sub-task that ended well, for tests of procedures."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult

EMAIL = "mia.berg@example.com"
_CHORES = (
    (
        f"find the profile of the customer with the mail address {EMAIL}",
        ("find_user_id_by_email", {"email": EMAIL}, '{"user_id": "mia_berg_4711"}'),
        ("get_user_details", {"user_id": "mia_berg_4711"}, '{"name": "Mia Berg", "orders": ["#W4711"]}'),
    ),
    (
        "look up which products the order #W4711 contains, and what they cost",
        ("get_order_details", {"order_id": "#W4711"}, '{"items": [{"product_id": "6086499569"}]}'),
        ("get_product_details", {"product_id": "6086499569"}, '{"name": "lamp"}'),
    ),
)


def add_chores(home: Path) -> list[str]:
    """Put the sessions into the store of a home; returns their ids."""
    at = datetime(2026, 9, 22, 9, tzinfo=UTC)
    (home / ".warmstart").mkdir(parents=True, exist_ok=True)
    ids = []
    with closing(SQLiteSessionStore(home / ".warmstart" / "warmstart.db")) as store:
        for number, (request, *calls) in enumerate(_CHORES):
            session = Session(
                agent="shop-bot",
                native_id=f"chore-{number}",
                project="/home/mara/tidewatch",
                started_at=at,
                ended_at=at,
                outcome="success",
                judge="log",
                evidence="the customer was helped",
            )
            messages = [Message(native_id=f"m{number}", role="user", text=request, timestamp=at)]
            for name, arguments, result in calls:
                call = ToolCall(id=f"c-{name}", name=name, arguments=json.dumps(arguments))
                answer = ToolResult(call_id=call.id, outcome="ok", text=result)
                messages += [
                    Message(native_id=f"{name}-a", role="assistant", tool_calls=(call,), timestamp=at),
                    Message(native_id=f"{name}-t", role="tool", tool_results=(answer,), timestamp=at),
                ]
            store.append(session, messages)
            ids.append(session.id)
    return ids
