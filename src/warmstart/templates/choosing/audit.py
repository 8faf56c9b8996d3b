"""What the rows of the audit say: how a session started and why, in words, and what came of it."""

from __future__ import annotations

from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.values import clean
from warmstart.templates.choosing.recording import encode_policy, names_of, record, started, uses, uses_of
from warmstart.templates.choosing.settling import settle
from warmstart.templates.choosing.values import Told, Use
from warmstart.templates.store import SQLTemplateStore

__all__ = ["names_of", "outcome", "record", "settle", "started", "uses", "why"]


def why(store: SQLTemplateStore, session: str) -> list[Use]:
    """How a session started and why: none where no start was recorded.

    The session is named by its id, the agent's own id, or a unique beginning of either. Raises `SessionNotFound` for
    one of which nothing at all is known.
    """
    given = clean(session)
    found = uses_of(store, names_of(store, given))
    if not found and given:
        with store.database.translate_errors():
            rows = store.database.connection.execute(
                "SELECT DISTINCT session FROM template_uses WHERE substr(session, 1, length(?1)) = ?1 LIMIT 2", (given,)
            ).fetchall()
        if len(rows) > 1:
            raise AmbiguousId(f"{session!r} fits several sessions: {rows[0][0]}, {rows[1][0]}; give more of the id")
        found = uses_of(store, {rows[0][0]}) if rows else []
    if not found:
        known = store.sessions.get(session)
        found = uses_of(store, {known.id, known.native_id})
    return found


def outcome(store: SQLTemplateStore, session: str, came_to: Told) -> Use:
    """Take a host's or a person's word for how a session ended; no profile overrides it."""
    found = why(store, session)
    if not found:
        raise SessionNotFound(
            f"no start of the session {session!r} is on record; `warmstart templates why {session}` tells what is"
        )
    with store.database.transaction() as connection:
        for use in found:
            connection.execute(
                "UPDATE template_uses SET outcome = ?, settled_at = ?, policy = ? WHERE id = ?",
                (came_to, store.now().timestamp(), encode_policy({**use.policy, "told": True}), use.id),
            )
    return why(store, found[0].session)[0]
