"""Who wrote an entry, and where it may be shown. Hooks load this module, so it imports little.

An entry of the user is shown as the user's, in every project or in the one it is about. What an agent stored through
the tool is a note: it is kept apart from the user's entries and shown only in the project that it was stored from.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The names in metadata that backends understand, with those in `values`; all others belong to the caller.
SCOPE = "scope"  # `user`, `project` or `agent`; `user` if missing
PROJECT = "project"  # which project, for the scope `project`
AGENT = "agent"  # which agent, for the scope `agent`
SOURCE = "source"  # where it came from: a file, a tool, a person
AUTHOR = "author"  # who wrote it: `user`, or the name of an agent
CANDIDATE = "candidate"  # true for a sentence of the user that a hook stored, until the user keeps it

USER = "user"  # the author of the user's own entries
UNKNOWN_AGENT = "agent"
NOTE = "note"  # the places of agents' notes and of candidates
NOTES = f"{NOTE}:"  # how these places begin
NO_PROJECT = "(unknown)"  # where notes go if the project is not known; no session is in it
COMMAND_LINE = "command line"  # the source of `warmstart memory set`


def author_of(metadata: Mapping[str, Any]) -> str:
    """Who wrote an entry. Entries of earlier versions name no author; only those of the command line are the user's."""
    author = metadata.get(AUTHOR)
    if author:
        return str(author)
    return USER if metadata.get(SOURCE) == COMMAND_LINE else UNKNOWN_AGENT


def place_of(metadata: Mapping[str, Any]) -> str:
    """The scope as one text: empty for the user scope, else `project:NAME`, `agent:NAME` or `note:PROJECT`.

    What names a project and was written by an agent is a note of that project, whatever scope the agent asked for.
    """
    project, scope = metadata.get(PROJECT), metadata.get(SCOPE)
    if project and (metadata.get(AUTHOR, USER) != USER or metadata.get(CANDIDATE)):
        return f"{NOTES}{project}"
    return f"{scope}:{metadata.get(scope, '')}" if scope in (PROJECT, AGENT) else ""


def is_note(metadata: Mapping[str, Any]) -> bool:
    """Whether an entry is kept apart from the user's: an agent's note, or a candidate."""
    return place_of(metadata).startswith(NOTES)


def is_shown(metadata: Mapping[str, Any], project: str) -> bool:
    """Whether a session in a project may see an entry. Candidates and notes of other projects stay hidden."""
    if metadata.get(CANDIDATE):
        return False
    is_users = author_of(metadata) == USER
    if is_users and (metadata.get(SCOPE) or USER) == USER:
        return True
    is_here = metadata.get(PROJECT) == project and project not in ("", NO_PROJECT)
    return is_here and (not is_users or metadata.get(SCOPE) == PROJECT)


def noted_by(author: str, at: float) -> str:
    """Who noted something, and when: `noted by Codex, 3 Nov 2026`."""
    names = {USER: "the user", UNKNOWN_AGENT: "an agent"}
    name = names.get(author) or author.replace("-", " ").title().replace("Cli", "CLI")
    return f"noted by {name}, {time.strftime('%d %b %Y', time.gmtime(at)).lstrip('0')}"
