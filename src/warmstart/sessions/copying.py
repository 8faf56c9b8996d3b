"""Copying one store to another, whichever kinds they are.

Rows are copied as they are, and not appended anew: a message keeps the digest that it was imported with, so that sync,
which goes on at the new place where it was left at the old one, recognises it even if its text was redacted since. A
session is there whole or not at all, so a copy that was interrupted is completed by the next. What the other store has
and this one does not is never touched; it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from warmstart.sessions.appending import chunks, following, marks, save_texts, texts_of
from warmstart.sessions.rows import SESSION_COLUMNS
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.database import Connection

_PAGE = 200  # messages read at a time
_BATCH = 2000  # messages written in one transaction, and the rest of the last session
_FACTS = f"{SESSION_COLUMNS}, revision, rules"

Progress = Callable[[int, int], None]


class Copied(NamedTuple):
    """What a copy came to.

    `present` sessions were there already, `deleted` ones a person had removed here or there, and `differences` are what
    is not the same in both stores afterwards.
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
    key: bytes
    digest: bytes
    facts: tuple[Any, ...]  # native_id, role, flags, at, model, origin, usage
    text: bytes | None
    reasoning: bytes | None
    calls: tuple[tuple[Any, ...], ...]  # position, call_id, name, arguments
    results: tuple[tuple[Any, ...], ...]  # position, call_id, outcome, text, duration, flag, exit_code

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
    """Copy all sessions, where their logs were left and which were deleted, and compare the stores afterwards."""
    return _Copy(source, target, progress or (lambda done, total: None)).run()


class _Copy:
    def __init__(self, source: SQLSessionStore, target: SQLSessionStore, progress: Progress) -> None:
        self.source = source
        self.target = target
        self.progress = progress
        self.differences: list[str] = []
        self.written: dict[str, _Outline] = {}
        self.present = 0

    def run(self) -> Copied:
        # Read first and written last: a log that grows meanwhile is read again from here, which changes nothing.
        positions = self.source.positions()
        gone = self._copy_deletions()
        sessions = [each for each in _sessions(self.source) if each[1] not in gone]
        total = sum(count for _, _, count in sessions)
        batch: list[tuple[int, str]] = []
        done = waiting = 0
        for pk, name, count in sessions:
            if self._is_wanted(pk, name):
                batch.append((pk, name))
                waiting += count
            done += count
            if waiting >= _BATCH:
                self._write(batch)
                batch, waiting = [], 0
            self.progress(done, total)
        self._write(batch)
        self._compare(sessions)
        saved = 0 if self.differences else self._copy_positions(positions)
        return Copied(
            sessions=len(self.written),
            messages=sum(len(outline.messages) for outline in self.written.values()),
            present=self.present,
            deleted=len(gone),
            positions=saved,
            differences=tuple(self.differences),
        )

    def _copy_deletions(self) -> frozenset[str]:
        """Delete there what was deleted here; returns what is deleted in either store."""
        theirs = self.target.deleted()
        ours = self.source.deleted()
        with self.source.database.translated():
            messages = self.source.database.connection.execute(
                "SELECT key, session_id FROM deleted_messages"
            ).fetchall()
        with self.target.transaction() as connection:
            for name in sorted(ours):
                self.target.delete(name)
            connection.executemany(
                "INSERT INTO deleted_sessions (id) VALUES (?) ON CONFLICT DO NOTHING",
                [(name,) for name in ours - theirs],
            )
            connection.executemany(
                "INSERT INTO deleted_messages (key, session_id) VALUES (?, ?) ON CONFLICT DO NOTHING", messages
            )
        return ours | theirs

    def _is_wanted(self, pk: int, name: str) -> bool:
        """Whether the session must be written; one that is there and has more, or other things, is left alone."""
        mine = _outline(self.source, pk)
        there = _find(self.target, name)
        theirs = _outline(self.target, there) if there is not None else None
        if theirs is not None and theirs.fingerprint == mine.fingerprint:
            self.present += 1
            return False
        if theirs is not None and not mine.includes(theirs):
            self.differences.append(f"{name} is not the same there, and was left as it is")
            return False
        if self._has_elsewhere(mine, there):
            self.differences.append(f"{name} has messages that belong to another session there")
            return False
        self.written[name] = mine
        return True

    def _has_elsewhere(self, outline: _Outline, there: int | None) -> bool:
        with self.target.database.translated():
            return any(
                self.target.database.connection.execute(
                    f"SELECT 1 FROM messages WHERE session <> ? AND key IN ({marks(keys)}) LIMIT 1", (there or 0, *keys)
                ).fetchone()
                for keys in chunks(list(outline.messages))
            )

    def _write(self, batch: Sequence[tuple[int, str]]) -> None:
        if not batch:
            return
        with self.target.transaction() as connection:
            for pk, name in batch:
                self._remove(connection, name)
                session = self._write_session(connection, pk)
                for page in _pages(self.source, pk):
                    _write_messages(connection, session, page, _bodies(self.source, page))

    def _remove(self, connection: Connection, name: str) -> None:
        """Make room for a session of which an earlier copy has less."""
        there = _find(self.target, name)
        if there is not None:
            messages = connection.execute("SELECT pk FROM messages WHERE session = ?", (there,)).fetchall()
            self.target.forget(texts_of(connection, [row[0] for row in messages]))
            connection.execute("DELETE FROM sessions WHERE pk = ?", (there,))

    def _write_session(self, connection: Connection, pk: int) -> int:
        with self.source.database.translated():
            row = self.source.database.connection.execute(
                f"SELECT {_FACTS} FROM sessions WHERE pk = ?", (pk,)
            ).fetchone()
        inserted = connection.execute(f"INSERT INTO sessions ({_FACTS}) VALUES ({marks(row)}) RETURNING pk", row)
        return int(inserted.fetchone()[0])

    def _copy_positions(self, positions: dict[str, Any]) -> int:
        known = self.target.positions()
        new = [position for path, position in positions.items() if path not in known]
        newer = [
            position
            for path, position in positions.items()
            if path in known and position.revision > known[path].revision
        ]
        with self.target.transaction() as connection:
            for position in (*new, *newer):
                self.target.save_position(position)
                connection.execute(
                    "UPDATE positions SET revision = ? WHERE path = ?", (position.revision, position.path)
                )
        return len(new) + len(newer)

    def _compare(self, sessions: Sequence[tuple[int, str, int]]) -> None:
        """Read back what was written, and count."""
        for name, outline in self.written.items():
            there = _find(self.target, name)
            if there is None or _outline(self.target, there) != outline:
                self.differences.append(f"{name} did not arrive as it was sent")
        counts = {name: count for _, name, count in _sessions(self.target)}
        for _, name, count in sessions:
            if counts.get(name, 0) < count and not any(each.startswith(name) for each in self.differences):
                self.differences.append(f"{name} has {count} messages here and {counts.get(name, 0)} there")


def _sessions(store: SQLSessionStore) -> list[tuple[int, str, int]]:
    """Every session: its key, its id and the number of its messages."""
    with store.database.translated():
        return store.database.connection.execute(
            "SELECT s.pk, s.id, count(m.pk) FROM sessions s LEFT JOIN messages m ON m.session = s.pk "
            "GROUP BY s.pk, s.id ORDER BY s.pk"
        ).fetchall()


def _find(store: SQLSessionStore, name: str) -> int | None:
    with store.database.translated():
        row = store.database.connection.execute("SELECT pk FROM sessions WHERE id = ?", (name,)).fetchone()
    return int(row[0]) if row else None


def _outline(store: SQLSessionStore, pk: int) -> _Outline:
    with store.database.translated():
        facts = store.database.connection.execute(f"SELECT {_FACTS} FROM sessions WHERE pk = ?", (pk,)).fetchone()
    *said, revision, _ = facts or (0, 0)
    whole = blake2b(repr(said).encode(), digest_size=16)
    messages: dict[bytes, bytes] = {}
    for page in _pages(store, pk):
        for message in page:
            part = blake2b(repr(message[1:]).encode(), digest_size=16).digest()
            messages[message.key] = part
            whole.update(part)
    return _Outline(messages, whole.digest(), revision)


def _pages(store: SQLSessionStore, session: int) -> Iterator[list[_Message]]:
    after = -1
    while True:
        with store.database.translated():
            page = _page(store.database.connection, session, after)
        if page:
            yield page
        if len(page) < _PAGE:
            return
        after = page[-1].seq


def _page(connection: Connection, session: int, after: int) -> list[_Message]:
    rows = connection.execute(
        "SELECT m.seq, m.pk, m.key, m.digest, m.native_id, m.role, m.flags, m.at, m.model, m.origin, m.usage, "
        "t.hash, r.hash FROM messages m LEFT JOIN texts t ON t.id = m.text LEFT JOIN texts r ON r.id = m.reasoning "
        "WHERE m.session = ? AND m.seq > ? ORDER BY m.seq LIMIT ?",
        (session, after, _PAGE),
    ).fetchall()
    if not rows:
        return []
    pks = [row[1] for row in rows]
    calls: dict[int, list[tuple[Any, ...]]] = {}
    results: dict[int, list[tuple[Any, ...]]] = {}
    for message, *call in connection.execute(
        "SELECT c.message, c.position, c.call_id, c.name, t.hash FROM tool_calls c "
        f"LEFT JOIN texts t ON t.id = c.arguments WHERE c.message IN ({marks(pks)}) ORDER BY c.message, c.position",
        pks,
    ):
        calls.setdefault(message, []).append(tuple(call))
    for message, *result, flag, code in connection.execute(
        "SELECT r.message, r.position, r.call_id, r.outcome, t.hash, r.duration, r.flag, r.exit_code "
        f"FROM tool_results r LEFT JOIN texts t ON t.id = r.text WHERE r.message IN ({marks(pks)}) "
        "ORDER BY r.message, r.position",
        pks,
    ):
        results.setdefault(message, []).append((*result, None if flag is None else bool(flag), code))
    return [
        _Message(
            row[0],
            row[2],
            row[3],
            tuple(row[4:11]),
            row[11],
            row[12],
            tuple(calls.get(row[1], ())),
            tuple(results.get(row[1], ())),
        )
        for row in rows
    ]


def _bodies(store: SQLSessionStore, page: Sequence[_Message]) -> dict[bytes, str]:
    bodies: dict[bytes, str] = {}
    with store.database.translated():
        for hashes in chunks(list({text for message in page for text in message.texts()})):
            bodies.update(
                store.database.connection.execute(
                    f"SELECT hash, body FROM texts WHERE hash IN ({marks(hashes)})", hashes
                )
            )
    return bodies


def _write_messages(connection: Connection, session: int, page: Sequence[_Message], bodies: dict[bytes, str]) -> None:
    ids = save_texts(connection, bodies)

    def id_of(text: bytes | None) -> int | None:
        return None if text is None else ids[text]

    placed = list(zip(following(connection, "messages", "pk"), page, strict=False))
    connection.executemany(
        "INSERT INTO messages (pk, session, seq, key, digest, native_id, role, flags, at, model, origin, usage, text, "
        "reasoning) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(pk, session, m.seq, m.key, m.digest, *m.facts, id_of(m.text), id_of(m.reasoning)) for pk, m in placed],
    )
    connection.executemany(
        "INSERT INTO tool_calls (message, position, call_id, name, arguments) VALUES (?, ?, ?, ?, ?)",
        [(pk, *call[:3], id_of(call[3])) for pk, m in placed for call in m.calls],
    )
    connection.executemany(
        "INSERT INTO tool_results (message, position, call_id, outcome, text, duration, flag, exit_code) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(pk, *result[:3], id_of(result[3]), *result[4:]) for pk, m in placed for result in m.results],
    )
