"""Which entries fit a question, by the words that they share with it.

An index gives, for each word, the newest entries that have it. The few that share most are then looked at closely: how
often and where a word stands, in the key, the value or the metadata (BM25 over the three, the key counting most).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import combinations
from math import log
from typing import NamedTuple, Protocol

from warmstart.memory.words import asked, stems

_NEWEST = 1000  # entries of a word that are considered
_TOGETHER = 100  # entries that have several words of which each has too many
_ENDINGS = 12  # words that a beginning may stand for
_SHORTEST = 3  # letters of a beginning
_COMMON = 4  # words with too many entries that are combined
_WORDS = 12  # words of a question that are looked up
_CLOSELY = 60  # entries that are looked at closely, at least

_KEY, _VALUE, _METADATA = 3.0, 1.0, 0.5
_BEGINNING = 0.5  # what a word is worth of which only the beginning was asked for
_SATURATION, _LENGTH, _USUAL = 1.2, 0.3, 16.0  # BM25's k1 and b, and the length that is usual


class Index(Protocol):
    """Words and the entries that have them, of one user."""

    def having(self, words: Sequence[str], limit: int) -> list[int]:
        """The newest entries that have all of these words, the newest first."""
        ...

    def beginning(self, letters: str, limit: int) -> list[str]:
        """Some words that begin so."""
        ...


class Text(NamedTuple):
    """An entry as far as it is searched."""

    id: int
    key: str
    value: str
    metadata: str


class Question:
    """A question as words, weighed by how few entries have them."""

    def __init__(self, text: str) -> None:
        self.words = asked(text)[:_WORDS]
        self._forms: list[dict[str, float]] = [{word: 1.0} for word in self.words]
        self._weights = [1.0] * len(self.words)

    def candidates(self, index: Index, entries: int, limit: int, fresh: Iterable[Text] = ()) -> list[int]:
        """Entries that may fit, the likeliest first; `fresh` are those that the index does not have yet."""
        unseen = {text.id: frozenset(stems(f"{text.key} {text.value} {text.metadata}")) for text in fresh}
        shared: dict[int, int] = {}
        common = []
        for place, word in enumerate(self.words):
            found = index.having([word], _NEWEST)
            found += [id for id, words in unseen.items() if word in words]
            if not found:
                found = self._begun(index, place, unseen)
            if len(found) >= _NEWEST:
                common.append(place)
            self._weights[place] = _rarity(found, entries)
            for id in found:
                shared[id] = shared.get(id, 0) | 1 << place
        # The newest that have one such word may not be those that have the other too.
        if common and len(self.words) > 1:
            self._join(index, common, shared)
        worth: dict[int, float] = {}
        for places in set(shared.values()):
            worth[places] = sum(weight for place, weight in enumerate(self._weights) if places >> place & 1)
        return nlargest(max(_CLOSELY, 2 * limit), shared, key=lambda id: (worth[shared[id]], id))

    def _begun(self, index: Index, place: int, unseen: dict[int, frozenset[str]]) -> list[int]:
        """Entries with words that begin with this one."""
        word = self.words[place]
        if len(word) < _SHORTEST and word.isascii():
            return []
        forms = set(index.beginning(word, _ENDINGS))
        forms.update(form for words in unseen.values() for form in words if form.startswith(word))
        self._forms[place] = dict.fromkeys(forms, _BEGINNING)
        found = {id for form in forms for id in index.having([form], _NEWEST // _ENDINGS)}
        found.update(id for id, words in unseen.items() if not forms.isdisjoint(words))
        return sorted(found, reverse=True)

    def _join(self, index: Index, common: list[int], shared: dict[int, int]) -> None:
        known = [place for place, forms in enumerate(self._forms) if self.words[place] in forms]
        groups = [tuple(known), *combinations(common[:_COMMON], 2)] if len(known) > 1 else []
        for places in dict.fromkeys(groups):
            bits = sum(1 << place for place in places)
            for id in index.having([self.words[place] for place in places], _TOGETHER):
                shared[id] = shared.get(id, 0) | bits

    def score(self, text: Text) -> float:
        """How well an entry fits; nothing where it shares no word."""
        counts: dict[str, float] = {}
        length = 0
        for part, weight in ((text.key, _KEY), (text.value, _VALUE), (text.metadata, _METADATA)):
            words = stems(part)
            length += len(words)
            for word in words:
                counts[word] = counts.get(word, 0.0) + weight
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / _USUAL)
        total = 0.0
        for forms, weight in zip(self._forms, self._weights, strict=True):
            often = sum(counts.get(form, 0.0) * worth for form, worth in forms.items())
            total += weight * often * (_SATURATION + 1) / (often + norm)
        return total


def _rarity(found: Sequence[int], entries: int) -> float:
    """BM25's weight of a word, of which the newest entries are known, among so many entries."""
    number = float(len(found))
    if number >= _NEWEST:
        number *= max(1.0, entries / (max(found) - min(found) + 1))
    return log(1 + (max(entries - number, 0) + 0.5) / (number + 0.5)) + 0.05
