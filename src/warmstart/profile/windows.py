"""How large the context windows of models are, as their makers state them.

Sources: the model pages of Anthropic, OpenAI, Google, xAI, DeepSeek, Alibaba, Moonshot, Z.ai, Mistral and Meta, as of
2026. A model that is not here has no window: a wrong share would be worse than none.
"""

from __future__ import annotations

import re

_MILLION = 1_000_000
# The first pattern that a model's name matches anywhere decides.
_WINDOWS = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        (r"\[1m\]", _MILLION),
        (r"claude", 200_000),
        (r"gpt-4\.1", 1_047_576),
        (r"gpt-5.*chat", 128_000),
        (r"gpt-5|codex", 400_000),
        (r"gpt-4o|gpt-4-turbo|o1-(?:mini|preview)", 128_000),
        (r"\bo[134](?:-|$)", 200_000),
        (r"gpt-oss", 131_072),
        (r"gemini-1\.5-pro", 2_097_152),
        (r"gemini", 1_048_576),
        (r"grok-code|grok-4", 256_000),
        (r"deepseek", 131_072),
        (r"qwen3", 262_144),
        (r"kimi-k2", 262_144),
        (r"glm-4\.[67]|glm-5", 200_000),
        (r"devstral|mistral-(?:large|medium)", 131_072),
        (r"llama-?3\.[123]", 131_072),
    )
)


def context_share(model: str, tokens: int) -> float | None:
    """The share of the model's context window that a prompt of so many tokens fills; `None` where it is not known."""
    window = next((size for pattern, size in _WINDOWS if pattern.search(model.lower())), None)
    if window is None or tokens <= 0:
        return None
    if tokens > window:
        # The same name serves a model with a larger window, which it states only in the request.
        window = _MILLION
    return tokens / window if tokens <= window else None
