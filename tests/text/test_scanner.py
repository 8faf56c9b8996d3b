from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.text.scanner import Keywords, Rule, Scanner, load_rules

RULES = load_rules(
    [
        [["error TS"], r"error (TS\d{4})", "typescript"],
        [["not found", "no such"], r"(?:not found|no such) \w+", "missing"],
        [["error"], r"error\b", "error"],
    ],
    {},
)


def test_a_match_needs_the_pattern_too():
    scanner = Scanner(RULES, reach=100)
    assert scanner.first(b"no such file, error TSx") == "missing"
    assert scanner.first(b"error TSx, no such file") == "error"
    assert scanner.first(b"not found!") is None
    assert scanner.first("ünable: no such fïle".encode()) == "missing"
    assert scanner.first(b"all is well") is None


def test_a_pattern_sees_what_is_within_reach_of_a_keyword():
    rule = Rule(("key",), r"key.{0,40}value")
    assert Scanner([rule], reach=20).first(b"key" + b" " * 10 + b"value") == ""
    assert Scanner([rule], reach=20).first(b"key" + b" " * 30 + b"value") is None
    assert Scanner([rule], reach=20).first(b"key" + b" " * 15 + b"key" + b" " * 15 + b"value") == ""


@given(st.text(alphabet="aé漢b "), st.lists(st.sampled_from(["a", "aé", "é漢", "b", "漢"]), min_size=1, unique=True))
def test_keywords_are_found_with_positions(text, strings):
    expected = {
        (index, at, at + len(each))
        for index, each in enumerate(strings)
        for at in range(len(text))
        if text.startswith(each, at)
    }
    assert set(Keywords(strings).find(text)) == expected


def test_time_is_proportional_to_the_text():
    scanner = Scanner([Rule(("a",), r"a[^z]{0,200}z")], reach=250)
    assert scanner.first(b"a" * 1_000_000) is None


def test_a_rule_without_keywords_is_refused():
    with pytest.raises(ValueError, match="no keywords"):
        load_rules([[[], "x", "never tried"]], {})
