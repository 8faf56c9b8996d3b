"""The page of a report in a real Chromium: nothing fails, nothing is fetched, nothing overlaps or runs off the screen.

Skipped where Chromium or playwright is missing, unless `WARMSTART_TEST_BROWSER` is set: then that is an error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.profile import page_reports as reports
from warmstart.profile.corpus import Report
from warmstart.profile.page import page

pytestmark = pytest.mark.browser

KINDS = (reports.report, reports.empty, reports.single, reports.hostile, reports.huge)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
every_width = pytest.mark.parametrize("width", [1280, 390])
every_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])

# Pairs of texts in one drawing whose boxes share more than a sliver; a box is taller than the letters in it.
OVERLAPS = """() => {
    const found = [];
    for (const drawing of document.querySelectorAll('svg')) {
        const boxes = [...drawing.querySelectorAll('text')]
            .map(text => ({text: text.textContent, box: text.getBoundingClientRect()}))
            .filter(one => one.box.width > 0 && one.text.trim());
        boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
            const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
            const tall = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
            if (wide > 0.5 && tall > 2) found.push([a.text, b.text]);
        }));
    }
    return found;
}"""
# Texts that begin left of their drawing or end right of it.
RUNAWAYS = """() => [...document.querySelectorAll('svg text')].filter(text => {
    const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
    return box.width > 0 && (box.left < frame.left - 1 || box.right > frame.right + 1);
}).map(text => text.textContent)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running Chromium of this machine."""
    program = shutil.which("chromium")
    missing = "" if program else "chromium is not installed"
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing = missing or "playwright is not installed"
    if missing:
        assert not os.environ.get("WARMSTART_TEST_BROWSER"), missing
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, report: Report, folder: Path, *, width: int, scheme: str) -> Iterator[Any]:
    """The page of a report in a tab without a network. At the end nothing has failed and nothing else was asked for."""
    file = folder / "page.html"
    file.write_text(page(report, made=reports.MADE, scope="sessions of three agents"), encoding="utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_offline(True)
    context.set_default_timeout(20_000)
    asked: list[str] = []
    complaints: list[str] = []
    tab = context.new_page()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(file.as_uri())
    try:
        yield tab
    finally:
        context.close()
    assert complaints == []
    assert asked == [file.as_uri()]


@every_scheme
@every_width
@every_kind
def test_a_page_fits_and_nothing_overlaps(
    chromium: Any, tmp_path: Path, kind: Callable[[], Report], width: int, scheme: str
) -> None:
    with opened(chromium, kind(), tmp_path, width=width, scheme=scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.evaluate(OVERLAPS) == []
        assert tab.evaluate(RUNAWAYS) == []
        for heading in reports.headings(kind()):
            assert tab.get_by_role("heading", name=heading, exact=True).is_visible(), heading


@every_width
@every_kind
def test_a_page_with_all_its_numbers_open_still_fits(
    chromium: Any, tmp_path: Path, kind: Callable[[], Report], width: int
) -> None:
    with opened(chromium, kind(), tmp_path, width=width, scheme="light") as tab:
        tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_colours_follow_the_scheme(chromium: Any, tmp_path: Path) -> None:
    shown = {}
    for scheme in ("light", "dark"):
        with opened(chromium, reports.report(), tmp_path, width=1280, scheme=scheme) as tab:
            shown[scheme] = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            tab.emulate_media(media="print")
            assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 252, 250)"
    assert shown == {"light": "rgb(253, 252, 250)", "dark": "rgb(23, 22, 20)"}


@every_width
def test_one_of_the_two_timelines_is_shown(chromium: Any, tmp_path: Path, width: int) -> None:
    with opened(chromium, reports.report(), tmp_path, width=width, scheme="light") as tab:
        assert tab.locator(".wide").is_visible() == (width > 680)
        assert tab.locator(".narrow").is_visible() == (width <= 680)


def test_text_of_sessions_runs_nothing_even_if_it_were_markup(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, reports.hostile(), tmp_path, width=1280, scheme="light") as tab:
        assert tab.locator("script").count() == 0
        assert tab.locator("[onload]").count() == 0
