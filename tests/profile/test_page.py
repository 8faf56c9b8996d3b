"""The page of a report: whole, safe to open and to pass on, and readable whatever the report holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from tests.profile import page_reports as reports
from warmstart.profile.corpus.values import Rate, Report
from warmstart.profile.page import charts
from warmstart.profile.page.markup import Markup, element, fragment, points
from warmstart.profile.page.page import page

KINDS = (reports.report, reports.empty, reports.single, reports.hostile, reports.huge)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
VOID = {"meta"}


class Parsed(HTMLParser):
    """A page as a browser would take it apart; fails where an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data))

    def within(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]


def made(report: Report, **options: str) -> str:
    return page(report, made=reports.MADE, **options)  # type: ignore[arg-type]


def drawings(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


@every_kind
def test_a_page_is_well_formed(kind: Callable[[], Report]) -> None:
    text = made(kind())
    parsed = Parsed(text)
    assert [tag for tag, _ in parsed.seen].count("svg") == len(drawings(text))


@every_kind
def test_a_page_refers_to_nothing_outside_and_runs_nothing(kind: Callable[[], Report]) -> None:
    text = made(kind())
    parsed = Parsed(text)
    tags = {tag for tag, _ in parsed.seen}
    names = {name for _, attributes in parsed.seen for name in attributes}
    assert not tags & {"script", "link", "img", "image", "iframe", "object", "embed", "base", "a", "use", "form"}
    assert not {name for name in names if name.startswith("on") or name in {"src", "href", "xlink:href", "style"}}
    styles = " ".join(parsed.within("style"))
    assert "@import" not in styles
    assert "url(" not in styles
    assert "://" not in text
    policy = next(attributes["content"] for _, attributes in parsed.seen if "http-equiv" in attributes)
    assert str(policy).startswith("default-src 'none'")


@every_kind
def test_each_section_is_there_in_order(kind: Callable[[], Report]) -> None:
    assert tuple(Parsed(made(kind())).within("h2")) == reports.HEADINGS


@every_kind
def test_each_drawing_says_what_it_is(kind: Callable[[], Report]) -> None:
    for drawing in drawings(made(kind())):
        assert drawing.attrib["role"] == "img"
        assert drawing[0].tag == "title"
        assert drawing[0].text


@every_kind
def test_no_drawing_has_a_place_that_is_not_a_number(kind: Callable[[], Report]) -> None:
    for drawing in drawings(made(kind())):
        for one in drawing.iter():
            for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "d", "points"):
                assert not re.search(r"nan|inf|e[+-]", one.attrib.get(name, ""))
            assert float(one.attrib.get("width", 0)) >= 0
            assert float(one.attrib.get("height", 0)) >= 0


def test_text_of_sessions_stays_text() -> None:
    text = made(reports.hostile(), title=reports.HOSTILE, scope=reports.HOSTILE)
    parsed = Parsed(text)
    assert "<script" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    shown = "<script>alert('x')</script>\"' onload=\"x\" </title></style></svg>& [31m ]]>-->"
    assert parsed.within("h1") == [shown]
    assert parsed.within("code") == [shown]
    assert shown in parsed.within("li")


def test_only_markup_is_taken_as_markup() -> None:
    inner = element("b", "1 < 2", title='"quoted"')
    assert inner == '<b title="&quot;quoted&quot;">1 &lt; 2</b>'
    assert fragment(inner, "<i>") == inner + "&lt;i&gt;"
    # A string built from markup is plain text again.
    assert (
        element("p", f"{inner}!")
        == "<p>&lt;b title=&quot;&amp;quot;quoted&amp;quot;&quot;&gt;1 &amp;lt; 2&lt;/b&gt;!</p>"
    )
    assert isinstance(inner, Markup)


def test_the_headline_has_the_counts_and_the_rate() -> None:
    parsed = Parsed(made(reports.report(), title="A year", scope="three agents"))
    assert parsed.within("h1") == ["A year"]
    assert parsed.within("title")[0] == "A year"
    joined = " ".join(parsed.within("dd")).replace("\xa0", " ").replace("\u2060", "")
    assert joined == ("847 47,834 3,321 6.9 % of all calls, 95 % interval 6.5–7.4 % 214 calls a person said no to")
    assert "three agents" in parsed.within("p")


def test_the_reading_is_told_with_its_explanation() -> None:
    told = Parsed(made(reports.report())).within("p")
    assert "Selection" in told
    assert set(reports.report().diagnostics.explanation) <= set(told)


def test_a_project_goes_by_its_last_name() -> None:
    text = made(reports.report())
    assert "weather-station" in text
    assert "notes: " in text
    assert "/home" not in text
    assert "Users" not in text


def test_an_empty_report_says_so_in_each_section() -> None:
    told = Parsed(made(reports.empty())).within("p")
    assert told.count("no data") == 15
    assert drawings(made(reports.empty())) == []


def test_a_rate_without_an_interval_is_hollow_and_has_no_whisker() -> None:
    shown = [one.attrib.get("class", "") for drawing in drawings(made(reports.single())) for one in drawing.iter()]
    assert "dot hollow" in shown
    assert "bar hollow" in shown
    assert not {"dot", "bar", "whisker", "band", "range"} & set(shown)


def test_pointing_at_a_mark_tells_its_numbers() -> None:
    titles = [one.text for drawing in drawings(made(reports.report())) for one in drawing.iter("title")]
    told = [str(title).replace("\xa0", " ").replace("\u2060", "") for title in titles]
    assert "Edit: 6.7 % (95 % interval 6.0–7.4 %); 564 errors in 8,411 calls, 640 sessions" in told
    assert any(title.startswith(f"{reports.LONG}: 18.2 %") for title in told)


def test_the_numbers_of_a_chart_stand_below_it() -> None:
    cells = [cell.replace("\xa0", " ").replace("\u2060", "") for cell in Parsed(made(reports.report())).within("td")]
    at = cells.index("0-50")
    assert cells[at : at + 6] == ["0-50", "531", "11,027", "1,007", "9.1 %", "8.4–9.9 %"]


def test_a_long_name_is_cut_in_the_middle() -> None:
    cut = charts.fit(reports.LONG, 120)
    assert re.fullmatch(r"mcp__.+….*name", cut)
    assert charts.fit("Bash", 120) == "Bash"
    assert charts.fit("漢" * 50, 120).count("漢") < 12
    assert charts.fit("anything", 1) == "…"


def test_a_big_report_stays_small_and_counts_what_it_leaves_out() -> None:
    text = made(reports.huge())
    assert len(text.encode()) < 400_000
    for left in (48, 18, 28, 488, 280, 94):
        assert f"and {left} more" in text


def test_a_common_report_is_far_smaller() -> None:
    assert len(made(reports.report()).encode()) < 200_000


def test_first_calls_of_one_kind_only_are_still_drawn() -> None:
    base = reports.diagnostics()
    some = replace(base, early_error_by_length=replace(base.early_error_by_length, first_10=()))
    told = [str(drawing[0].text) for drawing in drawings(made(reports.report(diagnostics=some)))]
    assert "Early errors by eventual length" in told


def test_the_same_report_gives_the_same_page() -> None:
    assert made(reports.report()) == made(reports.report())


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.0, None)], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.0, 0.03)], [0, 0.01, 0.02, 0.03]),
        ([(0.08, 0.09)], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.1, 0.9)], [0, 0.05, 0.1, 0.15]),
        ([(1.0, 1.0)], [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([(0.0004, 0.0005)], [0, 0.0001, 0.0002, 0.0003, 0.0004, 0.0005]),
    ],
)
def test_an_axis_starts_at_zero_and_has_round_places(
    rates: list[tuple[float, float | None]], expected: list[float]
) -> None:
    given = [Rate("", 2, 10, 1, rate, None if high is None else 0.0, high) for rate, high in rates]
    assert charts.ticks(given) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("difference", "shown"), [(0.0213, "+2.1"), (-0.0213, "−2.1"), (-0.0001, "0.0"), (0.0, "0.0"), (None, "–")]
)
def test_a_difference_has_its_sign(difference: float | None, shown: str) -> None:
    assert points(difference) == shown


def test_weeks_without_calls_break_the_line_and_odd_weeks_are_counted() -> None:
    dated = [reports.rate(f"2026-W{week:02d}", 5, 100, 0.1) for week in (1, 2, 3, 7, 8)]
    odd = [reports.rate(key, 5, 100, 0.1) for key in ("", "2026-W99", "some day")]
    text = made(reports.report(by_week=(*reversed(dated), *odd)))
    drawing = next(one for one in drawings(text) if str(one[0].text).startswith("Error rate week"))
    assert [len(line.attrib["points"].split()) for line in drawing.iter("polyline")] == [3, 2]
    assert "and 3 more" in text


def test_a_time_without_a_zone_is_shown_as_it_is() -> None:
    text = page(reports.report(), made=datetime(2026, 1, 2, 3, 4))
    assert '<time datetime="2026-01-02T03:04">2026-01-02 03:04</time>' in text
