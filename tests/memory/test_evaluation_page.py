"""The page of an evaluation: everything on it, nothing that runs, nothing that is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.memory.dictionary import DictBackend
from warmstart.memory import NullBackend
from warmstart.memory.evaluation import EvaluationReport, evaluate_backends
from warmstart.memory.evaluation.page import page
from warmstart.memory.evaluation.table import milliseconds, rows


class Hostile(DictBackend):
    backend_name = "<script>alert(1)</script> & 'friends' " * 3
    is_cloud = True


class Gone(DictBackend):
    backend_name = "gone (test)"

    def is_available(self) -> bool:
        return False


@pytest.fixture(scope="module")
def report() -> EvaluationReport:
    return evaluate_backends([NullBackend(), DictBackend(), Gone(), Hostile()], sizes=(10, 20))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_it_is_well_formed_and_runs_and_fetches_nothing(report):
    text = page(report)
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    assert not parser.seen & {"script", "link", "img", "iframe", "object"}
    assert "default-src 'none'" in text
    assert not re.search(r"https?://", text)


def test_it_shows_every_backend_every_number_and_every_warning(report):
    text = page(report)
    assert "Use dictionary (test)" in text
    for row in rows(report.evaluations):
        assert row.name.replace("'", "&#39;") in text
        for cell in row.cells:
            assert cell.replace("'", "&#39;") in text
    assert "what is stored there leaves this machine" in text
    assert "keeps nothing" in text


def test_nothing_evaluated_is_a_page_too():
    text = page(evaluate_backends([]))
    assert "No backend can be recommended" in text
    assert "no data" in text


def test_rows_have_a_cell_for_each_backend(report):
    assert {len(row.cells) for row in rows(report.evaluations)} == {4}
    found = {(row.group, row.name): row.cells for row in rows(report.evaluations)}
    assert found["Score", "of 100"][:3] == ["40 marginal", "100 recommended", "0 not recommended"]
    assert found["Reliability", "concurrent writers"][1] == "all 400 right"
    assert found["Cost", "sent away in 700 operations"] == ["–", "nothing", "–", "not known"]
    assert found["Latency p50/p95", "query, 20 entries"][0] == "–"


def test_milliseconds(subtests):
    for value, shown in [(0.0021, "0.002"), (0.02, "0.02"), (1.26, "1.3"), (99.94, "99.9"), (1250.4, "1,250")]:
        with subtests.test(value=value, shown=shown):
            assert milliseconds(value) == shown
