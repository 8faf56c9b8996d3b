"""A template as text that a person can edit, and back; and the diff of two templates as text.

The text is TOML. Each item has an `id`, so that an edited item keeps its sources and dates. An item missing from the
text is removed; one without an id is new, with the person's edit as its source. Fields that the text does not show
(sources, tools, dates) stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import unified_diff
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from warmstart.errors import InvalidTemplate
from warmstart.profile.values import TaskType
from warmstart.templates.item import EDIT, Item, Kind, Source, ToolCallExample, item_id
from warmstart.templates.template import SessionSeed, WarmTemplate

_HELP = """\
Template {id}, version {version}. Save and close the editor to create a new version.

Edit any text, delete whole items (from one [[item]] to the next), reorder them (best first), or add new ones.
The line `id = ...` links an item to its sources: do not change it, and leave it out of new items.
Values that differ from task to task are written as {{{{date}}}}, {{{{email}}}} and so on."""


class _CallForm(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: str
    result: str = ""
    success: bool = True
    turn: int = 0

    def example(self) -> ToolCallExample:
        return ToolCallExample(self.tool, self.arguments, self.result, self.success, self.turn)


class _ItemForm(msgspec.Struct, forbid_unknown_fields=True):
    kind: Kind
    text: str
    id: str = ""
    tool: str = ""
    count: int = 1
    call: list[_CallForm] = []


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str = ""
    type: TaskType = "mixed"
    tags: list[str] = []
    item: list[_ItemForm] = []


def to_text(template: WarmTemplate) -> str:
    """The template as text to edit."""
    document = tomlkit.document()
    for line in _HELP.format(id=template.id or "(not stored yet)", version=template.version).split("\n"):
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document.add("name", _string(template.name))
    document.add("description", _string(template.description))
    document.add("type", tomlkit.string(template.task_type).comment("code, file, research or mixed"))
    document.add("tags", tomlkit.item([*map(_string, template.tags)]))
    if template.seed.items:
        document.add("item", tomlkit.item([_table(key, item) for key, item in _by_key(template.seed.items).items()]))
    return _show_invisible(document.as_string())


def from_text(text: str, template: WarmTemplate, *, author: str = "") -> WarmTemplate:
    """The template as edited. Raises `InvalidTemplate`, which says where the problem is."""
    form = _read(text.removeprefix("\ufeff").replace("\r\n", "\n"))  # some editors write a BOM or CRLF
    known = _by_key(template.seed.items)
    items = []
    for number, each in enumerate(form.item, 1):
        new = Item(kind=each.kind, text="", sources=(Source(f"{EDIT}{author}"),))
        old = known.pop(each.id, None) if each.id else new
        if old is None:
            raise InvalidTemplate(f"item {number}: the id {each.id!r} is unknown or used twice; delete the `id` line")
        calls = tuple(call.example() for call in each.call)
        items.append(replace(old, kind=each.kind, text=each.text, tool=each.tool, count=each.count, calls=calls))
    return replace(
        template,
        name=form.name,
        description=form.description,
        # A description that a person changed is theirs.
        described_by=template.described_by if form.description == template.description else "",
        task_type=form.type,
        tags=tuple(form.tags),
        seed=SessionSeed(items=tuple(items)),
    )


def _by_key(items: tuple[Item, ...]) -> dict[str, Item]:
    """The items by id, numbered if several have the same content."""
    keyed: dict[str, Item] = {}
    for item in items:
        key, number = item_id(item), 2
        while key in keyed:
            key, number = f"{item_id(item)}-{number}", number + 1
        keyed[key] = item
    return keyed


def _read(text: str) -> _Form:
    try:
        return msgspec.convert(tomlkit.parse(text).unwrap(), _Form)
    except ParseError as error:
        what = re.sub(r" at line \d+ col \d+$", "", str(error))
        raise InvalidTemplate(f"line {error.line}: {what}; correct it and save again") from error
    except (TOMLKitError, msgspec.ValidationError) as error:
        what, _, path = str(error).partition(" - at `$")
        place = re.sub(r"^\.item\[(\d+)\]", lambda found: f"item {int(found[1]) + 1}", path.rstrip("`")).strip(".")
        what = f"{what[:1].lower()}{what[1:]}"
        raise InvalidTemplate(f"{place or 'template'}: {what}; correct it and save again") from error


def _table(key: str, item: Item) -> dict[str, Any]:
    sessions = " ".join(dict.fromkeys(source.session for source in item.sources))
    calls = [_call_table(call) for call in item.calls]
    more = {"tool": item.tool and _string(item.tool), "count": item.count if item.count != 1 else 0, "call": calls}
    return {
        "id": tomlkit.string(key).comment(f"from {' '.join(sessions.split())}"),
        "kind": item.kind,
        "text": _string(item.text),
        **{name: value for name, value in more.items() if value},
    }


def _call_table(call: ToolCallExample) -> dict[str, Any]:
    table: dict[str, Any] = {
        "tool": _string(call.tool_name),
        "arguments": _string(call.arguments),
        "result": _string(call.result),
    }
    if not call.success:
        table["success"] = False
    if call.turn_number:
        table["turn"] = call.turn_number
    return table


def _string(text: str) -> tomlkit.items.String:
    """A TOML string, as readable as possible: literal ('…') if it can be."""
    if text.isprintable():
        return tomlkit.string(text, literal=('"' in text or "\\" in text) and "'" not in text)
    return tomlkit.string(text, multiline="\n" in text)


def _show_invisible(text: str) -> str:
    """The text with invisible characters escaped; they only occur in strings in which TOML reads escapes."""
    return "".join(sign if sign.isprintable() or sign == "\n" else f"\\U{ord(sign):08x}" for sign in text)


_ID = re.compile(r'^id = "[\w-]+" (?=# from )')
_MORE_FIELDS = ("state", "project", "agent", "origin", "described_by", "sources", "tools")  # not in the text


def diff(old: WarmTemplate, new: WarmTemplate) -> list[str]:
    """The differences as diff lines, `-` for old and `+` for new; empty if there are none."""
    lines = unified_diff([*_lines(old)], [*_lines(new)], lineterm="", n=2)
    return ["..." if line.startswith("@@") else line for line in lines][2:]


def _lines(template: WarmTemplate) -> Iterator[str]:
    for name in _MORE_FIELDS:
        yield _show_invisible(f"{name} = {json.dumps(getattr(template, name), sort_keys=True)}")
    text = to_text(template)
    lines = text[text.index("\nname = ") :].split("\n")
    yield from (_ID.sub("", line) for line in lines if line)
