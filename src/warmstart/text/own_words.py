"""The user's own words in a message: without code, quotes, and text that an agent or a tool added.

Every step is linear in the length of the text, because a pasted message may be half a megabyte. Hooks load this module,
so it imports little.
"""

from __future__ import annotations

import re

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
PLAN = "Implement the following plan:"  # Claude Code logs an accepted plan as a user message

_TAG = re.compile(r"<([A-Za-z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_MAX_UNCLOSED = 40  # distinct unclosed tags after which the rest counts as text
_QUOTED = re.compile(r"^[ \t]*>[^\n]*\n?", re.MULTILINE)


def without_pasted(text: str, max_characters: int) -> str:
    """The text without fenced code, `<tag>…</tag>` blocks, quoted lines, and the steps of an accepted plan."""
    if text.startswith(PLAN):
        return PLAN
    for fence in ("```", '"""'):
        text = " ".join(text.split(fence)[::2])
    text = _QUOTED.sub("", _without_tags(text)[: 4 * max_characters])
    return text.strip()[:max_characters]


def first_sentence(text: str, max_characters: int = 500) -> str:
    """The first sentence of the user's own words, or its beginning."""
    sentences = SENTENCE.split(without_pasted(text, max_characters).strip(" -*\t\n"), maxsplit=1)
    return " ".join(sentences[0].split())


def _without_tags(text: str) -> str:
    """The text without `<tag>…</tag>` blocks; the closing tag of an unclosed one is searched for only once."""
    parts: list[str] = []
    unclosed: set[str] = set()
    place = 0
    for tag in _TAG.finditer(text):
        if tag.start() < place or tag[1] in unclosed:
            continue
        closing = f"</{tag[1]}>"
        end = text.find(closing, tag.end())
        if end < 0:
            unclosed.add(tag[1])
            if len(unclosed) > _MAX_UNCLOSED:
                break
            continue
        parts.append(text[place : tag.start()])
        place = end + len(closing)
    return " ".join((*parts, text[place:])) if place else text
