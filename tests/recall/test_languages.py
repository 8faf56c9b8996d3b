"""The same conversations and questions in four languages: how often a right message is among the first five passages.

Words are stemmed in English only, so inflections of other languages may find nothing; that must not raise an error.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.recall.stores import keep

TEXTS = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
QUESTIONS = TEXTS["questions"]

# The least number of the 14 questions that must be answered.
MIN_RIGHT = {"en": 13, "de": 10, "es": 12, "zh": 13}


@pytest.fixture
def language(request, store):
    """The conversations stored in one language, each as a session."""
    for name, turns in TEXTS["conversations"].items():
        keep(store, name, *(turn[request.param] for turn in turns))
    return request.param


@pytest.mark.parametrize("language", MIN_RIGHT, indirect=True)
def test_questions_are_answered_in_every_language(language, recall):
    missed = []
    for question in QUESTIONS:
        found = recall.search(question[language], limit=5)
        messages = {message for evidence in found for message in evidence.message_ids}
        if question["gold"] not in messages:
            missed.append(question[language])
    assert len(QUESTIONS) - len(missed) >= MIN_RIGHT[language], missed


@pytest.mark.parametrize(
    ("language", "query", "gold"),
    [
        ("de", "nachtlicher", "exporter/0"),  # nächtliche
        ("de", "NÄCHTLICHE", "exporter/0"),
        ("de", "marz", "exporter/6"),
        ("de", "großmutter", "household/6"),
        ("es", "exportacion", "exporter/0"),
        ("es", "ALÉRGICA", "journey/2"),
        ("es", "anade", "exporter/8"),  # añade
    ],
    indirect=["language"],
)
def test_case_and_accents_do_not_matter(language, query, gold, recall):
    assert gold in recall.search(query)[0].message_ids


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("de", "Kueche"),
        ("de", "Zeitzonen"),
        ("de", "Suppe"),  # only in Linsensuppe
        ("de", "Notfallmedikamente der Großmütter"),
        ("es", "alérgicos"),
        ("es", "niñez"),
        ("zh", "猫"),
        ("zh", "門"),  # a traditional character
    ],
    indirect=["language"],
)
def test_other_inflections_and_compounds_raise_no_error(language, query, recall):
    for evidence in recall.search(query, limit=5):
        assert evidence.matched
        assert evidence.text


@pytest.mark.parametrize(
    ("query", "gold"),
    [
        ("备用钥匙", "household/10"),
        ("那修道院吗", "journey/11"),  # two of its four bigrams
        ("醋", "household/7"),
        ("PostgreSQL端口", "exporter/5"),
    ],
)
@pytest.mark.parametrize("language", ["zh"], indirect=True)
def test_chinese_is_found_by_bigrams_and_by_a_single_character(language, query, gold, recall):
    messages = {message for evidence in recall.search(query, limit=5) for message in evidence.message_ids}
    assert gold in messages
