"""Memory files of agents: Hermes' entries between `§`, the Markdown of Claude Code and Codex, and our own.

A file is read into entries whose keys come from their words, so that reading the same file again writes nothing new.
Every entry says which file it is from. What cannot stand in a file is named, never dropped in silence. Our own Markdown
gives back what was written: what a reader of the page need not see (metadata, a key or a value that Markdown would
change) stands in a comment beside its entry.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from warmstart.errors import LogError
from warmstart.memory.values import PROJECT, SCOPE, SOURCE, MemoryEntry
from warmstart.redact.redactor import Redactor

Agent = Literal["hermes", "claude-code", "codex", "warmstart"]
AGENTS: tuple[Agent, ...] = get_args(Agent)
Format = Literal["markdown", "hermes-memory", "hermes-user"]
FORMATS: tuple[Format, ...] = get_args(Format)

FILE = "file"  # in metadata: the name of the file that an entry stood in
SECTION = "section"  # and the headings above it
HERMES_LIMITS = {"hermes-memory": 2200, "hermes-user": 1375}  # characters, as Hermes counts them
_HERMES_FILES = {"hermes-memory": "MEMORY.md", "hermes-user": "USER.md"}
_BETWEEN = "\n§\n"
_LARGEST = 4_000_000  # bytes of a file that somebody wrote to be read by an agent
_KEY_WORDS = 6

_NOTHING = re.compile(r"[\s§]*")
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_OURS = re.compile(r"`([^`\n]+)`:(?:[ \n](.*))?$", re.DOTALL)
_ASIDE = re.compile(r"\n?<!-- warmstart (\{.*\}) -->$")
_POINTER = re.compile(r"(?:@\S+|\[[^\]]*\]\(([^)\s]+\.md)\).*)$", re.DOTALL)
_COMMENT = re.compile(r"<!--(?! warmstart \{).*?-->", re.DOTALL)
_SCOPED = re.compile(r"(project|agent) (.+)")
_HEAD = ("description", "type", "paths")  # of a note, which say what it is about


class MemoryFile(NamedTuple):
    """A file with memories, whose it is, and the project that it is about, if any."""

    path: Path
    agent: Agent
    project: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry as a file has it."""

    key: str
    value: str
    metadata: dict[str, Any] = field(default_factory=dict)


class Exported(NamedTuple):
    """The text of a file, and the keys of what did not fit into it, with the reason."""

    text: str
    left_out: list[tuple[str, str]]


# -- where they are


def memory_files(
    agent: Agent, env: Mapping[str, str], home: Path, project: str = "", *, tree: str = ""
) -> list[MemoryFile]:
    """The memory files of an agent that there are here: the user's own, and those of the project.

    `tree` is the working tree in which to look for them, if that is not the project's main folder.
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
        notes = sorted((base / "projects" / _folder(project) / "memory").glob("**/*.md")) if project else []
        names = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
        shared = [root / name for name in names] + sorted(root.glob(".claude/rules/**/*.md")) if root else []
        return _there(own, agent) + _there([*shared, *notes], agent, project)
    if agent == "codex":
        base = Path(env.get("CODEX_HOME") or home / ".codex")
        # What Codex has made of its sessions; beside them lie its drafts, which say the same at length.
        own = [base / "AGENTS.md", base / "AGENTS.override.md"]
        own += [base / "memories" / "MEMORY.md", base / "memories" / "memory_summary.md"]
        shared = [root / "AGENTS.md", root / "AGENTS.override.md"] if root else []
        return _there(own, agent) + _there(shared, agent, project)
    return []


def agent_of(path: Path) -> Agent:
    """Whose a file is, by its name and its folder; our own where nothing tells."""
    if path.name in _HERMES_FILES.values() and path.parent.name == "memories" and ".codex" not in path.parts:
        return "hermes"
    if path.name == "USER.md":
        return "hermes"
    if path.name in ("CLAUDE.md", "CLAUDE.local.md") or ".claude" in path.parts:
        return "claude-code"
    if path.name.startswith("AGENTS") or ".codex" in path.parts:
        return "codex"
    return "warmstart"


def _folder(project: str) -> str:
    """How Claude Code names the folder of a project."""
    return re.sub(r"[^A-Za-z0-9]", "-", project)


def _there(paths: Iterable[Path], agent: Agent, project: str = "") -> list[MemoryFile]:
    return [MemoryFile(path, agent, project) for path in paths if path.is_file()]


# -- reading


def read_file(file: MemoryFile) -> list[Found]:
    """The entries of a file, in its order. Raises `LogError` where it cannot be read."""
    text = _text(file.path)
    metadata: dict[str, Any] = {SOURCE: str(file.path), FILE: file.path.name}
    if file.project:
        metadata |= {SCOPE: "project", PROJECT: file.project}
    if file.agent == "hermes":
        # As Hermes reads it: a sign in a line of its own with nothing beside it, and what stands twice counts once.
        parts = [_Part(part) for part in map(str.strip, text.split(_BETWEEN)) if not _NOTHING.fullmatch(part)]
    else:
        parts = list(_markdown(text, file.path, own=file.agent == "warmstart"))
    return _keyed(list(dict.fromkeys(part for part in parts if part.text or part.key)), metadata)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise LogError(f"{str(path)!r} has more than {_LARGEST:,} bytes, which is no memory file; give another")
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        if "\0" in text:
            raise LogError(f"{str(path)!r} is not text but something else; give another")
        return text
    except UnicodeDecodeError as error:
        raise LogError(f"{str(path)!r} is not text in UTF-8; convert it first") from error
    except OSError as error:
        raise LogError(f"cannot read {str(path)!r} ({error.strerror}); check the path and its permissions") from error


class _Part(NamedTuple):
    text: str
    section: str = ""
    key: str = ""
    said: str = ""  # metadata of its own, as JSON


def _markdown(text: str, path: Path, *, own: bool) -> Iterator[_Part]:
    """Every bullet with what belongs to it, and every paragraph; a note with a title of its own stays whole."""
    head, body = _front_matter(text)
    body = _COMMENT.sub("", body)
    if head.get("name"):
        said = {name: head[name] for name in _HEAD if head.get(name)}
        yield _Part(body.strip(), key=head["name"], said=json.dumps(said))
        return
    sections: list[tuple[int, str]] = []
    for block in _blocks(body, own=own):
        if heading := _HEADING.match(block):
            level = len(heading[1])
            sections = [*(each for each in sections if each[0] < level), (level, heading[2])]
            continue
        pointer = _POINTER.fullmatch(block)
        if pointer and (not pointer[1] or (path.parent / pointer[1]).is_file()):
            continue  # it only says where the memory is; that file is read as well
        section = " / ".join(name for _, name in sections)
        yield _entry(block, section, own=own) or _Part(block.strip(), section)


def _entry(block: str, section: str, *, own: bool) -> _Part | None:
    """A block that has a key, as `_bullet` writes it; only of our own files the headings and comments are ours."""
    aside = _ASIDE.search(block) if own else None
    found = _OURS.match(block[: aside.start()] if aside else block)
    if found is None:
        return None
    if not own:
        return _Part((found[2] or "").strip(), section, found[1])
    scoped = _SCOPED.fullmatch(section.rpartition(" / ")[2])
    said: dict[str, Any] = {SCOPE: scoped[1], scoped[1]: scoped[2]} if scoped else {}
    exact = _exact(aside[1]) if aside else {}
    said |= exact.get("metadata", {})
    text, key = exact.get("value", (found[2] or "").strip()), exact.get("key", found[1])
    return _Part(str(text), "", str(key), json.dumps(said))


def _exact(text: str) -> dict[str, Any]:
    """What a comment of ours says; nothing where it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    kinds = {"key": str, "value": str, "metadata": dict}
    return found if all(isinstance(value, kinds.get(name, ())) for name, value in found.items()) else {}


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """The lines `name: value` at the head of a note, and the rest."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if found is None:
        return {}, text
    pairs = (line.partition(":") for line in found[1].splitlines() if ":" in line and not line.startswith((" ", "#")))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}, text[found.end() :]


def _blocks(text: str, *, own: bool) -> Iterator[str]:
    """Headings, bullets without their mark, and paragraphs; what is fenced is never divided."""
    block: list[str] = []
    is_bullet = False
    lines = text.split("\n")
    fenced = _fenced(lines, own=own)
    for number, line in enumerate(lines):
        if number in fenced:
            block.append(line)
            continue
        bullet = _BULLET.match(line)
        starts = _HEADING.match(line) or bullet
        belongs = is_bullet and line[:1] in (" ", "\t") and line.strip()
        if starts or (not line.strip() and not is_bullet):
            if block:
                yield _dedented(block)
            block = [bullet[1]] if bullet else [line] if line.strip() else []
            is_bullet = bool(bullet)
            if _HEADING.match(line):
                yield _dedented(block)
                block = []
        elif belongs or line.strip() or block:
            if is_bullet and block and not block[-1].strip() and not belongs:
                yield _dedented(block)
                block, is_bullet = [line], False
            else:
                block.append(line)
    if block:
        yield _dedented(block)


def _fenced(lines: Sequence[str], *, own: bool) -> set[int]:
    """The lines that stand in fences, these included; one that is never closed is none.

    In our own files what is indented belongs to its entry anyway, whether its fences are closed or not.
    """
    found: set[int] = set()
    start, mark = 0, ""
    for number, line in enumerate(lines):
        fence = None if own and line[:1].isspace() else _FENCE.match(line)
        if not mark and fence:
            start, mark = number, fence[1]
        elif mark and fence and fence[1].startswith(mark) and line.strip() == fence[1]:
            found.update(range(start, number + 1))
            mark = ""
    return found


def _dedented(lines: Sequence[str]) -> str:
    first, *rest = lines
    indents = [len(line) - len(line.lstrip()) for line in rest if line.strip()]
    cut = min(indents, default=0)
    if _OURS.match(first):
        cut = min(cut, 2)  # as `_bullet` indents: what is further in belongs to the value
    return "\n".join([first, *(line[cut:] for line in rest)]).strip()


def _keyed(parts: Sequence[_Part], metadata: Mapping[str, Any]) -> list[Found]:
    """Give each part a key of its own: the one it has, or its first words under those of its section."""
    found: list[Found] = []
    taken: set[tuple[str, str]] = set()
    for part in parts:
        last = part.section.rpartition(" / ")[2]
        # Without secrets: in a key they would not be known for what they are any more.
        text = part.text if part.key else _redactor().clean(part.text)
        key = part.key or _slug(f"{last} {' '.join(text.split()[:_KEY_WORDS])}") or "note"
        section = {SECTION: part.section} if part.section else {}
        said = json.loads(part.said) if part.said else {}
        scope = str(said.get(SCOPE))
        whose = f"{scope} {said.get(scope)}"
        number = 2
        unique = key
        while (unique, whose) in taken:
            unique, number = f"{key}_{number}", number + 1
        taken.add((unique, whose))
        found.append(Found(unique, part.text, {**metadata, **section, **said}))
    return found


@cache
def _redactor() -> Redactor:
    return Redactor()


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.lower())
    words = re.findall(r"[^\W_]+", "".join(letter for letter in plain if not unicodedata.combining(letter)))
    return "_".join(words)[:80].rstrip("_")


# -- writing


def export_file(entries: Sequence[MemoryEntry], format: Format, *, title: str = "Memory") -> Exported:
    """Entries as a file: our Markdown, which holds all of them, or one of Hermes' files within its limit.

    Where not all fit, the newest do; they stand in the order in which they were first stored.
    """
    if format == "markdown":
        return Exported(_as_markdown(entries, title), [])
    mine = _HERMES_FILES[format]
    others = set(_HERMES_FILES.values()) - {mine}
    chosen = [entry for entry in entries if entry.metadata.get(FILE) not in others]
    return _as_hermes(chosen, HERMES_LIMITS[format])


def _as_hermes(entries: Sequence[MemoryEntry], limit: int) -> Exported:
    left_out: list[tuple[str, str]] = []
    fitting: list[MemoryEntry] = []
    used = 0
    for entry in sorted(entries, key=lambda entry: entry.updated_at, reverse=True):
        text = _sentence(entry)
        more = len(text) + (len(_BETWEEN) if fitting else 0)
        if _BETWEEN in f"\n{text}\n":
            left_out.append((entry.key, "it has a line that is only §, which ends an entry there"))
        elif used + more > limit:
            left_out.append((entry.key, f"no room: {len(text)} characters, and {limit - used} of {limit} are left"))
        else:
            fitting.append(entry)
            used += more
    fitting.sort(key=lambda entry: (entry.created_at, entry.key))
    return Exported(_BETWEEN.join(map(_sentence, fitting)), left_out)


def _sentence(entry: MemoryEntry) -> str:
    """The value, with its key where it would say nothing alone; as it was, where it is from Hermes."""
    value = entry.value.strip()
    alone = entry.metadata.get(FILE) in _HERMES_FILES.values() or len(value.split()) > 2
    return value if alone else f"{entry.key}: {value}"


def _as_markdown(entries: Sequence[MemoryEntry], title: str) -> str:
    groups: dict[str, list[MemoryEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.created_at, entry.key)):
        groups.setdefault(_group(entry), []).append(entry)
    lines = [f"# {' '.join(title.split())}", ""]
    for name in sorted(groups):
        lines += [f"## {name}", ""] if name else []
        lines += [_bullet(entry) for entry in groups[name]]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _group(entry: MemoryEntry) -> str:
    scope = entry.metadata.get(SCOPE) or "user"
    return "" if scope == "user" else f"{scope} {' '.join(str(entry.metadata.get(scope, '')).split())}".strip()


def _bullet(entry: MemoryEntry) -> str:
    """An entry as Markdown, and in a comment whatever reading that would not give back."""
    key = " ".join(entry.key.replace("`", "'").split()) or "note"
    first, *rest = entry.value.strip().split("\n")
    lines = [f"- `{key}`: {first}".rstrip(), *(f"  {line}" if line.strip() else "" for line in rest)]
    read = list(_read_back(_group(entry), lines))
    back = read[0] if len(read) == 1 else _Part("")
    said = json.loads(back.said) if back.said else {}
    exact: dict[str, Any] = {}
    if back.key != entry.key:
        exact["key"] = entry.key
    if back.text != entry.value:
        exact["value"] = entry.value
        lines = lines[:1]  # what it looks like in the page is not what counts then
    metadata = {name: value for name, value in entry.metadata.items() if name not in said or said[name] != value}
    if metadata:
        exact["metadata"] = metadata
    if exact:
        text = json.dumps(exact, ensure_ascii=False, default=str)
        lines.append(f"  <!-- warmstart {_without_marks(text)} -->")
    return "\n".join(lines)


def _read_back(group: str, lines: Sequence[str]) -> Iterator[_Part]:
    heading = [f"## {group}", ""] if group else []
    return _markdown("\n".join([*heading, *lines]), Path(), own=True)


def _without_marks(text: str) -> str:
    """JSON that ends no comment and no line, whatever is in it."""
    marks = "<>\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    return "".join(f"\\u{ord(letter):04x}" if letter in marks else letter for letter in text)
