"""The items of stored sessions: extracted once per revision of a session and version of the rules, like profiles."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from warmstart.errors import SessionNotFound
from warmstart.profile.profiler import Profiler, Progress
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import BAD_SESSION, SQLSessionStore, log_skip, where
from warmstart.sessions.store import Filter
from warmstart.storage.database import migrations_of
from warmstart.templates.extract import ITEM_RULES, extract_items
from warmstart.templates.item import SessionItems

_ALL = Filter()
_BATCH = 50  # sessions whose items are written together
_ENCODE = msgspec.json.Encoder().encode
_DECODE = lru_cache(maxsize=256)(msgspec.json.Decoder(SessionItems).decode)  # most are unchanged on the next call


class ItemStore:
    """The items in the database of a session store. Valid as long as that store is open."""

    def __init__(
        self, sessions: SQLSessionStore, *, redactor: Redactor | None = None, profiler: Profiler | None = None
    ) -> None:
        self._sessions = sessions
        self._db = sessions.database
        self._redactor = redactor or Redactor()
        self._profiler = profiler or Profiler()
        self._rules = f"{ITEM_RULES}/{self._profiler.rules}"
        self._db.migrate(migrations_of("templates", __file__))

    def update(self, filter: Filter = _ALL, *, progress: Progress | None = None) -> int:
        """Extract the items of new and changed sessions; returns how many there were."""
        condition, values = where(filter)
        with self._db.translate_errors():
            stale = self._db.connection.execute(
                "SELECT s.id, s.revision FROM sessions s LEFT JOIN session_items i ON i.session = s.pk "
                f"WHERE {condition} AND coalesce(i.rules, '') <> :rules ORDER BY s.pk LIMIT :limit",
                {**values, "rules": self._rules},
            ).fetchall()
        batch: list[tuple[str, str, str, int]] = []
        for number, (session_id, revision) in enumerate(stale, 1):
            try:
                session, messages = self._sessions.get(session_id), list(self._sessions.messages(session_id))
                steps = self._profiler.steps(session, messages)
                items = extract_items(session, messages, steps, redactor=self._redactor)
            except SessionNotFound:
                continue  # another process deleted it
            except BAD_SESSION as error:
                log_skip(session_id, error)
                continue
            batch.append((self._rules, _ENCODE(items).decode(), session_id, revision))
            if len(batch) >= _BATCH or number == len(stale):
                self._save(batch)
                batch = []
            if progress:
                progress(number, len(stale))
        self._save(batch)
        return len(stale)

    def _save(self, rows: list[tuple[str, str, str, int]]) -> None:
        if rows:
            with self._db.transaction() as connection:
                connection.executemany(
                    "INSERT INTO session_items (session, rules, body) "
                    "SELECT pk, ?, compress(?) FROM sessions WHERE id = ? AND revision = ? "
                    "ON CONFLICT (session) DO UPDATE SET rules = excluded.rules, body = excluded.body",
                    rows,
                )

    def items(self, filter: Filter = _ALL) -> list[SessionItems]:
        """The items of the selected sessions that were not revoked, newest first. Call `update` first."""
        condition, values = where(filter)
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                "SELECT decompress(i.body) FROM session_items i JOIN sessions s ON s.pk = i.session "
                f"WHERE {condition} AND i.rules = :rules AND s.id NOT IN (SELECT session FROM template_revoked) "
                "ORDER BY s.ended_at DESC NULLS LAST, s.id LIMIT :limit",
                {**values, "rules": self._rules},
            ).fetchall()
        return [_DECODE(body) for (body,) in rows]
