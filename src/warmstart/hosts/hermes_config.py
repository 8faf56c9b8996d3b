"""Our name in `plugins.enabled` of Hermes' `config.yaml`, added and removed as text.

Hermes' own writer drops the comments, as any would that parses and prints. So a few lines are inserted or removed, and
every other byte stays. A file in a form that is not known here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from warmstart.hosts.files import Edit, State
from warmstart.hosts.json_text import Insertion, Keys

NAME = "warmstart"
_PLUGINS, _ENABLED = ("plugins",), ("plugins", "enabled")
_KEY = re.compile(r" *\w+:[ \t]*(\[[^\[\]{}#]*\])?[ \t]*(?:#.*)?")  # of a block, or of a list on the same line
_ITEM = re.compile(r" *-[ \t]+(.*?)[ \t]*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class PluginList:
    """`config.yaml`, whose list of plugins has our name."""

    path: Path

    @property
    def is_ours(self) -> bool:
        return False

    def is_empty(self, text: str) -> bool:
        return not text.strip()

    def state(self, text: str) -> State:
        """Whether our name is in the list."""
        return "absent" if self.remove(text, ()) == text else "current"

    def add(self, text: str) -> Edit:
        """The text with our name at the front of the list."""
        newline = "\r\n" if "\r\n" in text else "\n"
        if text and not text.endswith("\n"):
            edit = self.add(text + newline)
            return edit._replace(insertions=(Insertion(len(text), len(newline)), *edit.insertions))
        lines = text.splitlines(keepends=True)
        plugins, enabled, names = _find(lines)
        last = max(plugins, enabled)
        at = sum(map(len, lines[: last + 1] if last >= 0 else lines))
        created: tuple[Keys, ...] = ()
        if enabled >= 0 and "[" in lines[enabled]:
            at += lines[enabled].index("[") + 1 - len(lines[enabled])
            piece = f"{NAME}, " if names else NAME
        elif enabled >= 0:
            piece = f"{_indent(lines[names[0][0] if names else enabled])}- {NAME}{newline}"
        else:
            indent = next((_indent(line) for line in lines[last + 1 :] if line.startswith(" ") and last >= 0), "  ")
            top, created = ("", (_ENABLED,)) if plugins >= 0 else (f"plugins:{newline}", (_PLUGINS, _ENABLED))
            piece = f"{top}{indent}enabled:{newline}{indent}- {NAME}{newline}"
        return Edit(text[:at] + piece + text[at:], (Insertion(at, len(piece)),), created)

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        """The text without our name, and without the keys among `created` (`None`: all) that this leaves empty."""
        lines = text.splitlines(keepends=True)
        plugins, enabled, names = _find(lines)
        ours = next((number for number, name in names if name == NAME), -1)
        if ours < 0:
            return text
        others = ", ".join(name for _, name in names if name != NAME)
        if "[" in lines[enabled]:
            lines[enabled] = re.sub(r"\[.*\]", lambda _: f"[{others}]", lines[enabled])
        else:
            lines[ours] = ""
        if not others and (created is None or _ENABLED in created):
            lines[enabled] = ""
            if (created is None or _PLUGINS in created) and not any(map(str.strip, _section(lines, plugins))):
                lines[plugins] = ""
        elif not others and "[" not in lines[enabled]:
            lines[enabled] = lines[enabled].replace("enabled:", "enabled: []", 1)
        return "".join(lines)


def _find(lines: list[str]) -> tuple[int, int, list[tuple[int, str]]]:
    """The lines of `plugins` and `enabled` (-1 if there is none), and the names in the list, each with its line."""
    if any(line.lstrip("\ufeff").startswith(("{", '"plugins', "'plugins")) for line in lines):
        raise ValueError("its keys are not plain words at the start of lines")
    plugins = next((number for number, line in enumerate(lines) if line.startswith("plugins:")), -1)
    section = _section(lines, plugins) if plugins >= 0 else []
    indent = next((_indent(line) for line in section if line.strip() and not line.lstrip().startswith("#")), "")
    found = (number for number, line in enumerate(section, plugins + 1) if line.startswith(f"{indent}enabled:"))
    enabled = next(found, -1)
    keys = [_KEY.fullmatch(lines[number].rstrip()) for number in (plugins, enabled) if number >= 0]
    if None in keys or (keys and keys[0][1]):
        raise ValueError("'plugins' or 'enabled' has a value in a form that is not known")
    if keys[1:] and keys[1][1]:
        return plugins, enabled, [(enabled, name.strip(" '\"")) for name in keys[1][1][1:-1].split(",") if name.strip()]
    names: list[tuple[int, str]] = []
    for number in range(enabled + 1, len(lines) if enabled >= 0 else 0):
        if item := _ITEM.fullmatch(lines[number].rstrip()):
            names.append((number, item[1].strip("'\"")))
        elif lines[number].strip() and not lines[number].lstrip().startswith("#"):
            break
    return plugins, enabled, names


def _section(lines: list[str], key: int) -> list[str]:
    """The lines below a key at the start of a line, up to the next one."""
    ends = (number for number in range(key + 1, len(lines)) if lines[number].strip() and lines[number][0] not in " #")
    return lines[key + 1 : next(ends, len(lines))]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]
