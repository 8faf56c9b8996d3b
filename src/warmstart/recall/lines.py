"""What of a session is indexed: what people and agents said, and what agents thought, changed, ran and looked up.

Left out are the output of tools, system prompts, and what a machine put into a person's mouth (injected text, the
summary of a compaction): nobody said it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from warmstart.profile.tasks import SHELLS
from warmstart.recall.packing import FIELDS, SAID
from warmstart.recall.preparing import prepared, prepared_arguments
from warmstart.sessions.appending import chunks, marks
from warmstart.storage.database import Connection

USER, ASSISTANT, REASONING, EDITS, COMMANDS, LOOKUPS = range(len(FIELDS))
SPOKEN = "m.flags & 3 = 0"  # neither a summary nor injected

_EDIT = re.compile(r"edit|write(?!_(?:stdin|bash|powershell|todo))|patch|replace|create|insert", re.IGNORECASE)
_LOOKUP = re.compile(r"read|grep|glob|search|fetch|view|list|find|^ls$|query|browse", re.IGNORECASE)
_PLAN = re.compile(r"todo|plan|task|question|ask_user|skill", re.IGNORECASE)
_TRUNKS = ("", "main", "master", "HEAD")


class Line(NamedTuple):
    """A line to be: its field, the message it is from (0 for the session itself), and the hash of its text."""

    field: int
    message: int
    hash: int
    text: int  # the id of the text; 0 where `body` is given
    body: str = ""

    @property
    def key(self) -> tuple[bool, int, int]:
        """What makes it the same line."""
        return self.field >= SAID, self.message, self.hash


def field_of(tool: str) -> int | None:
    """Where the arguments of a tool belong; plans and questions belong nowhere."""
    if tool in SHELLS:
        return COMMANDS
    if _PLAN.search(tool):
        return None
    if _EDIT.search(tool):
        return EDITS
    return LOOKUPS if _LOOKUP.search(tool) else None


def lines_of(connection: Connection, session: int) -> list[Line]:
    """The lines of a session, those that were said first, each kind in order."""
    said = connection.execute(
        "SELECT m.role, m.pk, t.hash, t.id FROM messages m JOIN texts t ON t.id = m.text "
        f"WHERE m.session = ? AND m.role IN ('user', 'assistant') AND {SPOKEN} ORDER BY m.seq",
        (session,),
    )
    roles = {"user": USER, "assistant": ASSISTANT}
    lines = [Line(roles[role], message, short(key), text) for role, message, key, text in said]
    return [*lines, *_facts(connection, session), *_deeds(connection, session)]


def _deeds(connection: Connection, session: int) -> list[Line]:
    found = [
        (seq, -1, Line(REASONING, message, short(key), text))
        for seq, message, key, text in connection.execute(
            "SELECT m.seq, m.pk, t.hash, t.id FROM messages m JOIN texts t ON t.id = m.reasoning "
            f"WHERE m.session = ? AND {SPOKEN} ORDER BY m.seq",
            (session,),
        )
    ]
    for seq, position, name, message, key, text in connection.execute(
        "SELECT m.seq, c.position, c.name, m.pk, t.hash, t.id FROM messages m JOIN tool_calls c ON c.message = m.pk "
        f"JOIN texts t ON t.id = c.arguments WHERE m.session = ? AND {SPOKEN} ORDER BY m.seq, c.position",
        (session,),
    ):
        if (field := field_of(name)) is not None:
            found.append((seq, position, Line(field, message, short(key), text)))
    return [line for _, _, line in sorted(found)]


def _facts(connection: Connection, session: int) -> Iterator[Line]:
    """The title and the branch, which often say in a few words what a session is about."""
    row = connection.execute("SELECT title, branch FROM sessions WHERE pk = ?", (session,)).fetchone()
    title, branch = row or ("", "")
    for fact in (title, "" if branch in _TRUNKS else branch.split("/", 1)[-1]):
        if fact:
            yield Line(COMMANDS, 0, short(blake2b(fact.encode("utf-8", "replace"), digest_size=8).digest()), 0, fact)


def bodies_of(connection: Connection, lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """The lines with their texts as they are indexed."""
    bodies: dict[int, str] = {}
    for some in chunks(list({line.text for line in lines if line.text})):
        bodies.update(connection.execute(f"SELECT id, body FROM texts WHERE id IN ({marks(some)})", some))
    for line in lines:
        body = line.body or bodies.get(line.text, "")
        yield line, prepared(body) if line.field <= REASONING else prepared_arguments(body)


def short(hash: bytes) -> int:
    """The beginning of a hash as a number that databases can hold."""
    return int.from_bytes(bytes(hash[:8]), "big", signed=True)
