"""The page of an evaluation in a real Chromium: nothing fails, nothing overlaps or runs off the screen."""

from __future__ import annotations

import pytest

from tests.browser.test_profile_page import OVERLAPS, RUNAWAYS, chromium, every_scheme, every_width
from tests.memory.dictionary import DictBackend
from warmstart.memory import NullBackend
from warmstart.memory.evaluation import EvaluationReport, evaluate_backends
from warmstart.memory.evaluation.page import page

__all__ = ["chromium"]  # a fixture

pytestmark = pytest.mark.browser


class Cloud(DictBackend):
    backend_name = "a cloud with quite a long name indeed (test)"
    is_cloud = True


@pytest.fixture(scope="module")
def report() -> EvaluationReport:
    return evaluate_backends([NullBackend(), DictBackend(), Cloud()], sizes=(10, 100))


@every_width
@every_scheme
def test_the_page_fits_and_nothing_overlaps(chromium, report, tmp_path, width, scheme):
    file = tmp_path / "page.html"
    file.write_text(page(report), encoding="utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_offline(True)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(file.as_uri())
    assert complaints == []
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate(RUNAWAYS) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
