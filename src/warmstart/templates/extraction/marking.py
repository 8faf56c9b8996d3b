"""What mattered, by use and not by mention: files that were changed, run or read, pages that were fetched, references.

A call that worked has to have named it. What only tool output spoke of is no marker, and neither is a file outside the
project. A page counts only when the person named it or its host as well: that an agent followed a link which it met
somewhere says nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from warmstart.profile import shell
from warmstart.profile.tools import SHELLS, command_in, fields_of, path_in
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.walk import Taken, Walk
from warmstart.templates.extraction.worked import worked
from warmstart.templates.trust import is_tool_name, suspicious
from warmstart.templates.values import Marker, Source, Use
from warmstart.text.shell import SHELL_PROGRAMS, Command, parse_commands

MOST = 20
LONGEST = 200  # characters of a marker
_SOURCES = 8  # of one marker
_Kind = Literal["file", "url", "reference"]
_RANK: dict[Use, int] = {"changed": 0, "run": 1, "read": 2, "fetched": 3, "cited": 4}

_CHANGES = re.compile(
    r"(?:^|_|\b)(?:multi)?(?:edit|write|create|patch|replace|insert|update|save)(?:_|\b|$|file)", re.IGNORECASE
)
_LISTS = re.compile(r"grep|glob|search|find|list|^ls$|tree|delete|remove", re.IGNORECASE)
_READS = re.compile(r"read|view|open|cat|show|get_file|load", re.IGNORECASE)
_FETCHES = re.compile(r"fetch|browse|open_url|navigate|extract|crawl|scrape", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add) File: (.+)$", re.MULTILINE)
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
# A file has a name that can be written down; what a shell still has to fill in is none.
_PATH = re.compile(r"[\w./@+ \-\[\]()]{1,200}")
_FILE = re.compile(
    r"(?:.*/)?[\w@+.\-\[\]()]*\.[A-Za-z][\w]{0,9}|(?:.*/)?(?:Makefile|Dockerfile|Justfile|justfile|LICENSE|README)"
)
_SCRATCH = re.compile(
    r"/?(?:tmp|var|etc|usr|proc|sys|dev|opt|private|bin|lib|mnt/data)(?:/|$)|.*/(?:\.cache|\.config|\.ssh|\.claude|\.codex|\.gemini|\.aws"
    r"|\.local|\.git|node_modules|__pycache__|\.venv|venv|site-packages|scratchpad|AppData|Library)/|.*\.(?:log|tmp|pyc|lock)$"
)
_HIDDEN_HOME = re.compile(r"(?:~|/root|/(?:home|Users)/[^/]+)/\.")
_ISSUE = re.compile(r"(?<![\w&/#])#(\d{1,6})\b(?!;)")
_TICKET = re.compile(r"(?<![\w-])([A-Z][A-Z0-9]{1,9}-[1-9]\d{0,5})(?![\w-])")
_NO_TICKET = re.compile(
    r"(?:UTF|ISO|SHA|MD|RFC|CVE|HTTP|GPT|AES|RSA|TLS|ES|PEP|X|IPV|UTC|GMT|COVID)-?\d*-", re.IGNORECASE
)
_GH = frozenset(("issue", "pr"))
_NUMBERED = re.compile(r"(?:issue|pull|pr|pull_request)_?(?:number|no|id|key)", re.IGNORECASE)
_HOST = re.compile(r"(?<![\w@.-])((?:[a-z0-9-]+\.)+[a-z]{2,12})(?![\w@-])", re.IGNORECASE)


class _Used(NamedTuple):
    """A thing, and what a call did with it."""

    kind: _Kind
    value: str
    use: Use


def markers(walk: Walk, places: Places) -> tuple[Marker, ...]:
    """What was used, the changed before the run before the read, and of these the most used first."""
    named = _named_hosts(walk)
    tools = {name for name in {step.call.name for step in walk.taken} if is_tool_name(name)}
    found: dict[tuple[_Kind, str], list[tuple[Use, Source, int]]] = {}
    for step in walk.taken:
        if step.call.name in tools and worked(step):
            for kind, value, use in dict.fromkeys(_used(step, walk.session.directory or walk.session.project, named)):
                found.setdefault((kind, value), []).append((use, step.source, step.place))
    made = [(_marker(kind, value, uses), -uses[-1][2]) for (kind, value), uses in found.items()]
    made.sort(key=lambda each: (_RANK[each[0].use], -each[0].count, each[1]))
    return tuple(islice((marker for marker, _ in made if _may_carry(marker.value, places)), MOST))


def _marker(kind: _Kind, value: str, uses: list[tuple[Use, Source, int]]) -> Marker:
    best = min((use for use, _, _ in uses), key=_RANK.__getitem__)
    sources = tuple(dict.fromkeys(source for _, source, _ in reversed(uses)))[:_SOURCES]
    return Marker(kind=kind, value=value, use=best, count=len(uses), sources=sources)


def _may_carry(value: str, places: Places) -> bool:
    """Whether a marker can be carried as it is: half of a name leads nowhere."""
    return len(value) <= LONGEST and suspicious(value) is None and places.text(value) == value


def _used(step: Taken, project: str, named: frozenset[str]) -> Iterator[_Used]:
    arguments = step.call.arguments
    if step.call.name in SHELLS:
        for command in parse_commands(command_in(arguments)):
            yield from _by_command(command, project, named)
        return
    yield from _by_tool(step.call.name, arguments, project, named)


def _by_tool(tool: str, arguments: str, project: str, named: frozenset[str]) -> Iterator[_Used]:
    own = tool.rsplit("__", 1)[-1]
    name = _WORD.sub("_", own)
    fields = fields_of(arguments)
    for path in _PATCHED.findall(arguments.replace("\\n", "\n")) if "*** " in arguments else ():
        yield from _files((path,), "changed", project)
    if (path := path_in(arguments)) and not _LISTS.search(name):
        looks = fields.get("command") == "view"
        if _CHANGES.search(name) and not looks:
            yield from _files((path,), "changed", project)
        elif looks or _READS.search(name):
            yield from _files((path,), "read", project)
    url = fields.get("url")
    if isinstance(url, str) and _FETCHES.search(name):
        yield from _pages((url,), named)
    for key, value in fields.items():
        if _NUMBERED.fullmatch(key) and (isinstance(value, int) or str(value).isdigit()):
            yield _Used("reference", f"#{value}", "read")
        elif isinstance(value, str) and _TICKET.fullmatch(value) and not _NO_TICKET.match(value):
            yield _Used("reference", value, "read")


def _by_command(command: Command, project: str, named: frozenset[str]) -> Iterator[_Used]:
    program, words = command.program, command.words
    plain = [word for word in words if not word.startswith("-")]
    folder = shell.folder_of(command)
    if shell.edits(command):
        yield from _files(_written(command, plain), "changed", project, folder)
    elif program in ("git", "gh"):
        yield from _references(program, plain, words)
    elif shell.check_of(command) or shell.interprets(command) or program in SHELL_PROGRAMS:
        if not {"-c", "-e"} & set(words):
            run = [word.partition("::")[0] for word in plain]
            yield from _files((word for word in run if _FILE.fullmatch(word)), "run", project, folder)
    elif program in ("curl", "wget"):
        yield from _pages(plain, named)
    else:
        yield from _files((word for word in shell.reads(command) if _FILE.fullmatch(word)), "read", project, folder)


def _written(command: Command, plain: list[str]) -> list[str]:
    """The files that a command changes, as far as it names them."""
    if command.outputs:
        return list(command.outputs)
    if command.program in ("sed", "perl", "gsed"):
        return plain[-1:] if len(plain) > 1 else []
    return plain[-1:] if command.program in ("tee", "cp", "mv", "touch") else []


def _references(program: str, plain: list[str], words: Iterable[str]) -> Iterator[_Used]:
    if program == "gh":
        if len(plain) > 2 and plain[0] in _GH and plain[2].lstrip("#").isdigit():
            yield _Used("reference", f"#{plain[2].lstrip('#')}", "read")
        return
    if plain[:1] == ["commit"]:
        for message in plain[1:]:
            if suspicious(message) is not None:
                continue
            for number in _ISSUE.findall(message):
                yield _Used("reference", f"#{number}", "cited")
            for ticket in _TICKET.findall(message):
                if not _NO_TICKET.match(ticket):
                    yield _Used("reference", ticket, "cited")


def _files(paths: Iterable[str], use: Use, project: str, folder: str = "") -> Iterator[_Used]:
    for path in paths:
        if placed := _inside(path.strip(), project, folder):
            yield _Used("file", placed, use)


def _inside(path: str, project: str, folder: str) -> str:
    """The path as seen from the project; empty for what is none of its files."""
    if not _PATH.fullmatch(path) or path.endswith("/"):
        return ""
    if folder and not path.startswith(("/", "~")):
        path = posixpath.join(folder, path)
    if path.startswith("~") or _HIDDEN_HOME.match(path):
        return ""
    path = posixpath.normpath(path)
    root = posixpath.normpath(project) if project.startswith("/") else ""
    if root and path.startswith(f"{root}/"):
        path = path[len(root) + 1 :]
    elif path.startswith("/") and root:
        return ""
    if path.startswith("..") or path == "." or _SCRATCH.match(path):
        return ""
    return path


def _pages(urls: Iterable[str], named: frozenset[str]) -> Iterator[_Used]:
    """Pages of hosts that the person named, without what may hold a secret."""
    for url in urls:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:
            continue
        if "@" not in parts.netloc and parts.scheme in ("http", "https") and host.removeprefix("www.") in named:
            yield _Used("url", f"{parts.scheme}://{parts.netloc}{parts.path}", "fetched")


def _named_hosts(walk: Walk) -> frozenset[str]:
    """The hosts that the person spoke of."""
    return frozenset(
        host.lower().removeprefix("www.") for request in walk.requests for host in _HOST.findall(request.text)
    )
