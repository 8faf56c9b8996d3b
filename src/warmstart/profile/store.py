"""Profiles kept in the session store, so that each is computed once per session and version of the rules.

A profile goes with its session, and as soon as its session changes: then the table has no row for it any more, and
whatever text it held (error signatures, a quoted instruction) is gone with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from warmstart.profile.values import Profile, Profiled
from warmstart.sessions.filtering import where
from warmstart.sessions.rows import SESSION_COLUMNS, to_session
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.storage.database import Connection, Migration
from warmstart.storage.tenants import COLUMN, keep_apart

_PAGE = 100
_SESSION = ", ".join(f"s.{name.strip()}" for name in SESSION_COLUMNS.split(","))
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Profile).decode


class Stale(NamedTuple):
    """A session without an up-to-date profile, as of which revision of it."""

    session_id: str
    revision: int


class Kept(NamedTuple):
    """A profile to keep, and the revision of the session that it was made from."""

    session_id: str
    revision: int
    profile: Profile


class ProfileStore(Protocol):
    """Keeps profiles beside their sessions."""

    def stale(self, rules: str, filter: Filter = ...) -> list[Stale]:
        """The sessions that have no profile made by these rules, newest first."""
        ...

    def keep(self, profiles: Iterable[Kept], rules: str) -> None:
        """Keep profiles, in one write. One whose session changed meanwhile is left out."""
        ...

    def profiles(self, rules: str, filter: Filter = ...) -> Iterator[Profiled]:
        """The sessions that have a profile made by these rules, newest first. Memory does not grow with them."""
        ...


def _create_tables(connection: Connection) -> None:
    connection.execute(
        "CREATE TABLE profiles (session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE, "
        "rules TEXT NOT NULL, body TEXT NOT NULL)"
    )
    # A session that is met again without news is written all the same, with the revision it had.
    connection.execute(
        "CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions WHEN new.revision <> old.revision BEGIN "
        "DELETE FROM profiles WHERE session = new.pk; END"
    )


def _create_tables_in_postgres(connection: Connection) -> None:
    connection.execute(
        f"CREATE TABLE profiles ({COLUMN}, session BIGINT NOT NULL, rules TEXT NOT NULL, body TEXT NOT NULL, "
        "PRIMARY KEY (tenant, session), "
        "FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE)"
    )
    keep_apart(connection, "profiles")
    connection.execute(
        "CREATE FUNCTION warmstart_outdate_profile() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN DELETE FROM profiles WHERE tenant = new.tenant AND session = new.pk; RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions "
        "FOR EACH ROW WHEN (new.revision <> old.revision) EXECUTE FUNCTION warmstart_outdate_profile()"
    )


MIGRATIONS = (Migration("profile/0001_tables", _create_tables, postgres=_create_tables_in_postgres),)


class SQLProfileStore:
    """Profiles in the database of a session store. Implements `ProfileStore`; lives as long as that store."""

    def __init__(self, sessions: SQLSessionStore) -> None:
        self._db = sessions.database
        self._db.migrate(MIGRATIONS)

    def stale(self, rules: str, filter: Filter = Filter()) -> list[Stale]:  # noqa: B008 - Filter is frozen
        condition, values = where(filter)
        with self._db.translated():
            rows = self._db.connection.execute(
                f"SELECT s.id, s.revision FROM (SELECT * FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit) s "
                "LEFT JOIN profiles p ON p.session = s.pk WHERE coalesce(p.rules, '') <> :rules",
                {**values, "rules": rules},
            ).fetchall()
        return [Stale(*row) for row in rows]

    def keep(self, profiles: Iterable[Kept], rules: str) -> None:
        rows = [(rules, _ENCODE(kept.profile).decode(), kept.session_id, kept.revision) for kept in profiles]
        with self._db.transaction() as connection:
            connection.executemany(
                "INSERT INTO profiles (session, rules, body) "
                "SELECT pk, ?, ? FROM sessions WHERE id = ? AND revision = ? "
                "ON CONFLICT (session) DO UPDATE SET rules = excluded.rules, body = excluded.body",
                rows,
            )

    def profiles(self, rules: str, filter: Filter = Filter()) -> Iterator[Profiled]:  # noqa: B008 - Filter is frozen
        condition, values = where(filter)
        with self._db.translated():
            chosen = self._db.connection.execute(
                f"SELECT s.pk FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit",
                values,
            ).fetchall()
        for first in range(0, len(chosen), _PAGE):
            pks = [row[0] for row in chosen[first : first + _PAGE]]
            with self._db.translated():
                rows = self._db.connection.execute(
                    f"SELECT {_SESSION}, p.body FROM profiles p JOIN sessions s ON s.pk = p.session "
                    f"WHERE p.session IN ({','.join('?' * len(pks))}) AND p.rules = ? "
                    "ORDER BY s.started_at DESC NULLS LAST, s.id",
                    (*pks, rules),
                ).fetchall()
            for *session, body in rows:
                yield Profiled(to_session(session), _DECODE(body))
