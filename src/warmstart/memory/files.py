"""Memory files of agents: Hermes' entries between `§`, the Markdown of Claude Code and Codex, and our own.

A file is read into entries whose keys come from their words, so that reading the same file again writes nothing new.
Every entry says which file it is from. What cannot stand in a file is named, never dropped in silence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from warmstart.errors import LogError
from warmstart.memory.values import PROJECT, SCOPE, SOURCE, MemoryEntry

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

_SEPARATOR = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"\s*(```|~~~)")
_OURS = re.compile(r"`([^`\n]+)`:[ \n](.*)$", re.DOTALL)
_POINTER = re.compile(r"(?:@\S+|\[[^\]]*\]\(([^)\s]+\.md)\).*)$", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


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


def memory_files(agent: Agent, env: Mapping[str, str], home: Path, project: str = "") -> list[MemoryFile]:
    """The memory files of an agent that there are here: the user's own, and those of the project."""
    if agent == "hermes":
        base = Path(env.get("HERMES_HOME") or home / ".hermes")
        folders = [base, *sorted(base.glob("profiles/*"))]
        paths = [folder / "memories" / name for folder in folders for name in _HERMES_FILES.values()]
        return _there(paths, agent)
    root = Path(project) if project else None
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
        parts = [_Part(part.strip()) for part in _SEPARATOR.split(text)]
    else:
        parts = list(_markdown(text, file.path))
    return _keyed([part for part in parts if part.text], metadata)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise LogError(f"{str(path)!r} has more than {_LARGEST:,} bytes, which is no memory file; give another")
        return path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise LogError(f"{str(path)!r} is not text in UTF-8; convert it first") from error
    except OSError as error:
        raise LogError(f"cannot read {str(path)!r} ({error.strerror}); check the path and its permissions") from error


class _Part(NamedTuple):
    text: str
    section: str = ""
    key: str = ""


def _markdown(text: str, path: Path) -> Iterator[_Part]:
    """Every bullet with what belongs to it, and every paragraph; a note with a title of its own stays whole."""
    head, body = _front_matter(text)
    body = _COMMENT.sub("", body)
    if head.get("name"):
        yield _Part(body.strip(), key=head["name"])
        return
    sections: list[tuple[int, str]] = []
    for block in _blocks(body):
        if heading := _HEADING.match(block):
            level = len(heading[1])
            sections = [*(each for each in sections if each[0] < level), (level, heading[2])]
            continue
        pointer = _POINTER.fullmatch(block)
        if pointer and (not pointer[1] or (path.parent / pointer[1]).is_file()):
            continue  # it only says where the memory is; that file is read as well
        section = " / ".join(name for _, name in sections)
        ours = _OURS.match(block)
        yield _Part(ours[2].strip(), section, ours[1]) if ours else _Part(block.strip(), section)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """The lines `name: value` at the head of a note, and the rest."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if found is None:
        return {}, text
    pairs = (line.partition(":") for line in found[1].splitlines() if ":" in line and not line.startswith((" ", "#")))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}, text[found.end() :]


def _blocks(text: str) -> Iterator[str]:
    """Headings, bullets without their mark, and paragraphs; what is fenced is never divided."""
    block: list[str] = []
    is_bullet = fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            block.append(line)
            continue
        if fenced:
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


def _dedented(lines: Sequence[str]) -> str:
    first, *rest = lines
    indents = [len(line) - len(line.lstrip()) for line in rest if line.strip()]
    cut = min(indents, default=0)
    return "\n".join([first, *(line[cut:] for line in rest)]).strip()


def _keyed(parts: Sequence[_Part], metadata: Mapping[str, Any]) -> list[Found]:
    """Give each part a key of its own: the one it has, or its first words under those of its section."""
    found: list[Found] = []
    taken: set[str] = set()
    for part in parts:
        last = part.section.rpartition(" / ")[2]
        key = part.key or _slug(f"{last} {' '.join(part.text.split()[:_KEY_WORDS])}") or "note"
        number = 2
        unique = key
        while unique in taken:
            unique, number = f"{key}_{number}", number + 1
        taken.add(unique)
        section = {SECTION: part.section} if part.section else {}
        found.append(Found(unique, part.text, {**metadata, **section}))
    return found


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
        if _SEPARATOR.search(text):
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
    key = " ".join(entry.key.replace("`", "'").split())
    first, *rest = entry.value.strip().splitlines() or [""]
    indented = [f"  {line}" if line.strip() else "" for line in rest]
    return "\n".join([f"- `{key}`: {first}", *indented])
