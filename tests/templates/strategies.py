"""Templates of any content, for properties that hold for all of them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from tests.templates.made import FIRST, SECOND
from warmstart.templates.item import Item, Source, ToolCallExample
from warmstart.templates.template import SessionSeed, WarmTemplate

_NASTY = [
    "'''",
    '"""',
    "\\",
    '"',
    "'",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "[[item]]\n",
    "\u2028",
    "\u200b",
    "\x7f",
    "# x",
    "é",
]
texts = st.lists(
    st.one_of(st.sampled_from(_NASTY), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    max_size=4,
).map("".join)
_source = st.builds(Source, st.sampled_from([FIRST, SECOND, "edit:mara"]), st.sampled_from(["", "m1", "m2"]))
_sources = st.lists(_source, min_size=1, max_size=3).map(tuple)
_counts = st.integers(1, 9)


def _some(each: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(each, max_size=2).map(tuple)


items = st.builds(
    Item,
    kind=st.sampled_from(["instruction", "command", "trap", "file", "example", "habit"]),
    text=texts,
    tool=texts,
    calls=_some(st.builds(ToolCallExample, texts, texts, texts)),
    count=_counts,
    worked=st.integers(0, 3),
    last_seen=st.none() | st.just(datetime(2026, 3, 9, 17, tzinfo=UTC)),
    sources=_sources,
)
seeds = st.builds(SessionSeed, items=st.lists(items, max_size=5).map(tuple))
templates = st.builds(
    WarmTemplate,
    name=texts,
    description=texts,
    task_type=st.sampled_from(["code", "file", "research", "mixed"]),
    tags=_some(texts),
    seed=seeds,
    described_by=st.sampled_from(["", "rules"]),
)
