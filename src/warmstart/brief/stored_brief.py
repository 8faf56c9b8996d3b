"""The brief of a project as it is stored: built when a session ends, printed when the next one starts.

Hooks load this module, so it imports little. A line is printed if it still holds: the files in it exist, what makes it
trusted has not changed, and its sources are there, because a line is deleted with any of them. Memories are not stored
in it; they are read when it is printed.
"""

from __future__ import annotations

import json
import os
import time
from _blake2 import blake2b  # `hashlib` loads OpenSSL

from warmstart.memory.authors import NOTES
from warmstart.memory.lines import SHARES, choose_entries, memory_key, memory_line
from warmstart.sessions.marks import BRIEF_TOKENS, frame_brief, lines_budget
from warmstart.tokens import fit

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from warmstart.storage.database import Connection

BUILDER = 1  # raised when a new version builds other briefs from the same sessions

_BRIEF = "SELECT id, state FROM briefs WHERE project = ? ORDER BY branch <> ?, id DESC LIMIT 1"
_LINES = "SELECT heading, key, text, paths, needs_files FROM brief_lines WHERE brief = ? ORDER BY place"
_SESSIONS = """
    SELECT count(*), max(ended_at), sum(revision), (SELECT count(*) FROM template_revoked)
    FROM sessions WHERE project = ?
"""
# What a session in a project sees; an entry of the project hides one of the user with the same key.
_ENTRIES = """
    SELECT key, value, metadata, updated_at FROM memory_entries e
    WHERE user_id = 'default' AND place IN ('', ?1, ?2) AND (expires_at IS NULL OR expires_at > ?3)
    AND (place <> '' OR NOT EXISTS (
        SELECT 1 FROM memory_entries n WHERE n.user_id = 'default' AND n.key = e.key AND n.place = ?1
        AND (n.expires_at IS NULL OR n.expires_at > ?3)))
    ORDER BY updated_at DESC, key
"""
_IS_QUOTABLE = "SELECT is_quotable FROM screened_memories WHERE updated_at = ? AND size = ?"


class Line:
    """A line of a stored brief. `paths` are the names of the files in it; `text` is then the folder before them."""

    def __init__(self, heading: str, key: str, text: str, paths: Iterable[str] = (), needs_files: bool = False) -> None:
        self.heading = heading
        self.key = key
        self.text = text
        self.paths = list(paths)
        self.needs_files = needs_files

    def render(self, project: str) -> str:
        """The line with the files that still exist; empty if there are none."""
        if not self.paths:
            return self.text
        folder = self.text.removesuffix(": ")
        names = [name for name in self.paths if os.path.exists(f"{project}/{folder}{name}")]
        return self.text + ", ".join(names) if names else ""


class StoredBrief:
    """A brief as it is stored; `state` is what it was made from."""

    def __init__(self, state: Mapping[str, Any], lines: Iterable[Line]) -> None:
        self.state = state
        self.lines = list(lines)


def copy_name(project: str) -> str:
    """The name of the file that holds the brief of a project, beside a store on a server."""
    return f"{blake2b(project.encode('utf-8', 'replace'), digest_size=8).hexdigest()}.json"


def read_copy(folder: str, project: str) -> tuple[StoredBrief | None, dict[tuple[float, int], bool]]:
    """The brief of a project from its file, and which versions of memories may be quoted."""
    try:
        with open(f"{folder}/{copy_name(project)}", encoding="utf-8") as file:
            copy = json.loads(file.read())
    except FileNotFoundError:
        return None, {}
    judged = {(at, size): bool(is_quotable) for at, size, is_quotable in copy["memories"]}
    return StoredBrief(copy["state"], [Line(*line) for line in copy["lines"]]), judged


class UnscreenedMemory(Exception):
    """Nobody has judged yet whether a memory may be quoted."""


def read_brief(connection: Connection, project: str, branch: str) -> StoredBrief | None:
    """The stored brief of a branch, or else the newest of the project; an empty one if the project has no sessions."""
    row = connection.execute(_BRIEF, (project, branch)).fetchone()
    if row is None:
        has_sessions = connection.execute("SELECT 1 FROM sessions WHERE project = ? LIMIT 1", (project,)).fetchone()
        return None if has_sessions else StoredBrief({}, ())
    lines = []
    for heading, key, text, paths, needs_files in connection.execute(_LINES, row[:1]):
        lines.append(Line(heading, key, text, json.loads(paths), bool(needs_files)))
    return StoredBrief(json.loads(row[1]), lines)


def snapshot(
    connection: Connection | None, project: str, branch: str, files: Iterable[str], tools: Mapping[str, str]
) -> dict[str, Any]:
    """The state that a brief is made from. `files` are the docs and manifests of the project.

    Without a connection, nobody knows the sessions.
    """
    git = (".git/HEAD", ".git/packed-refs", f".git/refs/heads/{branch}")
    return {
        "builder": BUILDER,
        "branch": branch,
        "tools": sorted([name, purpose] for name, purpose in tools.items()),
        "sessions": count_sessions(connection, project) if connection else None,
        "files": {name: _stat(f"{project}/{name}") for name in files},
        "git": {name: _stat(f"{project}/{name}") for name in git},
    }


def count_sessions(connection: Connection, project: str) -> list[Any]:
    """What changes with every change of a project's sessions, and when one is revoked."""
    return list(connection.execute(_SESSIONS, (project,)).fetchone())


def _stat(path: str) -> list[int] | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return [stat.st_size, stat.st_mtime_ns]


def render(
    brief: StoredBrief, state: Mapping[str, Any], project: str, memories: Memories | None
) -> tuple[str, list[str]]:
    """The text of a start, and the keys of the lines in it. `state` is the current one."""
    has_changed = brief.state.get("files") != state["files"]
    lines = [line for line in brief.lines if not line.paths and not (has_changed and line.needs_files)]
    lines += memories.choose(project) if memories else ()
    lines += [line for line in brief.lines if line.paths]
    sections: dict[str, list[str]] = {}
    keys = []
    for line in lines:
        if text := line.render(project):
            sections.setdefault(line.heading, []).append(text)
            keys.append(line.key)
    return frame_brief(sections.items()), keys


class Memories:
    """The memories in a SQLite file. `judge` says whether a version of one may be quoted, `None` if nobody knows."""

    def __init__(self, connection: Connection, judge: Callable[[tuple[float, int]], bool | None]) -> None:
        self._connection = connection
        self._judge = judge

    def choose(self, project: str) -> list[Line]:
        """The lines for a session in a project. Raises `UnscreenedMemory`."""
        from types import SimpleNamespace

        values = (f"project:{project}", f"{NOTES}{project}", time.time())
        entries = (
            SimpleNamespace(key=key, value=value, metadata=json.loads(metadata), updated_at=updated_at)
            for key, value, metadata, updated_at in self._connection.execute(_ENTRIES, values)
        )
        budget = lines_budget(BRIEF_TOKENS)
        lines: list[Line] = []
        for heading, chosen in choose_entries(entries, project, self._is_quotable).items():
            fitting = fit(chosen, SHARES[heading] * budget, memory_line)
            lines += [Line(heading, memory_key(entry), memory_line(entry)) for entry in fitting]
        return lines

    def _is_quotable(self, entry: Any) -> bool:
        is_quotable = self._judge((entry.updated_at, len(entry.key) + len(entry.value)))
        if is_quotable is None:
            raise UnscreenedMemory
        return is_quotable


def is_quotable(connection: Connection, version: tuple[float, int]) -> bool | None:
    """Whether a version of a memory may be quoted, `None` if nobody has judged it."""
    row = connection.execute(_IS_QUOTABLE, version).fetchone()
    return None if row is None else bool(row[0])
