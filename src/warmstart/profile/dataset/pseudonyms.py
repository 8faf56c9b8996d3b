"""Stand-ins for what names a person or a project, in rows that leave the house.

A name on its own becomes a keyed hash: the same name gives the same hash, and a guess cannot be checked without the
key. A name inside a text becomes `<project>`, `<user>` or `<server>`. Which words are names is known from the paths of
projects; a name that stands in none of them is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple

from warmstart.redact.personal import NOBODY
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean

Named = Literal["session", "project", "server", "model"]

_SHORTEST = 3
_HOMES = {"home", "users"}
# Folders that stand on the way to many projects and name none.
_COMMON = {
    *("applications", "data", "desktop", "documents", "downloads", "folders", "media", "private", "public", "volumes"),
    *("home", "local", "mnt", "opt", "root", "share", "srv", "tmp", "users", "usr", "var"),
    *("code", "dev", "develop", "development", "git", "projects", "repo", "repos", "repositories", "source", "sources"),
    *("src", "work", "workspace", "workspaces", "worktrees", "claude", "codex"),
    *("bitbucket", "bitbucket.org", "github", "github.com", "gitlab", "gitlab.com"),
}
_SEPARATOR = re.compile(r"[/\\]+")
_JOINT = re.compile(r"[-_. ]+")
_TOOL = re.compile(r"[\w.:/@-]{0,128}")
_MCP = re.compile(r"\bmcp__?[\w-]+")
_PATH = re.compile(r"[/~\\]|[A-Za-z]:[/\\]")


class _Names(NamedTuple):
    users: frozenset[str]
    projects: frozenset[str]


class Pseudonyms:
    """Replaces names, by the key of the caller, and secrets, by the rules of the redactor.

    A text is searched for the names in the path of its own project. `projects` are the paths of others: their users are
    looked for in every text, and their names where a text's own project is not known.
    """

    def __init__(self, key: bytes, redactor: Redactor, *, projects: Iterable[str] = ()) -> None:
        self._key = key[:64]
        self._redactor = redactor
        known = [_names(project) for project in projects]
        self._users = frozenset[str]().union(*(each.users for each in known))
        self._projects = frozenset[str]().union(*(each.projects for each in known))
        self._pattern = lru_cache(maxsize=256)(self._pattern_for)

    def hash(self, named: Named, name: str, *, digits: int = 16) -> str:
        """The keyed hash of a name, in hexadecimal digits; empty for an empty name."""
        if not name:
            return ""
        data = clean(name).encode()
        return blake2b(data, key=self._key, person=named.encode(), digest_size=digits // 2).hexdigest()

    def tool(self, name: str, project: str) -> str:
        """The name of a tool, of an MCP server's tool with the server's name hashed.

        What a model wrote in the place of a name and is none becomes `<other>`.
        """
        if not _TOOL.fullmatch(name):
            return "<other>"
        return self._text(self._mcp(name) if _MCP.match(name) else name, project)

    def model(self, name: str) -> str:
        """The name of a model: of a file its last part, of a model tuned or hosted for somebody without their name."""
        if _PATH.match(name):
            name = _SEPARATOR.split(name.rstrip("/\\"))[-1]
        elif name.startswith("ft:"):
            base = name.split(":")[1]
            name = f"ft:{base}:{self.hash('model', name, digits=8)}"
        elif name.startswith("arn:"):
            name = f"arn:{self.hash('model', name, digits=8)}"
        return self._redactor.clean(clean(name))

    def signature(self, text: str, tool: str, project: str) -> str:
        """An error signature of a tool without the names in it."""
        if not text:
            return ""
        text = self._text(_MCP.sub(lambda found: self._mcp(found[0]), text), project)
        server = _server(tool)
        return _word(server).sub("<server>", text) if _is_long(server) else text

    def version(self, text: str) -> str:
        """A version, which holds nothing but secrets at worst."""
        return self._redactor.clean(clean(text))

    def _text(self, text: str, project: str) -> str:
        text = self._redactor.clean(clean(text))
        names = self._pattern(project)
        return names.sub(lambda found: f"<{found.lastgroup}>", text) if names else text

    def _pattern_for(self, project: str) -> re.Pattern[str] | None:
        names = _names(project)
        groups = [
            f"(?P<{group}>{_any_of(words)})"
            for group, words in (
                ("user", names.users | self._users),
                ("project", names.projects if project else self._projects),
            )
            if words
        ]
        return re.compile(_whole("|".join(groups)), re.IGNORECASE) if groups else None

    def _mcp(self, name: str) -> str:
        """`mcp__SERVER__TOOL` with the server hashed; of `mcp_SERVER_TOOL` nobody can tell where the server ends."""
        server = _server(name)
        if not server:
            return f"mcp_{self.hash('server', name.removeprefix('mcp_'), digits=8)}"
        return f"mcp__{self.hash('server', server, digits=8)}{name[len('mcp__') + len(server) :]}"


def _server(tool: str) -> str:
    """The server of a tool called `mcp__SERVER__TOOL`: up to the last `__`, lest half of its name stays."""
    if not tool.startswith("mcp__"):
        return ""
    server, _, last = tool.removeprefix("mcp__").rpartition("__")
    return server or last


def _names(project: str) -> _Names:
    """The names that stand in a project's path: the user's, the project's, and those of the folders between."""
    *parts, last = [part for part in _SEPARATOR.split(clean(project)) if part] or [""]
    user = ""
    for place, part in enumerate(parts):
        if part.lower() in _HOMES:
            user, last = (parts.pop(place + 1), last) if parts[place + 1 :] else (last, "")
            break
    others = (part for part in parts if part.lower().strip(".") not in _COMMON)
    return _Names(
        frozenset(name for name in [user] if _is_long(name) and name.lower() not in NOBODY),
        frozenset(name for name in [last, *others] if _is_long(name)),
    )


def _is_long(name: str) -> bool:
    return len(name.strip(".-_ ")) >= _SHORTEST


@lru_cache(maxsize=256)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(_whole(_spellings(name)), re.IGNORECASE)


def _any_of(names: Collection[str]) -> str:
    return "|".join(_spellings(name) for name in sorted(names, key=lambda name: (-len(name), name)))


def _spellings(name: str) -> str:
    """A pattern for `tide-watch` that finds `tide_watch` and `TideWatch` too."""
    return "[-_. ]?".join(re.escape(piece) for piece in _JOINT.split(name) if piece)


def _whole(pattern: str) -> str:
    return rf"(?<![^\W_])(?:{pattern})(?![^\W_])"
