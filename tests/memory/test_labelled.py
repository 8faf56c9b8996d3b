"""The labelled set: as large as we say, answerable where it says so, and not given away by its words."""

from __future__ import annotations

import re
from collections import Counter

from warmstart.memory.evaluation.labelled import SILENT, labelled
from warmstart.redact.redactor import PERSONAL, Redactor

COMMON = frozenset(
    re.findall(
        r"\w+",
        "the a an is are be was were of to in on at for with and or not no it its as by from this that which what who "
        "how when where why does do did can may must should has have she her he his they there one than into about "
        "after before all any only own more most so if out we our i me my us up off over per two him",
    )
)


def stems(text: str) -> set[str]:
    found = re.findall(r"[^\W_]+", text.lower().replace("_", " "))
    return {word[:5] if len(word) > 5 else word.rstrip("s") for word in found if word not in COMMON and len(word) > 1}


def test_it_has_five_hundred_memories_of_several_users_and_two_hundred_questions():
    data = labelled()
    assert len(data.writes) == 500
    assert len(data.users) == 5
    assert Counter(question.kind for question in data.questions) == {
        "exact": 40,
        "paraphrased": 60,
        "superseded": 40,
        "other": 30,
        "unanswerable": 30,
    }
    assert len({(question.user, question.text) for question in data.questions}) == 200


def test_what_can_be_answered_is_answered_by_a_memory_of_whoever_asks():
    data = labelled()
    for question in data.questions:
        if question.kind in SILENT:
            assert question.key == ""
        else:
            assert (question.user, question.key) in data.current, question


def test_a_superseded_value_is_written_before_the_one_that_holds():
    data = labelled()
    asked = {(question.user, question.key) for question in data.questions if question.kind == "superseded"}
    assert asked <= set(data.former)
    last = {}
    for write in data.writes:
        last[write.user, write.key] = write.value
    assert last == dict(data.current)
    assert all(data.current[place] not in former for place, former in data.former.items())


def test_half_of_the_paraphrases_share_no_word_with_their_memory():
    data = labelled()
    distant = [question for question in data.questions if question.distant]
    assert len(distant) == 30
    for question in distant:
        memory = f"{question.key} {data.current[question.user, question.key]}"
        assert not stems(question.text) & stems(memory), question
    for question in data.questions:
        if question.kind == "exact":
            memory = f"{question.key} {data.current[question.user, question.key]}"
            assert stems(question.text) & stems(memory), question


def test_what_is_another_users_is_known_by_its_words_but_not_to_the_one_who_asks():
    data = labelled()
    for question in data.questions:
        if question.kind == "other":
            asked = stems(question.text)
            best = max(data.current, key=lambda place: len(asked & stems(f"{place[1]} {data.current[place]}")))
            assert best[0] != question.user, question


def test_no_value_stands_twice_and_none_is_a_secret_that_would_be_redacted():
    data = labelled()
    values = [write.value for write in data.writes]
    assert len(set(values)) == len(values)
    redactor = Redactor(personal=PERSONAL)
    assert [value for value in values if redactor.redact(value).findings] == []
