from __future__ import annotations

from tests.templates.test_inject import ANTHROPIC, OPENAI, TEMPLATE
from warmstart.templates.bootstrapper import WarmSessionBootstrapper, inject


def test_it_injects_what_it_shows():
    warm = WarmSessionBootstrapper(TEMPLATE, budget_tokens=900)
    messages = warm.inject(OPENAI)
    assert messages[1 : 1 + len(warm.rendering.messages)] == warm.rendering.messages
    assert warm.rendering.budget == 900
    assert messages == inject(TEMPLATE, OPENAI, budget_tokens=900)


def test_one_serves_sessions_of_both_shapes():
    warm = WarmSessionBootstrapper(TEMPLATE)
    assert warm.inject(ANTHROPIC) == inject(TEMPLATE, ANTHROPIC)
    assert warm.inject(OPENAI) == inject(TEMPLATE, OPENAI)


def test_a_rendering_is_made_once_for_the_same_tools():
    first = WarmSessionBootstrapper(TEMPLATE, tools=["bash", "edit"])
    again = WarmSessionBootstrapper(TEMPLATE, tools=iter(["bash", "edit"]))
    other = WarmSessionBootstrapper(TEMPLATE, tools=["bash"])
    assert first.rendering is again.rendering
    assert first.rendering is not other.rendering


def test_the_rendering_has_the_shape_that_was_asked_for():
    assert WarmSessionBootstrapper(TEMPLATE, shape="anthropic").rendering.shape == "anthropic"
    assert (
        WarmSessionBootstrapper(TEMPLATE, tools=[{"name": "bash", "input_schema": {}}]).rendering.shape == "anthropic"
    )
    assert WarmSessionBootstrapper(TEMPLATE).rendering.shape == "openai"
