"""Many rules over one text in one pass: an automaton finds all anchors, and a pattern is tried only around its own.

Automatons and patterns are made when they are first needed: whoever only loads this should not wait for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property, partial

from ahocorasick_rs import BytesAhoCorasick, Implementation

from warmstart.templates.wording import Rule

_REACH = 280  # bytes to each side of an anchor in which its pattern is tried


class Automaton:
    """Finds every place of any of some strings: its number, where it starts and where it ends."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._strings = tuple(strings)

    def __call__(self, data: bytes) -> list[tuple[int, int, int]]:
        return self._find(data)

    @cached_property
    def _find(self) -> Callable[[bytes], list[tuple[int, int, int]]]:
        made = BytesAhoCorasick([each.encode() for each in self._strings], implementation=Implementation.DFA)
        return partial(made.find_matches_as_indexes, overlapping=True)


class Scan:
    """Rules behind an automaton. Time grows with the length of the text alone, because every pattern is bounded."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        by_anchor: dict[str, list[int]] = {}
        for number, rule in enumerate(self._rules):
            for anchor in rule.anchors:
                by_anchor.setdefault(anchor, []).append(number)
        self._of = list(by_anchor.values())
        self._hits = Automaton(by_anchor)
        self._patterns: dict[int, re.Pattern[str]] = {}

    def first(self, data: bytes) -> str | None:
        """Why the first rule that fits does, if one does."""
        hits = self._hits(data)
        if not hits:
            return None
        reached: dict[int, list[list[int]]] = {}
        for anchor, start, end in hits:
            for number in self._of[anchor]:
                spans = reached.setdefault(number, [])
                if spans and start - _REACH <= spans[-1][1]:
                    spans[-1][1] = end + _REACH
                else:
                    spans.append([max(0, start - _REACH), end + _REACH])
        for number, spans in reached.items():
            for start, end in spans:
                if self._pattern(number).search(data[start:end].decode("utf-8", "ignore")):
                    return self._rules[number].why
        return None

    def _pattern(self, number: int) -> re.Pattern[str]:
        if number not in self._patterns:
            self._patterns[number] = re.compile(self._rules[number].pattern)
        return self._patterns[number]
