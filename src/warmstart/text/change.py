"""Whether a sentence says that a value in an earlier one has changed.

"We moved it to port 5434" changes "it listens on port 5433": a value of the same unit, with the same words of the
question near it. Better to miss a change than to see a wrong one.
"""

from __future__ import annotations

import re
from itertools import pairwise

from warmstart.text.excerpt import Weigher
from warmstart.text.words import STOPWORDS, root_word, tokenize

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


def says_changed(new: str, old: str, weigher: Weigher) -> bool:
    """Whether the sentence `new` says that the value in `old` that a question asks for has changed."""
    before, after = _values(weigher, old), _values(weigher, new)
    if len(after) > MAX_VALUES:
        return False
    for value in after.keys() - before.keys():
        same = [near for unit, near in before.values() if unit == after[value][0]]
        if len(same) == 1 and re.search(rf"(?:{_CHANGE})[$€£]?{re.escape(value)}(?!\w)", new, re.IGNORECASE):
            return _is_same_subject(after[value][1] & same[0], after[value][1] | same[0], new, old, weigher)
    return False


def _is_same_subject(shared: set[str], either: set[str], new: str, old: str, weigher: Weigher) -> bool:
    """Whether two sentences share the words of the query, and the later one does not narrow them ("metrics server")."""
    if len(shared) < min(MIN_WORDS, len(weigher.words - _VERBS)):
        return False
    if weigher.weigh(shared) < MIN_SHARED * weigher.weigh(either):
        return False
    known = {root_word(word) for word in tokenize(old)}.union(weigher.words)
    for before, word in pairwise(tokenize(new)):
        narrows = before.isalpha() and before not in STOPWORDS and not before.endswith(("ed", "ly", "now"))
        if narrows and root_word(word) in shared and root_word(before) not in known:
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
