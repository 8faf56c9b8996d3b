"""Pseudonyms for the names of people and projects in rows that leave the machine.

A name on its own becomes a keyed hash: the same name gives the same hash, and a guess cannot be checked without the
key. So does an error message, unless its text is wanted: then a name inside it becomes `<project>`, `<user>` or
`<server>`. Names are known from the paths of projects; a name that occurs in none of them is not recognised. Public
words (signatures by a rule, tools that everybody has) are never replaced: a pseudonym among them would reveal the name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple

from warmstart.profile.public_names import is_public_model, is_vendor, public_signature
from warmstart.profile.tools import SHELLS, Tools, agent_tools
from warmstart.redact.contexts import NOBODY
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean

Named = Literal["session", "project", "server", "model", "signature"]

_MIN_NAME = 3
_MIN_USER = 2
_MIN_PREFIX = 4  # letters of a name that is recognised at the start of a word: `AcmebillingError`
_HOMES = {"home", "users"}
# Folders on the way to many projects, which name none.
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
_MCP = re.compile(r"\bmcp__?[\w.:@/-]*\w")
_CALLED = re.compile(r"(?:functions\.)?([\w.]+?)(?::\d+)?")  # as some hosts write a tool: `functions.exec:0`
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class _Names(NamedTuple):
    users: frozenset[str]
    projects: frozenset[str]


class Pseudonyms:
    """Replaces names, by the key of the caller, and secrets, by the rules of the redactor.

    A text is searched for the names in the path of its own project, and for those in the paths of all `projects`. With
    `error_text` error messages are kept, searched and redacted; without it only their hash is.
    """

    def __init__(
        self, key: bytes, redactor: Redactor, *, projects: Iterable[str] = (), error_text: bool = False
    ) -> None:
        self._key = key[:64]
        self._redactor = redactor
        self._error_text = error_text
        known = [_names(project) for project in projects]
        self._known = _Names(
            frozenset[str]().union(*(each.users for each in known)),
            frozenset[str]().union(*(each.projects for each in known)),
        )
        self._pattern = lru_cache(maxsize=64)(_pattern_for)
        self._keys = lru_cache(maxsize=64)(_keys)

    def hash(self, named: Named, name: str, *, digits: int = 16) -> str:
        """The keyed hash of a name, in hexadecimal digits; empty for an empty name."""
        if not name:
            return ""
        data = clean(name).encode()
        return blake2b(data, key=self._key, person=named.encode(), digest_size=digits // 2).hexdigest()

    def tool(self, name: str, project: str) -> str:
        """The name of a tool, of an MCP server's tool with the server's name hashed.

        Text in the place of a name that is no name becomes `<other>`.
        """
        if not _TOOL.fullmatch(name):
            return "<other>"
        if _is_well_known(name):
            return name
        return self._text(_MCP.sub(lambda found: self._mcp(found[0]), name), project)

    def model(self, name: str) -> str:
        """The name of a model if a vendor gave it, without who hosts it; of any other model a hash."""
        *places, last = _SEPARATOR.split(name.rstrip("/\\"))
        if is_public_model(last):
            return "/".join((*places, last)) if all(map(is_vendor, places)) else last
        base = name.split(":")[1] if name.startswith("ft:") else ""
        if base and is_public_model(base):
            return f"ft:{base}:{self.hash('model', name, digits=8)}"
        return f"other:{self.hash('model', name, digits=8)}"

    def signature(self, text: str, tool: str, project: str) -> str:
        """An error signature of a tool: public words as they are, a message as a hash, or without names."""
        if not text:
            return ""
        public = public_signature(text)
        named = any(self._names_somebody(name, project) for name in public.names)
        if not public.has_message and not named:
            return public.text
        if not self._error_text:
            return f"{'' if named else public.text} other:{self.hash('signature', text, digits=8)}".lstrip()
        text = self._text(_MCP.sub(lambda found: self._mcp(found[0]), text), project)
        server = _server(tool)
        return _word(server).sub("<server>", text) if _is_long(server) else text

    def version(self, text: str) -> str:
        """A version, without secrets."""
        return self._redactor.clean(clean(text))

    def _text(self, text: str, project: str) -> str:
        text = self._redactor.clean(clean(text))
        names = self._pattern(self._names(project))
        return names.sub(lambda found: f"<{found.lastgroup}>", text) if names else text

    def _names(self, project: str) -> _Names:
        """All known names: the same value for all projects given in advance, so that there is one pattern."""
        own = _names(project)
        if own.users <= self._known.users and own.projects <= self._known.projects:
            return self._known
        return _Names(own.users | self._known.users, own.projects | self._known.projects)

    def _names_somebody(self, word: str, project: str) -> bool:
        """Whether a word that somebody made up (`AcmeError`) contains a name."""
        keys = self._keys(self._names(project))
        pieces = [piece.lower() for piece in _PIECE.findall(word)]
        runs = (
            "".join(pieces[first:last]) for first in range(len(pieces)) for last in range(first + 1, len(pieces) + 1)
        )
        return any(run in keys for run in runs) or any(
            piece[:length] in keys for piece in pieces for length in range(_MIN_PREFIX, len(piece))
        )

    def _mcp(self, name: str) -> str:
        """`mcp__SERVER__TOOL` with the server hashed; in `mcp_SERVER_TOOL` the server's end is unknown."""
        server = _server(name)
        if not server:
            return f"mcp_{self.hash('server', name.removeprefix('mcp_'), digits=8)}"
        tool = name[len("mcp__") + len(server) :]
        tool = _word(server).sub("<server>", tool) if _is_long(server) else tool
        return f"mcp__{self.hash('server', server, digits=8)}{tool}"


@lru_cache(maxsize=1024)
def _is_well_known(tool: str) -> bool:
    """Whether a tool comes with an agent or has a common name."""
    called = _CALLED.fullmatch(tool)
    name = called[1] if called else tool
    own = not name.startswith(("mcp_", "browser"))  # recognised by their form, not by their name
    brought = name in SHELLS or any(name in tools for tools in agent_tools().values())
    return brought or (own and Tools().kind("", name, "") != "other")


def _pattern_for(names: _Names) -> re.Pattern[str] | None:
    groups = [
        f"(?P<{group}>{_any_of(words)})"
        for group, words in (("user", names.users), ("project", names.projects))
        if words
    ]
    return re.compile(_whole("|".join(groups)), re.IGNORECASE) if groups else None


def _keys(names: _Names) -> frozenset[str]:
    return frozenset("".join(_JOINT.split(name)).lower() for name in names.users | names.projects)


def _server(tool: str) -> str:
    """The server of a tool called `mcp__SERVER__TOOL`: up to the last `__`, so that no half of its name stays."""
    if not tool.startswith("mcp__"):
        return ""
    server, _, last = tool.removeprefix("mcp__").rpartition("__")
    return server or last


def _names(project: str) -> _Names:
    """The names in a project's path: the user's, the project's, and those of the folders between."""
    *parts, last = [part for part in _SEPARATOR.split(clean(project)) if part] or [""]
    user = ""
    for place, part in enumerate(parts):
        if part.lower() in _HOMES:
            user, last = (parts.pop(place + 1), last) if parts[place + 1 :] else (last, "")
            break
    others = (part for part in parts if part.lower().strip(".") not in _COMMON)
    return _Names(
        frozenset(name for name in [user] if _is_long(name, _MIN_USER) and name.lower() not in NOBODY),
        frozenset(name for name in [last, *others] if _is_long(name)),
    )


def _is_long(name: str, least: int = _MIN_NAME) -> bool:
    return len(name.strip(".-_ ")) >= least


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
