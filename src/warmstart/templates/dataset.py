"""Templates as rows of the open dataset: the content of an export, with names hashed as in the other tables.

Their items have text, unlike anything else in the dataset. In it, every path, file name, URL, e-mail address, id and
private tool, and every word that is part of the path of a project, is a hash. Times are weeks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from warmstart.profile.pseudonyms import Pseudonyms
from warmstart.profile.rules import load_table
from warmstart.templates.sharing import export_text
from warmstart.templates.template import WarmTemplate

_PATHS = r"""
    mcp__[\w-]+                                                 # a tool of an MCP server
    |\w+://[^\s"'`<>]+
    |(?:[\w.+~$%:-][\w.+~$%@:()\[\]*?&#-]*)?[/\\@][\w.+~$%@:/\\()\[\]*?&#-]*  # a path, a URL, an e-mail address
    |[\w-]*[^\W\d][\w-]*(?:\.[\w-]+)+                           # a file, a host
    |[0-9a-f]{8}-[0-9a-f-]{27}|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b  # an id
"""
_PUBLIC = ("version", "task_type", "agent", "used", "successes", "failures")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")
_PUNCTUATION = ".:,)]?"
_MIN_JOINED = 5  # letters of a name that is found inside longer words too
_FOLDERS = {"home", "users", "src", "code", "work", "workspace", "projects", "repos", "git", "dev", "go", "tmp", "var"}


def template_rows(
    templates: Iterable[WarmTemplate], *, projects: Iterable[str], names: Pseudonyms
) -> Iterator[dict[str, Any]]:
    """A row for each template. `projects` are the paths whose parts are hashed wherever they occur."""
    parts = {part for project in projects for part in re.split(r"[/\\]+", project)}
    private = {part for part in parts if len(part) > 2 and part.lower() not in _FOLDERS}
    empty = {name: [] if kind == "list" else "" for name, kind, _ in load_table("dataset")["templates"]}
    for template in templates:
        tools = [name for name in template.tools if names.tool(name) != name]
        hide = _Hiding(names, [*private, *tools])
        row = hide.value(json.loads(export_text(template))["template"])
        row |= {
            "template": names.hash("template", template.id),
            "project": names.hash("project", template.project),
            "tools": [names.tool(name) for name in template.tools],
            **{name: getattr(template, name) for name in _PUBLIC},
        }
        yield {name: row.get(name, nothing) for name, nothing in empty.items()}


class _Hiding:
    """Replaces what may identify someone in a decoded template."""

    def __init__(self, names: Pseudonyms, private: Iterable[str]) -> None:
        words = "|".join(map(_name_pattern, sorted(private, key=len, reverse=True)))
        self._names = names
        self._pattern = re.compile(_PATHS + (f"|{words}" if words else ""), re.VERBOSE | re.IGNORECASE)

    def value(self, value: Any, key: str = "") -> Any:
        """The value with all its texts changed. Sources become hashes of their sessions."""
        if key == "sources":
            sessions = [source if isinstance(source, str) else source[0] for source in value]
            return list(dict.fromkeys(self._names.hash("session", session) for session in sessions))
        if key == "kind":
            return value
        if isinstance(value, dict):
            return {name: self.value(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, key) for inner in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if _TIME.fullmatch(text):
            year, week, _ = datetime.fromisoformat(text).isocalendar()
            return f"{year}-W{week:02}"
        return self._pattern.sub(self._replace, text)

    def _replace(self, found: re.Match[str]) -> str:
        word = found[0].rstrip(_PUNCTUATION)
        if not any(map(str.isalnum, word)):
            return found[0]  # `./...`
        shown = (
            self._names.tool(word) if word.startswith("mcp__") else f"name:{self._names.hash('name', word, digits=8)}"
        )
        return shown + found[0][len(word) :]


def _name_pattern(name: str) -> str:
    """A name however its words are joined: `tide-watch`, `tidewatch`, `TideWatch`."""
    words = r"[-_.\ ]?".join(map(re.escape, re.split(r"[-_. ]+", name)))
    return rf"\w*{words}\w*" if len(name) >= _MIN_JOINED else rf"(?<![^\W_]){words}(?![^\W_])"
