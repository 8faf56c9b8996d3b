from __future__ import annotations

import subprocess
import sys

import pytest

from warmstart.preflight.prompt import TIERS, Prompt, block
from warmstart.sessions.marks import is_marked, without_ours
from warmstart.tokens import count


def example(**changes: object) -> Prompt:
    given = {
        "identity": "You are a harbour pilot.",
        "guidance": "Run `make check` before a commit.",
        "skills": {"tides": "Read tide tables.", "charts": "Draw charts."},
        "context": {"CLAUDE.md": "Use tabs.\n", "AGENTS.md": "Keep it small."},
        "memories": ["port: 5433"],
        "profile": "The user prefers short answers.",
        "date": "2026-11-17",
    }
    return Prompt(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "limit"), [("short", 120), ("full", 400)])
def test_the_block_is_small_marked_and_procedural(mode, limit) -> None:
    text = block(mode)
    assert count(text, exact=True) <= limit
    assert is_marked(text)
    assert without_ours(text) == ""
    identity, tools = ("identity", "straight to tools") if mode == "short" else ("who you are", "tools at once")
    steps = (identity, "memory", "profile", "skills", "conversation", tools, "stop")
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    for exception in ("direct command", "change", "check", "first turn"):
        assert exception in text


def test_the_full_block_has_five_steps() -> None:
    assert "user profile" in block("full", "hermes")
    for mode in ("short", "full"):
        text = block(mode, "codex")
        assert "identity" not in text
        assert "profile" not in text
        assert "the project's instructions" in text
    steps = [line.partition(".")[0] for line in block("full").splitlines() if line[1:3] == ". "]
    assert steps == ["1", "2", "3", "4", "5"]
    assert Prompt(identity="I am.").render().endswith(block("full"))


def test_switched_off_there_is_no_block() -> None:
    assert block("off") == ""
    assert Prompt(mode="off", identity="I am.").render() == "I am."


def test_the_block_comes_before_anything_about_tools() -> None:
    rendered = example().render()
    assert rendered.index(block("full")) < rendered.index("make check") < rendered.index("Read tide tables")


def test_the_prefix_stays_the_same_when_only_volatile_things_change() -> None:
    prompt = example()
    later = example(memories=["port: 5434", "editor: vim"], date="2026-11-18", profile="")
    assert prompt.cached_prefix == later.cached_prefix
    assert prompt.render() != later.render()
    assert prompt.render().startswith(f"{prompt.cached_prefix}\n\n")
    assert "2026-11-17" not in prompt.cached_prefix


def test_the_same_input_gives_the_same_bytes() -> None:
    other_order = example(skills={"charts": "Draw charts.", "tides": "Read tide tables."})
    assert other_order.render().encode() == example().render().encode()


def test_each_tier_reports_its_tokens() -> None:
    prompt = example(skills={})
    assert tuple(tier.name for tier in prompt.tiers) == TIERS
    tokens = {tier.name: tier.tokens for tier in prompt.tiers}
    assert tokens["skills"] == 0
    assert all(number > 0 for name, number in tokens.items() if name != "skills")
    assert [tier.name for tier in prompt.tiers if not tier.is_cached] == ["volatile"]


def test_a_hook_can_load_the_block_without_heavy_modules() -> None:
    heavy = {"dataclasses", "pathlib", "tomllib", "msgspec", "click", "datetime", "json", "numpy"}
    code = "import sys; before = set(sys.modules); import warmstart.preflight.prompt; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert heavy.isdisjoint(loaded.split())
