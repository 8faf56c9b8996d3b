"""Templates in the open dataset: what they teach stays, and what may identify someone is a hash."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from warmstart.profile.pseudonyms import Pseudonyms
from warmstart.profile.rules import load_table
from warmstart.templates.dataset import template_rows
from warmstart.templates.item import Item, Source
from warmstart.templates.template import SessionSeed, WarmTemplate

NAMES = Pseudonyms(b"a key of the test, and long enough")
PROJECT = "/home/marlene/src/ostsee/tide-watch"
SESSION = "58e3c7d958e3c7d9"


def template(*texts, **more):
    items = tuple(
        Item(
            kind="instruction",
            text=text,
            first_seen=datetime(2026, 9, 7, 9, 30, tzinfo=UTC),
            sources=(Source(SESSION, "7fb19ae8-ab0a-47a9-ac5a-29670d1fcfd4"),),
        )
        for text in texts
    )
    fields = {"name": "tests", "project": PROJECT, "sources": (SESSION,), **more}
    return WarmTemplate(id="warm_20260907_093000", seed=SessionSeed(items=items), **fields)


def row(made):
    (found,) = template_rows([made], projects=[PROJECT], names=NAMES)
    return found


def text_of(text):
    return row(template(description=text))["description"]


def test_a_row_has_the_columns_of_the_card():
    made = template("Always run the tests.", task_type="code", agent="codex", used=5, successes=4, failures=1)
    found = row(made)
    assert list(found) == [name for name, *_ in load_table("dataset")["templates"]]
    expected = {"name": "tests", "task_type": "code", "agent": "codex", "used": 5, "successes": 4, "failures": 1}
    assert expected.items() <= found.items()
    item = found["items"][0]
    assert (item["kind"], item["text"], item["first_seen"]) == ("instruction", "Always run the tests.", "2026-W37")


def test_ids_are_the_hashes_of_the_other_tables():
    found = row(template("Always run the tests."))
    assert found["sources"] == found["items"][0]["sources"] == [NAMES.hash("session", SESSION)]
    assert found["project"] == NAMES.hash("project", PROJECT)
    text = json.dumps(found)
    for private in (SESSION, "7fb19ae8", "warm_2026", "2026-09", "09:30", "093000"):
        assert private not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Always run `go test ./... -race`.", "Always run `go test ./... -race`."),
        ("Always run `pytest tests/test_gauge.py -q`.", "Always run `pytest # -q`."),
        ("Never edit docs/plan.md.", "Never edit #."),
        ("Never edit (docs/plan.md), ever.", "Never edit (#), ever."),
        ("Always read app/(main)/[name]/page.tsx first.", "Always read # first."),
        ("Always read plan.md.", "Always read #."),
        ("Always look at https://example.org/x?plain=1#notes.", "Always look at #."),
        ("Always ask m.voss@ostsee.example.", "Always ask #."),
        (r"Never write to D:\gauge\raw.", "Never write to #."),
        ("Always use tidewatch and TideWatch.", "Always use # and #."),
        ("Never say Ostsee or marlene's name.", "Never say # or #'s name."),
        ("Never revert e259b8e again.", "Never revert # again."),
        ("Never deploy in week 37 with 1.2.3.", "Never deploy in week 37 with 1.2.3."),
        ("Always use a decade-old facade.", "Always use a decade-old facade."),
        ("Always call mcp__harbour-db__query first.", "Always call mcp__#__# first."),
    ],
)
def test_a_text_keeps_its_form(text, shown):
    hashed = re.sub(r"name:[0-9a-f]{8}|(?<=__)[0-9a-f]{8}", "#", text_of(text))
    assert hashed == shown


def test_the_same_name_has_the_same_hash_under_one_key_only():
    text = "Never edit docs/plan.md."
    assert text_of(text) == row(template(text))["items"][0]["text"]
    other = Pseudonyms(b"another key that is long enough")
    (found,) = template_rows([template(description=text)], projects=[PROJECT], names=other)
    assert found["description"] != text_of(text)


def test_private_tools_are_hashed_wherever_they_are_named():
    made = template("Always call tide_predict after Read.", tools={"tide_predict": "f1", "Read": "f2"})
    found = row(made)
    assert [re.sub("[0-9a-f]{8}", "#", tool) for tool in found["tools"]] == ["other:#", "Read"]
    assert "tide_predict" not in json.dumps(found)
    assert found["items"][0]["text"].endswith(" after Read.")
