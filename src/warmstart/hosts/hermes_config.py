"""Our name in `plugins.enabled` of Hermes' `config.yaml`, added and removed as text.

Parsing and rewriting the file would drop its comments, as Hermes' own writer does. So we insert or remove a few lines
and leave every other byte alone. A file in a form that we do not recognise is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from warmstart.hosts.files import Edit, HostFile, State
from warmstart.hosts.json_text import Insertion, Keys

NAME = "warmstart"
_END = r"[ \t]*(?:#.*)?(?:\r?\n|\Z)"
_PLUGINS = re.compile(rf"^plugins:{_END}(?P<body>(?:(?:[ #].*|\r?)\n|[ #].*\Z)*)", re.MULTILINE)
_CHILD = re.compile(r"^( +)[^\s#]", re.MULTILINE)
_LIST = rf"enabled:[ \t]*(?P<row>\[[^][{{}}#]*\])?{_END}(?P<items>(?:(?: *(?:-.*|#.*)?)\r?(?:\n|(?<=.)\Z))*)"
_ITEM = re.compile(rf"^( *)- +(['\"]?){NAME}\2{_END}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PluginList(HostFile):
    """`config.yaml` with our name in its list of plugins."""

    def state(self, text: str) -> State:
        return "absent" if self.remove(text, ()) == text else "current"

    def add(self, text: str) -> Edit:
        newline = "\r\n" if "\r\n" in text else "\n"
        if text and not text.endswith("\n"):
            edit = self.add(text + newline)
            return edit._replace(insertions=(Insertion(len(text), len(newline)), *edit.insertions))
        plugins, enabled, indent = _find(text)
        created: tuple[Keys, ...] = ()
        if enabled and enabled["row"]:
            at, piece = enabled.start("row") + 1, f"{NAME}, " if enabled["row"][1:-1].strip() else NAME
        elif enabled:
            first = _CHILD.search(enabled["items"])
            at, piece = enabled.start("items"), f"{first[1] if first else indent}- {NAME}{newline}"
        else:
            at, piece = len(text), f"{indent}enabled:{newline}{indent}- {NAME}{newline}"
            created = (("plugins", "enabled"),)
            if plugins:
                at = plugins.start("body")
            else:
                piece, created = f"plugins:{newline}{piece}", (("plugins",), *created)
        return Edit(text[:at] + piece + text[at:], (Insertion(at, len(piece)),), created)

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        plugins, enabled, _ = _find(text)
        if not plugins or not enabled:
            return text
        row, items = enabled["row"] or "", _ITEM.sub("", enabled["items"])
        names = [name.strip() for name in row[1:-1].split(",") if name.strip()]
        others = [name for name in names if name.strip("'\"") != NAME]
        if others == names and items == enabled["items"]:
            return text
        key = text[enabled.start() : enabled.start("items")].replace(row, f"[{', '.join(others)}]" if row else "")
        if not others and not _CHILD.search(items):
            if created is None or ("plugins", "enabled") in created:
                key = ""
            elif not row:
                key = key.replace(":", ": []", 1)
        start, end = enabled.span()
        if not key and not (text[plugins.start("body") : start] + items + text[end : plugins.end()]).strip():
            start = plugins.start() if created is None or ("plugins",) in created else start
        return text[:start] + key + items + text[end:]


def _find(text: str) -> tuple[re.Match[str] | None, re.Match[str] | None, str]:
    """The section `plugins`, the list `enabled` in it, and the indentation there."""
    plugins = _PLUGINS.search(text)
    child = _CHILD.search(plugins["body"]) if plugins else None
    indent = child[1] if child else "  "
    where = re.compile(f"^{indent}{_LIST}", re.MULTILINE)
    enabled = where.search(text, plugins.start("body"), plugins.end()) if plugins else None
    if not plugins and re.search(r"^(?:[\"']?plugins\b|\ufeff?\{)", text, re.MULTILINE):
        raise ValueError("'plugins' is not a block of lines")
    if plugins and not enabled and re.search(rf"^{indent}[\"']?enabled\b", plugins["body"], re.MULTILINE):
        raise ValueError("'enabled' is not a list of names")
    return plugins, enabled, indent
