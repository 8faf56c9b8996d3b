"""Profiles in the session store: each is computed once per revision of its session and version of the rules.

A profile, and the text in it (error signatures, quoted instructions), is deleted when its session is deleted or
changes. Its outcome is also written to the session, so that lists of sessions show it; a changed session loses that
outcome too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from warmstart.profile.values import Profile, Profiled
from warmstart.sessions.schema import SESSION_COLUMNS, to_session
from warmstart.sessions.sql_store import SQLSessionStore, where
from warmstart.sessions.store import Filter
from warmstart.storage.database import batches, migrations_of, placeholders

MIGRATIONS = migrations_of("profile", __file__)

_PAGE = 100  # profiles read at a time
_SESSION = ", ".join(f"s.{name.strip()}" for name in SESSION_COLUMNS.split(","))
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Profile).decode


class Stale(NamedTuple):
    """A session without an up-to-date profile, and its revision."""

    session_id: str
    revision: int


class SQLProfileStore:
    """Profiles in the database of a session store. Do not use it after that store is closed."""

    def __init__(self, sessions: SQLSessionStore) -> None:
        self._sessions, self._db = sessions, sessions.database
        self._db.migrate(MIGRATIONS)

    def stale(self, rules: str, filter: Filter = Filter()) -> list[Stale]:  # noqa: B008 - Filter is frozen
        """The sessions without a profile computed with these rules, newest first.

        Their outcome is not known before they are profiled, so a filter by outcome selects all of them.
        """
        condition, values = where(replace(filter, outcome=None, limit=0) if filter.outcome else filter)
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                f"SELECT s.id, s.revision FROM (SELECT * FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit) s "
                "LEFT JOIN profiles p ON p.session = s.pk WHERE coalesce(p.rules, '') <> :rules",
                {**values, "rules": rules},
            ).fetchall()
        return [Stale(*row) for row in rows]

    def save(self, new: Sequence[tuple[Stale, Profile]], rules: str) -> None:
        """Store the profiles of sessions and their outcomes in one write.

        A profile whose session has changed meanwhile is left out.
        """
        with self._sessions.transaction() as connection:
            self._sessions.save_outcomes((*profile.outcome[:2], *session) for session, profile in new)
            connection.executemany(
                "INSERT INTO profiles (session, rules, body) "
                "SELECT pk, ?, compress(?) FROM sessions WHERE id = ? AND revision = ? "
                "ON CONFLICT (session) DO UPDATE SET rules = excluded.rules, body = excluded.body",
                [(rules, _ENCODE(profile).decode(), *session) for session, profile in new],
            )

    def profiles(self, rules: str, filter: Filter = Filter()) -> Iterator[Profiled]:  # noqa: B008 - Filter is frozen
        """The sessions with a profile from these rules, newest first. Memory does not grow with their number."""
        condition, values = where(filter)
        with self._db.translate_errors():
            selected = self._db.connection.execute(
                f"SELECT s.pk FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit",
                values,
            ).fetchall()
        for pks in batches((row[0] for row in selected), _PAGE):
            with self._db.translate_errors():
                rows = self._db.connection.execute(
                    f"SELECT {_SESSION}, decompress(p.body) FROM profiles p JOIN sessions s ON s.pk = p.session "
                    f"WHERE p.session IN ({placeholders(pks)}) AND p.rules = ? "
                    "ORDER BY s.started_at DESC NULLS LAST, s.id",
                    (*pks, rules),
                ).fetchall()
            for *session, body in rows:
                yield Profiled(to_session(session), _DECODE(body))
