from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.templates.generated import Drawing
from warmstart import tokens
from warmstart.templates.items import item_id, items_of, sessions_of
from warmstart.templates.rendering.rendering import render
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
    ToolCard,
    UserPattern,
    WarmTemplate,
)

ORDER = ("pattern", "marker", "recovery", "exemplar", "card", "recovery", "card", "context")
FIRST = (Source("first", "1"),)
SECOND = (Source("second", "1"),)


def cost(messages) -> int:
    return sum(tokens.count(json.dumps(message, ensure_ascii=False)) for message in messages)


def demonstration(number=1, *, sources=FIRST, words=20) -> Demonstration:
    acts = (Act("view", json.dumps({"text": f"make part-{number}"}), "done " * words),)
    return Demonstration(task=f"Make part {number}", acts=acts, evidence="tests passed", sources=sources)


def rule(text, sources=FIRST) -> Context:
    return Context(text=text, said_by="user", sources=sources)


def rich(sources=FIRST) -> SessionSeed:
    """Several of every kind."""
    return SessionSeed(
        contexts=tuple(rule(f"Rule {n}: never push to main.", sources) for n in range(3)),
        cards=tuple(
            ToolCard(
                tool=tool,
                exemplars=tuple(Exemplar(arguments=f'{{"path": "part-{n}"}}', sources=sources) for n in range(2)),
                conventions=tuple(Convention(text=f"convention {n} of it", count=2, sources=sources) for n in range(2)),
                fixes=tuple(Fix(error=f"error {n}", change="give a path", count=2, sources=sources) for n in range(2)),
            )
            for tool in ("view", "edit")
        ),
        demonstrations=tuple(demonstration(n, sources=sources) for n in range(5)),
        recoveries=tuple(
            Recovery(
                tool="view", failed=f'{{"path": {n}}}', error="not found", worked=f'{{"path": "{n}"}}', sources=sources
            )
            for n in range(5)
        ),
        patterns=tuple(UserPattern(text=f"pattern {n} of the user", sources=sources) for n in range(3)),
        markers=tuple(Marker(kind="file", value=f"src/part-{n}.py", use="read", sources=sources) for n in range(3)),
    )


def template(seed: SessionSeed) -> WarmTemplate:
    return WarmTemplate(name="parts", seed=seed)


def test_a_thousand_generated_seeds_stay_within_their_budget():
    inserted = 0
    for seed in range(1000):
        drawing = Drawing(seed)
        budget = drawing.random.choice((50, 80, 120, 200, 300, 600, 1200, 2500, 4000))
        renderer = drawing.random.choice(("messages", "messages", "system", "xml"))
        shape = drawing.random.choice(("openai", "anthropic"))
        rendering = render(drawing.template(), renderer=renderer, shape=shape, budget_tokens=budget)
        assert cost(rendering.messages) <= rendering.tokens <= budget, seed
        assert bool(rendering.messages) == bool(rendering.items), seed
        inserted += bool(rendering.messages)
    assert inserted > 500


def test_an_exact_budget_is_kept_too():
    exactly = tokens.counter(exact=True)
    for seed in range(40):
        drawing = Drawing(seed)
        rendering = render(drawing.template(), budget_tokens=900, counter=exactly)
        sent = (json.dumps(message, ensure_ascii=False) for message in rendering.messages)
        assert sum(map(exactly, sent)) <= rendering.tokens <= 900


def test_everything_is_shown_or_said_to_be_left_out():
    for seed in range(100):
        drawn = Drawing(seed).template()
        every = render(drawn, budget_tokens=10**6)
        less = render(drawn, budget_tokens=500)
        named = [(part.kind, part.item) for part in less.parts if part.item]
        named += [(one.kind, one.item) for one in less.dropped]
        shown = [(part.kind, part.item) for part in every.parts if part.item]
        differing = Counter(named)
        differing.subtract(shown + [(one.kind, one.item) for one in every.dropped])
        # With room for all, a call of a demonstration may say what an argument example would.
        assert {kind for (kind, _), number in differing.items() if number} <= {"exemplar"}, seed
        assert min(differing.values(), default=0) >= 0, seed


def dropped_lines(rendering) -> list[tuple[str, str]]:
    return [(one.kind, one.item) for one in rendering.dropped if one.kind != "demonstration"]


def test_what_is_dropped_goes_in_a_fixed_order():
    everything = dropped_lines(render(template(rich()), budget_tokens=1))
    kinds = ["card" if kind in ("convention", "fix") else kind for kind, _ in everything]
    assert tuple(kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before) == ORDER
    assert [kinds.count(kind) for kind in ("pattern", "marker", "recovery", "exemplar", "card", "context")] == [
        *(3, 3, 5, 4, 8, 3)
    ]
    lengths = set()
    for budget in range(2000, 150, -15):
        gone = dropped_lines(render(template(rich()), budget_tokens=budget))
        assert gone == everything[: len(gone)], budget
        lengths.add(len(gone))
    assert len(lengths) > 10


def test_of_the_demonstrations_the_first_is_kept_longest():
    shown = [
        [part.item for part in render(template(rich()), budget_tokens=budget).parts if part.kind == "demonstration"]
        for budget in range(2000, 60, -15)
    ]
    assert {len(items) for items in shown} == {0, 1, 2, 3}
    assert all(items == shown[0][: len(items)] for items in shown)


def long_example(calls: int, words: int) -> SessionSeed:
    acts = tuple(Act("view", f'{{"text": "make part-{n}"}}', f"began {'word ' * words}ended {n}") for n in range(calls))
    return SessionSeed(demonstrations=(Demonstration(task="Make all", acts=acts, evidence="", sources=FIRST),))


def test_a_long_demonstration_is_shown_with_shorter_results_first():
    messages = render(template(long_example(3, 300)), budget_tokens=600).messages
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert len(results) == 3
    assert all(result.startswith("began word") and result.endswith(f"ended {n}") for n, result in enumerate(results))
    assert all(" … " in result and len(result) < 260 for result in results)


def test_no_placeholder_is_cut_in_two(subtests):
    for before in range(20):
        with subtests.test(before=before):
            result = "x" * before + "{{reservation_id}} and {{date_2}}, " * 60 + "y" * before
            acts = tuple(Act("view", "{}", result) for _ in range(4))
            seed = SessionSeed(demonstrations=(Demonstration(task="", acts=acts, evidence="", sources=FIRST),))
            shown = render(template(seed), budget_tokens=600).messages[2]["content"]
            assert " … " in shown
            assert set(re.findall(r"\{+[^{}]*\}*|\}+", shown)) == {"{{reservation_id}}", "{{date_2}}"}


def shown_result(result: str, budget: int = 300) -> str:
    seed = SessionSeed(
        demonstrations=(Demonstration(task="", acts=(Act("view", "{}", result),) * 2, evidence="", sources=FIRST),)
    )
    return render(template(seed), budget_tokens=budget).messages[2]["content"]


def test_a_result_is_cut_between_lines_and_says_how_many_are_left_out():
    lines = [f"line {n} of the log" for n in range(40)]
    assert shown_result("\n".join(lines)).split("\n") == [*lines[:4], "… 34 lines left out …", *lines[-2:]]
    lines[3] = "… 12 lines left out …"
    assert shown_result("\n".join(lines)).split("\n") == [*lines[:3], "… 46 lines left out …", *lines[-2:]]


def test_a_long_line_is_cut_between_words():
    lines = [f"first {'word ' * 30}", "in the middle", f"{'other ' * 30}last"]
    shown = shown_result("\n".join(lines)).split("\n")
    assert shown[0].startswith("first word word")
    assert shown[0].endswith("word …")
    assert shown[1] == "… 1 line left out …"
    assert shown[2].startswith("… other ")
    assert shown[2].endswith("other last")


WORDS = st.sampled_from(
    ("{{hash}}", "{{hash_2}}..{{hash}}", "{{reservation_id}}", "x" * 50, "a", " ", " ", "\n", "1 deletion(-)", "…")
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(WORDS, min_size=20, max_size=150).map("".join),
    st.integers(150, 900),
    st.sampled_from(("messages", "system", "xml")),
)
def test_no_rendering_cuts_a_placeholder(text, budget, renderer):
    seed = SessionSeed(
        contexts=(rule(text[:200].rsplit("{{", 1)[0]),),
        demonstrations=tuple(
            Demonstration(task=text, acts=(Act("view", "{}", text),) * n, evidence=text, sources=FIRST)
            for n in (1, 2, 3)
        ),
    )
    named = WarmTemplate(name=text, description=text, seed=seed)
    for message in render(named, renderer=renderer, budget_tokens=budget).messages:
        rest = re.sub(r"\{\{[\w.]+\}\}|view \{\}", "", message["content"])
        assert "{" not in rest.replace(">{}</call>", "")
        assert "}" not in rest.replace(">{}</call>", "")


def test_demonstrations_that_have_room_together_are_shown_whole():
    large = long_example(4, 60).demonstrations
    seed = SessionSeed(demonstrations=(*large, demonstration(1), demonstration(2)))
    whole = render(template(seed), budget_tokens=10**6)
    assert render(template(seed), budget_tokens=whole.tokens + 60).messages == whole.messages


def test_of_a_demonstration_without_room_the_last_calls_are_shown():
    rendering = render(template(long_example(12, 0)), budget_tokens=400)
    assert "Example 1 (the last 3 of 12 calls): Make all" in rendering.messages[1]["content"]
    calls = [call["function"] for message in rendering.messages for call in message.get("tool_calls", ())]
    assert [json.loads(call["arguments"])["text"] for call in calls] == [
        "make part-9",
        "make part-10",
        "make part-11",
    ]
    assert rendering.dropped == ()


def test_standing_instructions_go_last_and_the_last_of_them_first():
    shown = (render(template(rich()), budget_tokens=budget) for budget in range(200, 0, -1))
    rendering = next(one for one in shown if any(left.kind == "context" for left in one.dropped))
    note = rendering.messages[0]["content"]
    assert {part.kind for part in rendering.parts} == {"note", "context"}
    assert [f"Rule {n}" in note for n in range(3)] == [True, True, False]


def test_what_is_left_out_for_length_is_said_in_the_note():
    rendering = render(template(rich()), budget_tokens=700)
    note = rendering.messages[0]["content"]
    assert "Left out for length:" in note
    assert "3 habits, 3 markers" in note
    assert (
        "Left out"
        not in render(template(replace(rich(), demonstrations=())), budget_tokens=5000).messages[0]["content"]
    )


def test_at_most_three_demonstrations_are_shown():
    rendering = render(template(rich()), budget_tokens=10_000)
    assert [part.kind for part in rendering.parts].count("demonstration") == 3
    assert [one.reason for one in rendering.dropped] == ["three", "three"]
    assert "2 demonstrations" in rendering.messages[0]["content"]


def test_without_room_for_a_note_nothing_is_inserted_and_all_is_said_to_be_dropped():
    rendering = render(template(rich()), budget_tokens=60)
    assert rendering.messages == []
    assert rendering.tokens == 0
    assert {one.reason for one in rendering.dropped} == {"three", "length"}
    assert all(one.why for one in rendering.dropped)


def test_no_budget_is_no_rendering(subtests):
    for budget in [0, -5]:
        with subtests.test(budget=budget):
            assert render(template(rich()), budget_tokens=budget).messages == []


def test_a_note_with_nothing_to_say_is_not_inserted():
    assert render(template(SessionSeed())).messages == []


def test_what_is_longer_than_the_budget_does_not_take_the_rest_with_it():
    seed = replace(rich(), contexts=(rule("very " * 3000), *rich().contexts))
    rendering = render(template(seed), budget_tokens=1500)
    assert [one.kind for one in rendering.dropped if one.reason == "length"] == ["context"]


def sessions(template) -> set[str]:
    return {source.session for placed in items_of(template.seed) for source in placed.item.sources}


def share(rendering, template, session) -> float:
    """What a session supplies of all that is shown; cards, whose parts have their own sources, left aside."""
    tokens_of = {part.item: part.tokens for part in rendering.parts}
    supplied = 0.0
    for placed in items_of(template.seed):
        if session in sessions_of(placed.item):
            supplied += tokens_of.get(placed.id, 0) / len(sessions_of(placed.item))
    return supplied / rendering.tokens


def test_no_session_supplies_more_than_half(subtests):
    for renderer in ["messages", "system", "xml"]:
        with subtests.test(renderer=renderer):
            for seed in range(200):
                drawing = Drawing(seed)
                drawn = drawing.template()
                drawn = replace(drawn, seed=replace(drawn.seed, cards=()))
                rendering = render(drawn, renderer=renderer, budget_tokens=drawing.random.choice((300, 800, 1500)))
                if len(sessions(drawn)) > 1 and rendering.messages:
                    assert max(share(rendering, drawn, session) for session in sessions(drawn)) <= 0.5, seed


def test_a_session_that_supplies_too_much_loses_its_last_items():
    many = tuple(
        Context(text=f"Rule {n} of the first session, at some length.", said_by="user", sources=FIRST)
        for n in range(30)
    )
    few = tuple(Context(text=f"Rule {n} of the second session.", said_by="user", sources=SECOND) for n in range(3))
    rendering = render(template(SessionSeed(contexts=(*many, *few))), budget_tokens=5000)
    note = rendering.messages[0]["content"]
    assert all(context.text in note for context in few)
    shown = [context.text in note for context in many]
    assert shown == sorted(shown, reverse=True)
    assert 0 < sum(shown) < 15
    assert {one.reason for one in rendering.dropped} == {"half"}
    assert "for balance between sessions" in note


def test_a_large_and_a_small_session_still_show_an_example(subtests):
    for words, renderer in product([5, 20, 60], ["messages", "system", "xml"]):
        with subtests.test(words=words, renderer=renderer):
            large = replace(rich(FIRST), demonstrations=tuple(demonstration(n, words=words) for n in range(3)))
            small = rule("Write the log in the style of the harbour.", SECOND)
            for demonstrations in (
                (*large.demonstrations, demonstration(9, sources=SECOND, words=words)),
                (demonstration(9, sources=SECOND, words=words), *large.demonstrations),
            ):
                both = replace(large, contexts=(*large.contexts, small), cards=(), demonstrations=demonstrations)
                rendering = render(template(both), renderer=renderer)
                carried = [part.kind for part in rendering.parts]
                assert "demonstration" in carried
                assert carried.count("context") == 4
                assert max(share(rendering, template(both), session) for session in ("first", "second")) <= 0.5


def test_of_a_session_that_supplies_too_much_the_example_is_shortened_before_it_goes():
    acts = tuple(Act("view", f'{{"text": "make part-{n}"}}', f"made part {n}") for n in range(8))
    seed = SessionSeed(
        contexts=(rule("Keep commits small, and say why. " * 12, SECOND), rule("Write tests first.", FIRST)),
        demonstrations=(Demonstration(task="Make all", acts=acts, evidence="", sources=FIRST),),
    )
    rendering = render(template(seed))
    assert [part.kind for part in rendering.parts] == ["note", "context", "context", "demonstration"]
    assert "of 8 calls" in rendering.messages[1]["content"]
    assert rendering.dropped == ()
    assert "Left out" not in rendering.messages[0]["content"]


def test_three_examples_are_of_different_sessions_where_they_can_be():
    many = tuple(demonstration(n, sources=FIRST) for n in range(4))
    other = demonstration(9, sources=SECOND)
    rendering = render(template(SessionSeed(demonstrations=(*many, other))), budget_tokens=5000)
    shown = [part.item for part in rendering.parts if part.kind == "demonstration"]
    assert item_id("demonstration", other) in shown
    assert item_id("demonstration", many[0]) in shown


def test_what_two_sessions_say_counts_half_for_each():
    contexts = tuple(
        Context(text=f"Rule {n} of both sessions.", said_by="user", sources=FIRST + SECOND) for n in range(30)
    )
    assert render(template(SessionSeed(contexts=contexts)), budget_tokens=5000).dropped == ()


def test_a_template_of_one_session_is_shown_whole_and_says_so():
    rendering = render(template(replace(rich(), demonstrations=())), budget_tokens=5000)
    assert rendering.dropped == ()
    assert "from one earlier session" in rendering.messages[0]["content"]
    two = render(template(replace(rich(FIRST + SECOND), demonstrations=())), budget_tokens=5000)
    assert "from 2 earlier sessions" in two.messages[0]["content"]
