"""How the person writes: length, directness, language, style of feedback, standing instructions, corrections.

All of it is weak evidence: a label for people to check, never a fact about them. Only the person's own words are looked
at; what an agent put into the message (tags, a plan to implement) and what was pasted (code, quotes) is taken off
first. Every step is linear in the length of the text, because a pasted message may hold half a megabyte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

from warmstart.profile.languages import language_of, words_in
from warmstart.profile.phrases import agrees, corrects, is_direct, standing
from warmstart.profile.values import Feedback, Patterns
from warmstart.sessions.values import Message

LONGEST = 4_000  # characters of a message that are looked at
INSTRUCTIONS = 20  # standing instructions that are kept
TERSE = 3  # words


class _Said(NamedTuple):
    """A message of the person, and whether it answers a question."""

    text: str
    answers: bool


_TAG = re.compile(r"<([A-Za-z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_UNCLOSED = 40  # names of tags that are looked for in vain before the rest is taken for text
_PLAN = "Implement the following plan:"  # Claude Code writes the accepted plan into the person's mouth
_QUOTED = re.compile(r"^[ \t]*>[^\n]*\n?", re.MULTILINE)


def own(message: Message) -> str:
    """The person's own words in a message: empty if a machine wrote it, and without what was pasted."""
    if message.role != "user" or message.injected or message.compaction_summary or message.sidechain:
        return ""
    return _stripped(message.text) if message.text else ""


@lru_cache(maxsize=128)
def _stripped(text: str) -> str:
    if text.startswith(_PLAN):
        return _PLAN
    for fence in ("```", '"""'):
        if fence in text:
            text = " ".join(text.split(fence)[::2])
    if "<" in text:
        text = _untagged(text)
    text = text[: 4 * LONGEST]
    if ">" in text:
        text = _QUOTED.sub("", text)
    return text.strip()[:LONGEST].replace("’", "'")


def _untagged(text: str) -> str:
    """The text without `<tag>…</tag>` blocks; a tag that is never closed is looked for once only."""
    kept: list[str] = []
    unclosed: set[str] = set()
    place = 0
    for tag in _TAG.finditer(text):
        if tag.start() < place or tag[1] in unclosed:
            continue
        closing = f"</{tag[1]}>"
        end = text.find(closing, tag.end())
        if end < 0:
            unclosed.add(tag[1])
            if len(unclosed) > _UNCLOSED:
                break
            continue
        kept.append(text[place : tag.start()])
        place = end + len(closing)
    return " ".join((*kept, text[place:])) if place else text


def _said(messages: Sequence[Message]) -> Iterator[_Said]:
    asked = False
    for message in messages:
        if message.role == "tool":
            continue
        if message.role == "assistant":
            if message.text and not message.sidechain:
                asked = message.text[-40:].rstrip(" \n*_)").endswith(("?", "？"))
        elif text := own(message):
            yield _Said(text, asked)
            asked = False


def corrections(messages: Sequence[Message]) -> int:
    """How many messages after the first correct the agent. Weak evidence, counted with care: rather too few."""
    said = _said(messages)
    next(said, None)
    return sum(corrects(text, answers=answers) for text, answers in said)


def patterns(messages: Sequence[Message]) -> Patterns:
    """How the person writes in a session. Weak evidence: a label for people to check."""
    said = list(_said(messages))
    if not said:
        return Patterns()
    texts = [text for text, _ in said]
    return Patterns(
        messages=len(said),
        length=float(median(map(words_in, texts))),
        directness=sum(map(is_direct, texts)) / len(texts),
        language=language_of(" ".join(texts)),
        feedback=dict(Counter(map(_style, said[1:]))),
        instructions=_instructions(texts),
    )


def _style(said: _Said) -> Feedback:
    if corrects(said.text, answers=said.answers):
        return "corrective"
    if agrees(said.text):
        return "approving"
    return "terse" if words_in(said.text) <= TERSE else "plain"


def _instructions(texts: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in texts:
        for sentence in standing(text):
            found.setdefault(sentence.lower().rstrip(".!"), sentence)
    return tuple(found.values())[:INSTRUCTIONS]
