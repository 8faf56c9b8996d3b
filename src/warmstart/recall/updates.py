"""Which passages a later one replaces: "we moved it to port 5434" replaces "it listens on port 5433".

A passage is marked only if a later one of the same project says that the value changed, with the same words of the
query and in the same unit. Better no mark than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from warmstart.recall.evidence import Evidence, Replacement
from warmstart.text.excerpt import Weigher
from warmstart.text.words import STOPWORDS, stem_word, tokenize

MIN_WORDS = 2  # of the query, near both values, if it has as many
MIN_SHARED = 0.75  # of the words of the query that are near either value
NEAR = 70  # characters
MAX_VALUES = 3  # in the new sentence; with more it is unclear which of them is meant

_CHANGE = (
    r"\b(?:mov|chang|switch|updat|increas|decreas|adjust|reschedul|rais|lower|bump|postpon|extend|migrat|upgrad|reduc|cut"
    r"|push|shift)\w*\b[^.;]{0,60}?\bto (?:[a-z]+ )?|\bnow (?!that)(?:[\w-]+ ){0,4}"
)
_VERBS = frozenset(("us", "run", "listen", "set", "take", "need"))  # stems in "which port does it use"
_UNIT = re.compile(r"[\s-]*([a-z%]+)")


class Statement(NamedTuple):
    """A passage, and the sentence in it that has what the query asks for, if any."""

    evidence: Evidence
    text: str


def order_updates(statements: Sequence[Statement], weigher: Weigher) -> list[Evidence]:
    """The passages; those that were replaced are marked and come after their newest replacement."""
    found = [statement.evidence for statement in statements]
    for old in statements:
        later = [new for new in statements if _replaces(new, old, weigher)]
        newest = max(later, key=date_of).evidence if later else old.evidence
        if later and newest.date is not None:
            by = Replacement(newest.session_id, newest.message_ids[0], newest.date)
            place = found.index(old.evidence)
            marked = replace(found.pop(place), replaced_by=by)
            after = next(number for number, each in enumerate(found) if each.message_ids == newest.message_ids)
            found.insert(max(place, after + 1), marked)
    return found


def date_of(statement: Statement) -> float:
    """When a passage was said, in seconds; 0 if that is unknown."""
    date = statement.evidence.date
    return date.timestamp() if date else 0.0


def _replaces(new: Statement, old: Statement, weigher: Weigher) -> bool:
    """Whether a passage says that a value in an older one has changed."""
    if not 0 < date_of(old) < date_of(new):
        return False
    text, before = new.text, _values(weigher, old.text)
    after = _values(weigher, text)
    if new.evidence.project != old.evidence.project or len(after) > MAX_VALUES:
        return False
    for value in after.keys() - before.keys():
        same = [near for unit, near in before.values() if unit == after[value][0]]
        if len(same) == 1 and re.search(rf"(?:{_CHANGE})[$€£]?{re.escape(value)}(?!\w)", text, re.IGNORECASE):
            return _is_same_subject(after[value][1] & same[0], after[value][1] | same[0], new, old, weigher)
    return False


def _is_same_subject(shared: set[str], either: set[str], new: Statement, old: Statement, weigher: Weigher) -> bool:
    """Whether two sentences share the words of the query, and the later one does not narrow them ("metrics server")."""
    if len(shared) < min(MIN_WORDS, len(weigher.words - _VERBS)):
        return False
    if weigher.weigh(shared) < MIN_SHARED * weigher.weigh(either):
        return False
    known = {stem_word(word) for word in tokenize(old.text)}.union(weigher.words)
    for before, word in pairwise(tokenize(new.text)):
        narrows = before.isalpha() and before not in STOPWORDS and not before.endswith(("ed", "ly", "now"))
        if narrows and stem_word(word) in shared and stem_word(before) not in known:
            return False
    return True


def _values(weigher: Weigher, text: str) -> dict[str, tuple[str, set[str]]]:
    """The values in a text, each with its unit (a currency sign, or the word after a number), and the words near it."""
    values: dict[str, tuple[str, set[str]]] = {}
    for match in weigher.find_answers(text):
        unit = _UNIT.match(text.lower(), match.end()) if weigher.asks_for_number else None
        sign = "$" if text[: match.start()].endswith(("$", "€", "£")) else ""
        near = text[max(0, match.start() - NEAR) : match.end() + NEAR]
        name = unit[1].removesuffix("s") if unit and not sign else sign
        values[match[0].strip().lower()] = name, weigher.words_in(near) - _VERBS
    return values
