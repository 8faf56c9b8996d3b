"""Sessions to search in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warmstart import Message, Session, ToolCall, ToolResult
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


SUBJECTS = ("tide", "harbour", "gauge", "moon", "drawbridge", "ferry", "buoy", "lighthouse", "anchor")


def fill(store: SQLSessionStore, sessions: int = 60) -> None:
    """Store sessions with something of everything."""
    for number in range(sessions):
        first, second = SUBJECTS[number % 9], SUBJECTS[number * 5 % 7]
        call = ToolCall(
            id="c", name="Bash", arguments=f'{{"command": "terraform plan {second}\\nls gauge_{number}.py"}}'
        )
        output = ToolResult(call_id="c", outcome="error", text=f"flux capacitor: ECONNREFUSED at {first} {number}")
        keep(
            store,
            f"s{number}",
            *[f"the {first} {number} and the {second} " * (1 + place % 3) + str(place) for place in range(number % 6)],
            Message(native_id=f"{number}/c", role="assistant", reasoning=f"the {second}?", tool_calls=(call,)),
            Message(native_id=f"{number}/r", role="tool", tool_results=(output,)),
            Message(native_id=f"{number}/u", role="user", text=f"数据库 {second}, gauge_{number % 8}.py"),
            days=number * 7,
            project=f"/src/{number % 3}",
            title=f"About the {second}" if number % 4 == 0 else "",
        )


def content_of_index(store: SQLSessionStore) -> dict[str, list[Any]]:
    """All that the index consists of, without row numbers, which a rebuild changes."""
    lengths = "r.asked, r.said, r.thought, r.did"
    session = "JOIN sessions s ON s.pk = r.session"
    columns = f"s.native_id, r.number, r.first_seq, r.last_seq, r.hash, {lengths}, r.terms, r.counts"
    return {
        "state": store.fetch("SELECT sessions, turns, asked, said, thought, did FROM recall_state"),
        "sessions": sorted(store.fetch(f"SELECT s.native_id, r.turns, {lengths} FROM recall_sessions r {session}")),
        "turns": sorted(store.fetch(f"SELECT {columns} FROM recall_turns r {session}")),
        "frequencies": sorted(store.fetch("SELECT term, turns FROM recall_terms")),
        "postings": sorted(_postings(store)),
    }


_PLACES = "SELECT r.id, s.native_id, r.number FROM recall_turns r JOIN sessions s ON s.pk = r.session"


def _postings(store: SQLSessionStore) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The turns that the database finds for each term."""
    if store.database.DIALECT == "sqlite":
        # Fails if a posting is missing, or if there is one too many.
        store.database.connection.execute("INSERT INTO recall_index (recall_index, rank) VALUES ('integrity-check', 1)")
    places = {turn: (native_id, number) for turn, native_id, number in store.fetch(_PLACES)}
    for (term,) in store.fetch("SELECT term FROM recall_terms"):
        if store.database.DIALECT == "sqlite":
            rows = store.fetch("SELECT rowid FROM recall_index WHERE recall_index MATCH ?", (term,))
            ids = [row[0] for row in rows]
        else:
            (row,) = store.fetch("SELECT warmstart_recall_postings(?, ?, ?)", ([term], [], 10**9))
            ids = [int(number) for number in row[0].split(",")]
        yield term, sorted(places[turn] for turn in ids)
