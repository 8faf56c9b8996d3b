"""Writing TOML for people to edit, and finding again where in the text something stands.

The standard library reads TOML and does not write it; what is needed here is small. A text is written as readably as
it can be without changing it, and what a reader would not see in it (control characters, invisible ones) as an escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
# What is skipped as one, so that nothing in a text or a comment is taken for a header.
_PIECE = re.compile(
    r"""
    '''.*?'''(?!')                                  # texts of several lines
    | \"\"\"(?:\\.|[^\\])*?\"\"\"(?!\")
    | '[^'\n]*'                                     # texts of one line
    | \"(?:\\.|[^\"\\\n])*\"
    | \#[^\n]*
    | ^[ \t]*\[\[?[ \t]*(?P<table>[\w. \t-]+?)[ \t]*\]
    | ^[ \t]*(?P<key>[\w-]+)[ \t]*=
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def quoted(text: str) -> str:
    """A text as TOML that reads back the same."""
    if "\n" in text:
        if "'''" not in text and not text.endswith("'") and all(_is_plain(each) for each in text):
            return f"'''\n{text}'''"
        return '"""\n' + "".join(each if each == "\n" else _escaped(each) for each in text) + '"""'
    if ('"' in text or "\\" in text) and "'" not in text and all(map(str.isprintable, text)):
        return f"'{text}'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t"


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def lines_of(text: str) -> dict[tuple[str | int, ...], int]:
    """The line of each table of an array and of each key in it, by path: `("card", 0, "exemplar", 1, "arguments")`."""
    found: dict[tuple[str | int, ...], int] = {}
    last: dict[str, tuple[str | int, ...]] = {"": ()}
    counts: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    for name, key, line in _pieces(text):
        if key:
            found.setdefault((*table, key), line)
            continue
        parent, _, own = name.rpartition(".")
        place = (*last.get(parent, ()), own)
        number = counts.get(place, 0)
        counts[place] = number + 1
        table = (*place, number)
        last[name] = table
        found[table] = line
    return found


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    line, done = 1, 0
    for piece in _PIECE.finditer(text):
        if piece["table"] or piece["key"]:
            start = piece.start("table") if piece["table"] else piece.start("key")
            line += text.count("\n", done, start)
            done = start
            yield re.sub(r"\s", "", piece["table"] or ""), piece["key"] or "", line
