"""Which names of models are public: those that a vendor gave, made of its families, sizes and versions.

A model that somebody tuned, renamed or hosts is called what they like, so a name with an unknown word in it is theirs.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VENDORS = _words(
    "anthropic openai google meta mistral mistralai cohere deepseek qwen alibaba xai moonshot moonshotai zai "
    "zhipu minimax microsoft amazon nvidia ibm bedrock vertex azure openrouter ollama groq together fireworks "
    "github copilot us eu apac global models accounts"
)
_FAMILIES = _words(
    "claude gpt chatgpt codex gemini gemma palm llama mistral mixtral ministral magistral codestral devstral "
    "pixtral command qwen qwq deepseek grok kimi glm minimax phi nova titan nemotron granite hermes starcoder "
    "jamba yi dbrx olmo falcon swe sonnet opus haiku"
)
_WORDS = _words(
    "mini nano micro small medium large max pro plus ultra lite air flash turbo fast high low preview latest beta "
    "exp experimental stable free instruct chat coder code thinking think reasoning reasoner vision vl omni audio "
    "realtime search deep research image live base it distill moe next spark scout maverick speciale instant nemo "
    "gguf ggml awq gptq fp8 fp16 bf16 int4 int8 mlx hf k m s l a r text embedding terminus non"
)
_NUMBER = re.compile(r"[a-z]{0,2}\d+(?:p\d+)?[a-z]{0,3}")  # 4, v3, 4o, 70b, a22b, q4, v3p1
_JOINT = re.compile(r"[-_.:@ ]+")
_LETTERS = re.compile(r"[a-z]+")
_SPECIAL = frozenset(("", "<synthetic>", "unknown", "default", "auto"))
_OPENAI = re.compile(r"o\d")
_LONGEST = 80


def is_public(name: str) -> bool:
    """Whether a name is one that a vendor gave: a family, with nothing besides but sizes, versions and dates."""
    if name in _SPECIAL:
        return True
    words = [word for word in _JOINT.split(name.lower()) if word]
    return len(name) <= _LONGEST and any(map(_is_family, words)) and all(map(_is_known, words))


def is_vendor(name: str) -> bool:
    """Whether a part before the name is a vendor's or a host's, which many share."""
    return name.lower() in _VENDORS


def _is_family(word: str) -> bool:
    found = _LETTERS.match(word)
    return bool(found and found[0] in _FAMILIES and (found[0] == word or word[found.end()].isdigit())) or bool(
        _OPENAI.fullmatch(word)
    )


def _is_known(word: str) -> bool:
    return word in _WORDS or word in _VENDORS or bool(_NUMBER.fullmatch(word)) or _is_family(word)
