"""Packets and handoffs in a store.

A packet is not stored but what it was made of, so that it can be made again and goes with its session. A handoff is one
transaction: the child session, its link to the parent, the packet as its first message, and the row that says how the
parent ended. The row is also what is counted, so no handoff is counted without a child, and no session has two.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from warmstart.errors import HandoffRefused, SessionNotFound
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.packet import BUDGET, GitState, Packet, build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.schema import to_time
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Message, Session
from warmstart.storage.database import migrations_of

MIGRATIONS = migrations_of("handoff", __file__)
_SAFE_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_GIT_SECONDS = 3.0
FIRST = "packet"  # ends the id of a child's first message


def read_git(directory: str) -> GitState | None:
    """The state of a working tree; `None` if it is not one. Nothing of the repository is run or changed."""
    questions = ("branch --show-current", "rev-parse --short=12 --verify -q HEAD", "status --porcelain")
    if not directory or not Path(directory).is_dir():
        return None
    try:
        branch, head, status = (
            subprocess.run(  # noqa: S603 - the user's git, in a folder that they work in
                (*_SAFE_GIT, "-C", directory, *question.split()), capture_output=True, timeout=_GIT_SECONDS, check=False
            )
            for question in questions
        )
    except (OSError, subprocess.SubprocessError):
        return None
    name, commit, changes = (one.stdout.decode(errors="replace").rstrip() for one in (branch, head, status))
    return None if status.returncode else GitState(name, commit, tuple(line[3:] for line in changes.splitlines()))


class Handoffs:
    """The packets and handoffs of a store."""

    def __init__(
        self,
        store: SQLSessionStore,
        redactor: Redactor,
        *,
        tools: Mapping[str, str] | None = None,
        max_handoffs: int = 2,
        git: Callable[[str], GitState | None] = read_git,
    ) -> None:
        self.store = store
        self.redactor = redactor
        self._tools = tools
        self._max = max_handoffs
        self._git = git
        store.database.migrate(MIGRATIONS)

    # -- packets

    def ledger(self, session_id: str, messages: int | None = None) -> Ledger:
        """The ledger of a session, with those of the sessions that handed over to it."""
        *before, session = self.ancestors(session_id)
        first = before[0] if before else session
        ledger = Ledger(first, self._tools)
        for one in (*before, session):
            ledger.continue_in(one)
            some = islice(self.store.messages(one.id), messages if one is session else None)
            ledger.extend(redacted_messages(some, self.redactor))
        return ledger

    def packet(self, session_id: str, *, note: str = "", budget_tokens: int = BUDGET) -> Packet:
        """Make the packet of a session. The session itself goes on. Raises `HandoffRefused` if it cannot be made."""
        return self.packet_of(self.ledger(session_id), note=note, budget_tokens=budget_tokens)

    def packet_of(self, ledger: Ledger, *, note: str = "", budget_tokens: int = BUDGET) -> Packet:
        """Make the packet of a ledger whose session is in the store."""
        session, note = self.store.get(ledger.session.id), self.redactor.clean(note)
        pk = self._pk(session.id)
        row = self.store.fetch(
            "SELECT git FROM packets WHERE session = ? AND messages = ? LIMIT 1", (pk, ledger.messages)
        )
        git = _decode_git(row[0][0]) if row else self._git_state(ledger, session)
        packet = self._build(ledger, note=note, budget_tokens=budget_tokens, git=git)
        at = ledger.last.timestamp.timestamp() if ledger.last and ledger.last.timestamp else None
        values = (packet.id, pk, ledger.messages, budget_tokens, note, json.dumps(git), at)
        with self.store.transaction() as connection:
            connection.execute(
                "INSERT INTO packets (id, session, messages, budget, note, git, at) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                values,
            )
        return packet

    def _git_state(self, ledger: Ledger, session: Session) -> GitState:
        """The repository as it is now, or else as the log shows it."""
        read = self._git(session.directory)
        if read:
            return read._replace(dirty=tuple(map(self.redactor.clean, read.dirty)))
        commits = [one.split()[1] for one in ledger.identifiers if one.startswith("commit ")]
        return GitState(session.branch, commits[-1] if commits else "")

    def _build(self, ledger: Ledger, *, note: str, budget_tokens: int, git: GitState) -> Packet:
        number = len(self.ancestors(ledger.session.id))
        return build_packet(
            ledger,
            redactor=self.redactor,
            budget_tokens=budget_tokens,
            note=note,
            git=git,
            chain_number=number,
            chain_max=max(number, self._max + 1),
        )

    def find(self, name: str) -> Packet:
        """The packet with this id or a unique beginning of it, or the newest of a session, made again."""
        rows = self.store.fetch(
            "SELECT s.id, p.messages, p.budget, p.note, p.git FROM packets p JOIN sessions s ON s.pk = p.session "
            "WHERE substr(p.id, 1, length(?1)) = ?1 AND ?1 <> '' LIMIT 2",
            (name,),
        )
        if len(rows) > 1:
            raise HandoffRefused(f"{name!r} fits several packets; `warmstart handoff list` shows them")
        if not rows:
            try:
                return self.packet(name)
            except SessionNotFound as error:
                advice = "`warmstart handoff list` and `warmstart sessions list` show them"
                raise HandoffRefused(f"no packet and no session has the id {name!r}; {advice}") from error
        session_id, messages, budget, note, git = rows[0]
        ledger = self.ledger(session_id, messages)
        return self._build(ledger, note=note, budget_tokens=budget, git=_decode_git(git))

    def resume(self, packet: Packet | str) -> list[dict[str, Any]]:
        """The messages to start a fresh session with."""
        text = packet if isinstance(packet, str) else packet.text
        return [{"role": "user", "content": text}]

    def packets(self, *, limit: int = 0) -> list[dict[str, Any]]:
        """The packets that were made, of the sessions with the newest messages first."""
        names = ("id", "session_id", "messages", "note", "at")
        rows = self.store.fetch(
            "SELECT p.id, s.id, p.messages, p.note, p.at FROM packets p JOIN sessions s ON s.pk = p.session "
            "ORDER BY p.at DESC NULLS LAST, p.id LIMIT ?",
            (limit or 2**62,),
        )
        return [dict(zip(names, (*row[:4], to_time(row[4])), strict=True)) for row in rows]

    # -- chains

    def ancestors(self, session_id: str) -> list[Session]:
        """The sessions that handed over to this one, the first of them first, and the session itself."""
        found = [self.store.get(session_id)]
        while found[0].parent_kind == "handoff" and found[0].parent_id:
            try:
                parent = self.store.get(found[0].parent_id)
            except SessionNotFound:
                break  # it was deleted
            if parent in found:
                break
            found.insert(0, parent)
        return found

    def chain(self, session_id: str) -> list[dict[str, Any]]:
        """The whole chain of a session, from the first to the last: how each ended, with which packet, and when."""
        session = self.ancestors(session_id)[0]
        found: list[dict[str, Any]] = []
        while True:
            child, packet, _, at = self.handoff(session.id) or ("", "", "", None)
            row = {"session_id": session.id, "title": session.title, "end_reason": "handoff" if packet else ""}
            found.append({"number": len(found) + 1, **row, "packet": packet, "at": to_time(at)})
            if not child:
                return found
            session = self.store.get(child)

    def handoff(self, session_id: str) -> tuple[str, str, str, float] | None:
        """The handoff that ended a session: the child, the packet, the digest of the ledger, and the time."""
        rows = self.store.fetch(
            "SELECT h.child, h.packet, h.ledger, h.at FROM handoffs h JOIN sessions s ON s.pk = h.parent "
            "WHERE s.id = ?",
            (session_id,),
        )
        return tuple(rows[0]) if rows else None

    def hand_over(self, ledger: Ledger, packet: Packet, child: Session) -> Session:
        """Create the child session with the packet as its first message, and end the parent, all or nothing.

        Raises `HandoffRefused` if another process has handed the session over.
        """
        parent, now = self.store.get(ledger.session.id), datetime.now(UTC)
        child = replace(child, parent_id=parent.id, parent_kind="handoff", started_at=now, ended_at=now)
        first = Message(
            native_id=f"{child.native_id}#{FIRST}", role="user", text=packet.text, injected=True, timestamp=now
        )
        with self.store.transaction() as connection:
            row = connection.execute(
                "INSERT INTO handoffs (parent, child, packet, ledger, at) SELECT pk, ?, ?, ?, ? FROM sessions "
                "WHERE id = ? ON CONFLICT DO NOTHING RETURNING child",
                (child.id, packet.id, ledger.digest(), time.time(), parent.id),
            ).fetchone()
            if row is None:
                raise HandoffRefused(f"session {parent.id!r} has been handed over; `warmstart handoff chain` shows it")
            if not self.store.append(child, [first]).created:
                raise HandoffRefused(f"a session with the id {child.native_id!r} exists; give the child another id")
            connection.execute("DELETE FROM compressions WHERE session = ?", (parent.id,))
        return self.store.get(child.id)

    # -- compressions

    def compressed(self, session_id: str) -> tuple[int, int, str]:
        """Count a compression; returns how many there were since, how often the user was asked, and the ledger then."""
        with self.store.transaction() as connection:
            row = connection.execute(
                "INSERT INTO compressions (session, count, prompts, ledger) VALUES (?, 1, 0, '') "
                "ON CONFLICT (session) DO UPDATE SET count = compressions.count + 1 RETURNING count, prompts, ledger",
                (session_id,),
            ).fetchone()
        return row[0], row[1], row[2]

    def prompted(self, session_id: str, digest: str) -> None:
        """Note that the user was asked to hand over: compressions count from zero again."""
        with self.store.transaction() as connection:
            connection.execute(
                "UPDATE compressions SET count = 0, prompts = prompts + 1, ledger = ? WHERE session = ?",
                (digest, session_id),
            )

    def _pk(self, session_id: str) -> int:
        return int(self.store.fetch("SELECT pk FROM sessions WHERE id = ?", (session_id,))[0][0])


def _decode_git(text: str) -> GitState:
    branch, head, dirty = json.loads(text)
    return GitState(branch, head, tuple(dirty))
