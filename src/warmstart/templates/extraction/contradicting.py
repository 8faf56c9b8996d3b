"""When two standing instructions cannot both hold: one forbids what the other asks for, or they choose differently.

A guess from surface words, on the careful side: two rules that only look alike both stay.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_WORD = re.compile(r"[\w.+#-]*\w")
_FORBIDS = re.compile(
    r"\b(?:never|don't|do not|must not|should not|shouldn't|mustn't|avoid|no longer|stop|without|niemals|nie|nicht"
    r"|kein\w*|jamais|nunca)\b"
)
_EMPTY = frozenset(
    (
        *("always", "never", "please", "you", "should", "must", "we", "do", "don't", "not", "to", "the"),
        *("a", "an", "be", "shouldn't", "mustn't", "avoid", "make", "sure", "ever", "remember", "from"),
        *("now", "on", "and", "also", "this", "in", "repo", "repository", "project", "our", "here"),
        *("ensure", "want", "i", "using", "it", "of", "for", "with", "immer", "niemals", "nie", "nicht"),
        *("bitte", "toujours", "jamais", "siempre", "nunca", "no", "longer", "stop", "prefer", "use"),
        *("everywhere", "exclusively", "only"),
    )
)
# Of each of these a project uses one.
_CHOICES: tuple[frozenset[str], ...] = tuple(
    map(
        frozenset,
        (
            ("tabs", "spaces"),
            ("npm", "pnpm", "yarn", "bun"),
            ("pip", "uv", "poetry", "conda", "pipenv", "pdm"),
            ("jest", "vitest", "mocha"),
            ("pytest", "unittest", "nose"),
            ("black", "ruff", "yapf"),
            ("mypy", "pyright"),
            ("eslint", "biome"),
            ("single", "double"),
            ("british", "american"),
            ("rebase", "merge", "squash"),
            ("camelcase", "snake_case", "kebab-case"),
            ("make", "just", "mise", "task"),
            ("docker", "podman"),
            ("typescript", "javascript"),
        ),
    )
)
_ALIKE = 0.7  # share of words that two rules about the same thing have in common
_CHOSEN = re.compile(r"\b(?:not|never|instead of|rather than|over|don't use|do not use|avoid|no)\b.*")
_NUMBER = re.compile(r"\d[\d.]*")
_FOR = re.compile(r"\buse (\S+(?: \S+)?) (?:for|as|to|when) (.+)")


class _Rule(NamedTuple):
    """An instruction as it is compared with others."""

    forbids: bool
    words: tuple[str, ...]
    sorted: tuple[str, ...]
    matter: frozenset[str]  # the words that say what it is about
    chosen: frozenset[str]  # the words before what it is not
    choices: frozenset[int]  # of which things it names one
    use: str  # what to use …
    for_: str  # … and for what


def contradict(one: str, other: str) -> bool:
    """Whether two instructions cannot both hold."""
    first, second = _rule(one), _rule(other)
    if first.words == second.words:
        return False
    if first.forbids != second.forbids:
        return _alike(first.matter, second.matter)
    if first.sorted == second.sorted:
        return True  # `prefer A over B`, `prefer B over A`
    if not first.forbids and (_choose(first, second) or (first.for_ == second.for_ != "" and first.use != second.use)):
        return True
    return _other_number(first.words, second.words)


@lru_cache(maxsize=4096)
def _rule(text: str) -> _Rule:
    lower = text.lower().replace("’", "'")
    words = tuple(_WORD.findall(lower))
    chosen = frozenset(_WORD.findall(_CHOSEN.sub("", lower)))
    purpose = _FOR.search(lower.rstrip(" .!"))
    return _Rule(
        forbids=bool(_FORBIDS.search(_head(lower))),
        words=words,
        sorted=tuple(sorted(words)),
        matter=frozenset(words) - _EMPTY,
        chosen=chosen,
        choices=frozenset(place for place, choice in enumerate(_CHOICES) if len(chosen & choice) == 1),
        use=purpose[1] if purpose else "",
        for_=purpose[2] if purpose else "",
    )


def _head(lower: str) -> str:
    """The beginning, where a rule says whether it asks or forbids: `use uv, never pip` asks."""
    return " ".join(lower.split()[:4]).split(",")[0]


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    common = len(one & other)
    return common > 0 and common >= _ALIKE * (len(one) + len(other) - common)


def _choose(one: _Rule, other: _Rule) -> bool:
    """Whether they choose differently where a project has one of a kind."""
    for place in one.choices & other.choices:
        choice = _CHOICES[place]
        if one.chosen & choice != other.chosen & choice:
            # The same matter otherwise, or nothing but the choice: `use tabs`, `use spaces for indentation`.
            rest = [words - choice - _EMPTY for words in (one.chosen, other.chosen)]
            if rest[0] <= rest[1] or rest[1] <= rest[0]:
                return True
    return False


def _other_number(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """The same words with another number: `lines are at most 100 characters`."""
    if len(one) != len(other):
        return False
    differing = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and all(_NUMBER.fullmatch(word) for word in differing[0])
