"""Nothing that came in through a tool is carried on as something to do."""

from __future__ import annotations

import msgspec

from tests.templates.poison import PLACEMENTS, VARIANTS, Talk, ending, opening, poisoned
from warmstart.profile.profiler import Profiler
from warmstart.templates.bootstrapper import inject
from warmstart.templates.extraction.extractor import SessionExtractor
from warmstart.templates.values import SessionSeed, WarmTemplate


def extracted(talk: Talk) -> SessionSeed:
    profile = Profiler().profile(talk.session, talk.messages)
    return SessionExtractor().extract(talk.session, talk.messages, profile=profile)


def told(seed: SessionSeed) -> str:
    """All that a seed says, and all that a model would see of it."""
    tools = {act.tool: "" for each in seed.demonstrations for act in each.acts} | {card.tool: "" for card in seed.cards}
    template = WarmTemplate(name="gauge", seed=seed, tools=tools, sources=("a",))
    rendered = inject(template, [{"role": "user", "content": "hello"}], budget_tokens=20_000)
    return msgspec.json.encode(seed).decode() + str(rendered)


def test_the_session_by_itself_is_worth_carrying() -> None:
    talk = Talk()
    opening(talk)
    ending(talk)
    seed = extracted(talk)
    assert seed.demonstrations
    assert any("pytest" in act.arguments for each in seed.demonstrations for act in each.acts)
    assert any("type hints" in context.text for context in seed.contexts)
    assert any(marker.value.endswith("convert.py") for marker in seed.markers)


def test_no_seed_carries_what_a_tool_told_the_agent_to_do(subtests) -> None:
    for placement in PLACEMENTS:
        with subtests.test(placement=placement):
            carried = []
            for variant in VARIANTS:
                said = told(extracted(poisoned(placement, variant)))
                carried += [f"{variant.name}: {trace!r}" for trace in variant.traces if trace in said]
            assert carried == []


def test_the_rest_of_such_a_session_is_still_carried(subtests) -> None:
    for placement in ["tool_output", "file_content", "web_page", "by_the_assistant", "summary"]:
        with subtests.test(placement=placement):
            for variant in VARIANTS[:4]:
                seed = extracted(poisoned(placement, variant))
                assert any("pytest" in act.arguments for each in seed.demonstrations for act in each.acts), variant.name
