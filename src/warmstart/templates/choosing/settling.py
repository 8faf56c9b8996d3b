"""What came of the sessions that were started: told by their profiles, as soon as the sessions are in the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from warmstart.errors import SessionNotFound
from warmstart.profile.profiles import profile_of
from warmstart.sessions.bad_sessions import BAD_SESSION, log_skip
from warmstart.sessions.rows import to_time
from warmstart.storage.sql import batches, placeholders
from warmstart.templates.store import SQLTemplateStore

OPEN = 200  # uses that are looked at, the newest that have no outcome
_LATEST = 100  # rows in which a session may have gone on since its outcome was noted


class _Row(NamedTuple):
    number: int
    session: str
    agent: str
    settled_at: float | None


class _Known(NamedTuple):
    id: str
    ended_at: datetime | None


def settle(store: SQLTemplateStore, *, tools: Mapping[str, str] | None = None, limit: int = OPEN) -> int:
    """Note the outcome of sessions that have one by now, with their errors and calls; returns how many that are.

    `tools` is the user's own table of what tools are for. A session whose outcome is unknown stays open. One that went
    on after its outcome was noted is looked at again, unless somebody told the outcome.
    """
    rows = _rows(store, limit)
    known = _known(store, rows)
    settled = 0
    for row in rows:
        session = known.get((row.agent, row.session)) or known.get(("", row.session))
        if session is None or (row.settled_at is not None and not _went_on(session, row.settled_at)):
            continue
        settled += _settled(store, row, session, tools)
    return settled


def _rows(store: SQLTemplateStore, limit: int) -> list[_Row]:
    columns = "SELECT id, session, agent, settled_at FROM template_uses"
    with store.database.translate_errors():
        run = store.database.connection.execute
        rows = run(f"{columns} WHERE settled_at IS NULL ORDER BY at DESC LIMIT ?", (limit,)).fetchall()
        latest = run(
            f"{columns} WHERE id > (SELECT max(id) FROM template_uses) - ? AND settled_at IS NOT NULL "
            "AND policy NOT LIKE '%\"told\"%'",
            (_LATEST,),
        ).fetchall()
    return [_Row(*row) for row in (*rows, *latest)]


def _known(store: SQLTemplateStore, rows: list[_Row]) -> dict[tuple[str, str], _Known]:
    """The sessions of the rows that are in the store, by what a host may have called them."""
    found: dict[tuple[str, str], _Known] = {}
    with store.database.translate_errors():
        for some in batches(sorted({row.session for row in rows if row.session})):
            places = placeholders(some)
            for id, native, agent, ended in store.database.connection.execute(  # noqa: A001
                "SELECT id, native_id, agent, ended_at FROM sessions "
                f"WHERE id IN ({places}) OR native_id IN ({places})",
                [*some, *some],
            ):
                session = _Known(id, to_time(ended))
                for name in (id, native):
                    found[agent, name] = session
                    found.setdefault(("", name), session)
    return found


def _went_on(session: _Known, settled_at: float) -> bool:
    return session.ended_at is not None and session.ended_at.timestamp() > settled_at


def _settled(store: SQLTemplateStore, row: _Row, session: _Known, tools: Mapping[str, str] | None) -> bool:
    try:
        profile = profile_of(store.sessions, store.sessions.get(session.id), tools=tools)
    except (SessionNotFound, StopIteration):
        return False  # another process deleted it
    except BAD_SESSION as error:
        log_skip(session.id, error)
        return False
    if profile.outcome.value == "unknown":
        return False
    with store.database.transaction() as connection:
        connection.execute(
            "UPDATE template_uses SET outcome = ?, errors = ?, calls = ?, settled_at = ? WHERE id = ?",
            (
                profile.outcome.value,
                profile.markers.errors,
                profile.markers.calls,
                store.now().timestamp(),
                row.number,
            ),
        )
    return True
