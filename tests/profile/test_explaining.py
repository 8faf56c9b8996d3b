from __future__ import annotations

from random import Random

from tests.profile.corpora import abandoned, corpus, learned, profiled
from warmstart.profile.diagnostics import diagnose


def test_the_reading_comes_first():
    said = diagnose(corpus(Random(1), abandoned)).explanation
    assert said[0].startswith("The data support selection")
    said = diagnose(corpus(Random(1), learned)).explanation
    assert said[0].startswith("The data support learning")


def test_the_explanation_always_warns_about_length_bins():
    for sessions in ([], corpus(Random(1), abandoned, 50), corpus(Random(1), learned, 50)):
        assert diagnose(sessions).explanation[1].startswith("Rates by length alone mislead")


def test_bins_that_point_the_other_way_are_named():
    # Short sessions err at once and end; the long ones hardly err, but more and more.
    short = [profiled(f"s{n}", [True, False], messages=6) for n in range(40)]
    long = [profiled(f"l{n}", [False] * (20 + n) + [True, False, False] * 5, messages=120) for n in range(40)]
    said = diagnose([*short, *long]).explanation[1]
    assert said == (
        "Rates by length alone mislead here: between sessions they fall from 50.0% to 9.2% with length, "
        "while inside a session the rate rises."
    )


def test_a_fall_is_reported_with_its_interval_in_the_same_direction():
    said = diagnose(corpus(Random(3), learned)).explanation
    sentence = next(each for each in said if each.startswith("Inside a session"))
    assert sentence.count("falls by") == 2
    assert "chance" not in sentence
    for part in sentence.split("(")[1:]:
        low, high = (float(number) for number in part.split(")")[0].split(" to "))
        assert 0 < low < high


def test_what_may_be_chance_is_said_to_be():
    random = Random(2)
    said = diagnose([profiled(n, [random.random() < 0.3 for _ in range(15)]) for n in range(60)]).explanation
    assert any("this may be chance" in each for each in said)


def test_few_sessions_are_not_explained_by_numbers():
    found = diagnose([profiled(n, [False, True, False, True, False] * 3) for n in range(3)])
    assert found.reading == "not enough data"
    assert not any(sign.isdigit() for each in found.explanation for sign in each)
