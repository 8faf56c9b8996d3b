"""Which sessions were revoked: nothing may be taken from them, nor from any session that grew out of one."""

from __future__ import annotations

from collections.abc import Iterable

from warmstart.storage.database import Connection
from warmstart.storage.sql import batches, placeholders


def revoked_in(connection: Connection) -> frozenset[str]:
    """The sessions that were revoked, and their children by now."""
    rows = connection.execute("SELECT session FROM template_revoked").fetchall()
    return frozenset(family_of(connection, [row[0] for row in rows]))


def family_of(connection: Connection, sessions: Iterable[str]) -> list[str]:
    """The sessions and all that grew out of them, each once."""
    found: dict[str, None] = {}
    newest = list(sessions)
    while newest:
        found.update(dict.fromkeys(newest))
        children = [
            row[0]
            for some in batches(newest)
            for row in connection.execute(f"SELECT id FROM sessions WHERE parent_id IN ({placeholders(some)})", some)
        ]
        newest = [child for child in children if child not in found]
    return list(found)
