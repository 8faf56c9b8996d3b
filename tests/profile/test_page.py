"""The page of a report: whole, safe to open and to pass on, and readable whatever the report holds."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from xml.etree import ElementTree

from tests.profile import page_reports as reports
from warmstart.profile.corpus import Report
from warmstart.profile.page import page

KINDS = (reports.report, reports.empty, reports.single, reports.hostile, reports.huge)
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


def test_a_page_is_whole_and_refers_to_nothing_outside(subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind.__name__):
            text = made(kind())
            parsed = Parsed(text)
            assert [tag for tag, _ in parsed.seen].count("svg") == len(drawings(text))
            assert tuple(parsed.within("h2")) == reports.headings(kind())
            tags = {tag for tag, _ in parsed.seen}
            names = {name for _, attributes in parsed.seen for name in attributes}
            assert not tags & {
                "script",
                "link",
                "img",
                "image",
                "iframe",
                "object",
                "embed",
                "base",
                "a",
                "use",
                "form",
            }
            assert not {name for name in names if name.startswith("on") or name in {"src", "href", "style"}}
            styles = " ".join(parsed.within("style"))
            assert "@import" not in styles
            assert "url(" not in styles
            assert "://" not in text
            policy = next(attributes["content"] for _, attributes in parsed.seen if "http-equiv" in attributes)
            assert str(policy).startswith("default-src 'none'")
            for drawing in drawings(text):
                assert drawing[0].tag == "title"
                assert drawing[0].text


def test_text_of_sessions_stays_text() -> None:
    text = made(reports.hostile(), title=reports.HOSTILE, scope=reports.HOSTILE)
    parsed = Parsed(text)
    assert "<script" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    shown = "<script>alert('x')</script>\"' onload=\"x\" </title></style></svg>& [31m ]]>-->"
    assert parsed.within("h1") == [shown]
    assert parsed.within("code") == [shown]
    assert shown in parsed.within("td")


def test_the_headline_has_the_counts_and_the_rate() -> None:
    parsed = Parsed(made(reports.report(), title="A year", scope="three agents"))
    assert parsed.within("h1") == ["A year"]
    assert parsed.within("title")[0] == "A year"
    joined = " ".join(parsed.within("dd")).replace("\xa0", " ").replace("\u2060", "")
    assert joined == ("847 47,834 3,321 6.9 % of all calls, 95 % interval 6.5–7.4 % 214 calls a person declined")
    assert "three agents" in parsed.within("p")


def test_charts_come_before_paragraphs() -> None:
    text = made(reports.report())
    shown = Parsed(text).within("p")
    assert "The bad ones end early" in shown
    summary, *explanation = reports.report().diagnostics.explanation
    assert {summary, *explanation} <= set(shown)
    for sentence in explanation:
        assert text.index(sentence) > text.rindex("</svg>")


def test_a_project_goes_by_its_last_name() -> None:
    text = made(reports.report())
    assert "weather-station" in text
    assert "notes: " in text
    assert "/home" not in text
    assert "Users" not in text


def test_an_empty_report_says_so_in_each_section() -> None:
    assert Parsed(made(reports.empty())).within("p").count("no data") == len(reports.HEADINGS) + 1
    assert drawings(made(reports.empty())) == []


def test_one_session_gives_no_headline_number() -> None:
    text = made(reports.single())
    parsed = Parsed(text)
    numbers = [each for tag, each in parsed.seen if each.get("class") == "number"]
    assert numbers == []
    assert parsed.within("p").count("Too few sessions to tell.") == 2
    assert "too few sessions for a rate" in parsed.within("dd")
    shown = [one.attrib.get("class", "") for drawing in drawings(text) for one in drawing.iter()]
    assert not {"dot", "band", "range"} & set(shown)


def test_projects_have_unique_names() -> None:
    paths = ("/home/ada/work/cli", "/home/ada/play/cli", "/a/x/cli", "/b/x/cli", "/a/y/cli", "/b/y/cli", "/srv/notes")
    by_project = tuple(reports.rate(path, 5, 100, 0.1) for path in paths)
    cells = Parsed(made(reports.report(by_project=by_project))).within("td")
    assert {"cli (work)", "cli (play)", "a/x/cli", "b/x/cli", "a/y/cli", "b/y/cli", "notes"} <= set(cells)


def test_hovering_over_a_mark_shows_its_numbers() -> None:
    titles = [one.text for drawing in drawings(made(reports.report())) for one in drawing.iter("title")]
    told = [str(title).replace("\xa0", " ").replace("\u2060", "") for title in titles]
    assert "Edit: 6.7 % (95 % interval 6.0–7.4 %); 564 errors in 8,411 calls, 640 sessions" in told
    assert any(title.startswith(f"{reports.LONG}: 18.2 %") for title in told)


def test_the_numbers_of_a_chart_are_below_it() -> None:
    cells = [cell.replace("\xa0", " ").replace("\u2060", "") for cell in Parsed(made(reports.report())).within("td")]
    at = cells.index("0-50 messages")
    assert cells[at : at + 6] == ["0-50 messages", "531", "11,027", "1,007", "9.1 %", "8.4–9.9 %"]


def test_a_big_report_stays_small_and_counts_what_it_leaves_out() -> None:
    text = made(reports.huge())
    assert len(text.encode()) < 400_000
    for left in (48, 18, 28, 488, 280, 94):
        assert f"And {left} more." in text


def test_a_common_report_is_far_smaller() -> None:
    assert len(made(reports.report()).encode()) < 200_000


def test_first_calls_of_one_kind_only_are_still_drawn() -> None:
    base = reports.diagnostics()
    some = replace(base, early_error_by_length=replace(base.early_error_by_length, first_10=()))
    told = [str(drawing[0].text) for drawing in drawings(made(reports.report(diagnostics=some)))]
    assert "Early errors by final length" in told


def test_the_same_report_gives_the_same_page() -> None:
    assert made(reports.report()) == made(reports.report())


def test_weeks_without_calls_break_the_line_and_odd_weeks_are_counted() -> None:
    dated = [reports.rate(f"2026-W{week:02d}", 5, 100, 0.1) for week in (1, 2, 3, 7, 8)]
    odd = [reports.rate(key, 5, 100, 0.1) for key in ("", "2026-W99", "some day")]
    text = made(reports.report(by_week=(*reversed(dated), *odd)))
    drawing = next(one for one in drawings(text) if str(one[0].text).startswith("Error rate week"))
    assert [len(line.attrib["points"].split()) for line in drawing.iter("polyline")] == [3, 2]
    assert "And 3 more." in text


def test_a_time_without_a_zone_is_shown_as_it_is() -> None:
    text = page(reports.report(), made=datetime(2026, 1, 2, 3, 4))
    assert '<time datetime="2026-01-02T03:04">2026-01-02 03:04</time>' in text
