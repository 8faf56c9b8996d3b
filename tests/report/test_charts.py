"""Charts: every text is escaped, every coordinate is a number, and no single session stretches an axis."""

from __future__ import annotations

import re
from datetime import date, timedelta
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from warmstart.report import charts
from warmstart.report.charts import Bar, Point, Row, Tick, element, join
from warmstart.report.format import counted, cut, fit, one_line, percent, percents, points, ratio, short

HOSTILE = "<script>alert('x')</script>\"& \x00\x1b[31m\u202e ]]>-->"
LONG = "mcp__some-long-server-name__some_rather_long_tool_name"
MONDAY = date(2026, 1, 5)


def drawn(chart: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(chart))


def classes(chart: Markup) -> list[str]:
    return [one.attrib.get("class", "") for one in drawn(chart).iter()]


CHARTS = {
    "rates": lambda given: charts.rates("a title", given),
    "line": lambda given: charts.line("a title", given, caption="position"),
    "timeline": lambda given: charts.timeline(
        "a title", [(MONDAY + timedelta(weeks=place), point) for place, point in enumerate(given)]
    ),
    "gauge": lambda given: charts.gauge("a title", given[0], neutral=0, caption="no change"),
    "shares": lambda given: charts.shares("a title", [(point.name, point.cases, "good") for point in given]),
}
POINTS = {
    "usual": [Point("Bash", 0.08, 0.07, 0.1, 300, "24 errors"), Point("Read", 0.02, 0.01, 0.03, 200)],
    "one": [Point("Bash", 0.08, 0.07, 0.1, 300)],
    "none known": [Point("Bash", None), Point("Read", None)],
    "without intervals": [Point("Bash", 0.5, cases=2), Point("Read", 0.0, cases=1)],
    "beyond the axis": [Point("Bash", 0.08, 0.0, 1.0, 3), Point("Read", 0.02, 0.01, 0.03, 200)],
    "hostile": [Point(HOSTILE, 0.1, 0.0, 0.2, 3, HOSTILE)],
    "infinite": [Point("Bash", 0.1, 0.0, float("inf"), 3)],
    "wide": [Point(f"{LONG}{'漢' * place}", 0.01 * place, 0.0, 0.02 * place, 10**place) for place in range(9)],
}


def test_every_chart_is_well_formed_and_has_numbers_for_places(subtests):
    for name, draw in CHARTS.items():
        for kind, given in POINTS.items():
            with subtests.test(chart=name, points=kind):
                root = drawn(draw(given))
                assert root.attrib["role"] == "img"
                assert (root[0].tag, root[0].text) == ("title", "a title")
                for one in root.iter():
                    for place in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "d", "points"):
                        assert not re.search(r"nan|inf|e[+-]", one.attrib.get(place, ""))
                    assert float(one.attrib.get("width", 0)) >= 0
                    assert float(one.attrib.get("height", 0)) >= 0


def test_a_number_without_an_interval_is_hollow():
    alone = [Point("Bash", 0.5, cases=2)]
    assert "bar tint hollow" in classes(charts.rates("", alone))
    assert "dot hollow" in classes(charts.line("", alone, caption=""))
    assert not {"dot", "whisker", "band", "range"} & set(classes(charts.rates("", alone)))
    assert "value end" not in classes(charts.rates("", alone)), "it is not set in bold either"


def test_a_number_without_an_interval_does_not_stretch_the_axis():
    sure = [Point("Bash", 0.08, 0.07, 0.09)]
    assert charts.ticks([*sure, Point("Read", 0.9)]) == charts.ticks(sure)


def test_hovering_over_a_mark_shows_its_numbers():
    titles = [one.text for one in drawn(charts.rates("", POINTS["usual"])).iter("title")]
    assert "Bash: 8.0\xa0% (95 % interval 7.0\u2060–\u206010.0\xa0%); 24 errors" in titles


def test_a_line_chart_labels_its_first_and_last_point():
    given = [Point(str(place), value, value, value) for place, value in enumerate((0.02, 0.05, 0.01))]
    root = drawn(charts.line("", given, caption=""))
    values = [one for one in root.iter("text") if "value" in one.attrib["class"].split()]
    dots = list(root.iter("circle"))
    assert [one.text for one in values] == ["2.0\xa0%", "1.0\xa0%"]
    for text, dot in zip(values, (dots[0], dots[-1]), strict=True):
        assert abs(float(text.attrib["x"]) - float(dot.attrib["cx"])) < 10
        assert abs(float(text.attrib["y"]) - float(dot.attrib["cy"])) < 20


def test_a_gap_in_time_breaks_the_line():
    weeks = [(MONDAY + timedelta(weeks=week), Point("", 0.05, 0.04, 0.06, 9)) for week in (0, 1, 2, 6, 7)]
    lines = drawn(charts.timeline("", weeks)).iter("polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 2]


def test_rows_draw_bars_intervals_and_a_dot():
    row = Row("a", "tip", ("5",), (Bar(0, 0.5, "good"),), ((0.2, 0.8), (0.1, 1.2)), dot=0.4)
    chart = charts.rows("", [row], [Tick(0.5, "half")])
    assert classes(chart).count("whisker") == 2
    assert {"bar good", "dot", "grid"} <= set(classes(chart))
    assert charts.rows("", [], []), "nothing to draw is no error"


def test_a_name_that_fits_is_not_shortened():
    texts = [
        one.text for one in drawn(charts.shares("", [("success", 3, "good"), ("unknown", 1, "plain")])).iter("text")
    ]
    assert {"success", "unknown"} <= set(texts)


def test_an_axis_starts_at_zero_and_has_round_numbers(subtests):
    for given, expected in (
        ([], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.0, None)], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.0, 0.03)], [0, 0.01, 0.02, 0.03]),
        ([(0.08, 0.09)], [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        ([(0.1, 0.9)], [0, 0.05, 0.1, 0.15]),
        ([(1.0, 1.0)], [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([(0.0004, 0.0005)], [0, 0.0001, 0.0002, 0.0003, 0.0004, 0.0005]),
    ):
        with subtests.test(given=given):
            found = [Point("", rate, None if high is None else 0.0, high) for rate, high in given]
            assert charts.ticks(found) == pytest.approx(expected)


def test_only_markup_is_taken_as_markup():
    inner = element("b", "1 < 2", title='"quoted"')
    assert inner == '<b title="&#34;quoted&#34;">1 &lt; 2</b>'
    assert join(inner, "<i>") == inner + Markup("&lt;i&gt;")
    assert "<b" not in element("p", f"{inner}!"), "a string built from markup is plain text again"


def test_texts_and_numbers_as_a_page_shows_them(subtests):
    for found, expected in (
        (points(0.0213), "+2.1"),
        (points(-0.0213), "−2.1"),
        (points(-0.0001), "0.0"),
        (points(None), "–"),
        (percent(0.123), "12.3\xa0%"),
        (percents(None, 0.1), "–"),
        (ratio(1.834), "1.83"),
        (ratio(float("inf")), "∞"),
        (counted(1, "call"), "1\xa0call"),
        (counted(2000, "call"), "2,000\xa0calls"),
        (short(12_345), "12,345"),
        (short(1_234_567), "1.2M"),
        (one_line(" a\n\x1b b\u202e"), "a b"),
        (one_line(""), "–"),
        (cut("abcdef", 4), "abc…"),
        (fit("Bash", 120), "Bash"),
        (fit("anything", 1), "…"),
    ):
        with subtests.test(expected=expected):
            assert found == expected
    assert re.fullmatch(r"mcp__.+….*name", fit(LONG, 120)), "a long name keeps both ends"
    assert fit("漢" * 50, 120).count("漢") < 12
