"""Templates of any content, for properties that hold for all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.templates.made import FIRST, SECOND
from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Note,
    Recovery,
    SessionSeed,
    Source,
    Task,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

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
    "[[context]]\n",
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


_cards = st.builds(
    ToolCard,
    tool=texts,
    exemplars=_some(st.builds(Exemplar, arguments=texts, sources=_sources)),
    conventions=_some(st.builds(Convention, text=texts, count=_counts, sources=_sources)),
    fixes=_some(st.builds(Fix, error=texts, change=texts, count=_counts, sources=_sources)),
)
_demonstrations = st.builds(
    Demonstration,
    task=texts,
    acts=_some(st.builds(Act, texts, texts, texts)),
    evidence=texts,
    sources=_sources,
)
_recoveries = st.builds(
    Recovery, tool=texts, failed=texts, error=texts, worked=texts, change=texts, count=_counts, sources=_sources
)
_markers = st.builds(
    Marker,
    kind=st.sampled_from(["file", "url", "reference"]),
    value=texts,
    use=st.sampled_from(["changed", "read", "run", "fetched", "cited"]),
    count=_counts,
    sources=_sources,
)
seeds = st.builds(
    SessionSeed,
    contexts=_some(
        st.builds(Context, text=texts, said_by=st.sampled_from(["user", "system"]), sources=_sources),
    ),
    cards=_some(_cards),
    demonstrations=_some(_demonstrations),
    recoveries=_some(_recoveries),
    patterns=_some(st.builds(UserPattern, text=texts, sources=_sources)),
    markers=_some(_markers),
    tasks=_some(st.builds(Task, texts, _source)),
    notes=_some(st.builds(Note, texts, st.just((FIRST, SECOND)))),
)
templates = st.builds(
    WarmTemplate,
    name=texts,
    description=texts,
    task_type=st.sampled_from(["code", "file", "research", "mixed"]),
    tags=_some(texts),
    seed=seeds,
    described_by=st.sampled_from(["", "rules"]),
)
