"""Sessions to search in."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from warmstart import Message, Session
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore

NOW = datetime(2026, 9, 16, 12, 0, tzinfo=UTC)  # a Wednesday


def opened(url: str, tenant: str = "") -> SQLSessionStore:
    """The store at a path or a URL."""
    return PostgresSessionStore(url, tenant=tenant) if "://" in url else SQLiteSessionStore(Path(url))


def keep(
    store: SQLSessionStore,
    native_id: str,
    *texts: str | Message,
    project: str = "/src/tides",
    agent: str = "tester",
    days: float = 1,
    **fields: object,
) -> Session:
    """Store a session that began so many days ago; texts are said in turn, by the user first."""
    began = NOW - timedelta(days=days)
    kept = Session(agent=agent, native_id=native_id, project=project, started_at=began, **fields)  # type: ignore[arg-type]
    store.append(kept, turns(native_id, texts, began))
    return kept


def turns(native_id: str, texts: Iterable[str | Message], began: datetime = NOW) -> list[Message]:
    return [
        text
        if isinstance(text, Message)
        else Message(
            native_id=f"{native_id}/{place}",
            role="assistant" if place % 2 else "user",
            text=text,
            timestamp=began + timedelta(minutes=place),
        )
        for place, text in enumerate(texts)
    ]
