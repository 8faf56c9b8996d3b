"""Convert templates that were stored before items existed: each part of their seeds becomes an item.

Calls and rules that are not known to be safe are left out, and so is the text of results.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warmstart.profile.tools import SHELLS, command_in, role_of
from warmstart.templates.commands import is_project_file, relative_path
from warmstart.templates.item import Call, Item, Kind, Source
from warmstart.templates.safety import HOST_TOOLS, is_safe_call, is_safe_rule, is_safe_text


class _Part(msgspec.Struct):
    """A part of any kind; each kind used a few of these fields."""

    text: str = ""
    task: str = ""
    acts: tuple[Call, ...] = ()
    tool: str = ""
    failed: str = ""
    error: str = ""
    worked: str = ""
    kind: str = ""
    value: str = ""
    use: str = ""
    count: int = 1
    sources: tuple[Source, ...] = ()

    def item(self, kind: Kind, text: str, tool: str = "", calls: tuple[Call, ...] = ()) -> Item:
        return Item(kind=kind, text=text, tool=tool, calls=calls, count=self.count, sources=self.sources)


class LegacySeed(msgspec.Struct):
    """A seed as stored by earlier versions. Its tool cards are ignored: they only repeat the tool definitions."""

    contexts: tuple[_Part, ...] = ()
    demonstrations: tuple[_Part, ...] = ()
    recoveries: tuple[_Part, ...] = ()
    patterns: tuple[_Part, ...] = ()
    markers: tuple[_Part, ...] = ()

    def items(self, project: str = "") -> tuple[Item, ...]:
        """What the seed carries, as items."""
        return tuple(dict.fromkeys(self._items(project)))

    def _items(self, project: str) -> Iterator[Item]:
        yield from (one.item("instruction", one.text) for one in self.contexts if is_safe_rule(one.text))
        for one in self.recoveries:
            calls: tuple[Call, ...] = Call(one.tool, one.failed), Call(one.tool, one.worked)
            if one.tool in SHELLS:
                calls = tuple(Call("shell", command_in(call.arguments)) for call in calls)
            if is_safe_text(one.error) and all(is_safe_call(call, project) for call in calls):
                yield one.item("trap", one.error, calls[0].arguments if one.tool in SHELLS else one.tool, calls)
        for one in self.demonstrations:
            acts = (act._replace(result="ok") for act in one.acts if is_safe_call(act, project))
            if calls := tuple(one for one in acts if one.tool not in HOST_TOOLS or role_of(*one[:2]) != "edit"):
                yield one.item("procedure", one.task, "", calls)
        for one in self.markers:
            path = relative_path(one.value, (project,))
            if one.kind == "file" and one.use != "run" and is_project_file(path):
                yield one.item("file", path, "edit" if one.use == "changed" else "read")
            elif one.kind == "reference":
                yield one.item("reference", one.value)
        yield from (one.item("habit", one.text) for one in self.patterns)
