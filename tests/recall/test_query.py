"""How a query is taken apart, and how its words are found in a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmstart.recall.query import parse
from warmstart.recall.turns import terms_of
from warmstart.text import names
from warmstart.text.names import name_parts


@given(st.text(alphabet='abcDE19_-./: "`', max_size=40))
def test_the_quick_checks_miss_nothing(text):
    if not names._MIXED_CASE.search(text):
        assert name_parts(text) == []


def test_stop_words_count_only_where_there_is_nothing_else():
    assert [*parse("what about the tide").words.values()] == ["tide"]
    assert [*parse("the of and").words.values()] == ["the", "of", "and"]


def test_the_content_of_a_query_is_what_is_asked_besides_the_time():
    assert parse("what happened on 7 May 2023, two days ago?").content == set()
    assert parse("what happened to the drawbridge last week").content == {"drawbridg"}


def test_of_a_long_query_the_beginning_is_read():
    words = set(parse("first1 " + "tide table " * 10_000 + " last1").words.values())
    assert words == {"first1", "tide", "table"}


def test_names_in_mixed_case_are_indexed_by_their_parts():
    stems = terms_of("call readConfigFile in HTTPServer")
    assert {"readconfigfil", "read", "config", "file", "http", "server"} <= set(stems)
