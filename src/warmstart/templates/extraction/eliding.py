"""Long text in arguments, as its shape alone: which file is written matters, the three hundred lines do not.

What was written into a file may have come from anywhere, and it fills the reader's context: a placeholder such as
`{{content}}` stands for it.
"""

from __future__ import annotations

import re

LONG = 200  # characters of a text that is carried as it is
COMMAND = 600  # characters of a command that is carried
_QUOTED_LONG = 120

_HEREDOC = re.compile(r"(<<-?\s*(['\"]?)(\w+)\2[^\n]*\n)(.*?)(\n[ \t]*\3(?=[\s)\"']|$))", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_PATCH_LINE = re.compile(r"^\*\*\* (?:Begin Patch|End Patch|(?:Update|Add|Delete) File: .{1,200}|Move to: .{1,200})$")
_NAME = re.compile(r"\W+")


def elided(key: str, text: str, *, command: bool = False) -> str:
    """The text, or where it is long what says what was there."""
    if "*** Begin Patch" in text[:2000] and len(text) > LONG:
        return _patch(text)
    if command:
        return _command(text)
    if len(text) <= LONG:
        return text
    return "{{" + (_NAME.sub("_", key).strip("_").lower()[:40] or "text") + "}}"


def _command(text: str) -> str:
    if "<<" in text:
        text = _HEREDOC.sub(lambda found: f"{found[1]}{{{{content}}}}{found[5]}", text[:65_536])
    if len(text) > LONG:
        text = _QUOTED.sub(_quoted, text)
    return text if len(text) <= COMMAND else "{{command}}"


def _quoted(found: re.Match[str]) -> str:
    text = found[0]
    return text if len(text) <= _QUOTED_LONG else f"{text[0]}{{{{text}}}}{text[-1]}"


def _patch(text: str) -> str:
    kept: list[str] = []
    for line in text.splitlines():
        if _PATCH_LINE.match(line):
            kept.append(line)
        elif kept and kept[-1] != "{{patch}}":
            kept.append("{{patch}}")
    return "\n".join(kept[:40])
