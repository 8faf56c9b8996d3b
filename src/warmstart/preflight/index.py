"""The data that the overlay shows of each session, written at sync time so that a hook only has to read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from warmstart.memory.values import MemoryEntry
from warmstart.profile.calls import SHELLS
from warmstart.recall.index import Index
from warmstart.redact.redactor import Redactor
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import Connection, migrations_of
from warmstart.storage.outbox import RECORD
from warmstart.templates import item_store
from warmstart.templates.item import SessionItems
from warmstart.templates.memory_lines import is_quotable
from warmstart.text.untrusted import find_injection, neutralize

MIGRATIONS = migrations_of("preflight", __file__)

_DECODE = msgspec.json.Decoder(SessionItems).decode
_IS_RECORDED = "SELECT 1 FROM preflight_turns WHERE session = ? AND at = ?"
_STALE = """
    SELECT i.session, i.rules, decompress(i.body) FROM session_items i
    LEFT JOIN preflight_sessions p ON p.session = i.session
    WHERE coalesce(p.rules, '') <> i.rules ORDER BY i.session LIMIT 50
"""


def migrate(store: SQLSessionStore) -> None:
    """Create the tables of preflight, and those of the index and the items that they depend on."""
    Index(store)
    store.database.migrate((*migrations_of("templates", item_store.__file__), *MIGRATIONS))


def screen_memories(store: SQLSessionStore, entries: Iterable[MemoryEntry]) -> None:
    """Judge which memories may be quoted, unless it is known."""
    migrate(store)
    known = {tuple(row) for row in store.fetch("SELECT updated_at, size FROM screened_memories")}
    versions = {(entry.updated_at, len(entry.key) + len(entry.value)): entry for entry in entries}
    new = [(*version, int(is_quotable(versions[version]))) for version in versions.keys() - known]
    if new:
        with store.database.transaction() as connection:
            connection.executemany(
                "INSERT INTO screened_memories (updated_at, size, is_quotable) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                new,
            )


def update_turns(store: SQLSessionStore, redactor: Redactor) -> None:
    """Write the turns of sessions whose items changed."""
    migrate(store)
    while store.fetch(_STALE):
        with store.database.transaction() as connection:
            for session, rules, body in connection.execute(_STALE).fetchall():
                _write(connection, session, rules, _DECODE(body), redactor)


def record_turns(store: SQLSessionStore, rows: Iterable[Sequence[Any]]) -> None:
    """Record decisions that the overlay could not record itself."""
    with store.database.transaction() as connection:
        for row in rows:
            session, at = row[0], row[3]
            if not connection.execute(_IS_RECORDED, (session, at)).fetchone():
                connection.execute(RECORD, row)


def _write(connection: Connection, session: int, rules: str, items: SessionItems, redactor: Redactor) -> None:
    connection.execute("DELETE FROM session_turns WHERE session = ?", (session,))
    connection.execute("DELETE FROM session_traps WHERE session = ?", (session,))
    lookup = SessionLookup(connection)
    order = lookup.sequence(session)
    connection.executemany(
        "INSERT INTO session_turns (session, first_seq, at, asked, changed, read, ran) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        [
            (session, order[turn.message], turn.at, turn.asked, *map("\n".join, (turn.changed, turn.read, turn.ran)))
            for turn in items.turns
            if turn.message in order
        ],
    )
    connection.executemany(
        "INSERT INTO session_traps (session, command, error, fix) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (session, item.tool, item.text, item.calls[1].arguments)
            for item in items.items
            if item.kind == "trap" and item.calls[1].tool_name in SHELLS
        ],
    )
    connection.executemany(
        "INSERT INTO unquotable_messages (message) VALUES (?) ON CONFLICT DO NOTHING",
        [
            (message,)
            for message, text in lookup.spoken(session)
            if neutralize(text) != text or find_injection(text) or redactor.clean(text) != text
        ],
    )
    connection.execute(
        "INSERT INTO preflight_sessions (session, rules) VALUES (?, ?) "
        "ON CONFLICT (session) DO UPDATE SET rules = excluded.rules",
        (session, rules),
    )
