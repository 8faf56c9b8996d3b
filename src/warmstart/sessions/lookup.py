"""Queries on the session store for search and preflight: sessions in scope, their messages, calls and texts.

Sessions and messages are identified by their row numbers here. What is searched or quoted leaves out injected text,
compaction summaries and system prompts, because nobody said them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from warmstart.sessions.marks import MARK
from warmstart.sessions.tables import IN_PROJECT, to_time
from warmstart.storage.compression import decompress
from warmstart.storage.database import Connection, batches, select_in
from warmstart.text.clean import clean

_MAX_CALL = 8_000  # characters; longer calls write files
_SPOKEN = "m.flags & 3 = 0"  # neither a summary nor injected
# The ancestors of a session, and all their descendants.
_FAMILY = """
    WITH RECURSIVE above (id) AS (
        SELECT s.id FROM sessions s WHERE s.id = :session OR s.native_id = :session
        UNION SELECT s.parent_id FROM above a JOIN sessions s ON s.id = a.id WHERE s.parent_id IS NOT NULL),
    family (id) AS (
        SELECT id FROM above
        UNION SELECT s.id FROM family f JOIN sessions s ON s.parent_id = f.id)
    SELECT s.pk FROM family f JOIN sessions s ON s.id = f.id
"""
# What a tool of ours returned only repeats what another session said. A host may prepend a line.
_NOT_OURS = f"replace(substr(decompress(t.body), 1, 300), '{MARK}', '') = substr(decompress(t.body), 1, 300)"


class Selection(NamedTuple):
    """The sessions in scope: a condition on `sessions s`, and their row numbers (None: all sessions)."""

    condition: str = "true"
    values: Mapping[str, object] = {}
    sessions: Sequence[int] | None = None


class StoredText(NamedTuple):
    """A text of a session: its kind (a role, `reasoning`, or the name of a tool), place, hash and id."""

    kind: str
    seq: int  # of its message
    hash: bytes
    text: int


class Content(NamedTuple):
    """What a session consists of, without its texts themselves."""

    project: str
    title: str
    branch: str
    texts: Sequence[StoredText]


class PassageText(NamedTuple):
    """A text of a turn: its kind (a role, `reasoning`, or the name of a tool), its message, and its date."""

    kind: str
    native_id: str
    date: datetime | None
    body: str

    @property
    def is_message(self) -> bool:
        return self.kind in ("user", "assistant")


class SessionSource(NamedTuple):
    """Where a passage is from; `date` is the start of the session."""

    id: str
    native_id: str
    agent: str
    project: str
    date: datetime | None


class ToolOutput(NamedTuple):
    """What a tool returned, in a message of a session."""

    session: int
    seq: int
    text: PassageText


class SessionLookup:
    """The queries; each method runs one statement per batch."""

    def __init__(self, connection: Connection) -> None:
        self._run = connection.execute
        self._select_in = partial(select_in, connection)

    # -- sessions

    def select(
        self,
        *,
        project: str | None = None,
        agents: Sequence[str] = (),
        since: datetime | None = None,
        exclude_session: str | None = None,
    ) -> Selection:
        """The sessions of a project (a path, or the end of one) and of some agents.

        `exclude_session` is a session id or native id; that session, its ancestors and all their descendants are left
        out.
        """
        terms: list[str] = []
        values: dict[str, object] = {}
        if project is not None:
            terms.append("s.project = :project" if project.startswith("/") else IN_PROJECT)
            values["project"] = clean(project.rstrip("/") or project)
        if agents:
            agents = (agents,) if isinstance(agents, str) else agents
            names = {f"agent{number}": clean(agent) for number, agent in enumerate(agents)}
            terms.append(f"s.agent IN ({', '.join(f':{name}' for name in names)})")
            values |= names
        if since is not None:
            terms.append("s.started_at >= :since")
            values["since"] = since.timestamp()
        if exclude_session:
            family = [int(row[0]) for row in self._run(_FAMILY, {"session": clean(exclude_session)})]
            if family:
                terms.append(f"s.pk NOT IN ({', '.join(map(str, family))})")
        if not terms:
            return Selection()
        condition = " AND ".join(terms)
        rows = self._run(f"SELECT s.pk FROM sessions s WHERE {condition}", values)
        return Selection(condition, values, [row[0] for row in rows])

    def start_range(self) -> tuple[float, float] | None:
        """When the first and the last session started."""
        first, last = self._run(  # a single SELECT with both would scan the whole index
            "SELECT (SELECT min(started_at) FROM sessions), (SELECT max(started_at) FROM sessions)"
        ).fetchone()
        return None if first is None else (first, last)

    def started_between(self, selection: Selection, first: float, last: float, limit: int) -> list[tuple[int, float]]:
        """The newest sessions that started in this interval, each with its start."""
        return self._run(
            "SELECT s.pk, s.started_at FROM sessions s WHERE s.started_at >= :first AND s.started_at < :last "
            f"AND {selection.condition} ORDER BY s.started_at DESC LIMIT :limit",
            {**selection.values, "first": first, "last": last, "limit": limit},
        ).fetchall()

    # -- messages

    def sequence(self, session: int) -> dict[str, int]:
        """The position of every message of a session, by native id."""
        return dict(self._run("SELECT native_id, seq FROM messages WHERE session = ?", (session,)).fetchall())

    def spoken(self, session: int) -> list[tuple[int, str]]:
        """What the user and the assistant said in a session."""
        return self._run(
            "SELECT m.pk, decompress(t.body) FROM messages m JOIN texts t ON t.id = m.text "
            f"WHERE m.session = ? AND m.role IN ('user', 'assistant') AND {_SPOKEN}",
            (session,),
        ).fetchall()

    def positions(self, messages: Iterable[int]) -> list[tuple[int, int]]:
        """The session of each message, and its position there."""
        return list(self._select_in("SELECT session, seq FROM messages WHERE pk IN ({})", messages))

    def spoken_in(self, places: Iterable[tuple[int, int, int, int]]) -> dict[int, int]:
        """What was said in some places: the number of its place, by message.

        A place is a number, a session, and the first and the last position in it.
        """
        numbers: dict[int, int] = {}
        for batch in batches(places):
            rows = self._run(
                f"WITH places (number, session, low, high) AS (VALUES {', '.join(map(str, batch))}) "
                "SELECT m.pk, p.number FROM places p CROSS JOIN messages m WHERE m.session = p.session "
                f"AND m.seq >= p.low AND m.seq <= p.high AND m.role IN ('user', 'assistant') AND {_SPOKEN}"
            )
            numbers.update(rows.fetchall())
        return numbers

    def count_calls(self, session: int, first: int, end: int) -> int:
        """The number of tool calls from one position in a session up to another."""
        row = self._run(
            "SELECT count(*) FROM messages m JOIN tool_calls c ON c.message = m.pk "
            "WHERE m.session = ? AND m.seq >= ? AND m.seq < ?",
            (session, first, end),
        ).fetchone()
        return int(row[0])

    # -- texts

    def content(self, session: int) -> Content:
        """The messages, reasoning and calls of a session in order."""
        row = self._run("SELECT project, title, branch FROM sessions WHERE pk = ?", (session,)).fetchone()
        where = f"WHERE m.session = ?1 AND {_SPOKEN}"
        rows = self._run(
            "SELECT m.seq, -2, m.role, t.hash, t.id FROM messages m JOIN texts t ON t.id = m.text "
            f"{where} AND m.role IN ('user', 'assistant') "
            "UNION ALL SELECT m.seq, -1, 'reasoning', t.hash, t.id FROM messages m "
            f"JOIN texts t ON t.id = m.reasoning {where} "
            "UNION ALL SELECT m.seq, c.position, c.name, t.hash, t.id FROM messages m "
            f"JOIN tool_calls c ON c.message = m.pk JOIN texts t ON t.id = c.arguments {where} ORDER BY 1, 2",
            (session,),
        )
        texts = [StoredText(kind, seq, digest, text) for seq, _, kind, digest, text in rows]
        project, title, branch = row or ("", "", "")
        return Content(project, title, branch, texts)

    def bodies(self, texts: Iterable[int]) -> dict[int, str]:
        """Texts by their ids."""
        rows = self._select_in("SELECT id, body FROM texts WHERE id IN ({})", texts)
        return {text: decompress(body) for text, body in rows}

    def projects(self, selection: Selection) -> set[str]:
        """The projects of the sessions in scope."""
        rows = self._run(f"SELECT DISTINCT s.project FROM sessions s WHERE {selection.condition}", selection.values)
        return {row[0] for row in rows}

    def count_sessions(self) -> int:
        """The number of sessions."""
        return int(self._run("SELECT count(*) FROM sessions").fetchone()[0])

    def sources(self, sessions: Iterable[int]) -> dict[int, SessionSource]:
        """Sessions by their row numbers, if they exist."""
        query = "SELECT pk, id, native_id, agent, project, started_at FROM sessions WHERE pk IN ({})"
        found: dict[int, SessionSource] = {}
        for pk, session_id, native_id, agent, project, at in self._select_in(query, sessions):
            found[pk] = SessionSource(session_id, native_id, agent, project, to_time(at))
        return found

    def passage(self, session: int, first: int, last: int, tools: Iterable[str] = ()) -> list[PassageText]:
        """What was said, thought and called between two positions of a session; `tools` restricts the calls."""
        names = ", ".join(f"'{name}'" for name in sorted(tools))
        where = f"WHERE m.session = ?1 AND m.seq >= ?2 AND m.seq <= ?3 AND {_SPOKEN}"
        rows = self._run(
            "SELECT m.seq, -2, m.role, m.native_id, m.at, t.body FROM messages m JOIN texts t ON t.id = m.text "
            f"{where} AND m.role IN ('user', 'assistant') "
            "UNION ALL SELECT m.seq, -1, 'reasoning', m.native_id, m.at, t.body FROM messages m "
            f"JOIN texts t ON t.id = m.reasoning {where} "
            "UNION ALL SELECT m.seq, c.position, c.name, m.native_id, m.at, t.body FROM messages m "
            f"JOIN tool_calls c ON c.message = m.pk JOIN texts t ON t.id = c.arguments {where} "
            f"{f'AND c.name IN ({names})' if names else ''} ORDER BY 1, 2",
            (session, first, last),
        )
        texts: list[PassageText] = []
        for _, position, kind, name, at, stored in rows:
            body = decompress(stored)
            if position < 0 or len(body) <= _MAX_CALL:
                texts.append(PassageText(kind, name, to_time(at), body))
        return texts

    def containing(self, texts: Iterable[int], part: str) -> list[int]:
        """The texts that contain `part`, ignoring case, newest first."""
        pattern = "%" + re.sub(r"([\\%_])", r"\\\1", part.lower()) + "%"
        query = "SELECT id FROM texts WHERE id IN ({}) AND lower(decompress(body)) LIKE ? ESCAPE '\\'"
        return sorted((row[0] for row in self._select_in(query, texts, pattern)), reverse=True)

    def outputs(self, texts: Iterable[int], selection: Selection, limit: int) -> list[ToolOutput]:
        """What tools in sessions in scope returned, if it is one of these texts; the newest texts first."""
        found: list[ToolOutput] = []
        for batch in batches(sorted(texts, reverse=True)):
            rows = self._run(
                f"SELECT m.session, m.seq, m.native_id, m.at, t.body FROM texts t "
                f"JOIN tool_results r ON r.text = t.id AND {_NOT_OURS} "
                f"JOIN messages m ON m.pk = r.message AND {_SPOKEN} JOIN sessions s ON s.pk = m.session "
                f"WHERE t.id IN ({', '.join(map(str, batch))}) AND {selection.condition} "
                f"ORDER BY t.id DESC, m.pk DESC LIMIT {limit - len(found)}",
                selection.values,
            )
            for session, seq, native_id, at, body in rows.fetchall():
                found.append(ToolOutput(session, seq, PassageText("tool", native_id, to_time(at), decompress(body))))
        return found
