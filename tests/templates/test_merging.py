from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warmstart.templates.extraction.contradicting import contradict
from warmstart.templates.extraction.merging import CARDS, CONTEXTS, MARKERS, Dated, merge
from warmstart.templates.items import without_sessions
from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Recovery,
    SessionSeed,
    Source,
    Task,
    ToolCard,
    UserPattern,
)

A, B, C = "a" * 16, "b" * 16, "c" * 16


def _at(day: int) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)


def _said(text: str, session: str) -> Context:
    return Context(text=text, said_by="user", sources=(Source(session, "m1"),))


def _seed(session: str, *texts: str, **parts: Any) -> SessionSeed:
    return SessionSeed(contexts=tuple(_said(text, session) for text in texts), **parts)


def _mended(session: str, change: str, worked: str = '{"limit": 10}', count: int = 1) -> SessionSeed:
    sources = (Source(session, "m2"),)
    fix = Fix(error="limit is too large", change=change, count=count, sources=sources)
    recovery = Recovery(
        tool="find",
        failed='{"limit": 99}',
        error="limit is too large",
        worked=worked,
        change=change,
        count=count,
        sources=sources,
    )
    return SessionSeed(cards=(ToolCard(tool="find", fixes=(fix,)),), recoveries=(recovery,))


def _done(session: str, task: str, *acts: tuple[str, str]) -> Demonstration:
    return Demonstration(
        task=task,
        acts=tuple(Act(tool, arguments, "done") for tool, arguments in acts),
        evidence="the tests passed",
        sources=(Source(session, "m3"),),
    )


def test_what_more_sessions_say_comes_first_and_names_them_all() -> None:
    merged = merge(
        [
            Dated(_seed(A, "Use uv.", "Always run the linter."), _at(1)),
            Dated(_seed(B, "always run the linter"), _at(2)),
            Dated(_seed(C, "Never commit to main."), _at(3)),
        ]
    )
    assert [context.text for context in merged.contexts] == [
        "always run the linter",
        "Never commit to main.",
        "Use uv.",
    ]
    assert {source.session for source in merged.contexts[0].sources} == {A, B}


def test_of_two_instructions_that_clash_the_newest_holds_and_a_note_says_so(subtests) -> None:
    cases = [
        ("Always use tabs.", "Use spaces for indentation."),
        ("Always squash commits before merging.", "Never squash commits before merging."),
        ("We use npm here.", "We use pnpm, not npm."),
        ("Use black for formatting.", "Use ruff for formatting."),
        ("Lines are at most 100 characters.", "Lines are at most 120 characters."),
        ("Prefer clarity over speed.", "Prefer speed over clarity."),
    ]
    for old, new in cases:
        with subtests.test(old=old, new=new):
            merged = merge([Dated(_seed(B, new), _at(2)), Dated(_seed(A, old), _at(1))])
            assert [context.text for context in merged.contexts] == [new]
            (note,) = merged.notes
            assert set(note.sessions) == {A, B}
            assert old in note.text
            assert new in note.text


def test_rules_that_only_look_alike_both_hold(subtests) -> None:
    cases = [
        ("Never push to main.", "Never push to develop."),
        ("Always update the changelog.", "Always update the readme."),
        ("Use uv.", "Never commit secrets."),
        ("Always run the tests.", "always run the tests"),
        ("Use pytest, never unittest.", "Use pytest."),
        ("Never push without asking.", "Always ask before you deploy."),
        ("Use uv for installs.", "Use npm for the web folder."),
    ]
    for one, other in cases:
        with subtests.test(one=one, other=other):
            assert not contradict(one, other)
            assert not contradict(other, one)


def test_two_fixes_of_one_error_resolve_to_the_newest() -> None:
    merged = merge([Dated(_mended(B, "without limit"), _at(2)), Dated(_mended(A, "another limit"), _at(1))])
    ((fix,),) = (card.fixes for card in merged.cards)
    assert (fix.change, fix.count) == ("without limit", 1)
    assert [source.session for source in fix.sources] == [B]
    (recovery,) = merged.recoveries
    assert recovery.change == "without limit"
    assert len(merged.notes) == 1
    assert set(merged.notes[0].sessions) == {A, B}


def test_the_same_fix_is_counted_together_without_a_note() -> None:
    merged = merge(
        [Dated(_mended(A, "another limit", count=2), _at(1)), Dated(_mended(B, "another limit", count=3), _at(2))]
    )
    ((fix,),) = (card.fixes for card in merged.cards)
    assert fix.count == 5
    assert merged.recoveries[0].count == 5
    assert {source.session for source in merged.recoveries[0].sources} == {A, B}
    assert merged.notes == ()


def test_other_arguments_raise_the_rank_but_are_not_the_sources() -> None:
    old = _mended(A, "another limit", worked='{"limit": 7}')
    new = _mended(B, "another limit", worked='{"limit": 8}')
    merged = merge([Dated(old, _at(1)), Dated(new, _at(2))])
    (recovery,) = merged.recoveries
    assert recovery.worked == '{"limit": 8}'
    assert [source.session for source in recovery.sources] == [B]
    assert '{"limit": 8}' not in repr(without_sessions(merged, {B}))


def test_exemplars_of_one_shape_are_one_and_the_newest() -> None:
    def seed(session: str, value: int) -> SessionSeed:
        exemplar = Exemplar(arguments=f'{{"limit": {value}}}', sources=(Source(session, "m1"),))
        return SessionSeed(cards=(ToolCard(tool="find", exemplars=(exemplar,)),))

    merged = merge([Dated(seed(A, 1), _at(1)), Dated(seed(B, 2), _at(2)), Dated(seed(C, 2), _at(3))])
    ((exemplar,),) = (card.exemplars for card in merged.cards)
    assert exemplar.arguments == '{"limit": 2}'
    assert {source.session for source in exemplar.sources} == {B, C}


def test_conventions_with_another_value_resolve_to_the_newest() -> None:
    def seed(session: str, text: str) -> SessionSeed:
        convention = Convention(text=text, count=2, sources=(Source(session, "m1"),))
        return SessionSeed(cards=(ToolCard(tool="Bash", conventions=(convention,)),))

    old, new = "pytest is run as `pytest -q`", "pytest is run as `uv run pytest -q`"
    merged = merge([Dated(seed(A, old), _at(1)), Dated(seed(B, new), _at(2)), Dated(seed(C, new), _at(3))])
    ((convention,),) = (card.conventions for card in merged.cards)
    assert (convention.text, convention.count) == (new, 4)
    assert len(merged.notes) == 1


def test_what_one_of_many_sessions_does_is_no_convention() -> None:
    def seed(session: str, *texts: str) -> SessionSeed:
        conventions = tuple(Convention(text=text, count=2, sources=(Source(session, "m1"),)) for text in texts)
        exemplar = Exemplar(arguments="{}", sources=(Source(session, "m1"),))
        return SessionSeed(cards=(ToolCard(tool="find", exemplars=(exemplar,), conventions=conventions),))

    first, others = seed(A, "always passes `limit`", "`day` is a date"), [seed(B, "`day` is a date"), seed(C)]
    two = merge([Dated(first, _at(1)), Dated(others[0], _at(2))])
    three = merge([Dated(first, _at(1)), *(Dated(other, _at(2)) for other in others)])
    assert [convention.text for convention in two.cards[0].conventions] == ["`day` is a date", "always passes `limit`"]
    assert [convention.text for convention in three.cards[0].conventions] == ["`day` is a date"]


def test_of_how_the_person_writes_there_is_one_line() -> None:
    lines = {A: "writes short requests (median 9 words)", B: "asks rather than orders"}
    seeds = [
        Dated(SessionSeed(patterns=(UserPattern(text=text, sources=(Source(session, "m1"),)),)), _at(day))
        for day, (session, text) in enumerate(lines.items())
    ]
    assert [pattern.text for pattern in merge(seeds).patterns] == [lines[B]]


def test_markers_unite_by_what_they_name() -> None:
    def seed(session: str, *markers: tuple[str, str, int]) -> SessionSeed:
        return SessionSeed(
            markers=tuple(
                Marker(kind="file", value=value, use=use, count=count, sources=(Source(session, "m1"),))  # type: ignore[arg-type]
                for value, use, count in markers
            )
        )

    merged = merge(
        [
            Dated(seed(A, ("a.py", "read", 3), ("b.py", "changed", 9)), _at(1)),
            Dated(seed(B, ("a.py", "changed", 1)), _at(2)),
        ]
    )
    assert [(marker.value, marker.use, marker.count) for marker in merged.markers] == [
        ("a.py", "changed", 4),
        ("b.py", "changed", 9),
    ]


def test_patterns_that_differ_in_a_figure_are_one() -> None:
    def seed(session: str, words: int) -> SessionSeed:
        text = f"writes short requests (median {words} words)"
        return SessionSeed(patterns=(UserPattern(text=text, sources=(Source(session, "m1"),)),))

    merged = merge([Dated(seed(A, 9), _at(1)), Dated(seed(B, 7), _at(2))])
    assert [pattern.text for pattern in merged.patterns] == ["writes short requests (median 7 words)"]


def test_a_single_call_comes_after_those_that_lead_from_one_to_the_next() -> None:
    single = _done(A, "Look at it", ("Read", '{"file_path": "a.py"}'))
    several = _done(B, "Mend it", ("Edit", '{"file_path": "a.py"}'), ("Bash", '{"command": "make"}'))
    seeds = [
        Dated(SessionSeed(demonstrations=(single,)), _at(2)),
        Dated(SessionSeed(demonstrations=(several,)), _at(1)),
    ]
    assert [each.task for each in merge(seeds).demonstrations] == ["Mend it", "Look at it"]


def test_demonstrations_are_chosen_for_diversity() -> None:
    fix = (("Edit", '{"file_path": "a", "old_string": "b"}'), ("Bash", '{"command": "pytest -q"}'))
    similar = (("Read", '{"file_path": "a"}'), *fix)
    other = (("WebSearch", '{"query": "tides"}'), ("Write", '{"file_path": "a", "content": "b"}'))
    merged = merge(
        [
            Dated(
                SessionSeed(demonstrations=(_done(A, "Fix the parser", *fix), _done(A, "Fix the lexer", *similar))),
                _at(2),
            ),
            Dated(
                SessionSeed(demonstrations=(_done(B, "Fix the reader", *fix), _done(B, "Write a note", *other))), _at(1)
            ),
        ],
        max_examples=2,
    )
    assert [each.task for each in merged.demonstrations] == ["Fix the parser", "Write a note"]


def test_no_more_than_asked_for_and_none_where_none_is_wanted() -> None:
    many = tuple(_done(A, f"Task {number}", ("Bash", f'{{"command": "prog{number} -x"}}')) for number in range(9))
    seeds = [Dated(SessionSeed(demonstrations=many), _at(1))]
    assert len(merge(seeds).demonstrations) == 3
    assert merge(seeds, max_examples=0).demonstrations == ()


def test_tasks_of_more_sessions_come_first() -> None:
    def seed(session: str, *texts: str) -> SessionSeed:
        return SessionSeed(tasks=tuple(Task(text, Source(session, "m1")) for text in texts))

    merged = merge([Dated(seed(A, "Fix it", "Ship it"), _at(1)), Dated(seed(B, "Write it", "ship it"), _at(2))])
    assert [task.text for task in merged.tasks] == ["ship it", "Write it", "Fix it"]


def test_the_result_is_bounded() -> None:
    seed = SessionSeed(
        contexts=tuple(_said(f"Always check number{number} twice.", A) for number in range(99)),
        cards=tuple(
            ToolCard(tool=f"tool{number}", exemplars=(Exemplar(arguments="{}", sources=(Source(A, "m"),)),))
            for number in range(40)
        ),
        markers=tuple(
            Marker(kind="file", value=f"f{number}.py", use="read", sources=(Source(A, "m"),)) for number in range(99)
        ),
    )
    merged = merge([Dated(seed, _at(1))])
    assert (len(merged.contexts), len(merged.cards), len(merged.markers)) == (CONTEXTS, CARDS, MARKERS)


def test_nothing_merges_to_nothing() -> None:
    assert merge([]) == SessionSeed()
    assert merge([Dated(SessionSeed()), Dated(SessionSeed())]) == SessionSeed()


def test_the_order_in_which_sessions_are_given_does_not_matter() -> None:
    seeds = [
        Dated(_seed(A, "Use tabs.", "Use uv."), None),
        Dated(_seed(B, "Use spaces.", "use uv"), None),
        Dated(_mended(C, "another limit"), _at(1)),
        Dated(_mended(B, "without limit"), _at(1)),
    ]
    results = {repr(merge(order)) for order in permutations(seeds)}
    assert len(results) == 1


_texts = st.sampled_from(
    [
        "Use tabs.",
        "Use spaces.",
        "use tabs",
        "Always test.",
        "Never test.",
        "Prefer a over b.",
        "Prefer b over a.",
        "Use uv.",
    ]
)


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C]), st.lists(_texts, max_size=4), st.integers(0, 3)), max_size=5),
    st.randoms(use_true_random=False),
)
def test_merging_is_deterministic_and_leaves_no_clash(parts: list[tuple[str, list[str], int]], random: Any) -> None:
    seeds = [Dated(_seed(session, *texts), _at(day)) for session, texts, day in parts]
    merged = merge(seeds)
    shuffled = list(seeds)
    random.shuffle(shuffled)
    assert merge(shuffled) == merged
    kept = [context.text for context in merged.contexts]
    assert not any(contradict(one, other) for one in kept for other in kept if one != other)
    assert {text.lower().rstrip(".") for text in kept} <= {
        text.lower().rstrip(".") for _, texts, _ in parts for text in texts
    }
