"""How the person works, in short lines: weak evidence, made of labels and counts and never of the person's text.

Read from at most the first ten messages and the standing instructions, so that one long session does not weigh more
than another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from warmstart.profile.feedback import writing_style
from warmstart.profile.values import Profile, WritingStyle
from warmstart.sessions.values import Message
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.walk import Request, Walk
from warmstart.templates.values import Sources, UserPattern

FIRST = 10  # messages
_FEWEST = 3  # messages before anything is said of how they are written
_SHORT, _LONG = 15, 60  # words
_MOSTLY = 0.7  # of the messages

_MANNERS = ("writes short", "writes long", "states directly", "asks rather")
_LANGUAGES = {
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
# What a person asks for again and again: in two messages, or in one standing instruction.
_HABITS = {
    "asks for tests with changes": re.compile(
        r"\b(?:add|write|with|include|extend|update) (?:\w+ ){0,3}tests?\b|\btest (?:it|this|everything|your)\b"
        r"|\b(?:schreib|ergänz)\w* .{0,40}tests?\b"
    ),
    "asks for the tests to be run": re.compile(r"\b(?:run|rerun|re-run) (?:\w+ ){0,3}(?:tests?|pytest|test suite)\b"),
    "asks for commits along the way": re.compile(
        r"\bcommit (?:and push|it\b|this|that\b|often|the\b|your|everything|now|each|after)"
    ),
    "wants a plan before changes": re.compile(
        r"\b(?:plan|propose|explain|outline|think|discuss)\b.{0,40}\b(?:first|before)\b"
        r"|\b(?:don't|do not) (?:code|implement|change anything) yet\b"
    ),
    "asks for documentation with changes": re.compile(
        r"\b(?:update|add|write) (?:\w+ ){0,3}(?:docs?|documentation|readme|changelog)\b"
    ),
    "asks for short answers": re.compile(
        r"\b(?:be|keep (?:it|answers|your answers?)) (?:short|brief|concise|terse)\b|\bbriefly\b"
        r"|\bin one (?:line|sentence)\b"
    ),
    "asks for small steps": re.compile(
        r"\bsmall(?:er)? (?:steps?|commits?|changes?)\b|\bone (?:thing|step) at a time\b|\bstep by step\b"
    ),
}


def patterns(walk: Walk, places: Places, profile: Profile) -> tuple[UserPattern, ...]:
    """What can be said of how the person works; nothing where they said too little."""
    said = tuple(islice((request for request in walk.requests if request.text), FIRST))
    if not said:
        return ()
    sources = tuple(request.source for request in said)
    lines = [(line, sources) for line in _manner(writing_style(_opening(walk, said)))]
    lines += _habits(said, _standing(walk, profile.style.instructions))
    return tuple(UserPattern(text=places.text(line), sources=shown) for line, shown in lines)


def _opening(walk: Walk, said: Sequence[Request]) -> list[Message]:
    """The conversation up to the last of these requests."""
    last = said[-1].source.message
    end = next(place for place, message in enumerate(walk.messages) if message.native_id == last)
    return list(walk.messages[: end + 1])


def _manner(seen: WritingStyle) -> Iterator[str]:
    if seen.messages >= _FEWEST and seen.length is not None:
        direct = seen.directness is not None and seen.directness >= _MOSTLY
        words = f"(median {seen.length:.0f} words)"
        if seen.length <= _SHORT:
            yield f"writes short, direct requests {words}" if direct else f"writes short requests {words}"
        elif seen.length >= _LONG:
            yield f"writes long, detailed requests {words}"
        elif direct:
            yield f"states directly what to do {words}"
        elif seen.directness is not None and seen.directness <= 1 - _MOSTLY:
            yield "asks rather than orders"
    if name := _LANGUAGES.get(seen.language):
        yield f"writes in {name}"
    answers = sum(seen.feedback.values())
    if seen.feedback.get("approving", 0) + seen.feedback.get("terse", 0) >= max(2, answers / 3):
        yield "approves tersely"
    if seen.feedback.get("corrective", 0) >= 2:
        yield "corrects at once when something is off"


def manner_of(line: str) -> str:
    """What a line speaks of: two that speak of the same cannot both hold."""
    return "manner" if line.startswith(_MANNERS) else line.partition(" (")[0]


def _standing(walk: Walk, instructions: Sequence[str]) -> list[tuple[str, Sources]]:
    return [
        (instruction, (request.source,))
        for instruction in instructions
        for request in walk.requests
        if instruction in request.text
    ]


def _habits(said: Sequence[Request], instructed: Sequence[tuple[str, Sources]]) -> Iterator[tuple[str, Sources]]:
    for line, cue in _HABITS.items():
        asked = [request.source for request in said if cue.search(request.text.lower())]
        told = [source for text, sources in instructed if cue.search(text.lower()) for source in sources]
        if told or len(asked) > 1:
            yield line, tuple(dict.fromkeys((*told, *asked)))
