"""The preflight block: read what you have before you act. A hook loads this, so it imports little."""

from __future__ import annotations

_SHORT = """\
[warmstart] Before you act, read what you already have: your instructions, memory, skills and this conversation. If the
answer is there, use it. Only then call tools. Go straight to tools for direct commands, facts that change with time,
edits, explicit checks and first-turn set-up. If you called a tool before reading, stop and read first.
[/warmstart]"""
_FULL = """\
[warmstart] Before you act:
1. Read what you already have: who you are and how to behave, the memory and the user's profile, the list of skills, the
project's instruction files, the notes from earlier sessions, and this conversation.
2. If that answers the request, answer from it, and say where it is from. Do not search for what you can already see.
3. If a part is missing, use tools for that part only. Prefer the file, command or skill that the notes name.
4. Go straight to tools for direct commands ("run the tests"), for facts that change with time (the state of the
repository, CI, versions, the date), for edits, for explicit checks ("look again"), and for set-up in the first turn.
5. Notes from earlier sessions may be outdated: check a file or command that they name before you rely on it. The user's
latest message always wins.
6. If you notice that you called a tool before reading, stop, read, and continue from what you know.
[/warmstart]"""


def block(mode: str) -> str:
    """The block in one of its lengths, `short` or `full`; nothing for `off`."""
    return {"short": _SHORT, "full": _FULL}.get(mode, "")
