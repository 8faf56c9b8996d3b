"""Which entries fit a question, by the words that they share with it.

An index gives, for each word, the newest entries that have it. The few that share most are then looked at closely: how
often and where a word stands, in the key, the value or the metadata (BM25 over the three, the key counting most).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple, Protocol

from warmstart.memory.words import asked, is_sentence, stems

_NEWEST = 200  # entries of a word that are considered
_ENOUGH = 20  # entries that have some words together, so that no more of them need be looked for
_TOGETHER = 40  # entries that have several words of which each has too many
_ENDINGS = 12  # words that a beginning may stand for, or more where more entries are wanted
_MOST_ENDINGS = 100
_SHORTEST = 3  # letters of a beginning
_WORDS = 12  # words of a question that are looked up, the rarest that there are
_CLOSELY = 40  # entries that are looked at closely, at least

_SHARE = 0.25  # of the weight of a sentence's words that an entry must have to be an answer at all
_IMPORTANCE = (3.0, 1.0, 0.5)  # of the key, the value and the metadata
_BEGINNING = 0.5  # what a word is worth of which only the beginning was asked for
_BESIDES = 0.1  # and where there are entries that have the word itself, after which it is to come
_SATURATION, _LENGTH, _USUAL = 1.2, 0.3, 16.0  # BM25's k1 and b, and the length that is usual


class Index(Protocol):
    """Words and the entries that have them, of one user."""

    def having(self, words: Sequence[str], limit: int) -> list[int]:
        """The newest entries that have all of these words, the newest first.

        Give the rarest word first: of several, the others are looked for only among some thousands that have it.
        """
        ...

    def beginning(self, letters: str, limit: int) -> list[str]:
        """Some words that begin so."""
        ...

    def numbers_of(self, words: Sequence[str], most: int) -> dict[str, int]:
        """How many entries have each of these words, counted up to `most`; nothing of words that none has."""
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
        self._asked = asked(text)
        self.words: list[str] = []
        self._forms: list[dict[str, float]] = []  # what each word stands for, and what that is worth
        self._weights: list[float] = []
        # Of a list of words each may be meant for itself; a sentence is about something.
        self._share = _SHARE if is_sentence(text) else 0.0
        self._alone = len(self._asked) == 1 and not self._share

    def candidates(self, index: Index, entries: int, limit: int, fresh: Iterable[Text] = ()) -> list[int]:
        """Entries that may fit, the likeliest first; `fresh` are those that the index does not have yet."""
        unseen = {text.id: frozenset(stems(f"{text.key} {text.value} {text.metadata}")) for text in fresh}
        shared: dict[int, int] = {}
        common = []
        most = max(_NEWEST, limit)
        queue = self._rarest(index, unseen) if len(self._asked) > _WORDS else list(self._asked)
        for word, *parts in queue:  # which may grow
            found = index.having([word], most)
            found += [entry for entry, words in unseen.items() if word in words]
            forms = {word: 1.0}
            if not found and parts:
                queue += [(part,) for part in parts if (part,) not in queue]
                continue
            if not found:
                forms, found = _begun(word, index, unseen, limit, _BEGINNING)
            place = len(self.words)
            if len(found) >= most:
                common.append(place)
            self.words.append(word)
            self._weights.append(_rarity(found, entries, most))
            if self._alone and word in forms and forms[word] == 1.0 and len(found) < limit:
                others, also = _begun(word, index, unseen, limit, _BESIDES)
                forms, found = {**others, **forms}, [*found, *also]
            self._forms.append(forms)
            bit = 1 << place
            for entry in found:
                shared[entry] = shared.get(entry, 0) | bit
        # The newest that have one such word may not be those that have the other too.
        if common and len(self.words) > 1:
            self._join(index, common, shared, limit)
        return self._likeliest(shared, max(_CLOSELY, 2 * limit))

    def _rarest(self, index: Index, unseen: dict[int, frozenset[str]]) -> list[tuple[str, ...]]:
        """Of many words those that the fewest entries have; where these are few, some that none has take their part."""
        words = list(dict.fromkeys(word for some in self._asked for word in some))
        numbers = Counter(index.numbers_of(words, _NEWEST))
        for some in unseen.values():
            numbers.update(some.intersection(words))
        there: dict[tuple[str, ...], int] = {}
        for word, *parts in self._asked:
            having = [word] if word in numbers else [part for part in parts if part in numbers]
            there.update(((each,), numbers[each]) for each in having)
        rarest = sorted(there, key=there.__getitem__)[:_WORDS]
        unknown = [(some[0],) for some in self._asked if not any(word in numbers for word in some)]
        return rarest + unknown[: _WORDS - len(rarest)]

    def _likeliest(self, shared: dict[int, int], most: int) -> list[int]:
        """Of entries, each with the words that it shares, those whose words weigh most, and of equals the newest."""
        numbers = Counter(shared.values())
        worth = {
            places: sum(weight for place, weight in enumerate(self._weights) if places >> place & 1)
            for places in numbers
        }
        wanted: dict[int, float] = {}
        enough = 0
        for places in sorted(numbers, key=worth.__getitem__, reverse=True):
            wanted[places] = worth[places]
            enough += numbers[places]
            if enough >= most:
                break
        found = [(wanted[places], entry) for entry, places in shared.items() if places in wanted]
        return [entry for _, entry in sorted(found, reverse=True)[:most]]

    def _join(self, index: Index, common: list[int], shared: dict[int, int], limit: int) -> None:
        known = [place for place, forms in enumerate(self._forms) if self.words[place] in forms]
        if len(known) < 2:
            return
        numbers = Counter(shared.values())
        enough = max(_ENOUGH, 2 * limit)
        # All of them, or else the two that tell most.
        telling = sorted(common, key=self._weights.__getitem__, reverse=True)[:2]
        for places in dict.fromkeys([tuple(known), tuple(sorted(telling))]):
            if len(places) < 2:
                break
            bits = sum(1 << place for place in places)
            together = sum(number for have, number in numbers.items() if have & bits == bits)
            if together < enough:
                rarest = sorted(places, key=self._weights.__getitem__, reverse=True)
                found = index.having([self.words[place] for place in rarest], max(_TOGETHER, enough))
                together = len(found)
                for entry in found:
                    shared[entry] = shared.get(entry, 0) | bits
            if len(places) == len(known) and together >= enough:
                return

    def score(self, parts: Sequence[list[str]]) -> float:
        """How well an entry fits, by the words of key, value and metadata; nothing where it shares too little."""
        length = sum(map(len, parts))
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / _USUAL)
        total = shared = 0.0
        for forms, weight in zip(self._forms, self._weights, strict=True):
            often = 0.0
            for form, worth in forms.items():
                for words, importance in zip(parts, _IMPORTANCE, strict=True):
                    if form in words:
                        often += worth * importance * words.count(form)
            if often:
                total += weight * often * (_SATURATION + 1) / (often + norm)
                shared += weight
        if shared < self._share * sum(self._weights):
            return 0.0
        return total


def _begun(
    word: str, index: Index, unseen: dict[int, frozenset[str]], limit: int, worth: float
) -> tuple[dict[str, float], list[int]]:
    """Words that begin so, with what they are worth, and entries that have them."""
    if len(word) < _SHORTEST and word.isascii():
        return {}, []
    forms = set(index.beginning(word, min(max(_ENDINGS, limit), _MOST_ENDINGS)))
    forms.update(form for words in unseen.values() for form in words if form.startswith(word))
    each = max(_NEWEST // _ENDINGS, limit)
    found = {entry for form in forms for entry in index.having([form], each)}
    found.update(entry for entry, words in unseen.items() if not forms.isdisjoint(words))
    return dict.fromkeys(forms, worth), sorted(found, reverse=True)


def _rarity(found: Sequence[int], entries: int, most: int) -> float:
    """BM25's weight of a word, of which the newest entries are known, at most so many, among all entries."""
    number = float(len(found))
    if number >= most:
        number *= max(1.0, entries / (max(found) - min(found) + 1))
    return log(1 + (max(entries - number, 0) + 0.5) / (number + 0.5)) + 0.05
