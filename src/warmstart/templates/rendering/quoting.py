"""Texts of items made safe to show: nothing in them can end the note, begin a message or hide from the reader.

Line breaks stay, as plain ones: who writes a note indents what follows them.
"""

from __future__ import annotations

import re

# Control characters but tab and line feed, and what is shown as nothing or turns the direction of the text.
_UNSEEN = re.compile(
    "(?<![^\x00-\u02ff])[\u200c\u200d]"  # joiners belong to emoji and to scripts that join
    "|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ROLES = "system|user|assistant|human|developer|tool|function|model"
_BORDER = re.compile(
    r"(?P<ours>[\[<]\s*/?\s*(?=warmstart))"
    r"|<(?=[|｜]|<\s*/?SYS>|/?s>|(?:start|end)_of_turn)|\[(?=/?(?:INST|SYS)\])"  # <|im_start|> and its kin
    rf"|<(?=/?(?:antml:|{_ROLES}|function_calls|invoke|parameter|instructions?|system-)[\w:-]*[\s/>])"
    r"|(?P<end>(?<=[|｜])>)",
    re.IGNORECASE,
)
_TURN = re.compile(r"^(?=(?:human|assistant|system|user)\s*:)", re.IGNORECASE | re.MULTILINE)


def safe(text: str) -> str:
    """The text with nothing unseen in it and nothing that a model or Warmstart could take for a border.

    A forged border gets a gap: it can still be read, but is none any longer.
    """
    # Most texts have nothing to look for, which is ten times as fast to tell.
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        text = _UNSEEN.sub("", _BREAKS.sub("\n", text))
    if "<" in text or "[" in text or ">" in text:
        text = _BORDER.sub(_broken, text)
    return _TURN.sub(" ", text) if ":" in text else text


def _broken(found: re.Match[str]) -> str:
    if found["ours"]:
        return "(" + found["ours"][1:]
    return " >" if found["end"] else found[0] + " "
