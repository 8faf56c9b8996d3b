"""Handoffs in a host: the note for a session after a compaction, and which sessions were compacted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warmstart.config import load_settings
from warmstart.handoff.ledger import Ledger, build_ledger
from warmstart.handoff.packet import PacketWriter
from warmstart.redact.redactor import Redactor, configured_redactor
from warmstart.sessions.marks import END, MARK
from warmstart.sessions.readers.base import Reading, readers
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Session
from warmstart.text.truncate import head_and_tail

MAX_NOTE = 8_900  # characters; Claude Code truncates anything above 10,000

_CHARACTERS = 3  # per token, at least
_MIN_GOAL = 300  # characters
_HEADING = (
    "This conversation was compacted. Here is what the log says about it; quotes are the user's own words. The latest "
    "message of the user wins. Check files before you edit them."
)
_SECTIONS = ("Files", "Tests and build", "Open work", "Files read")


def read_ledger(transcript: str, agent: str, env: Mapping[str, str]) -> tuple[Ledger, Redactor]:
    """The ledger of a session, read from the agent's own log because the store may lag behind."""
    path, settings = Path(transcript), load_settings(env)
    redactor, session, messages = configured_redactor(settings), Session(agent=agent, native_id=path.stem), []
    for owner, message in readers()[agent].read(path, Reading(path)):
        if message and not message.sidechain:
            session = owner
            messages.append(message)
    return build_ledger(session, redacted_messages(messages, redactor), settings.profile_tools), redactor


def note_after_compaction(transcript: str, agent: str, env: Mapping[str, str]) -> str:
    """The constraints, the goal and the files of a session; empty if the user has said nothing.

    Constraints come first and get as much room as they need; of a long goal, the head and the tail are quoted.
    """
    ledger, redactor = read_ledger(transcript, agent, env)
    if not (ledger.requests or ledger.constraints):
        return ""
    writer = PacketWriter(ledger, redactor)
    room = MAX_NOTE - len(f"{MARK} {_HEADING}\n\n{END}") - _MIN_GOAL
    rules = list(writer.constraints())
    shown = 0
    while shown < len(rules) and (room := room - len(rules[shown]) - 1) >= 0:
        shown += 1
    if shown < len(rules):
        rules[shown - 1 :] = [f"({len(rules) - shown + 1} more: `warmstart handoff packet {ledger.session.id}`)"]
    lines = [*rules, head_and_tail("\n".join(writer.goal()), max(room, 0) + _MIN_GOAL)]
    left = (MAX_NOTE - len("\n".join((f"{MARK} {_HEADING}", *lines, END)))) // _CHARACTERS
    for section in writer.sections():
        if section.title in _SECTIONS:
            left = section.fill(left, measure=lambda line: len(line) // _CHARACTERS + 1)
            lines += section.render()
    return redactor.clean("\n".join((f"{MARK} {_HEADING}", *lines, END)))


def find_compacted(store: SQLSessionStore, limit: int) -> list[str]:
    """The newest sessions that were compacted by their agent."""
    query = "SELECT s.id FROM sessions s JOIN messages m ON m.session = s.pk AND m.flags & 1 = 1 GROUP BY s.id"
    return [row[0] for row in store.fetch(f"{query} ORDER BY max(m.at) DESC NULLS LAST, s.id LIMIT ?", (limit,))]
