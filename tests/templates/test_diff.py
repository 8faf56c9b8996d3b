from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from tests.templates.made import FIRST, SECOND, item, seed, source, template
from tests.templates.strategies import templates
from warmstart.templates.item import ToolCallExample
from warmstart.templates.template import SessionSeed, WarmTemplate
from warmstart.templates.text_form import diff


def test_equal_templates_do_not_differ() -> None:
    assert diff(template(), template(id="x", version=3, used=2)) == []


@given(templates, templates)
def test_templates_that_differ_say_so_in_lines_that_can_be_printed(old: WarmTemplate, new: WarmTemplate) -> None:
    assert diff(old, old) == []
    assert all(line.isprintable() for line in diff(old, new))


def test_fields_are_shown_as_they_were_and_are() -> None:
    new = template(name="store", task_type="file", tags=(), state="retired", tools={"Bash": "1234"}, sources=("a",))
    lines = diff(template(), new)
    for line in ('-name = "shop"', '+name = "store"', '-state = "active"', '+state = "retired"', "+tags = []"):
        assert line in lines
    assert '-tools = {"Bash": "0badcafe", "Edit": "", "Read": ""}' in lines
    assert '+tools = {"Bash": "1234"}' in lines


def test_items_that_came_and_went_are_named() -> None:
    new = template(seed=seed(trap=(), file=seed().of("file")[:1], instruction=()))
    lines = diff(new, template())
    assert '+text = "Run the tests before every commit."' in lines
    assert '+arguments = "python -m pytest -q"' in lines
    assert not any(line.startswith("-") for line in lines)


def test_of_a_changed_item_only_what_differs_is_shown() -> None:
    first, second = seed().of("example")
    calls = (first.calls[0], ToolCallExample("shell", "make test", "4 passed"))
    new = template(seed=seed(example=(replace(first, calls=calls), second)))
    assert [line for line in diff(template(), new) if line[:1] in "+-"] == [
        '-arguments = "python -m pytest -q tests/test_cart.py"',
        '+arguments = "make test"',
    ]


def test_other_sources_and_another_order_are_shown() -> None:
    first, second = seed().of("instruction")
    moved = template(seed=seed(instruction=(second, first)))
    assert f'+text = "{second.text}"' in diff(template(), moved)
    other = template(seed=seed(instruction=(replace(first, sources=source()), second)))
    assert f"-# from {FIRST} {SECOND}" in diff(template(), other)
    assert f"+# from {FIRST}" in diff(template(), other)


def test_what_would_not_be_seen_is_shown() -> None:
    old, new = (
        template(description=text, seed=SessionSeed(items=(item("instruction", text),)))
        for text in ("one\ntwo", "one\ntwo\x1b[31m\u200b")
    )
    lines = diff(old, new)
    assert '+two\\u001b[31m\\U0000200b"""' in lines
    assert all(line.isprintable() for line in lines)
