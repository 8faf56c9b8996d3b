"""Finding the line that tells what went wrong: rules, each tried only on the lines that hold one of its needles.

A needle is plain text, so a long output is searched at the speed of `str.find`, and a pattern sees one line at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_LINE = 500  # characters of a line that a pattern sees
_TRIES = 200  # lines with a needle that are tried


class Rule(NamedTuple):
    r"""A kind of telling line: plain text it holds, its pattern, and how it is signed.

    `sign` is the signature (`\1` stands for a group), or makes it of the match; an empty one means that the line does
    not count. With `last` the last line that matches counts, not the first; with `above` the pattern sees the line
    above as well.
    """

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    sign: str | Callable[[re.Match[str]], str]
    last: bool = False
    above: bool = False


def rule(
    needles: str,
    pattern: str,
    sign: str | Callable[[re.Match[str]], str],
    *,
    last: bool = False,
    above: bool = False,
) -> Rule:
    """A rule with needles divided by ` | `."""
    return Rule(tuple(needles.split(" | ")), re.compile(pattern), sign, last, above)


def told(rules: Iterable[Rule], text: str) -> str:
    """The signature by the first rule that has one, or nothing."""
    for rule in rules:
        best: tuple[int, str] | None = None
        for needle in rule.needles:
            if needle not in text:
                continue
            for place, line in _lines(text, needle, rule):
                if (found := rule.pattern.search(line)) and (sign := _signed(rule, found)):
                    if best is None or (place > best[0] if rule.last else place < best[0]):
                        best = (place, sign)
                    break
        if best:
            return best[1]
    return ""


def _signed(rule: Rule, found: re.Match[str]) -> str:
    if isinstance(rule.sign, str):
        return found.expand(rule.sign) if "\\" in rule.sign else rule.sign
    return rule.sign(found)


def _lines(text: str, needle: str, rule: Rule) -> Iterator[tuple[int, str]]:
    """The lines that hold a needle, with their places; backwards if the last one counts."""
    place = text.rfind(needle) if rule.last else text.find(needle)
    for _ in range(_TRIES):
        if place < 0:
            return
        start = text.rfind("\n", 0, place) + 1
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        above = max(text.rfind("\n", 0, start - 1) + 1, start - _LINE) if rule.above and start else start
        yield start, text[above : min(end, start + _LINE)]
        place = text.rfind(needle, 0, start) if rule.last else text.find(needle, end)
