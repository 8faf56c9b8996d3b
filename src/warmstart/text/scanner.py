"""Match many rules in one pass: an Aho-Corasick automaton finds keywords, and patterns are tried only there.

A rule is a row of a TOML table: keywords, at least one of which the text must contain, the pattern, and the meaning of
a match. Automata and patterns are built on first use, because a hook that scans nothing should not wait for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

Hit = tuple[int, int, int]  # the index of a keyword, where it starts and where it ends

_compile = cache(re.compile)


class Rule(NamedTuple):
    """Keywords, the pattern to try at each of them, and the meaning of a match."""

    keywords: tuple[str, ...]
    pattern: str
    meaning: str = ""
    flags: int = 0

    @property
    def regex(self) -> re.Pattern[str]:
        return _compile(self.pattern, self.flags)


class Keywords:
    """Finds every occurrence of many strings, even if they overlap.

    With `once` the automaton builds quickly but searches at a third of the speed; use it for a single text.
    """

    def __init__(self, strings: Iterable[str], *, once: bool = False) -> None:
        self.strings = tuple(strings)
        self._once = once

    def find(self, text: str) -> list[Hit]:
        """The occurrences in a text, as character offsets."""
        data = text.encode(errors="replace")
        hits = self.find_bytes(data)
        return hits if len(data) == len(text) else in_characters(hits, data)

    @cached_property
    def find_bytes(self) -> Callable[[bytes], list[Hit]]:
        """The occurrences in UTF-8, as byte offsets: three times as fast as in a string."""
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        kind = Implementation.ContiguousNFA if self._once else Implementation.DFA
        automaton = BytesAhoCorasick([each.encode() for each in self.strings], implementation=kind)
        return partial(automaton.find_matches_as_indexes, overlapping=True)


def in_characters(hits: list[Hit], data: bytes) -> list[Hit]:
    """Convert the byte offsets of hits in UTF-8 to character offsets, in one pass."""
    converted: list[Hit] = []
    at = characters = 0
    for index, start, end in sorted(hits, key=itemgetter(1)):
        characters += len(data[at:start].decode())
        at = start
        converted.append((index, characters, characters + len(data[start:end].decode())))
    return converted


class Scanner:
    """Rules whose keywords are found by one automaton.

    A pattern sees only `reach` bytes on either side of a keyword, so that the time is proportional to the length of the
    text. Matching is case-sensitive.
    """

    def __init__(self, rules: Iterable[Rule], reach: int) -> None:
        self._rules = tuple(rules)
        self._reach = reach
        by_keyword: dict[str, list[int]] = {}
        for number, rule in enumerate(self._rules):
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword, []).append(number)
        self._numbers = list(by_keyword.values())
        self._keywords = Keywords(by_keyword)

    def first(self, data: bytes) -> str | None:
        """The meaning of the rule that matches a text in UTF-8; of several, the one whose keyword comes first."""
        windows: dict[int, list[list[int]]] = {}
        for index, start, end in self._keywords.find_bytes(data):
            for number in self._numbers[index]:
                _widen(windows.setdefault(number, []), start - self._reach, end + self._reach)
        for number, spans in windows.items():
            rule = self._rules[number]
            if any(rule.regex.search(data[start:end].decode(errors="ignore")) for start, end in spans):
                return rule.meaning
        return None


def _widen(spans: list[list[int]], start: int, end: int) -> None:
    """Add a window to those of a rule, and merge windows that overlap."""
    if spans and start <= spans[-1][1]:
        spans[-1][1] = end
    else:
        spans.append([max(0, start), end])


def load_rules(rows: Iterable[Any], fragments: Mapping[str, str]) -> tuple[Rule, ...]:
    """The rules in a TOML table with rows of `[[keyword, ...], pattern or [alternative, ...], meaning]`.

    `{name}` in a pattern is replaced by the fragment of that name; fragments may contain other fragments.
    """
    rules: list[Rule] = []
    for keywords, pattern, meaning in rows:
        if not keywords:
            raise ValueError(f"the rule {meaning!r} has no keywords")
        expanded = pattern if isinstance(pattern, str) else "|".join(pattern)
        for _ in range(2):
            for name, fragment in fragments.items():
                expanded = expanded.replace(f"{{{name}}}", fragment)
        rules.append(Rule(tuple(keywords), expanded, meaning))
    return tuple(rules)
