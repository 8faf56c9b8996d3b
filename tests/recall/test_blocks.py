"""Blocks give back what went into them."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from warmstart.recall import blocks
from warmstart.recall.blocks import blocks_of, find, merged, packed, stems_of
from warmstart.recall.dividing import Inverter

SEGMENT = st.dictionaries(
    st.text("abcé数", min_size=1, max_size=5), st.lists(st.integers(0, 2**62), min_size=1, max_size=9, unique=True)
)


def stems(segment: dict[str, list[int]]) -> list[tuple[str, bytes]]:
    return [(stem, packed(array("q", sorted(lines)))) for stem, lines in sorted(segment.items())]


def joined(pieces: object) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for stem, lines in pieces:  # type: ignore[attr-defined]
        found[stem] = found.get(stem, b"") + lines
    return found


@given(SEGMENT)
def test_what_goes_in_comes_out(segment):
    made = list(blocks_of(stems(segment)))
    assert [block.first for block in made] == sorted({block.first for block in made})
    assert list(stems_of(made)) == stems(segment)
    for stem, lines in stems(segment):
        last = [block for block in made if block.first <= stem][-1]
        assert dict(find(last.data, [stem, "zzz"])) == {stem: lines}


@given(st.lists(SEGMENT, max_size=4))
def test_segments_become_one(segments):
    expected: dict[str, bytes] = {}
    for segment in segments:
        for stem, lines in stems(segment):
            expected[stem] = expected.get(stem, b"") + lines
    assert dict(merged(map(stems, segments))) == expected


def test_a_stem_with_many_lines_has_blocks_of_its_own(monkeypatch):
    monkeypatch.setattr(blocks, "_MANY", 10)
    monkeypatch.setattr(blocks, "PIECE", 8)
    given = stems({"a": [1, 2], "many": list(range(20)), "z": [3]})
    made = list(blocks_of(given))
    assert [(block.first, block.place, block.lines) for block in made] == [
        ("a", 0, 0),
        ("many", 0, 20),
        ("many", 1, 20),
        ("many", 2, 20),
        ("z", 0, 0),
    ]
    assert joined(stems_of(made)) == dict(given)


def test_a_word_that_nobody_can_ask_for_is_left_out():
    assert list(blocks_of(stems({"x" * 1000: [1]}))) == []


def test_lines_become_stems():
    lines = [(3, "The connections are up"), (7, "connecting! 数据 connect"), (9, "")]
    assert {stem: list(found) for stem, found in Inverter().stems(lines)} == {
        "ar": [3],
        "connect": [3, 7],
        "the": [3],
        "up": [3],
        "数据": [7],
    }
    assert [stem for stem, _ in Inverter().stems([(1, "b a")])] == ["a", "b"]
