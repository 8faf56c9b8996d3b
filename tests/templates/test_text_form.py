from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given

from tests.templates.made import item, seed, template
from tests.templates.strategies import templates
from warmstart.errors import InvalidTemplate
from warmstart.templates.item import EDIT, Item, Source, ToolCallExample
from warmstart.templates.template import SessionSeed, WarmTemplate
from warmstart.templates.text_form import from_text, to_text


@given(templates)
def test_a_template_comes_back_from_its_text(given: WarmTemplate) -> None:
    text = to_text(given)
    assert from_text(text, given) == given
    assert from_text("\ufeff" + text.replace("\n", "\r\n"), given) == given  # an editor of another system


def test_what_is_changed_keeps_its_sources() -> None:
    kept = template()
    text = to_text(kept)
    changed = from_text(text.replace("Run the tests before every commit.", "Run them all."), kept)
    assert changed.seed.items[0] == replace(kept.seed.items[0], text="Run them all.")
    assert changed.seed.items[1:] == kept.seed.items[1:]
    more = from_text(text.replace("python -m pytest -q", "make test"), kept)
    assert more.seed.of("trap")[0].calls[1] == ToolCallExample("shell", "make test")
    assert more.seed.of("trap")[0].sources == kept.seed.of("trap")[0].sources


def test_what_is_taken_out_is_gone_and_the_order_is_free() -> None:
    kept = template()
    first, *parts = re.split(r"(?=^\[\[item\]\])", to_text(kept), flags=re.MULTILINE)
    without = from_text(first + "".join(part for part in parts if 'kind = "file"' not in part), kept)
    assert without.seed == seed(file=())
    assert from_text(first + "".join(reversed(parts)), kept).seed.items == tuple(reversed(kept.seed.items))
    assert from_text(first, kept).seed == SessionSeed()


def test_what_is_new_came_from_the_edit() -> None:
    kept = template()
    text = to_text(kept) + '\n[[item]]\nkind = "instruction"\ntext = "Say please."\n'
    changed = from_text(text, kept, author="mara")
    assert changed.seed.items[-1] == Item(kind="instruction", text="Say please.", sources=(Source("edit:mara"),))
    assert changed.seed.items[-1].sources[0].is_edit
    assert not kept.seed.items[0].sources[0].is_edit


def test_the_fields_of_the_template_can_be_changed() -> None:
    kept = template(described_by="some-model")
    text = to_text(kept).replace('"shop"', '"store"').replace('type = "code"', 'type = "file"')
    changed = from_text(text, kept)
    assert (changed.name, changed.tags, changed.task_type) == ("store", ("python", "store"), "file")
    assert changed.described_by == "some-model"
    assert from_text(re.sub("description = .*", 'description = "mine"', text), kept).described_by == ""
    assert (changed.id, changed.version, changed.sources) == (kept.id, kept.version, kept.sources)


def test_items_that_say_the_same_stay_apart() -> None:
    one, two = (item("file", "a.py", tool="read", sources=(Source(f"{EDIT}{name}"),)) for name in "xy")
    kept = template(seed=SessionSeed(items=(one, two, one)))
    assert from_text(to_text(kept), kept) == kept


def test_what_cannot_be_seen_is_shown() -> None:
    kept = template(description="ab\u200bc\u202e d\u00a0e\x1b[0m\U000e0041")
    assert r"ab\U0000200bc\U0000202e d\U000000a0e\u001b[0m\U000e0041" in to_text(kept)
    assert 'description = """one\ntwo\\U0000200b"""' in to_text(template(description="one\ntwo\u200b"))


def test_a_text_may_begin_with_a_line_break() -> None:
    kept = template(description="\n\none\n")
    assert from_text(to_text(kept), kept) == kept


def test_quotes_and_backslashes_are_readable() -> None:
    shown = item("example", "x", calls=(ToolCallExample("Bash", '{"command": "grep \\\\d"}', "ok"),))
    assert """arguments = '{"command": "grep \\\\d"}'""" in to_text(template(seed=SessionSeed(items=(shown,))))


def test_a_mistake_is_told_with_its_place(subtests) -> None:
    cases = [
        ('name = "shop"', 'name = "shop', r"line \d+: .*"),
        ('name = "shop"', "", "template: .*missing required field `name`"),
        ('name = "shop"', "name = 1", "name: expected `str`, got `int`"),
        ('type = "code"', 'type = "poem"', "type: invalid enum value 'poem'"),
        ("count = 4", 'count = "4"', r"item 4\.count: expected `int`"),
        ("count = 4", "colour = 4", "item 4: object contains unknown field `colour`"),
        ('kind = "trap"', 'kind = "trick"', r"item 6\.kind: invalid enum value 'trick'"),
        ('kind = "trap"', "", "item 6: object missing required field `kind`"),
        (r'id = "\w+"', 'id = "123456789abc"', "item 1: the id '123456789abc' is unknown"),
    ]
    for old, new, said in cases:
        with subtests.test(old=old, new=new):
            broken, number = re.subn(old, new, to_text(template()), count=1)
            assert number == 1
            with pytest.raises(InvalidTemplate, match=f"^{said}") as raised:
                from_text(broken, template())
            assert "\n" not in str(raised.value)


def test_a_text_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(InvalidTemplate, match="nested"):
        from_text("name = " + "[" * 5000, template())


def test_an_item_that_stands_twice_is_told() -> None:
    text = to_text(template())
    again = re.split(r"(?=^\[\[item\]\])", text, flags=re.MULTILINE)[1]
    with pytest.raises(InvalidTemplate, match=r"item 15: the id '\w+' is unknown or used twice"):
        from_text(f"{text}\n{again}", template())
