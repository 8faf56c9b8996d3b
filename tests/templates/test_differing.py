from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from tests.templates.made import FIRST, SECOND, seed, source, template
from tests.templates.strategies import templates
from warmstart.templates.differing import diff, summary
from warmstart.templates.values import Act, Context, Marker, SessionSeed, WarmTemplate


def test_equal_templates_do_not_differ() -> None:
    assert diff(template(), template(id="x", version=3, used=2)) == []
    assert summary(template(), template()) == ""


@settings(max_examples=40, deadline=None)
@given(templates, templates)
def test_templates_that_differ_say_so_in_lines_that_can_be_printed(old: WarmTemplate, new: WarmTemplate) -> None:
    assert diff(old, old) == []
    lines = diff(old, new)
    same = replace(old, id="") == replace(new, id="")
    assert bool(lines) is not same
    assert bool(summary(old, new)) is not same
    assert all(line.isprintable() for line in lines)


def test_fields_are_shown_as_they_were_and_are() -> None:
    new = template(name="store", task_type="file", tags=(), state="retired", tools={"Bash": "1234"}, sources=("a",))
    lines = diff(template(), new)
    assert lines[:4] == [
        "name: 'shop' -> 'store'",
        "type: 'code' -> 'file'",
        "state: 'active' -> 'retired'",
        "tags: 'python', 'shop' -> none",
    ]
    assert "tools: Bash 0badcafe, Edit, Read -> Bash 1234" in lines
    assert summary(template(), new) == "name, type, state, tags, sources, tools"


def test_parts_that_came_and_went_are_named() -> None:
    new = template(seed=seed(recoveries=(), demonstrations=seed().demonstrations[:1], contexts=()))
    assert diff(new, template()) == [
        "+ context (user): Run the tests before every commit.",
        "+ context (system): You are working in the repository of the shop.",
        "+ demonstration 2: Add a column to the report of {{date}}",
        "+ recovery (Bash): pytest: command not found",
    ]
    assert [line[:1] for line in diff(template(), new)] == ["-", "-", "-", "-"]
    assert summary(template(), new) == "2 contexts removed, 1 demonstration removed, 1 recovery removed"


def test_of_a_changed_part_only_what_differs_is_shown() -> None:
    first, second = seed().demonstrations
    acts = (first.acts[0], Act("Bash", '{"command": "make test"}', first.acts[1].result))
    new = template(seed=seed(demonstrations=(replace(first, acts=acts), second)))
    assert diff(template(), new) == [
        "~ demonstration 1: Fix the rounding of the totals",
        "    ...",
        "         return sum(items)",
        '    -Bash {"command": "python -m pytest -q tests/test_cart.py"}',
        '    +Bash {"command": "make test"}',
        "         4 passed in 0.21s",
    ]
    assert summary(template(), new) == "1 demonstration changed"


def test_a_card_is_known_by_its_tool() -> None:
    bash, edit = seed().cards
    lines = diff(template(), template(seed=seed(cards=(replace(bash, fixes=()), edit))))
    assert lines[0] == "~ card Bash"
    assert lines[-1].startswith("    -fix (2): No module named pytest -> ")


def test_other_sources_and_another_order_are_told() -> None:
    first, second = seed().contexts
    new = template(seed=seed(contexts=(replace(second, sources=source(message="m8")), first)))
    assert diff(template(), new) == [
        f"~ context (system): {second.text}: from other messages of {FIRST}",
        "~ contexts: in another order",
    ]
    moved = template(seed=seed(contexts=(replace(first, sources=source()), second)))
    assert diff(template(), moved) == [f"~ context (user): {first.text}: from {FIRST}, before from {FIRST} {SECOND}"]


def test_what_would_not_be_seen_is_shown() -> None:
    old, new = (
        template(description=text, seed=SessionSeed(contexts=(Context(text=text, said_by="user", sources=source()),)))
        for text in ("one\ntwo", "one\ntwo\x1b[31m\u200b")
    )
    lines = diff(old, new)
    assert "    +two\\x1b[31m\\u200b" in lines
    assert all(line.isprintable() for line in lines)


def test_long_texts_are_shortened_in_titles() -> None:
    long = Marker(kind="file", value="x" * 500, use="read", sources=source())
    (line,) = diff(template(), template(seed=seed(markers=(*seed().markers, long))))
    assert line == f"+ marker (file): {'x' * 99}…"
