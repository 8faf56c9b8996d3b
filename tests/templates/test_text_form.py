from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.templates.made import seed, template
from tests.templates.strategies import templates
from warmstart.errors import InvalidTemplate
from warmstart.templates.items import edited_by, is_edit, items_of
from warmstart.templates.text_form import from_text, to_text
from warmstart.templates.values import Context, Marker, SessionSeed, WarmTemplate


@settings(max_examples=80, deadline=None)
@given(templates)
def test_a_template_comes_back_from_its_text(given: WarmTemplate) -> None:
    text = to_text(given)
    assert from_text(text, given) == given
    assert from_text("\ufeff" + text.replace("\n", "\r\n"), given) == given  # an editor of another system


def test_what_is_changed_keeps_its_sources() -> None:
    kept = template()
    text = to_text(kept)
    changed = from_text(text.replace("Run the tests before every commit.", "Run them all."), kept)
    assert changed.seed.contexts[0] == replace(kept.seed.contexts[0], text="Run them all.")
    assert changed.seed == replace(kept.seed, contexts=changed.seed.contexts)
    more = from_text(text.replace("python -m pytest -q", "make test"), kept)
    assert more.seed.cards[0].exemplars[0].sources == kept.seed.cards[0].exemplars[0].sources
    assert more.seed.recoveries[0].worked == '{"command": "make test"}'


def test_what_is_taken_out_is_gone_and_the_order_is_free() -> None:
    kept = template()
    first, *parts = re.split(r"(?=^\[\[(?!\w+\.))", to_text(kept), flags=re.MULTILINE)
    without = from_text(first + "".join(part for part in parts if not part.startswith("[[marker]]")), kept)
    assert without.seed == replace(kept.seed, markers=())
    backwards = from_text(first + "".join(reversed(parts)), kept)
    assert backwards.seed.markers == tuple(reversed(kept.seed.markers))
    assert {each.id for each in items_of(backwards.seed)} == {each.id for each in items_of(kept.seed)}
    assert from_text(first, kept).seed == SessionSeed(notes=kept.seed.notes)


def test_what_is_new_came_from_the_edit() -> None:
    kept = template()
    text = to_text(kept) + '\n[[context]]\nsaid_by = "user"\ntext = "Say please."\n[[task]]\ntext = "be kind"\n'
    changed = from_text(text, kept, author="mara")
    assert changed.seed.contexts[-1] == Context(text="Say please.", said_by="user", sources=(edited_by("mara"),))
    assert changed.seed.tasks[-1].source == edited_by("mara")
    assert is_edit(changed.seed.contexts[-1].sources[0])
    assert is_edit("edit:")
    assert not is_edit(kept.seed.contexts[0].sources[0])


def test_the_fields_of_the_template_can_be_changed() -> None:
    kept = template(described_by="some-model")
    text = to_text(kept).replace('"shop"', '"store"').replace('type = "code"', 'type = "file"')
    changed = from_text(text, kept)
    assert (changed.name, changed.tags, changed.task_type) == ("store", ("python", "store"), "file")
    assert changed.described_by == "some-model"
    assert from_text(re.sub("description = .*", 'description = "mine"', text), kept).described_by == ""
    assert (changed.id, changed.version, changed.sources) == (kept.id, kept.version, kept.sources)


def test_parts_that_say_the_same_stay_apart() -> None:
    one, two = (Marker(kind="file", value="a", use="read", sources=(edited_by(name),)) for name in "xy")
    kept = template(seed=SessionSeed(markers=(one, two, one)))
    assert from_text(to_text(kept), kept) == kept


def test_what_cannot_be_seen_is_shown() -> None:
    kept = template(description="ab\u200bc\u202e d\u00a0e\x1b[0m\U000e0041")
    assert r"ab\u200bc\u202e d\u00a0e\u001b[0m\U000e0041" in to_text(kept)
    text = to_text(template(description="one\ntwo\u200b"))
    assert 'description = """\none\ntwo\\u200b"""' in text


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_a_mistake_is_told_with_its_line(subtests) -> None:
    cases = [
        ('name = "shop"', 'name = "shop', 'name = "shop', "'"),
        ('name = "shop"', "", "# The", "missing required field `name`"),
        ('name = "shop"', "name = 1", "name = 1", "expected `str`, got `int`"),
        ('type = "code"', 'type = "poem"', "type =", "invalid enum value 'poem'"),
        ("count = 3", 'count = "3"', 'count = "3"', "expected `int`"),
        ("count = 3", "colour = 3", "colour = 3", "unknown field `colour`"),
        ('evidence = "exit code 0"', "", "[[demonstration]]\nitem = {1}", "missing required field `evidence`"),
        ("[[pattern]]", "[pattern]", "[pattern]", "expected `array`"),
        ("[[pattern]]", "[[patern]]", "[[patern]]", "unknown field `patern`"),
        ("item = {0}", 'item = "123456789abc"', 'item = "123456789abc"', "no context '123456789abc'"),
        ("item = {1}", "item = {0}", "[[demonstration]]\nitem = {0}", "no demonstration '"),
    ]
    for old, new, place, said in cases:
        with subtests.test(old=old, new=new, place=place, said=said):
            kept = template()
            text = to_text(kept)
            keys = (
                re.findall(r"\[\[context\]\]\nitem = (.*)", text)[:1]
                + re.findall(r"\[\[demonstration\]\]\nitem = (.*)", text)[1:]
            )
            old, new, place = (each.format(*keys) for each in (old, new, place))
            assert old in text
            broken = text.replace(old, new, 1)
            with pytest.raises(InvalidTemplate) as raised:
                from_text(broken, kept)
            message = str(raised.value)
            assert "\n" not in message
            assert said in message
            line = line_of(broken, place)
            assert message.startswith((f"line {line}: ", f"line {line + 1}: "))


def test_a_text_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(InvalidTemplate, match="line 1: it is nested far deeper"):
        from_text("name = " + "[" * 5000, template())


def test_a_part_that_stands_twice_is_told() -> None:
    kept = template(seed=seed(notes=()))
    text = to_text(kept)
    again = text[text.index("[[pattern]]") : text.index("[[marker]]")]
    with pytest.raises(InvalidTemplate, match=rf"line {text.count(chr(10)) + 2}: .* stands here twice"):
        from_text(text + again, kept)


def test_headers_in_texts_are_no_headers() -> None:
    kept = template(seed=seed(contexts=(Context(text="[[marker]]\nx = 1\n'quoted'\n", said_by="user"),)))
    text = to_text(kept)
    broken = text.replace('kind = "url"', 'kind = "URL"')
    line = line_of(broken, 'kind = "URL"')
    with pytest.raises(InvalidTemplate, match=f"line {line}: invalid enum value 'URL'"):
        from_text(broken, kept)
