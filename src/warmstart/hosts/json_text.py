"""Insert and remove entries in JSON text without touching anything else: order, comments and formatting stay.

The text may have comments, trailing commas and a byte order mark, as configuration files do. An insertion is one
contiguous piece at the front of its container, so that a diff only adds lines and removing the piece restores the text
exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Keys = tuple[str | int, ...]  # the path from the root to a value

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE = " \t\r\n"


class Entry(NamedTuple):
    """A member of an object or an item of a list, and where it is in the text."""

    key: str | int
    start: int  # of the member's name, or of the item
    comma: int  # of the comma after it; -1 if there is none
    node: Node


@dataclass(slots=True)
class Node:
    """A value, and where it is in the text."""

    value: Any
    start: int
    end: int = 0
    entries: list[Entry] = field(default_factory=list)

    def at(self, keys: Iterable[str | int]) -> Node | None:
        """The value at the keys, or `None`. Of several members with the same name, the last one counts."""
        node = self
        for key in keys:
            matches = [entry.node for entry in node.entries if entry.key == key]
            if not matches:
                return None
            node = matches[-1]
        return node


class Insertion(NamedTuple):
    """A piece of text that was inserted."""

    at: int
    length: int


def parse(text: str) -> Node:
    """The root value; an empty object for a blank text. Raises `ValueError` if the text is not JSON."""
    start = _skip(text, int(text.startswith("\ufeff")))
    if start == len(text):
        return Node({}, start, start)
    try:
        node = _value(text, start)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if (end := _skip(text, node.end)) < len(text):
        raise _unexpected(text, end)
    return node


def _reject(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid in JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject)


def _value(text: str, at: int) -> Node:
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, is_object=opening == "{")
    value, end = _DECODER.raw_decode(text, at)
    return Node(value, at, end)


def _container(text: str, start: int, *, is_object: bool) -> Node:
    node = Node({} if is_object else [], start)
    at, comma = _skip(text, start + 1), 0
    while text[at : at + 1] != ("}" if is_object else "]"):
        if comma < 0:
            raise _unexpected(text, at)
        first, key = at, len(node.entries)
        if is_object:
            if text[at : at + 1] != '"':
                raise _unexpected(text, at)
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, at)
            if text[at : at + 1] != ":":
                raise _unexpected(text, at)
            at = _skip(text, at + 1)
        child = _value(text, at)
        at = _skip(text, child.end)
        comma = at if text[at : at + 1] == "," else -1
        at = at if comma < 0 else _skip(text, at + 1)
        node.entries.append(Entry(key, first, comma, child))
        if is_object:
            node.value[key] = child.value
        else:
            node.value.append(child.value)
    node.end = at + 1
    return node


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _unexpected(text: str, at: int) -> ValueError:
    line = text.count("\n", 0, at) + 1
    what = repr(text[at]) if at < len(text) else "end of file"
    return ValueError(f"unexpected {what} in line {line}")


def insert(text: str, keys: Sequence[str], value: Any, *, item: bool = False) -> tuple[str, Insertion]:
    """Add a member, or with `item` an item of the list at `keys`. Missing containers are created.

    The value is written on one line. Raises `ValueError` if something other than a container is in the way.
    """
    root = parse(text)
    body = json.dumps(value, ensure_ascii=False)
    if root.start == len(text):
        body = f"[{body}]" if item else body
        start = "\n" if text.lstrip("\ufeff") and not text.endswith("\n") else ""  # the text may be a comment
        piece = start + "{\n  " + _member(keys, body, newline="\n  ", unit="  ") + "\n}\n"
        return text + piece, Insertion(len(text), len(piece))
    depth = len(keys) if item else len(keys) - 1
    while (node := root.at(keys[:depth])) is None:
        depth -= 1
    wanted = list if item and depth == len(keys) else dict
    if not isinstance(node.value, wanted):
        name = ".".join(keys[:depth]) or "the file"
        raise ValueError(f"{name} is not {'a list' if wanted is list else 'an object'}")
    body = f"[{body}]" if item and depth < len(keys) else body
    piece = _entry(text, root, node, keys[depth:], body)
    at = node.start + 1
    return text[:at] + piece + text[at:], Insertion(at, len(piece))


def _entry(text: str, root: Node, node: Node, keys: Sequence[str], body: str) -> str:
    """The text of a new first entry of a container, in the style of the file."""
    lead = text[node.start + 1 : node.entries[0].start if node.entries else node.end - 1]
    comma = "," if node.entries else ""
    is_inline = "\n" not in (lead if node.entries else text[root.start : root.end])
    if is_inline and root.entries:
        return (lead if lead.isspace() else "") + _member(keys, body, newline="", unit="") + comma
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = (_indent(text, root.entries[0].start) if root.entries else "") or "  "
    outer = newline + _indent(text, node.start)
    inner = newline + _indent(text, node.entries[0].start) if node.entries else outer + unit
    after = comma or ("" if "\n" in lead else outer)
    return inner + _member(keys, body, newline=inner, unit=unit) + after


def _member(keys: Sequence[str], body: str, *, newline: str, unit: str) -> str:
    """The body as the member at the keys, or alone. `newline` includes the indentation."""
    if not keys:
        return body
    if keys[1:]:
        inner = newline and newline + unit
        body = "{" + inner + _member(keys[1:], body, newline=inner, unit=unit) + newline + "}"
    return f"{json.dumps(keys[0], ensure_ascii=False)}: {body}"


def _indent(text: str, at: int) -> str:
    """The indentation of the line at `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove(text: str, keys: Keys) -> str:
    """Remove the entry at the keys."""
    parent = parse(text).at(keys[:-1])
    numbers = [] if parent is None else [n for n, entry in enumerate(parent.entries) if entry.key == keys[-1]]
    if parent is None or not numbers:
        return text
    number = numbers[-1]
    entry, last = parent.entries[number], number == len(parent.entries) - 1
    before = parent.entries[number - 1].comma if number else parent.start
    start, end = entry.start, entry.node.end if entry.comma < 0 else entry.comma + 1
    if not text[before + 1 : start].strip(_SPACE):
        start = before + 1
    else:  # the newline before it may end a comment
        while end < len(text) and text[end] in " \t":
            end += 1
    head = text[:start]
    if number and last and entry.comma < 0:
        head = text[:before] + text[before + 1 : start]
    if len(parent.entries) == 1 and not text[end : parent.end - 1].strip(_SPACE) and start == before + 1:
        end = parent.end - 1
    return head + text[end:]
