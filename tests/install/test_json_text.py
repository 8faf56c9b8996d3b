"""Entries go into JSON text and out again; everything else stays as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warmstart.hosts import json_text

BLANKS = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\n\t", "\r\n    ", " // it's \"{[,\n", "/* a, } \n */", "\n// x\n  "]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
NAMES = st.one_of(st.sampled_from(["hooks", "mcpServers", "a", "Stop"]), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)
KEYS = st.sampled_from([("hooks", "Stop"), ("mcpServers", "warmstart"), ("a",), ("a", "b", "c"), ("new",)])
OURS = {"command": 'warm // "start" /* x */', "args": ["é", 1]}


@st.composite
def written(draw, value=None, *, top=True):
    """A document as somebody might have written it: odd blanks, comments, trailing commas."""
    value = draw(st.dictionaries(NAMES, VALUES, max_size=4)) if top else value
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    parts = []
    for item in value.items() if isinstance(value, dict) else value:
        name, inner = item if isinstance(value, dict) else (None, item)
        text = draw(written(inner, top=False))
        if name is not None:
            text = f"{json.dumps(name)}{draw(BLANKS)}:{draw(BLANKS)}{text}"
        parts.append(draw(BLANKS) + text + draw(BLANKS))
    trailing = "," + draw(BLANKS) if parts and draw(st.booleans()) else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    text = opening + (",".join(parts) + trailing or draw(BLANKS)) + closing
    return draw(st.sampled_from(["", "\ufeff"])) + draw(BLANKS) + text + draw(BLANKS) if top else text


def put(data, keys, value, item):
    """What an insertion should do to the data."""
    *path, last = keys
    for key in path:
        data = data.setdefault(key, {})
    if item:
        data.setdefault(last, []).insert(0, value)
    else:
        data[last] = value


@given(written(), KEYS, st.booleans())
@example("{}", ("hooks", "Stop"), True)
@example("", ("hooks", "Stop"), True)
@example("// nothing yet", ("a",), False)
@example('{"a": {"b": null}}', ("a", "b", "c"), False)
def test_an_insertion_adds_one_piece_and_changes_no_byte_of_the_rest(text, keys, item):
    expected = json.loads(json.dumps(json_text.parse(text).value))
    try:
        put(expected, keys, OURS, item)
    except (AttributeError, TypeError):
        with pytest.raises(ValueError, match="is not a"):
            json_text.insert(text, keys, OURS, item=item)
        return
    if not item and json_text.parse(text).at(keys):
        return  # callers remove the old entry first
    after, (at, length) = json_text.insert(text, keys, OURS, item=item)
    assert json_text.parse(after).value == expected
    assert after[:at] + after[at + length :] == text


@given(written())
def test_removing_an_entry_leaves_the_others_and_their_comments(text):
    root = json_text.parse(text)
    for key in list(root.value):
        after = json_text.remove(text, (key,))
        assert json_text.parse(after).value == {k: v for k, v in root.value.items() if k != key}
    if isinstance(root.value.get("a"), list):
        for number in range(len(root.value["a"])):
            left = json_text.parse(json_text.remove(text, ("a", number))).value["a"]
            assert left == root.value["a"][:number] + root.value["a"][number + 1 :]


@given(written(), KEYS, st.booleans())
def test_an_inserted_entry_can_be_removed_without_knowing_where_it_went(text, keys, item):
    root = json_text.parse(text)
    container = root.at(keys if item else keys[:-1])
    if container is None or not isinstance(container.value, list if item else dict) or not container.entries:
        return
    if not item and root.at(keys):
        return
    after, _ = json_text.insert(text, keys, OURS, item=item)
    assert json_text.remove(after, (*keys, 0) if item else keys) == text


def test_a_new_entry_takes_the_style_of_the_file(subtests):
    cases = {
        "{}": '{\n  "k": {\n    "e": [1]\n  }\n}',
        '{\n    "a": 1\n}\n': '{\n    "k": {\n        "e": [1]\n    },\n    "a": 1\n}\n',
        '{\r\n\t"k": {}\r\n}': '{\r\n\t"k": {\r\n\t\t"e": [1]\r\n\t}\r\n}',
        '{\n  "k": {\n    "e": [2]\n  }\n}': '{\n  "k": {\n    "e": [1,2]\n  }\n}',
        '{"a":1}': '{"k": {"e": [1]},"a":1}',
        '{ "a": 1 }': '{ "k": {"e": [1]}, "a": 1 }',
        '{ // mine\n  "k": {"b": 2}\n}': '{ // mine\n  "k": {"e": [1],"b": 2}\n}',
        "": '{\n  "k": {\n    "e": [1]\n  }\n}\n',
    }
    for text, expected in cases.items():
        with subtests.test(text):
            assert json_text.insert(text, ("k", "e"), 1, item=True)[0] == expected


def test_what_is_not_json_is_refused_with_the_line(subtests):
    cases = [
        "{",
        '{"a"}',
        '{"a": }',
        '{"a": 1 "b": 2}',
        "[1, 2",
        '{"a": 01}',
        "{'a': 1}",
        "{a: 1}",
        '{"a": NaN}',
        "{,}",
    ]
    cases += ["[,]", "{} {}", "nul", '{"a": 1,,}', '"\x01"', "/* open", "[" * 100_000]
    for text in cases:
        with subtests.test(text[:20]), pytest.raises(ValueError, match=r"line|nested|valid"):
            json_text.parse(text)


def test_of_two_members_with_one_name_the_last_counts():
    text = '{"hooks": {"Stop": []}, "hooks": {"Stop": [1]}}'
    after, _ = json_text.insert(text, ("hooks", "Stop"), 2, item=True)
    assert json.loads(after) == {"hooks": {"Stop": [2, 1]}}
