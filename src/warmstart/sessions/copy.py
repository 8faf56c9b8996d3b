"""Copy one store to another, of any kind.

Rows are copied as they are, not appended again: a message keeps its digest, so that sync, which continues in the new
store, recognises it even if its text has been redacted since. A session is copied completely or not at all, so the next
copy completes one that was interrupted. What only the target has is never touched; differences are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from warmstart.sessions.append import insert_messages, texts_of
from warmstart.sessions.schema import SESSION_COLUMNS, read_rows
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Position
from warmstart.sessions.tables import TEXT_USES
from warmstart.storage.database import batches, next_ids, placeholders

_BATCH = 2000  # messages per transaction, plus the rest of the last session
_COLUMNS = f"revision, rules, {SESSION_COLUMNS}"
_ELSEWHERE = "SELECT 1 FROM messages m JOIN sessions s ON s.pk = m.session WHERE s.id <> ? AND m.key IN ({}) LIMIT 1"
# The texts of a range of messages of a session.
_BODIES = "SELECT hash, decompress(body) FROM texts WHERE id IN ({})".format(
    " UNION ".join(
        f"SELECT {text} FROM {table} WHERE {pk} IN (SELECT m.pk FROM messages m JOIN sessions s ON s.pk = m.session "
        "WHERE s.id = ?1 AND m.seq BETWEEN ?2 AND ?3)"
        for table, pk, text in TEXT_USES
    )
)

Progress = Callable[[int, int], None]


class Copied(NamedTuple):
    """The result of a copy.

    `present` sessions were already in the target, `deleted` ones were deleted in either store, and `differences` says
    where the stores still differ.
    """

    sessions: int = 0
    messages: int = 0
    present: int = 0
    deleted: int = 0
    positions: int = 0
    differences: tuple[str, ...] = ()


class _Outline(NamedTuple):
    """What must be equal for a session to be the same in two stores."""

    revision: int
    facts: tuple[Any, ...]
    messages: tuple[tuple[bytes, bytes], ...]  # in order: the key, and a hash of the whole row


def copy_store(source: SQLSessionStore, target: SQLSessionStore, *, progress: Progress | None = None) -> Copied:
    """Copy all sessions, the positions in their logs and the deletions, and verify what was written."""
    return _Copy(source, target).run(progress or (lambda done, total: None))


class _Copy:
    def __init__(self, source: SQLSessionStore, target: SQLSessionStore) -> None:
        self.source = source
        self.target = target
        self.differences: list[str] = []
        self.written: dict[str, _Outline] = {}
        self.present = 0

    def run(self, progress: Progress) -> Copied:
        # Read first and written last: if a log grows meanwhile, the next sync reads that part again, which is harmless.
        positions = self.source.positions()
        deleted = self._copy_deletions()
        counts = self.source.fetch(
            "SELECT s.id, count(m.pk) FROM sessions s LEFT JOIN messages m ON m.session = s.pk "
            "GROUP BY s.pk, s.id ORDER BY s.pk",
        )
        sessions = {session_id: count for session_id, count in counts if session_id not in deleted}
        total, done, waiting = sum(sessions.values()), 0, 0
        batch: list[str] = []
        for session_id, count in sessions.items():
            if self._is_wanted(session_id):
                batch.append(session_id)
                waiting += count
            done += count
            if waiting >= _BATCH:
                self._write(batch)
                batch, waiting = [], 0
            progress(done, total)
        self._write(batch)
        for session_id, sent in self.written.items():
            if _outline(self.target, session_id) != sent:
                self.differences.append(f"{session_id} differs from its original after the copy")
        saved = 0 if self.differences else self._copy_positions(positions)
        messages = sum(len(outline.messages) for outline in self.written.values())
        return Copied(len(self.written), messages, self.present, len(deleted), saved, tuple(self.differences))

    def _copy_deletions(self) -> frozenset[str]:
        """Delete in the target what was deleted in the source. Returns what is deleted in either store."""
        ours, theirs = self.source.deleted(), self.target.deleted()
        messages = self.source.fetch("SELECT key, session_id FROM deleted_messages")
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

    def _is_wanted(self, session_id: str) -> bool:
        """Whether the session must be written. If the target has a newer or a different one, that is left alone."""
        mine, theirs = _outline(self.source, session_id), _outline(self.target, session_id)
        own = batches(key for key, _ in mine.messages)
        if theirs[1:] == mine[1:]:
            self.present += 1
        elif theirs.revision > mine.revision or not set(theirs.messages) <= set(mine.messages):
            self.differences.append(f"{session_id} is different in the target and was left unchanged")
        elif any(self.target.fetch(_ELSEWHERE.format(placeholders(some)), (session_id, *some)) for some in own):
            self.differences.append(f"{session_id} has messages that belong to another session in the target")
        else:
            self.written[session_id] = mine
            return True
        return False

    def _write(self, batch: Sequence[str]) -> None:
        with self.target.transaction() as connection:
            for session_id in batch:
                # An earlier copy has fewer messages.
                earlier = connection.execute(
                    "SELECT m.pk FROM messages m JOIN sessions s ON s.pk = m.session WHERE s.id = ?", (session_id,)
                ).fetchall()
                self.target.forget(texts_of(connection, [row[0] for row in earlier]))
                connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
                (row,) = self.source.fetch(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,))
                insert = f"INSERT INTO sessions ({_COLUMNS}) VALUES ({placeholders(row)}) RETURNING pk"
                session = connection.execute(insert, row).fetchone()[0]
                for page in batches(read_rows(self.source.database, session_id, "hash")):
                    pks = next_ids(connection, "messages", "pk")
                    placed = [(pk, seq, each) for pk, (seq, each) in zip(pks, page, strict=False)]
                    bodies = dict(self.source.fetch(_BODIES, (session_id, page[0][0], page[-1][0])))
                    insert_messages(connection, session, placed, bodies)

    def _copy_positions(self, positions: dict[str, Position]) -> int:
        known = self.target.positions()
        new = [each for path, each in positions.items() if path not in known or each.revision > known[path].revision]
        with self.target.transaction() as connection:
            for each in new:
                self.target.save_position(each)
                connection.execute("UPDATE positions SET revision = ? WHERE path = ?", (each.revision, each.path))
        return len(new)


def _outline(store: SQLSessionStore, session_id: str) -> _Outline:
    """The outline of a session; an empty one if the store does not have it."""
    rows = store.fetch(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,))
    if not rows:
        return _Outline(0, (), ())
    revision, _, *facts = rows[0]
    if not facts[-1]:
        del facts[-3:]  # the outcome comes from a profile, which the other store may not have yet
    messages = (
        (row.key, blake2b(repr(row).encode(), digest_size=16).digest())
        for _, row in read_rows(store.database, session_id, "hash")
    )
    return _Outline(revision, tuple(facts), tuple(messages))
