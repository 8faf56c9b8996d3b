"""Moving memories: JSON export and import, copies between backends, and the memory files of agents.

Those are Hermes' entries between `§`, and the Markdown of Claude Code and Codex. Keys are made from the words of an
entry, so that importing an unchanged file writes nothing. Every entry records its file and section; importing a file
again replaces its earlier entries. Text that must not be carried (role tokens, invisible characters, instructions to
ignore others) is refused with a reason, and an export lists what did not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from warmstart.errors import LogError
from warmstart.memory.backend import MemoryBackend, view_of
from warmstart.memory.entries import prepare
from warmstart.memory.keys import make_key
from warmstart.memory.values import AUTHOR, PROJECT, SCOPE, SOURCE, USER, MemoryEntry, Record
from warmstart.redact.redactor import Redactor, redact
from warmstart.text.untrusted import find_injection

VERSION = 1  # of the JSON format
Agent = Literal["hermes", "claude-code", "codex"]
AGENTS: tuple[Agent, ...] = get_args(Agent)
Format = Literal["json", "markdown", "hermes-memory", "hermes-user"]
FORMATS: tuple[Format, ...] = get_args(Format)

FILE = "file"  # in metadata: the name of the file that an entry is from
SECTION = "section"  # and the headings above it there
HERMES_LIMITS = {"hermes-memory": 2200, "hermes-user": 1375}  # characters, as Hermes counts them
_HERMES_FILES = {"hermes-memory": "MEMORY.md", "hermes-user": "USER.md"}
_SEPARATOR = "\n§\n"
_MAX_BYTES = 4_000_000

_EMPTY = re.compile(r"[\s§]*")
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s*")
_POINTER = re.compile(r"(?:@\S+|\[[^\]]*\]\(([^)\s]+\.md)\).*)$", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FRONT_MATTER = ("description", "type", "paths")  # of a note


@dataclass(slots=True)
class Transfer:
    """The result of imports or a copy."""

    written: list[str] = field(default_factory=list)
    present: int = 0
    replaced: list[str] = field(default_factory=list)  # from an earlier import of the file, now deleted
    newer: list[str] = field(default_factory=list)  # in the target, and left alone
    refused: list[tuple[str, str]] = field(default_factory=list)  # key and reason
    entries: list[dict[str, Any]] = field(default_factory=list)  # what was written, without secrets


def to_json(backend: MemoryBackend, users: Iterable[str]) -> dict[str, Any]:
    """Everything about users, with history."""
    return {"version": VERSION, "users": {user: [asdict(each) for each in backend.dump(user)] for user in users}}


def from_json(text: str, user_id: str = "") -> dict[str, list[Record]]:
    """The records of an export by user, or all of them for `user_id`. Raises `LogError` if it is not one."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise LogError(f"this export has version {data['version']!r}, not {VERSION}; upgrade Warmstart")
        users = msgspec.convert(data["users"], dict[str, list[Record]])
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise LogError(f"this is not an export of `warmstart memory export` ({error!r:.80}); choose another") from error
    found: dict[str, list[Record]] = {}
    for name, records in users.items():
        user = user_id or name
        found.setdefault(user, []).extend(replace(each, entry=replace(each.entry, user_id=user)) for each in records)
    return found


def load_records(
    target: MemoryBackend,
    user_id: str,
    records: Sequence[Record],
    *,
    dry_run: bool = False,
    check: bool = False,
    into: Transfer | None = None,
) -> Transfer:
    """Store records unless the target has them, or something newer under the same key and scope.

    With `check`, text that must not be carried is refused. The result is added to `into`.
    """
    result = into or Transfer()
    there = {(record.entry.key, record.entry.place): record.entry for record in target.dump(user_id)}
    for record in records:
        entry = record.entry
        values = (entry.value, *(str(version.value) for version in record.history))
        if check and (reason := find_injection("\n".join((entry.key, *values)))):
            result.refused.append((entry.key, reason))
            continue
        other = there.get((entry.key, entry.place))
        if other is not None and (other.value, other.metadata) == (entry.value, entry.metadata):
            result.present += 1
        elif other is not None and other.updated_at > entry.updated_at:
            result.newer.append(entry.key)
        else:
            if not dry_run:
                target.load(record)
            result.written.append(entry.key)
    return result


def import_file(
    backend: MemoryBackend,
    user_id: str,
    source: str,
    found: Sequence[Found],
    redactor: Redactor,
    *,
    redacts: bool = True,
    dry_run: bool = False,
    into: Transfer | None = None,
) -> Transfer:
    """Store the entries of the file `source`, and delete those from an earlier import that it no longer has.

    `redacts` says whether the backend replaces secrets; the result never contains any. It is added to `into`.
    """
    result, author = into or Transfer(), _author(Path(source), found)
    entries = (record.entry for record in backend.dump(user_id))
    before = {(entry.key, entry.place): entry for entry in entries if entry.metadata.get(SOURCE) == source}
    for each in found:
        if each.refused:
            result.refused.append((each.key, each.refused))
            continue
        given = {**each.metadata, **author}
        prepared = prepare(each.key, each.value, given, view=None, redactor=redactor)
        metadata = json.loads(prepared.metadata) if prepared.metadata else {}
        new = MemoryEntry(prepared.key, prepared.value, user_id, metadata=metadata)
        old = before.pop((new.key, new.place), None)
        if old is not None and old.value == (new.value if redacts else each.value):
            result.present += 1
            continue
        result.written.append(new.key)
        result.entries.append({"key": new.key, "value": new.value, "metadata": metadata})
        if not dry_run:
            backend.store(user_id, each.key, each.value, given)
    for entry in before.values():
        result.replaced.append(entry.key)
        if not dry_run:
            backend.at(view_of(entry)).delete(user_id, entry.key)
    return result


def _author(path: Path, found: Sequence[Found]) -> dict[str, Any]:
    """Who wrote a file: an agent its memories, the user their own rules. Files of a repository may be anybody's."""
    if path.parent.name in ("memory", "memories") and path.name != "USER.md":
        return {AUTHOR: agent_of(path)}
    return {} if any(each.metadata.get(PROJECT) for each in found) else {AUTHOR: USER}


class MemoryFile(NamedTuple):
    """A file with memories, the agent that wrote it, and the project it is about, if any."""

    path: Path
    agent: Agent
    project: str = ""


class Found(NamedTuple):
    """An entry of a file. `refused` says why it must not be stored; it is empty for others."""

    key: str
    value: str
    metadata: dict[str, Any]
    refused: str


class Exported(NamedTuple):
    """The text of a file, how many entries it has, and the keys that were left out, with reasons."""

    text: str
    written: int
    left_out: list[tuple[str, str]]


# -- the memory files of agents: where they are


def memory_files(
    agent: Agent, env: Mapping[str, str], home: Path, project: str = "", *, tree: str = ""
) -> list[MemoryFile]:
    """The memory files of an agent on this machine: the user's own, and those of the project.

    `tree` is the working tree to search, if it is not the project's main folder.
    """
    if agent == "hermes":
        base = Path(env.get("HERMES_HOME") or home / ".hermes")
        folders = [base, *sorted(base.glob("profiles/*"))]
        paths = [folder / "memories" / name for folder in folders for name in _HERMES_FILES.values()]
        return _there(paths, agent)
    root = Path(tree or project) if project else None
    if agent == "claude-code":
        base = Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        own = [base / "CLAUDE.md", *sorted(base.glob("rules/**/*.md"))]
        folder = re.sub(r"[^A-Za-z0-9]", "-", project)  # as Claude Code names it
        notes = sorted((base / "projects" / folder / "memory").glob("**/*.md")) if project else []
        names = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
        shared = [root / name for name in names] + sorted(root.glob(".claude/rules/**/*.md")) if root else []
        return _there(own, agent) + _there([*shared, *notes], agent, project)
    base = Path(env.get("CODEX_HOME") or home / ".codex")
    # The folder also has Codex' drafts, which repeat these at length.
    own = [base / "AGENTS.md", base / "AGENTS.override.md"]
    own += [base / "memories" / "MEMORY.md", base / "memories" / "memory_summary.md"]
    shared = [root / "AGENTS.md", root / "AGENTS.override.md"] if root else []
    return _there(own, agent) + _there(shared, agent, project)


def agent_of(path: Path) -> Agent:
    """The agent of a file, by its name and folder; Claude Code for other Markdown."""
    is_codex = ".codex" in path.parts
    if path.name == "USER.md" or (path.name == "MEMORY.md" and path.parent.name == "memories" and not is_codex):
        return "hermes"
    is_claude = path.name in ("CLAUDE.md", "CLAUDE.local.md") or ".claude" in path.parts
    return "codex" if (is_codex or path.name.startswith("AGENTS")) and not is_claude else "claude-code"


def _there(paths: Iterable[Path], agent: Agent, project: str = "") -> list[MemoryFile]:
    return [MemoryFile(path, agent, project) for path in paths if path.is_file()]


# -- reading them


def read_file(file: MemoryFile) -> list[Found]:
    """The entries of a file, in its order. Raises `LogError` if it cannot be read."""
    text = read_text(file.path)
    metadata: dict[str, Any] = {SOURCE: str(file.path), FILE: file.path.name}
    if file.project:
        metadata |= {SCOPE: "project", PROJECT: file.project}
    if file.agent == "hermes":
        # As Hermes reads it: a separator is a line of its own, and duplicates count once.
        parts = [_Part(part) for part in map(str.strip, text.split(_SEPARATOR)) if not _EMPTY.fullmatch(part)]
    else:
        parts = list(_markdown(text, file.path))
    return _keyed(list(dict.fromkeys(part for part in parts if part.text or part.key)), metadata)


def read_text(path: Path) -> str:
    """The text of a file. Raises `LogError` if it cannot be read."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LogError(
                f"{str(path)!r} has more than {_MAX_BYTES:,} bytes, which no memory file has; choose another"
            )
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        if "\0" in text:
            raise LogError(f"{str(path)!r} is not text; choose another")
        return text
    except UnicodeDecodeError as error:
        raise LogError(f"{str(path)!r} is not text in UTF-8; convert it first") from error
    except OSError as error:
        raise LogError(f"cannot read {str(path)!r} ({error.strerror}); check the path and its permissions") from error


class _Part(NamedTuple):
    text: str
    section: str = ""
    key: str = ""
    said: tuple[tuple[str, str], ...] = ()  # metadata


def _markdown(text: str, path: Path) -> Iterator[_Part]:
    """Every bullet with its indented text, and every paragraph; a note with a name stays whole."""
    head, body = _front_matter(text)
    body = _COMMENT.sub("", body)
    if head.get("name"):
        said = tuple((name, head[name]) for name in _FRONT_MATTER if head.get(name))
        yield _Part(body.strip(), key=head["name"], said=said)
        return
    sections: list[tuple[int, str]] = []
    for level, block in _blocks(body):
        if level:
            sections = [*(each for each in sections if each[0] < level), (level, block)]
            continue
        pointer = _POINTER.fullmatch(block)
        if pointer and (not pointer[1] or (path.parent / pointer[1]).is_file()):
            continue  # that file is imported too
        yield _Part(block, " / ".join(name for _, name in sections))


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """The lines `name: value` at the top of a note, and the rest."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if found is None:
        return {}, text
    pairs = (line.partition(":") for line in found[1].splitlines() if ":" in line and not line.startswith((" ", "#")))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}, text[found.end() :]


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Headings with their level; with 0, every item of a list without its mark and every other block."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["lheading", "reference"])  # whose text would be lost
    lines, tokens = text.split("\n"), parser.parse(text)
    for token, following in pairwise([*tokens, None]):
        if token is None or token.map is None:
            continue
        first, *rest = lines[slice(*token.map)] or [""]
        if token.type == "heading_open" and token.level == 0 and following is not None:
            yield int(token.tag[1:]), following.content
        elif token.type == "list_item_open" and token.level == 1:
            yield 0, f"{_BULLET.sub('', first, count=1)}\n{dedent(chr(10).join(rest))}".strip()
        elif token.level == 0 and token.nesting >= 0 and not token.type.endswith(("list_open", "hr")):
            yield 0, "\n".join([first, *rest]).strip()


def _keyed(parts: Sequence[_Part], metadata: Mapping[str, Any]) -> list[Found]:
    """Give each part a unique key: its name, or its section and first words."""
    found: list[Found] = []
    taken: set[str] = set()
    for part in parts:
        last = part.section.rpartition(" / ")[2]
        # A secret must not get into the key, where redaction would not recognize it.
        text = part.text if part.key else redact(part.text).text
        key = part.key or make_key(text, last)
        section = {SECTION: part.section} if part.section else {}
        number, unique = 2, key
        while unique in taken:
            unique, number = f"{key}_{number}", number + 1
        taken.add(unique)
        refused = find_injection(f"{part.section}\n{part.text}") or ""
        found.append(Found(unique, part.text, {**metadata, **section, **dict(part.said)}, refused))
    return found


# -- writing them


def export_file(entries: Sequence[MemoryEntry], format: Format, *, title: str = "Memory") -> Exported:
    """Entries as Markdown, or as one of Hermes' files within its limit.

    If not all fit, the newest are chosen. They are written in the order in which they were first stored.
    """
    ordered = sorted(entries, key=lambda entry: (entry.created_at, entry.key))
    if format == "markdown":
        bullets = [f"- {entry.key}: {entry.value.strip()}".replace("\n", "\n  ") for entry in ordered]
        return Exported("\n".join([f"# {' '.join(title.split())}", "", *bullets, ""]), len(ordered), [])
    limit, mine = HERMES_LIMITS[format], _HERMES_FILES[format]
    left_out: list[tuple[str, str]] = []
    fits: set[int] = set()
    used = 0
    for entry in sorted(entries, key=lambda entry: entry.updated_at, reverse=True):
        text = _sentence(entry)
        more = len(text) + (len(_SEPARATOR) if fits else 0)
        if entry.metadata.get(FILE) in set(_HERMES_FILES.values()) - {mine}:
            left_out.append((entry.key, f"it is from Hermes' {entry.metadata[FILE]}"))
        elif _SEPARATOR in f"\n{text}\n":
            left_out.append((entry.key, "it has a line with only §, which separates entries there"))
        elif used + more > limit:
            left_out.append((entry.key, f"no room: {len(text)} characters, and {limit - used} of {limit} are left"))
        else:
            fits.add(id(entry))
            used += more
    chosen = [entry for entry in ordered if id(entry) in fits]
    return Exported(_SEPARATOR.join(map(_sentence, chosen)), len(chosen), left_out)


def _sentence(entry: MemoryEntry) -> str:
    """The value, with its key if it is too short to stand alone; unchanged if it is from Hermes."""
    value = entry.value.strip()
    alone = entry.metadata.get(FILE) in _HERMES_FILES.values() or len(value.split()) > 2
    return value if alone else f"{entry.key}: {value}"
