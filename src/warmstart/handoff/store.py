"""Packets and handoffs in a store.

The store keeps the inputs of a packet, not its text: it is rebuilt when needed, and deleted with its session. A handoff
is one transaction: the child session, its link to the parent, the packet as its first message, and a row that says how
the parent ended. These rows are what is counted: no handoff counts without a child, and no session has two.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.errors import HandoffRefused, SessionNotFound
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.packet import BUDGET, Compressed, GitState, Packet, build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import PACKET
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.tables import to_time
from warmstart.sessions.values import Message, Session
from warmstart.storage.database import Connection, migrations_of, placeholders

MIGRATIONS = migrations_of("handoff", __file__)
_TITLE = re.compile(rf"{re.escape(PACKET)}(\w+)")
_SAFE_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_GIT_SECONDS = 3.0
_WORDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10, "?": 1}  # in the lines of `git status`, by how they begin
_CONTINUES = {"handoff": "handoff", "compaction": "compression"}  # parent kind to how the parent ended
_MAX_CHAIN = 100
_MAX_OPENING = 7  # messages at the start of a session, where a packet may be
_PACKETS = "FROM packets p JOIN sessions s ON s.pk = p.session"


class Handoff(NamedTuple):
    """An automatic handoff: the child, the packet, and the digest of the ledger."""

    child: str
    packet: str
    ledger: str


class Compressions(NamedTuple):
    """How often a conversation was compressed, how often the user was asked to hand over, and the ledger then."""

    times: int
    prompts: int
    ledger: str


def read_git(directory: str) -> GitState | None:
    """The state of a working tree; `None` if it is not one. Runs no hook and changes nothing in the repository."""
    if not directory or not Path(directory).is_dir():
        return None
    words = (*_SAFE_GIT, "-C", directory, "status", "--porcelain=v2", "--branch")
    try:
        done = subprocess.run(words, capture_output=True, timeout=_GIT_SECONDS, check=True)  # noqa: S603 - the user's git
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    facts = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("# "))
    branch, head = (facts.get(name, "(") for name in ("branch.head", "branch.oid"))  # `(detached)`, `(initial)`
    dirty = (line.split(" ", places)[-1] for line in lines if (places := _WORDS_BEFORE_PATH.get(line[:1])))
    return GitState("" if branch[0] == "(" else branch, "" if head[0] == "(" else head[:12], tuple(dirty))


class Handoffs:
    """The packets and handoffs of a store."""

    def __init__(
        self, store: SQLSessionStore, redactor: Redactor, *, tools: Mapping[str, str], max_handoffs: int
    ) -> None:
        self.store = store
        self.redactor = redactor
        self._tools = tools
        self._max = max_handoffs
        store.database.migrate(MIGRATIONS)

    # -- packets

    def ledger(self, session_id: str, messages: int | None = None) -> Ledger:
        """The ledger of a session, including the sessions that handed over to it."""
        sessions = self.ancestors(session_id)
        ledger = Ledger(sessions[0], self._tools)
        for session in sessions:
            ledger.continue_in(session)
            some = islice(self.store.messages(session.id), messages if session is sessions[-1] else None)
            ledger.extend(redacted_messages(some, self.redactor))
        return ledger

    def packet(self, session_id: str, *, note: str = "", budget_tokens: int = BUDGET) -> Packet:
        """Make the packet of a session without ending it. Raises `HandoffRefused` if it cannot be made."""
        return self.packet_of(self.ledger(session_id), note=note, budget_tokens=budget_tokens)

    def packet_of(self, ledger: Ledger, *, note: str = "", budget_tokens: int = BUDGET) -> Packet:
        """Make the packet of a ledger whose session is in the store."""
        session, note = self.store.get(ledger.session.id), self.redactor.clean(note)
        key = (session.id, ledger.messages)
        sql = f"SELECT p.git, p.compressed {_PACKETS} WHERE s.id = ? AND p.messages = ? LIMIT 1"
        if rows := self.store.fetch(sql, key):
            git, compressed = _read_state(*rows[0])
        else:
            git, compressed = self._git_state(ledger, session), self._compressed(ledger)
        packet = self._build(ledger, note, budget_tokens, git, compressed)
        at = ledger.last.timestamp.timestamp() if ledger.last and ledger.last.timestamp else None
        with self.store.transaction() as connection:
            connection.execute(
                "INSERT INTO packets (id, session, messages, budget, note, git, compressed, at) "
                "SELECT ?, pk, ?, ?, ?, ?, ?, ? FROM sessions WHERE id = ? ON CONFLICT DO NOTHING",
                (packet.id, *key[1:], budget_tokens, note, json.dumps(git), json.dumps(compressed), at, session.id),
            )
        return packet

    def _git_state(self, ledger: Ledger, session: Session) -> GitState:
        """The repository as it is now, or else as the log shows it."""
        if read := read_git(session.directory):
            return read._replace(dirty=tuple(map(self.redactor.clean, read.dirty)))
        commits = [one.split()[1] for one in ledger.identifiers if one.startswith("commit ")]
        return GitState(session.branch, commits[-1] if commits else "")

    def _compressed(self, ledger: Ledger) -> Compressed:
        """How often the context was compressed: as counted when it was, or as the messages show."""
        sql = "SELECT total, at FROM compressions WHERE session = ? AND total >= ?"
        if rows := self.store.fetch(sql, (self._conversation(ledger.session.id), max(1, ledger.compressions))):
            return Compressed(*rows[0])
        return Compressed(ledger.compressions, ledger.compressed_at.timestamp() if ledger.compressed_at else None)

    def _build(self, ledger: Ledger, note: str, budget: int, git: GitState, compressed: Compressed) -> Packet:
        number = 1 + sum(one.parent_kind == "handoff" for one in self.ancestors(ledger.session.id)[1:])
        options: dict[str, Any] = {"chain_number": number, "chain_max": max(number, self._max + 1)}
        options |= {"note": note, "git": git, "compressed": compressed}
        return build_packet(ledger, redactor=self.redactor, budget_tokens=budget, **options)

    def find(self, name: str) -> Packet:
        """Rebuild the packet with this id or unique prefix, or make one for the session with this id."""
        rows = self.store.fetch(
            f"SELECT s.id, p.messages, p.budget, p.note, p.git, p.compressed {_PACKETS} "
            "WHERE substr(p.id, 1, length(?1)) = ?1 AND ?1 <> '' LIMIT 2",
            (name,),
        )
        if len(rows) > 1:
            raise HandoffRefused(f"{name!r} matches several packets; `warmstart handoff list` shows them")
        if not rows:
            try:
                return self.packet(name)
            except SessionNotFound as error:
                advice = "`warmstart handoff list` and `warmstart sessions list` show them"
                raise HandoffRefused(f"no packet and no session has the id {name!r}; {advice}") from error
        session_id, messages, budget, note, *state = rows[0]
        return self._build(self.ledger(session_id, messages), note, budget, *_read_state(*state))

    def packets(self) -> list[dict[str, Any]]:
        """All packets, newest first by the last message of their session."""
        columns = "p.id, s.id, p.messages, p.note, p.at"
        rows = self.store.fetch(f"SELECT {columns} {_PACKETS} ORDER BY p.at DESC NULLS LAST, p.id")
        names = ("id", "session_id", "messages", "note", "at")
        return [dict(zip(names, (*row[:4], to_time(row[4])), strict=True)) for row in rows]

    # -- chains

    def ancestors(self, session_id: str) -> list[Session]:
        """The sessions that this one continues, oldest first, and the session itself."""
        found = [self.store.get(session_id)]
        while found[0].parent_kind in _CONTINUES and found[0].parent_id:
            try:
                parent = self.store.get(found[0].parent_id)
            except SessionNotFound:
                break  # it was deleted
            if parent in found:
                break
            found.insert(0, parent)
        return found

    def chain(self, session_id: str) -> list[dict[str, Any]]:
        """The whole chain of a session, oldest first: how each one ended, with which packet, and when."""
        sessions = self.ancestors(session_id)
        child_of = "SELECT id FROM sessions WHERE parent_id = ? AND parent_kind IN ('handoff', 'compaction')"
        first = f"{child_of} ORDER BY started_at, id LIMIT 1"
        while len(sessions) < _MAX_CHAIN and (rows := self.store.fetch(first, (sessions[-1].id,))):
            sessions.append(self.store.get(rows[0][0]))
        found: list[dict[str, Any]] = []
        for number, (session, child) in enumerate(zip(sessions, [*sessions[1:], None], strict=True), 1):
            row = {"number": number, "session_id": session.id, "title": session.title}
            reason = _CONTINUES[str(child.parent_kind)] if child else ""
            packet, at = (self._opening_packet(child.id), child.started_at) if child else ("", None)
            found.append({**row, "end_reason": reason, "packet": packet, "at": at})
        return found

    def handoff(self, session_id: str) -> Handoff | None:
        """The automatic handoff that ended a session."""
        sql = "SELECT h.child, h.packet, h.ledger FROM handoffs h JOIN sessions s ON s.pk = h.parent WHERE s.id = ?"
        rows = self.store.fetch(sql, (session_id,))
        return Handoff(*rows[0]) if rows else None

    def automatic(self, session_id: str) -> list[Handoff]:
        """The automatic handoffs that led to a session, oldest first."""
        ids = [session.id for session in self.ancestors(session_id)]
        sql = f"SELECT child, packet, ledger FROM handoffs WHERE child IN ({placeholders(ids)}) ORDER BY at"
        return [Handoff(*row) for row in self.store.fetch(sql, ids)]

    # -- sessions that were started with a packet

    def link_sessions(self) -> None:
        """Link each session that began with a packet to the session of the packet, if both are in the same project.

        If the agent itself created the session at a compression, it counts as an automatic handoff.
        """
        first = self.store.fetch("SELECT min(coalesce(at, 0)) FROM packets")[0][0]
        opened = {} if first is None else self.store.opened_with(PACKET, within=_MAX_OPENING, since=first)
        for child_id, opening in opened.items():
            child, packet = self.store.get(child_id), _packet_in(opening)
            if child.parent_kind in ("handoff", "subagent"):
                continue
            parent = self.store.fetch(
                f"SELECT p.messages, s.id {_PACKETS} "
                "JOIN sessions c ON c.project = s.project AND c.id <> s.id WHERE p.id = ? AND c.id = ?",
                (packet, child_id),
            )
            if not parent or child_id in [one.id for one in self.ancestors(parent[0][1])]:
                continue  # a packet of another project, or of a session that comes later
            messages, parent_id = parent[0]
            digest = self.ledger(parent_id, messages).digest() if child.parent_kind == "compaction" else ""
            with self.store.transaction() as connection:
                self.store.set_parent(child_id, parent_id, "handoff")
                if digest:
                    self._end(connection, parent_id, Handoff(child_id, packet, digest))

    def _opening_packet(self, session_id: str) -> str:
        """The id of the packet that a session began with."""
        opening = islice(self.store.messages(session_id), _MAX_OPENING)
        return next(filter(None, (_packet_in(message.text) for message in opening if message.role == "user")), "")

    def _end(self, connection: Connection, parent_id: str, handoff: Handoff) -> bool:
        """Record how a session ended; false if that is already recorded."""
        connection.execute("DELETE FROM compressions WHERE session = ?", (self._conversation(parent_id),))
        row = connection.execute(
            "INSERT INTO handoffs (parent, child, packet, ledger, at) SELECT pk, ?, ?, ?, ? FROM sessions "
            "WHERE id = ? ON CONFLICT DO NOTHING RETURNING child",
            (*handoff, time.time(), parent_id),
        ).fetchone()
        return row is not None

    def hand_over(self, ledger: Ledger, packet: Packet, child: Session) -> Session:
        """Create the child session with the packet as its first message, and end the parent, in one transaction.

        Raises `HandoffRefused` if another process has handed the session over.
        """
        parent, now = self.store.get(ledger.session.id), datetime.now(UTC)
        child = replace(child, parent_id=parent.id, parent_kind="handoff", started_at=now, ended_at=now)
        name = f"{child.native_id}#packet"
        first = Message(native_id=name, role="user", text=packet.text, injected=True, timestamp=now)
        with self.store.transaction() as connection:
            if not self._end(connection, parent.id, Handoff(child.id, packet.id, ledger.digest())):
                raise HandoffRefused(f"session {parent.id!r} is already handed over; see `warmstart handoff chain`")
            if not self.store.append(child, [first]).created:
                raise HandoffRefused(f"a session with the id {child.native_id!r} exists; give the child another id")
        return self.store.get(child.id)

    # -- compressions

    def compressions(self, session_id: str, new: int = 0) -> Compressions:
        """Count `new` compressions; return those since the last handoff or the last time the user was asked."""
        with self.store.transaction() as connection:
            row = connection.execute(
                "INSERT INTO compressions (session, count, prompts, ledger) VALUES (?1, ?2, 0, '') "
                "ON CONFLICT (session) DO UPDATE SET count = compressions.count + ?2 RETURNING count, prompts, ledger",
                (self._conversation(session_id), new),
            ).fetchone()
        return Compressions(*row)

    def compressed(self, session_id: str) -> None:
        """Record a compression for the packets of this conversation, whether or not it is handed over."""
        with self.store.transaction() as connection:
            connection.execute(
                "INSERT INTO compressions (session, count, prompts, ledger, total, at) VALUES (?1, 0, 0, '', 1, ?2) "
                "ON CONFLICT (session) DO UPDATE SET total = compressions.total + 1, at = excluded.at",
                (self._conversation(session_id), time.time()),
            )

    def prompted(self, session_id: str, digest: str) -> None:
        """Record that the user was asked to hand over, and reset the count of compressions."""
        sql = "UPDATE compressions SET count = 0, prompts = prompts + 1, ledger = ? WHERE session = ?"
        with self.store.transaction() as connection:
            connection.execute(sql, (digest, self._conversation(session_id)))

    def _conversation(self, session_id: str) -> str:
        """The first session of a conversation: some agents start a new one at every compression."""
        sessions = self.ancestors(session_id)
        return next((one.id for one in reversed(sessions) if one.parent_kind == "handoff"), sessions[0].id)


def _read_state(git: str, compressed: str) -> tuple[GitState, Compressed]:
    """What the row of a packet says about the repository and the context."""
    return GitState(*json.loads(git)), Compressed(*json.loads(compressed or "[]"))


def _packet_in(text: str) -> str:
    """The id of the packet in a message."""
    found = _TITLE.search(text)
    return found[1] if found else ""
