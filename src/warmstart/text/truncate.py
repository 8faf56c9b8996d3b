"""Truncate text, between words or lines if possible, never inside a placeholder or a redaction marker."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ATOMIC = re.compile(r"\{\{\w{1,60}\}\}|\[redacted:[^\]\n]{1,80}\]")
_GAP = re.compile(r"\s+|[/,;](?=\w)")
_MAX_WORD = 40  # maximum characters to drop so that the text ends with a whole word
_LEFT_OUT = re.compile(r"… (\d+) lines? left out …")
_NOTE = 30  # characters of such a note


def truncate(text: str, length: int) -> str:
    """The beginning of a text, at most `length` characters including the `…` that ends it."""
    if len(text) <= length:
        return text
    end = max(0, length - 2)
    for found in _ATOMIC.finditer(text, max(0, end - 80)):
        if found.start() < end < found.end():
            end = found.start()
            break
    near = max(0, end - _MAX_WORD)
    space = max(text.rfind(" ", near, end), text.rfind("\n", near, end))
    return f"{text[: space if space > 0 else end].rstrip()} …"


def one_line(text: str, length: int) -> str:
    """The text on one line of at most `length` characters."""
    return truncate(" ".join(text.split()), length)


def head_and_tail(text: str, length: int) -> str:
    """The beginning and the end of a text, with a note between them that says how many lines were left out.

    The beginning gets two thirds of the length. Cuts between lines if they fit, otherwise between words. Shortening a
    text again adds up the counts.
    """
    if len(text) <= length:
        return text
    lines = text.split("\n")
    if len(lines) == 1:
        return truncate(text, length * 2 // 3) + _tail(text, length // 3)[1:]
    space = length - _NOTE
    head = lines[: _count_fitting(lines, space * 2 // 3)] or [truncate(lines[0], space * 2 // 3)]
    space -= sum(map(len, head)) + len(head)
    tail = lines[len(lines) - _count_fitting(lines[:0:-1], space) :] or [_tail(lines[-1], space)]
    between = lines[len(head) : len(lines) - len(tail)]
    for side, end in ((head, -1), (tail, 0)):
        if count_left_out(side[end]):
            between.append(side.pop(end))
    count = sum(count_left_out(line) or 1 for line in between)
    return "\n".join([*head, *([left_out(count)] if count else []), *tail])


def left_out(lines: int) -> str:
    """The note that replaces this many lines."""
    return f"… {lines} line{'s' * (lines != 1)} left out …"


def count_left_out(line: str) -> int:
    """How many lines this note replaces; 0 if the line is not a note."""
    note = _LEFT_OUT.fullmatch(line)
    return int(note[1]) if note else 0


def _count_fitting(lines: Sequence[str], length: int) -> int:
    for number, line in enumerate(lines):
        length -= len(line) + 1
        if length < 0:
            return number
    return len(lines)


def _tail(line: str, length: int) -> str:
    """The last words of a line, after a `…`."""
    if len(line) <= length:
        return line
    start = max(0, len(line) - length + 2)
    for found in _ATOMIC.finditer(line, max(0, start - 100)):
        if found.start() < start < found.end():
            start = found.end()
    gap = _GAP.search(line, start, start + _MAX_WORD)
    return f"… {line[gap.end() if gap else start :].strip()}"
