"""Standing instructions and key context, word for word, from what the system and the person said.

Tool output and the assistant's own words are never looked at. Approvals are not carried over, nor is a request of the
moment. Of a host's long prompt a bounded number of rules is taken, not the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from warmstart.profile.feedback import standing_instructions
from warmstart.sessions.values import Message
from warmstart.templates.extraction.contradicting import contradict
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.walk import Walk
from warmstart.templates.trust import cuts_in
from warmstart.templates.values import Context, Source

MOST = 12  # pieces of system messages
SAID = 12  # standing instructions of the person
LONGEST = 400  # characters of one piece
_HOST = 12_000  # characters: a longer system message is a host's own prompt, and the host says it again each time
_LOOKED_AT = 60_000  # characters of the project's part of it
_SHORTEST = 12

_APPROVES = re.compile(
    r"\b(?:you (?:may|can|could)\b|(?:no|don't) need (?:to|for) (?:ask|confirm|check|approv)\w*|go ahead|feel free"
    r"|(?:don't|do not|never|stop) ask(?:ing)? (?:me|for|again|before|whether|if)|i (?:allow|permit|trust you)\b"
    r"|du darfst|tu peux|puedes\b|você pode|puoi\b)",
    re.IGNORECASE,
)
# Whoever says so: what was once permitted was permitted once.
_GRANTS = re.compile(
    r"\b(?:are|you're) (?:now |hereby )?(?:allowed|free|welcome|authori[sz]ed|permitted) to\b"
    r"|\byou have (?:my )?(?:permission|approval|consent)\b|\b(?:my|full|blanket) (?:permission|approval|consent)\b"
    r"|\bi (?:hereby )?(?:approve|authori[sz]e)\b|\b(?:pre-?)?approved\b"
    r"|\bwithout (?:asking|(?:\w+ )?confirm\w*|(?:\w+ )?approval|(?:\w+ )?permission|checking with)"
    r"|\b(?:skip|bypass|auto-?(?:approve|accept)|assume) (?:the |all |my )?(?:confirm|permission|approv|prompt|yes)\w*"
    r"|\bohne (?:nachfrage|rückfrage|zu fragen)",
    re.IGNORECASE,
)
# `never push without asking` forbids, whatever words it does it with. `never ask before …` does not.
_FORBIDS = re.compile(
    r"\b(?:never|don't|do not|must not|mustn't|should not|shouldn't|not|cannot|can't|niemals|nie|nicht|nunca|jamais)\b"
    r"(?! (?:need|ask|confirm|hesitate|bother|wait))",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+(?=\S)")
_IDENTITY = re.compile(r"(?:you are|you're|your (?:job|task|role|name) is|as an? )\b", re.IGNORECASE)
_RULE = re.compile(
    r"\b(?:must|never|always|do not|don't|should|shouldn't|only|cannot|can't|can not|may not|required?"
    r"|forbidden|not allowed|prefer|avoid|ensure|make sure|before you|unless|use|run|write|keep|commit|test)\b",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\b(?:must|never|always|do not|don't|should not|only|cannot|may not|forbidden|not allowed|require[sd]?|prefer)\b",
    re.IGNORECASE,
)
_FACT = re.compile(
    r"\b(?:working directory|cwd|platform|project (?:root|name)|repository|python|node|database"
    r"|tests? (?:are|is|live|run)|we use|this (?:repo|repository|project))\b",
    re.IGNORECASE,
)
# True only on the day it was said.
_OF_THE_DAY = re.compile(r"\b(?:current (?:time|date)|today(?:'s date)? is|time now is)\b", re.IGNORECASE)
# What a project adds to a host's prompt.
_ADDED = re.compile(r"<((?:custom|user|project|repo\w*)_?instructions?)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
# What a host has to offer, and the mode that it is in.
_LISTED = re.compile(
    r"\(file: |\bSKILL\.md\b|\bskills?\b|\b(?:[Dd]efault|[Pp]lan|[Aa]uto|[Aa]gent) mode\b|collaboration_mode"
    r"|\brequest_user_input\b|\bin the available tools\b"
)
_MARKUP = re.compile(r"[#<{}|]|```")


class _Piece(NamedTuple):
    """A line of a system message, its weight, and its place."""

    weight: int
    place: int
    text: str
    source: Source


def contexts(walk: Walk, places: Places) -> tuple[Context, ...]:
    """What holds beyond the task, the person's own rules first."""
    found: dict[str, Context] = {}
    for text, source in _said(walk):
        for key in [key for key, said in found.items() if contradict(said.text, text)]:
            del found[key]  # the person thought better of it
        _take(found, Context(text=places.text(text), said_by="user", sources=(source,)))
    found = dict(list(found.items())[-SAID:])  # what was said last holds
    for piece in _told(walk):
        _take(found, Context(text=places.text(piece.text), said_by="system", sources=(piece.source,)))
    return tuple(found.values())


def _take(found: dict[str, Context], context: Context) -> None:
    found.setdefault(" ".join(context.text.lower().split()).rstrip(".!"), context)


def _said(walk: Walk) -> Iterator[tuple[str, Source]]:
    """The person's standing instructions as they stand in the message."""
    raw = {message.native_id: message.text for message in walk.messages if message.role == "user"}
    for request in walk.requests:
        text = raw.get(request.source.message, "")
        plain = text.replace("’", "'")  # as the reading of the person's words has it, letter by letter
        for sentence in standing_instructions(request.text):
            place = plain.find(sentence)
            if place >= 0 and _holds(sentence):
                yield text[place : place + len(sentence)], request.source


def _holds(text: str) -> bool:
    """Whether a sentence may be carried: no approval, and nobody else's words."""
    if cuts_in(text) or _is_grant(text):
        return False
    return not _APPROVES.search(text) or bool(_FORBIDS.match(text))


def _is_grant(text: str) -> bool:
    return bool(_GRANTS.search(text)) and not _FORBIDS.search(text)


def _told(walk: Walk) -> list[_Piece]:
    """The rules and facts of the system messages that weigh most, in the order in which they stand."""
    pieces: list[_Piece] = []
    for message in walk.messages:
        if message.role == "system":
            pieces += _pieces(message, Source(walk.session.id, message.native_id), len(pieces))
    best = sorted(pieces, key=lambda piece: (-piece.weight, piece.place))[:MOST]
    return sorted(best, key=lambda piece: piece.place)


def _pieces(message: Message, source: Source, before: int) -> Iterator[_Piece]:
    first = True
    fenced = False
    for place, line in enumerate(_part(message.text).splitlines(), before):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        bullet = _BULLET.match(line)
        text = _bounded(line[bullet.end() if bullet else 0 :].strip())
        if fenced or len(text) < _SHORTEST or _MARKUP.match(text) or not _holds_of_system(text):
            continue
        weight = _weight(text, bullet=bullet is not None, first=first)
        first = False
        if weight:
            yield _Piece(weight, place, text, source)


def _part(text: str) -> str:
    """What of a system message is looked at: of a host's prompt the part that the project added to it."""
    if len(text) > _HOST:
        text = "\n".join(found[2] for found in _ADDED.finditer(text))
    return text[:_LOOKED_AT]


def _weight(text: str, *, bullet: bool, first: bool) -> int:
    if first and _IDENTITY.match(text):
        return 9
    if standing_instructions(text):
        return 5
    strong = bool(_STRONG.search(text))
    if bullet:
        return 4 if strong else 2 if _RULE.search(text) or _FACT.search(text) else 1
    return 3 if strong else 2 if _FACT.search(text) else 0


def _holds_of_system(text: str) -> bool:
    refused = cuts_in(text) or _LISTED.search(text) or _OF_THE_DAY.search(text)
    return not (refused or _is_grant(text)) and not text.endswith(":")


def _bounded(text: str) -> str:
    """As many whole sentences of a line as there is room for."""
    if len(text) <= LONGEST:
        return text
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)", text[:LONGEST])]
    return text[: ends[-1]] if ends else ""
