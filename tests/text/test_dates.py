from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from warmstart.recall.query import parse
from warmstart.text.dates import Span, find_spans

TODAY = date(2026, 9, 10)  # a Thursday
YEARS = range(2025, 2027)
SPANS = {
    "on 7 May 2023": [("2023-05-07", "2023-05-07")],
    "May 7, 2023": [("2023-05-07", "2023-05-07")],
    "the 3rd of Sept. 2026": [("2026-09-03", "2026-09-03")],
    "in March": [("2025-03-01", "2025-03-31"), ("2026-03-01", "2026-03-31")],
    "on 30 February": [],
    "since 2026-02": [("2026-02-01", "2026-02-28")],
    "2026-09-01": [("2026-09-01", "2026-09-01")],
    "2026-13-01": [],
    "summer 2025": [("2025-06-01", "2025-08-31")],
    "winter 2025": [("2025-12-01", "2026-02-28")],
    "in 2024": [("2024-01-01", "2024-12-31")],
    "today": [("2026-09-10", "2026-09-10")],
    "last night": [("2026-09-09", "2026-09-09")],
    "the day before yesterday": [("2026-09-08", "2026-09-08")],
    "this week": [("2026-09-07", "2026-09-10")],
    "last week": [("2026-08-31", "2026-09-06")],
    "last weekend": [("2026-09-05", "2026-09-06")],
    "last Monday": [("2026-09-07", "2026-09-07")],
    "last Thursday": [("2026-09-03", "2026-09-03")],
    "last month": [("2026-08-01", "2026-08-31")],
    "this year": [("2026-01-01", "2026-12-31")],
    "three days ago": [("2026-09-07", "2026-09-07")],
    "a couple of weeks ago": [("2026-08-24", "2026-08-30")],
    "two years ago": [("2024-03-14", "2025-03-09")],
    "you may march on; fall back; port 2099": [],
    "tests fail": [],
}


def test_spans(subtests):
    for text, expected in SPANS.items():
        with subtests.test(text):
            found = find_spans(text, TODAY, YEARS)
            assert found == [Span(date.fromisoformat(first), date.fromisoformat(last)) for first, last in expected]
            assert parse(text).may_have_date or not found


def test_closeness_falls_slowly_after_a_span_and_fast_before():
    span = Span(date(2026, 9, 1), date(2026, 9, 3))
    assert span.closeness(date(2026, 9, 2)) == 1
    assert span.closeness(date(2026, 9, 5)) > 0.7 > span.closeness(date(2026, 8, 30)) > 0.3
    assert [*span.days] == [date(2026, 9, day) for day in (1, 2, 3)]
    assert span.reach.first < span.first < span.last < span.reach.last
    assert all(span.closeness(day) < 0.02 for day in span.reach)
    assert Span(date.min, date.max).reach == Span(date.min, date.max)


WORDS = st.sampled_from(
    [
        "may",
        "31",
        "march",
        "2026",
        "2026-02-30",
        "fall",
        "of",
        "last",
        "week",
        "ago",
        "999",
        "years",
        "ſeptember",
        "yesterday",
        "20",
    ]
)


@given(st.lists(WORDS).map(" ".join) | st.text())
def test_any_text_gives_spans_in_order(text):
    found = find_spans(text, TODAY, YEARS)
    assert all(first <= last for first, last in found)
    assert parse(text).may_have_date or not found
