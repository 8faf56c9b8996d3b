"""Copy one store to another, of whichever kinds.

Rows are copied as they are instead of appended again: a message keeps the digest that it was imported with, so that
sync, which goes on in the new store where it was in the old one, recognizes it even if its text was redacted since. A
session is copied whole or not at all, so the next copy completes one that was interrupted. What only the other store
has is never touched; it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from warmstart.sessions.append import save_texts, texts_of
from warmstart.sessions.rows import SESSION_COLUMNS
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import Connection
from warmstart.storage.sql import batches, next_ids, placeholders

_PAGE = 200  # messages read at a time
_BATCH = 2000  # messages written in one transaction, and the rest of the last session
_FACTS = f"{SESSION_COLUMNS}, revision, rules"
_MESSAGE = "key, digest, native_id, role, flags, at, model, origin, usage"

Progress = Callable[[int, int], None]


class Copied(NamedTuple):
    """The result of a copy.

    `present` sessions were there already, `deleted` ones were deleted in either store, and `differences` are what is
    not the same in both stores afterwards.
    """

    sessions: int = 0
    messages: int = 0
    present: int = 0
    deleted: int = 0
    positions: int = 0
    differences: tuple[str, ...] = ()


class _Message(NamedTuple):
    """A message as it is stored, with the hashes of its texts in place of their ids."""

    seq: int
    facts: tuple[Any, ...]  # the columns of `_MESSAGE`
    text: bytes | None
    reasoning: bytes | None
    calls: tuple[tuple[Any, ...], ...]  # position, call_id, name, arguments
    results: tuple[tuple[Any, ...], ...]  # position, call_id, outcome, text, duration, flag, exit_code

    @property
    def key(self) -> bytes:
        return bytes(self.facts[0])

    def texts(self) -> Iterator[bytes]:
        parts = (self.text, self.reasoning, *(call[3] for call in self.calls), *(result[3] for result in self.results))
        return (part for part in parts if part is not None)


class _Outline(NamedTuple):
    """What tells whether a session is the same in two stores: its messages in order, and what is known of it."""

    messages: dict[bytes, bytes]
    fingerprint: bytes
    revision: int

    def includes(self, other: _Outline) -> bool:
        """Whether the other is an earlier state of this one."""
        return other.revision <= self.revision and other.messages.items() <= self.messages.items()


def copy_store(source: SQLSessionStore, target: SQLSessionStore, *, progress: Progress | None = None) -> Copied:
    """Copy all sessions, the positions in their logs, and which sessions were deleted; compare what was written."""
    return _Copy(source, target).run(progress or (lambda done, total: None))


class _Copy:
    def __init__(self, source: SQLSessionStore, target: SQLSessionStore) -> None:
        self.source = source
        self.target = target
        self.differences: list[str] = []
        self.written: dict[str, _Outline] = {}
        self.present = 0

    def run(self, progress: Progress) -> Copied:
        # Read first and written last: a log that grows meanwhile is read again from here, which changes nothing.
        positions = self.source.positions()
        deleted = self._copy_deletions()
        sessions = [each for each in self._sessions() if each[1] not in deleted]
        total = sum(count for _, _, count in sessions)
        batch: list[tuple[int, str]] = []
        done = waiting = 0
        for pk, session_id, count in sessions:
            if self._is_wanted(pk, session_id):
                batch.append((pk, session_id))
                waiting += count
            done += count
            if waiting >= _BATCH:
                self._write(batch)
                batch, waiting = [], 0
            progress(done, total)
        self._write(batch)
        for session_id, sent in self.written.items():
            if _outline(self.target, _find(self.target, session_id)) != sent:
                self.differences.append(f"{session_id} did not arrive as it was sent")
        saved = 0 if self.differences else self._copy_positions(positions)
        messages = sum(len(outline.messages) for outline in self.written.values())
        return Copied(len(self.written), messages, self.present, len(deleted), saved, tuple(self.differences))

    def _sessions(self) -> list[tuple[int, str, int]]:
        """Every session: its key, its id and the number of its messages."""
        return _fetch(
            self.source,
            "SELECT s.pk, s.id, count(m.pk) FROM sessions s LEFT JOIN messages m ON m.session = s.pk "
            "GROUP BY s.pk, s.id ORDER BY s.pk",
        )

    def _copy_deletions(self) -> frozenset[str]:
        """Delete there what was deleted here; returns what is deleted in either store."""
        ours, theirs = self.source.deleted(), self.target.deleted()
        messages = _fetch(self.source, "SELECT key, session_id FROM deleted_messages")
        with self.target.transaction() as connection:
            for session_id in sorted(ours):
                self.target.delete(session_id)
            connection.executemany(
                "INSERT INTO deleted_sessions (id) VALUES (?) ON CONFLICT DO NOTHING", [(each,) for each in ours]
            )
            connection.executemany(
                "INSERT INTO deleted_messages (key, session_id) VALUES (?, ?) ON CONFLICT DO NOTHING", messages
            )
        return ours | theirs

    def _is_wanted(self, pk: int, session_id: str) -> bool:
        """Whether the session must be written; one that is there and has more, or other things, is left alone."""
        mine = _outline(self.source, pk)
        there = _find(self.target, session_id)
        theirs = _outline(self.target, there) if there else None
        if theirs and theirs.fingerprint == mine.fingerprint:
            self.present += 1
            return False
        if theirs and not mine.includes(theirs):
            self.differences.append(f"{session_id} is not the same there, and was left as it is")
            return False
        if self._has_elsewhere(mine.messages, there):
            self.differences.append(f"{session_id} has messages that belong to another session there")
            return False
        self.written[session_id] = mine
        return True

    def _has_elsewhere(self, keys: Iterable[bytes], there: int) -> bool:
        query = "SELECT 1 FROM messages WHERE session <> ? AND key IN ({}) LIMIT 1"
        return any(_fetch(self.target, query.format(placeholders(some)), (there, *some)) for some in batches(keys))

    def _write(self, batch: Sequence[tuple[int, str]]) -> None:
        with self.target.transaction() as connection:
            for pk, session_id in batch:
                if there := _find(self.target, session_id):  # an earlier copy, which has less
                    messages = connection.execute("SELECT pk FROM messages WHERE session = ?", (there,)).fetchall()
                    self.target.forget(texts_of(connection, [row[0] for row in messages]))
                    connection.execute("DELETE FROM sessions WHERE pk = ?", (there,))
                (row,) = _fetch(self.source, f"SELECT {_FACTS} FROM sessions WHERE pk = ?", (pk,))
                insert = f"INSERT INTO sessions ({_FACTS}) VALUES ({placeholders(row)}) RETURNING pk"
                session = connection.execute(insert, row).fetchone()[0]
                for page in _pages(self.source, pk):
                    _write_messages(connection, session, page, _bodies(self.source, page))

    def _copy_positions(self, positions: dict[str, Any]) -> int:
        known = self.target.positions()
        new = [each for path, each in positions.items() if path not in known or each.revision > known[path].revision]
        with self.target.transaction() as connection:
            for each in new:
                self.target.save_position(each)
                connection.execute("UPDATE positions SET revision = ? WHERE path = ?", (each.revision, each.path))
        return len(new)


def _fetch(store: SQLSessionStore, query: str, values: Sequence[object] = ()) -> list[Any]:
    with store.database.translate_errors():
        return store.database.connection.execute(query, values).fetchall()


def _find(store: SQLSessionStore, session_id: str) -> int:
    rows = _fetch(store, "SELECT pk FROM sessions WHERE id = ?", (session_id,))
    return int(rows[0][0]) if rows else 0


def _outline(store: SQLSessionStore, pk: int) -> _Outline:
    rows = _fetch(store, f"SELECT {_FACTS} FROM sessions WHERE pk = ?", (pk,))
    *facts, revision, _ = rows[0] if rows else (0, 0)
    if facts and not facts[-1]:
        facts[-3:] = []  # the outcome that a profile found, which the other store may not have yet
    whole = blake2b(repr(facts).encode(), digest_size=16)
    messages: dict[bytes, bytes] = {}
    for page in _pages(store, pk):
        for message in page:
            part = blake2b(repr(message[1:]).encode(), digest_size=16).digest()
            messages[message.key] = part
            whole.update(part)
    return _Outline(messages, whole.digest(), revision)


def _pages(store: SQLSessionStore, session: int) -> Iterator[list[_Message]]:
    after = -1
    while page := _page(store, session, after):
        yield page
        after = page[-1].seq


def _page(store: SQLSessionStore, session: int, after: int) -> list[_Message]:
    columns = ", ".join(f"m.{name}" for name in _MESSAGE.split(", "))
    rows = _fetch(
        store,
        f"SELECT m.seq, m.pk, t.hash, r.hash, {columns} FROM messages m LEFT JOIN texts t ON t.id = m.text "
        "LEFT JOIN texts r ON r.id = m.reasoning WHERE m.session = ? AND m.seq > ? ORDER BY m.seq LIMIT ?",
        (session, after, _PAGE),
    )
    pks = [row[1] for row in rows]
    calls: dict[int, list[tuple[Any, ...]]] = {pk: [] for pk in pks}
    results: dict[int, list[tuple[Any, ...]]] = {pk: [] for pk in pks}
    if pks:
        for message, *call in _fetch(
            store,
            "SELECT c.message, c.position, c.call_id, c.name, t.hash FROM tool_calls c LEFT JOIN texts t "
            f"ON t.id = c.arguments WHERE c.message IN ({placeholders(pks)}) ORDER BY c.message, c.position",
            pks,
        ):
            calls[message].append(tuple(call))
        for message, *result, flag, code in _fetch(
            store,
            "SELECT r.message, r.position, r.call_id, r.outcome, t.hash, r.duration, r.flag, r.exit_code FROM "
            f"tool_results r LEFT JOIN texts t ON t.id = r.text WHERE r.message IN ({placeholders(pks)}) "
            "ORDER BY r.message, r.position",
            pks,
        ):
            results[message].append((*result, None if flag is None else bool(flag), code))
    return [
        _Message(seq, tuple(facts), text, reasoning, tuple(calls[pk]), tuple(results[pk]))
        for seq, pk, text, reasoning, *facts in rows
    ]


def _bodies(store: SQLSessionStore, page: Sequence[_Message]) -> dict[bytes, str]:
    bodies: dict[bytes, str] = {}
    for hashes in batches({text for message in page for text in message.texts()}):
        bodies.update(_fetch(store, f"SELECT hash, body FROM texts WHERE hash IN ({placeholders(hashes)})", hashes))
    return bodies


def _write_messages(connection: Connection, session: int, page: Sequence[_Message], bodies: dict[bytes, str]) -> None:
    ids: dict[Any, int | None] = {None: None, **save_texts(connection, bodies)}
    placed = list(zip(next_ids(connection, "messages", "pk"), page, strict=False))
    connection.executemany(
        f"INSERT INTO messages (pk, session, seq, text, reasoning, {_MESSAGE}) VALUES ({placeholders(range(14))})",
        [(pk, session, m.seq, ids[m.text], ids[m.reasoning], *m.facts) for pk, m in placed],
    )
    connection.executemany(
        "INSERT INTO tool_calls (message, position, call_id, name, arguments) VALUES (?, ?, ?, ?, ?)",
        [(pk, *call[:3], ids[call[3]]) for pk, m in placed for call in m.calls],
    )
    connection.executemany(
        "INSERT INTO tool_results (message, position, call_id, outcome, text, duration, flag, exit_code) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(pk, *result[:3], ids[result[3]], *result[4:]) for pk, m in placed for result in m.results],
    )
