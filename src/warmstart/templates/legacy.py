"""Templates of stores that were made before items: what each part of their seeds is as an item.

Calls and rules that are not known to be safe are left out, and so are the words of results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from warmstart.profile.tools import SHELLS, command_in, role_of
from warmstart.templates.allowlist import is_safe_rule, is_safe_text
from warmstart.templates.commands import is_project_file, relative_path
from warmstart.templates.item import Call, Item, Kind, Source
from warmstart.templates.safety import HOST_TOOLS, is_known, is_safe_call

_CODE = re.compile(r"`([^`\n]+)`")


class _Part(msgspec.Struct, kw_only=True):
    sources: tuple[Source, ...] = ()
    count: int = 1


class _Text(_Part):
    text: str


class _Fix(_Part):
    error: str
    change: str


class _Card(msgspec.Struct):
    tool: str
    fixes: tuple[_Fix, ...] = ()


class _Demonstration(_Part):
    task: str
    acts: tuple[Call, ...]


class _Recovery(_Part):
    tool: str
    failed: str
    error: str
    worked: str


class _Marker(_Part):
    kind: str
    value: str
    use: str


class LegacySeed(msgspec.Struct):
    """A seed as earlier versions stored it; examples and conventions of tools only repeat what the tools say."""

    contexts: tuple[_Text, ...] = ()
    cards: tuple[_Card, ...] = ()
    demonstrations: tuple[_Demonstration, ...] = ()
    recoveries: tuple[_Recovery, ...] = ()
    patterns: tuple[_Text, ...] = ()
    markers: tuple[_Marker, ...] = ()

    def items(self, project: str = "") -> tuple[Item, ...]:
        """What the seed carries, as items."""
        found = (
            *(_item("instruction", one, one.text) for one in self.contexts if is_safe_rule(one.text)),
            *self._traps(project),
            *self._procedures(project),
            *self._markers(project),
            *(_item("habit", one, one.text) for one in self.patterns),
        )
        return tuple(dict.fromkeys(found))

    def _traps(self, project: str) -> Iterator[Item]:
        for one in self.recoveries:
            calls = tuple(_call(one.tool, arguments) for arguments in (one.failed, one.worked))
            mistake = calls[0].arguments if one.tool in SHELLS else one.tool
            if is_safe_text(one.error) and all(is_safe_call(call, project) for call in calls):
                yield _item("trap", one, one.error, mistake, calls)
        for card in self.cards:
            for fix in card.fixes if card.tool in SHELLS else ():
                commands = [code for code in _CODE.findall(fix.change) if is_known(code)]
                if commands and is_safe_text(fix.error):
                    yield _item("trap", fix, fix.error, card.tool, (Call(card.tool, ""), Call("shell", commands[-1])))

    def _procedures(self, project: str) -> Iterator[Item]:
        for one in self.demonstrations:
            calls = tuple(
                act._replace(result=_shape(act.result))
                for act in one.acts
                if is_safe_call(act, project)
                and not (act.tool in HOST_TOOLS and role_of(act.tool, act.arguments) == "edit")
            )
            if calls:
                yield _item("procedure", one, one.task, "", calls)

    def _markers(self, project: str) -> Iterator[Item]:
        for one in self.markers:
            path = relative_path(one.value, (project,))
            if one.kind == "file" and one.use != "run" and is_project_file(path):
                yield _item("file", one, path, "edit" if one.use == "changed" else "read")
            elif one.kind == "reference":
                yield _item("reference", one, one.value)


def _item(kind: Kind, part: _Part, text: str, tool: str = "", calls: tuple[Call, ...] = ()) -> Item:
    return Item(kind=kind, text=text, tool=tool, calls=calls, count=part.count, sources=part.sources)


def _call(tool: str, arguments: str) -> Call:
    return Call("shell", command_in(arguments)) if tool in SHELLS else Call(tool, arguments)


def _shape(result: str) -> str:
    lines = result.strip().count("\n") + 1
    return f"ok, {lines} lines" if lines > 1 else "ok"
