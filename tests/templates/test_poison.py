"""Nothing that came in through a tool is carried on as something to do."""

from __future__ import annotations

import msgspec

from tests.templates.poison import PLACEMENTS, VARIANTS, Talk, ending, opening, poisoned
from warmstart.profile.profiler import Profiler
from warmstart.templates import SessionExtractor, SessionItems, SessionSeed, WarmTemplate, build_brief, inject
from warmstart.templates.extract import extract_items


def extracted(talk: Talk) -> SessionSeed:
    profile = Profiler().profile(talk.session, talk.messages)
    return SessionExtractor().extract(talk.session, talk.messages, profile=profile)


def items_of(talk: Talk) -> SessionItems:
    return extract_items(talk.session, talk.messages, Profiler().steps(talk.session, talk.messages))


def shown(talk: Talk) -> str:
    """All that a seed says, and all that a model would see of it and of a brief."""
    seed = extracted(talk)
    template = WarmTemplate(name="gauge", seed=seed, sources=("a",))
    rendered = inject(template, [{"role": "user", "content": "hello"}], budget_tokens=20_000)
    brief = build_brief([items_of(talk)], task="Fix the rounding in convert.py", budget_tokens=800)
    return f"{msgspec.json.encode(seed).decode()}{rendered}{brief}"


def test_the_session_by_itself_is_worth_carrying() -> None:
    talk = Talk()
    opening(talk)
    ending(talk)
    seed = extracted(talk)
    assert [item.text for item in seed.of("command")] == ["python -m pytest"]
    assert [item.text for item in seed.of("instruction")] == ["Always use type hints."]
    assert {item.text for item in seed.of("file")} == {"convert.py"}


def test_no_seed_carries_what_a_tool_told_the_agent_to_do(subtests) -> None:
    for placement in PLACEMENTS:
        with subtests.test(placement=placement):
            carried = []
            for variant in VARIANTS:
                said = shown(poisoned(placement, variant))
                carried += [f"{variant.name}: {trace!r}" for trace in variant.traces if trace in said]
            assert carried == []


def test_the_rest_of_such_a_session_is_still_carried(subtests) -> None:
    for placement in ["tool_output", "file_content", "web_page", "by_the_assistant", "summary"]:
        with subtests.test(placement=placement):
            for variant in VARIANTS[:4]:
                seed = extracted(poisoned(placement, variant))
                assert any("pytest" in item.text for item in seed.of("command")), variant.name
