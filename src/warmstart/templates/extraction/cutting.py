"""Texts cut to a length, never through a placeholder, a mark of redaction or half a character."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"\{\{\w{1,60}\}\}|\[redacted:[^\]\n]{1,80}\]")


def cut(text: str, most: int) -> str:
    """The beginning of a text, at most `most` characters with the `…` that says that there was more."""
    if len(text) <= most:
        return text
    end = most - 2
    for found in _WHOLE.finditer(text, max(0, end - 80)):
        if found.start() < end < found.end():
            end = found.start()
            break
    space = max(text.rfind(" ", max(0, end - 40), end), text.rfind("\n", max(0, end - 40), end))
    if space > 0:
        end = space
    # A mark that combines with the letter before it stays with that letter.
    return f"{text[:end].rstrip()} …"


def one_line(text: str, most: int) -> str:
    """The text in one line."""
    return cut(" ".join(text.split()), most)
