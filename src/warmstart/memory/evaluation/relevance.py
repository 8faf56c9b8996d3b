"""How well questions find the memory that answers them, and how often something comes back that must not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.labelled import KINDS, SILENT, Labelled, Question
from warmstart.memory.evaluation.values import KindRelevance, Relevance
from warmstart.memory.evaluation.visitors import Visitors
from warmstart.memory.values import MemoryEntry
from warmstart.stats import Interval, wilson

DISTANT = "paraphrased, in other words"
_DEPTH = 5


class _Answer(NamedTuple):
    question: Question
    place: int  # of the entry that answers, from 1; 0 where it did not come
    wrong: bool
    leaked: int


class Asked(NamedTuple):
    """What was found out, or why not."""

    relevance: Relevance | None
    note: str = ""


def relevance(backend: MemoryBackend, visitors: Visitors, data: Labelled, *, seconds: float) -> Asked:
    """Store the labelled memories, each person's under a user of their own, and ask the questions.

    Stops when it takes longer than `seconds`: half a set would not be comparable, so nothing is reported then.
    """
    until = time.monotonic() + seconds
    users = {person: visitors.new(f"relevance-{person}") for person in data.users}
    for number, write in enumerate(data.writes):
        if time.monotonic() > until:
            return Asked(None, f"relevance was not measured: only {number} memories were stored in {seconds:g} s")
        visitors.wrote(users[write.user], write.key)
        backend.store(users[write.user], write.key, write.value)
    answers: list[_Answer] = []
    for question in data.questions:
        if time.monotonic() > until:
            return Asked(None, f"relevance was not measured: only {len(answers)} questions were asked in {seconds:g} s")
        found = backend.query(users[question.user], question.text, limit=_DEPTH)[:_DEPTH]
        answers.append(_judge(question, found, data, users))
    for user in users.values():
        visitors.forget(user)
    return Asked(_summary(len(data.writes), answers))


def _judge(question: Question, found: Sequence[MemoryEntry], data: Labelled, users: dict[str, str]) -> _Answer:
    person = question.user
    right = data.current.get((person, question.key))
    place = next(
        (number for number, entry in enumerate(found, 1) if (entry.key, entry.value) == (question.key, right)), 0
    )
    stale = any(entry.value in data.former.get((person, entry.key), ()) for entry in found)
    foreign = {value for (owner, _), value in data.current.items() if owner != person}
    own = {value for (owner, _), value in data.current.items() if owner == person}
    leaked = sum(
        entry.user_id not in ("", users[person]) or (entry.value in foreign and entry.value not in own)
        for entry in found
    )
    wrong = bool(found) if question.kind in SILENT else stale
    return _Answer(question, place, wrong or leaked > 0, leaked)


def _summary(memories: int, answers: Sequence[_Answer]) -> Relevance:
    groups = [(kind, [answer for answer in answers if answer.question.kind == kind]) for kind in KINDS]
    distant = [answer for answer in answers if answer.question.distant]
    place = KINDS.index("paraphrased") + 1
    kinds = [_kind(name, group, silent=name in SILENT) for name, group in groups if group]
    if distant:
        kinds.insert(place, _kind(DISTANT, distant, silent=False))
    answerable = [answer for answer in answers if answer.question.kind not in SILENT]
    return Relevance(
        memories=memories,
        questions=len(answers),
        hit_at_1=_share(answerable, 1),
        hit_at_5=_share(answerable, _DEPTH),
        leaked=sum(answer.leaked for answer in answers),
        kinds=tuple(kinds),
        hit_at_1_interval=_interval(answerable, 1),
        hit_at_5_interval=_interval(answerable, _DEPTH),
    )


def _kind(name: str, answers: Sequence[_Answer], *, silent: bool) -> KindRelevance:
    return KindRelevance(
        kind=name,
        questions=len(answers),
        hit_at_1=None if silent else _share(answers, 1),
        hit_at_5=None if silent else _share(answers, _DEPTH),
        wrong=sum(answer.wrong for answer in answers) / len(answers),
        hit_at_1_interval=None if silent else _interval(answers, 1),
        hit_at_5_interval=None if silent else _interval(answers, _DEPTH),
        wrong_interval=wilson(sum(answer.wrong for answer in answers), len(answers)),
    )


def _hits(answers: Sequence[_Answer], depth: int) -> int:
    return sum(0 < answer.place <= depth for answer in answers)


def _share(answers: Sequence[_Answer], depth: int) -> float | None:
    return _hits(answers, depth) / len(answers) if answers else None


def _interval(answers: Sequence[_Answer], depth: int) -> Interval | None:
    return wilson(_hits(answers, depth), len(answers))
