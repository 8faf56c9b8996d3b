"""The sub-tasks of a session that ended well, and what says so.

A sub-task begins with a request of the person and goes on through what only answers a question or says "go on". That
it ended well is never the assistant's word: a reward, the person's word, a test or build that passed after the last
edit, a commit, or calls that all came out well with nobody complaining. What was taken back later did not end well, nor
did what broke the tests for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warmstart.profile.feedback import agrees, approves, complains, corrects, count_words, is_request, own_words
from warmstart.profile.outcome import judge_calls
from warmstart.profile.values import Outcome
from warmstart.sessions.values import Session
from warmstart.templates.extraction.undoing import undone
from warmstart.templates.extraction.walk import Request, Taken, Walk

ANSWER = 60  # words of an answer to the agent's question; what is longer is a request of its own
GO_AHEAD = 8  # words of a go-ahead
REMARK = 12  # words that a person writes beside an error which they paste
_LAST = 400  # characters of the agent's last words in which a question stands
_LOOKED_AT = 8_000  # characters of a message in which an error is looked for
_CALLS = re.compile(r" ?\(call \d+(?: of \d+)?\)")
_BROKEN_OFF = re.compile(r"\[Request (?:interrupted|cancelled)|\[Interrupted", re.IGNORECASE)
_EMPTY = re.compile(
    r"(?:please |ok(?:ay)?[,.]? |yes[,.]? |sorry[,.]? )*(?:continue|go on|proceed|keep going|carry on|resume|next"
    r"|weiter|try again|again|retry|done|ok(?:ay)?|y|yes|no|hi|hello|hey|sure|thanks?|thank you)[\s.!]*",
    re.IGNORECASE,
)
# How an answer begins: `My user ID is …`.
_ANSWERS = re.compile(
    r"(?:my|it's|it is|yes|no|sure|i'm|i am|i have|i don't|i do not|that's|that is|this is|here(?:'s| is| are)"
    r"|of course|ok(?:ay)?)\b",
    re.IGNORECASE,
)
# How a request of its own begins, also where a question stood before it.
_ASKS = re.compile(
    r"(?:(?:and|also|ok(?:ay)?|so|now|then|please)[\s,]+)*(?:can|could|would|will|does|do|is|are|why|what|how|which"
    r"|where|let's|let us|add|fix|make|create|write|run|update|remove|delete|change|check|show|explain|implement|look"
    r"|move|use|rename|refactor|test|commit|push|open|find|search|investigate|review|revert|undo)\b",
    re.IGNORECASE,
)
_YES = re.compile(r"(?:yes|yep|yeah|sure|go ahead|do it|ok(?:ay)?)\b", re.IGNORECASE)
# With one of these a go-ahead asks for something else as well.
_MORE = re.compile(r"\b(?:now|next|then|also|another|instead|after that)\b", re.IGNORECASE)
_PASTED_ERROR = re.compile(
    r"^\W{0,6}(?:Traceback \(most recent call last\)|(?:[\w.]+\.)?\w*(?:Error|Exception): |error(?:\[\w+\])?: |fatal: "
    r"|panic: |FAILED\b|--- FAIL|npm ERR!)",
    re.MULTILINE,
)
_COMMAND = re.compile(r"/[a-z][\w:-]*(?:\s|$)")
_PASTED = re.compile(r"Implement the following plan:|# Plan\b|Base directory for this skill|Caveat: The messages below")


class Stretch(NamedTuple):
    """A sub-task that ended well: the requests, the calls, what says that it ended well, and how strong that is."""

    requests: tuple[Request, ...]
    steps: tuple[Taken, ...]
    evidence: str
    strength: int


@dataclass(slots=True)
class _Group:
    requests: list[Request] = field(default_factory=list)
    steps: list[Taken] = field(default_factory=list)
    approved: bool = False
    refused: bool = False
    doubted: bool = False  # the person answered with an error that they got
    told: Outcome | None = None  # what tests, builds and commits say about its calls alone


def is_task(text: str) -> bool:
    """Whether a request says by itself what is wanted."""
    return (
        bool(text)
        and not (_EMPTY.fullmatch(text) or _COMMAND.match(text) or _PASTED.match(text))
        and bool(re.search(r"\w{2}", text))
    )


def has_failed(session: Session, found: Outcome) -> bool:
    """Whether somebody who knows said that the session failed."""
    return (session.outcome == "failure" and session.judge != "") or (
        found.value == "failure" and found.source in ("user", "reward")
    )


def stretches(walk: Walk, found: Outcome) -> tuple[Stretch, ...]:
    """The sub-tasks that ended well, in their order, without the changes that they took back themselves."""
    if has_failed(walk.session, found):
        return ()
    groups = _groups(walk)
    taken_back = undone(walk.taken)
    undoing = {*taken_back, *taken_back.values()}
    broken = _broken(walk, groups)
    told = found.evidence if found.value == "success" and found.source in ("user", "reward") else ""
    good: list[Stretch] = []
    for place, group in enumerate(groups):
        if not group.steps or group.refused or (place >= broken and _changes(group.steps)):
            continue
        if any(taken_back.get(step.place, 0) > group.steps[-1].place for step in group.steps):
            continue
        steps = tuple(step for step in group.steps if step.place not in undoing)
        evidence, strength = (told, 4) if told else _evidence(walk.session, group, last=place == len(groups) - 1)
        if evidence and steps:
            good.append(Stretch(tuple(group.requests), steps, evidence, strength))
    return tuple(good)


def _groups(walk: Walk) -> list[_Group]:
    """The requests with their calls; what goes on with a request is part of it."""
    turns = list(_turns(walk))
    steps: dict[int, list[Taken]] = {}
    for step in walk.taken:
        steps.setdefault(step.turn, []).append(step)
    groups = [_Group(steps=steps.get(0, []))]
    for request, (answers, pasted_error) in zip(walk.requests, turns, strict=True):
        calls, last = steps.get(request.turn, []), groups[-1]
        if _objects(request.text, answers):
            last.refused = True
        elif pasted_error:
            last.doubted = True
        elif last.requests and _goes_on(request.text, answers, last):
            last.approved = last.approved or approves(request.text)
            last.requests.append(request)
            last.steps += calls
            continue
        elif approves(request.text):
            last.approved = True
        groups.append(_Group([request], list(calls)))
    return groups


def _objects(text: str, answers: bool) -> bool:
    return bool(text) and (corrects(text, answers=answers) or complains(text) or _BROKEN_OFF.match(text) is not None)


def _goes_on(text: str, answers: bool, group: _Group) -> bool:
    if not is_task(text):
        return True
    words = count_words(text)
    if agrees(text) and (words <= GO_AHEAD or (words <= ANSWER and _YES.match(text) and not _MORE.search(text))):
        return True
    # Once something was changed, the next request that is more than a go-ahead is the next sub-task.
    if words > ANSWER or _changes(group.steps) or (group.steps and _ASKS.match(text)):
        return False
    return answers or _ANSWERS.match(text) is not None


def _turns(walk: Walk) -> Iterator[tuple[bool, bool]]:
    """For every request, whether the agent had asked something before it, and whether it is a pasted error."""
    asked = False
    for message in walk.messages:
        if is_request(message):
            said = count_words(own_words(message))
            yield asked, said <= REMARK and _PASTED_ERROR.search(message.text[:_LOOKED_AT]) is not None
            asked = False
        elif message.role == "assistant" and message.text:
            asked = "?" in message.text[-_LAST:] or "？" in message.text[-_LAST:]


def _changes(steps: Iterable[Taken]) -> bool:
    return any(step.outcome == "ok" and step.role == "edit" for step in steps)


def _by_environment(session: Session, taken: Sequence[Taken]) -> Outcome:
    """What tests, builds and commits say about these calls alone."""
    return judge_calls(taken, session.directory or session.project)


def _told(session: Session, group: _Group) -> Outcome:
    if group.told is None:
        group.told = _by_environment(session, group.steps)
    return group.told


def _broken(walk: Walk, groups: Sequence[_Group]) -> int:
    """The first group of those after which the tests failed and were never mended."""
    if _by_environment(walk.session, walk.taken).value != "failure":
        return len(groups)
    sound = (place for place, group in enumerate(groups) if _told(walk.session, group).value == "success")
    return max(sound, default=-1) + 1


def _evidence(session: Session, group: _Group, *, last: bool) -> tuple[str, int]:
    """What says that a group ended well, and how strong that is; empty where nothing does."""
    found = _told(session, group)
    if found.value == "failure" or "failed" in found.evidence:
        return "", 0
    if found.value == "success":
        return _CALLS.sub("", found.evidence), 3
    if group.doubted or not _came_out_well(group.steps):
        return "", 0
    calls = "its call" if len(group.steps) == 1 else f"all of its {len(group.steps)} calls"
    if any(step.outcome != "ok" for step in group.steps):
        calls = "what failed in it was mended"
    else:
        calls += " succeeded"
    if group.approved:
        return f"{calls}, and the person approved", 2
    return (f"{calls}, and nothing was taken back", 0) if last else (f"{calls}, and the person went on", 1)


def _came_out_well(steps: Sequence[Taken]) -> bool:
    """Whether the last calls came out well, and every tool that failed worked later."""
    real = [step for step in steps if step.role != "note"]
    if not real or real[-1].outcome != "ok":
        return False
    later: set[str] = set()
    for step in reversed(real):
        if step.outcome == "ok":
            later.add(step.call.name)
        elif step.call.name not in later:
            return False
    return True
