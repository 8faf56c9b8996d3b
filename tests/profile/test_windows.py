"""The share of a context window: known models, unknown ones, and one name for two windows."""

from __future__ import annotations

import pytest

from warmstart.profile.profiler import context_share

THE_WINDOWS_THAT_MAKERS_STATE = [
    ("claude-sonnet-4-5-20250929", 200_000),
    ("anthropic/claude-opus-4.5", 200_000),
    ("claude-opus-4-8[1m]", 1_000_000),
    ("Claude-Sonnet-4-5", 200_000),
    ("gpt-5-codex", 400_000),
    ("openai/gpt-5.2", 400_000),
    ("gpt-5-chat-latest", 128_000),
    ("gpt-4.1-mini", 1_047_576),
    ("gpt-4o-2024-08-06", 128_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("gemini-2.5-pro", 1_048_576),
    ("gemini-1.5-pro-002", 2_097_152),
    ("grok-code-fast-1", 256_000),
    ("deepseek-v3.2", 131_072),
    ("qwen3-coder-480b", 262_144),
    ("moonshotai/kimi-k2", 262_144),
    ("glm-4.6", 200_000),
]


def test_the_windows_that_makers_state(subtests: pytest.Subtests) -> None:
    for model, window in THE_WINDOWS_THAT_MAKERS_STATE:
        with subtests.test(model=model, window=window):
            assert context_share(model, window // 4) == pytest.approx(0.25, abs=1e-5)
            assert context_share(model, window) == 1.0


A_MODEL_THAT_IS_NOT_KNOWN_HAS_NO_SHARE = ["", "local-model", "gpt-3.5-turbo", "phi-4", "pro1-large", "turbo3"]


def test_a_model_that_is_not_known_has_no_share(subtests: pytest.Subtests) -> None:
    for model in A_MODEL_THAT_IS_NOT_KNOWN_HAS_NO_SHARE:
        with subtests.test(model=model):
            assert context_share(model, 1000) is None


def test_no_tokens_are_no_share(subtests: pytest.Subtests) -> None:
    for tokens in [0, -5]:
        with subtests.test(tokens=tokens):
            assert context_share("claude-opus-4-5", tokens) is None


def test_more_than_the_window_means_the_larger_one_of_the_same_name() -> None:
    assert context_share("claude-sonnet-4-5", 500_000) == 0.5
    assert context_share("claude-sonnet-4-5", 1_000_001) is None
    assert context_share("gemini-2.5-pro", 2_000_000) is None
