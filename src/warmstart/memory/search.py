"""Which entries answer a question: one ranking for every backend, by words and, with the extra `vectors`, by meaning.

The index of a database only proposes candidates; scores are computed from their text, so that all databases rank alike.
A score has two parts. `words` is BM25, as a share of the total weight of the question's words; former values of an
entry count too, so that "are we still on MySQL" finds what replaced it. `meaning` is the cosine of the two texts.

No answer can be the right one. A question is answered if some entry is strong in one part alone. Shared words also
raise the cosine, even of an entry that answers a different question about the same subject, so they are discounted
from `meaning` in that test. `bench/memory.py` prints the results with other thresholds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import log
from typing import NamedTuple

from warmstart.memory.entries import Row
from warmstart.memory.values import digest
from warmstart.storage.database import Connection, Database
from warmstart.text.words import STOPWORDS, identifier_parts, split_words, stem_word, tokenize

MAX_QUERY = 2000  # characters; the rest is ignored
MAX_QUERY_WORDS = 12

_MAX_WORDS = 2000  # of an entry
_MAX_UNKNOWN = 6  # words that no entry has, of those
# The weight of a word in the key, relative to the value, without and with vectors, which include the key.
_KEY_WEIGHT = {False: 3.0, True: 2.0}
_SATURATION, _LENGTH, _USUAL = 1.2, 0.75, 16.0  # BM25's k1 and b, and the usual length of an entry
_MEANING_WEIGHT = 2.5  # of meaning, relative to words
_OVERLAP = 0.2  # share of `words` that is subtracted from meaning
# The least `words` that answers a question, without and with vectors, among a hundred entries or more. In a smaller
# store less is enough, because chance matches are rarer.
_MIN_WORDS = {False: 0.19, True: 0.45}
_MIN_SHARE = 0.4  # of the best score
_MIN_ENTRIES = 10  # for computing how rare a word is

WINDOW = 5000  # newest entries from which the rarity of a common word is estimated
MAX_CANDIDATES = 40  # entries that are read and scored
MAX_STEMS = 64  # of a question
_NEWEST = 200  # entries of a stem that are candidates


@lru_cache(maxsize=100_000)
def _word_stems(word: str) -> tuple[str, ...]:
    return tuple(map(stem_word, tokenize(word) + identifier_parts(word)))


def stems(text: str) -> list[str]:
    """The stems of a text in order; a name like `camelCase` or `python3` as a whole and in parts."""
    return [stem for word in split_words(text)[:_MAX_WORDS] for stem in _word_stems(word)]


class Question:
    """The words of a question that matter. The parts of a name are used if no entry has the whole name."""

    def __init__(self, text: str) -> None:
        words = split_words(text[:MAX_QUERY])[:_MAX_WORDS]
        telling = [word for word in words if word.lower() not in STOPWORDS] or words
        self._parts: dict[str, tuple[str, ...]] = {}  # of each word, by its stem
        for word in dict.fromkeys(telling):
            first, *parts = _word_stems(word) or ("",)
            if word.isascii():
                self._parts.setdefault(first, tuple(parts))
            else:  # in scripts without spaces, every pair of characters is a word
                self._parts.update((stem, ()) for stem in (first, *parts))
        self._parts.pop("", None)

    @property
    def stems(self) -> list[str]:
        """All stems to look up, the parts of names included."""
        return list(dict.fromkeys((*self._parts, *(part for parts in self._parts.values() for part in parts))))

    def resolve(self, counts: Mapping[str, int]) -> list[str]:
        """The stems to score by: the rarest, and for a name that no entry has, its known parts."""
        chosen: dict[str, None] = {}
        for stem, parts in self._parts.items():
            known_parts = [part for part in parts if counts.get(part)]
            chosen.update(dict.fromkeys(known_parts if known_parts and not counts.get(stem) else [stem]))
        known = sorted((stem for stem in chosen if counts.get(stem)), key=lambda stem: counts[stem])[:MAX_QUERY_WORDS]
        unknown = [stem for stem in chosen if not counts.get(stem)][: min(_MAX_UNKNOWN, MAX_QUERY_WORDS - len(known))]
        return [*known, *unknown]


class Similarity(NamedTuple):
    """The cosines of entries with a question, from 0 to 1, by id; `floor` is the least that answers it."""

    cosines: Mapping[int, float]
    floor: float


class _Match(NamedTuple):
    row: Row
    words: float
    meaning: float
    has_all: bool  # words of the question

    @property
    def score(self) -> float:
        return self.words + _MEANING_WEIGHT * self.meaning


def rarity(count: float, entries: int) -> float:
    """BM25's weight of a word that `count` of the entries have."""
    return log(1 + (max(entries - count, 0) + 0.5) / (count + 0.5))


def answer(
    question: Question,
    rows: Iterable[Row],
    counts: Mapping[str, int],
    entries: int,
    similarity: Similarity | None,
) -> list[Row]:
    """The entries that answer a question, best first, newest first among equals; none if even the best is weak."""
    weights = {stem: rarity(counts.get(stem, 0), max(entries, _MIN_ENTRIES)) for stem in question.resolve(counts)}
    total = sum(weights.values()) or 1.0
    matches = []
    for row in rows:
        meaning = similarity.cosines[row.id] if similarity else 0.0
        score, shared = _bm25(weights, row, _KEY_WEIGHT[similarity is not None])
        matches.append(_Match(row, score / total, meaning, has_all=shared == len(weights) > 0))
    # If an entry has all the words, one that has none of them must be nearer in meaning.
    named = max((each.meaning for each in matches if each.has_all), default=-1.0)
    matches = [each for each in matches if each.words or each.meaning > named]
    least = _MIN_WORDS[similarity is not None] * min(1.0, log(entries + 1, 100))
    if not any(
        each.words >= least or (similarity and each.meaning - _OVERLAP * each.words >= similarity.floor)
        for each in matches
    ):
        return []
    matches.sort(key=lambda each: (each.score, each.row.updated_at), reverse=True)
    lowest = _MIN_SHARE * matches[0].score
    return [each.row for each in matches if each.words >= least or each.score >= lowest]


def _bm25(weights: Mapping[str, float], row: Row, key_weight: float) -> tuple[float, int]:
    """The score, and how many of the words the entry has."""
    key, value = stems(row.key), stems(row.value)
    parts = ((key, key_weight), (value, 1.0), (stems(row.former), 1.0), (stems(row.metadata), 0.5))
    counts = dict.fromkeys(weights, 0.0)
    for words, factor in parts:
        for word in words:
            if word in counts:
                counts[word] += factor
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * (len(key) + len(value)) / _USUAL)
    score = sum(weights[word] * count * (_SATURATION + 1) / (count + norm) for word, count in counts.items())
    return score, sum(count > 0 for count in counts.values())


# -- the index


class WordIndex(ABC):
    """Which entries have which stems: each database has its own index (FTS5, GIN).

    Adding and removing is part of the caller's transaction. The user and place of an entry are indexed too, as tokens
    that no text contains.
    """

    @abstractmethod
    def add(self, connection: Connection, rows: Sequence[tuple[int, str]]) -> None:
        """Add entries with their stems, separated by spaces."""

    @abstractmethod
    def remove(self, connection: Connection, ids: Sequence[int]) -> None:
        """Remove entries; those that are not indexed are ignored."""

    @abstractmethod
    def find(self, connection: Connection, every: Sequence[str], some: Sequence[str], limit: int) -> list[int]:
        """The newest entries that have all the stems of `every`, and any of `some` unless it is empty."""

    def compact(self, database: Database) -> None:
        """Erase removed stems, if a vacuum of the database does not."""
        return

    def candidates(
        self,
        connection: Connection,
        user_id: str,
        places: Sequence[str] | None,
        question: Question,
        entries: int,
        limit: int,
        unindexed: Sequence[set[str]],
    ) -> tuple[dict[str, int], list[int]]:
        """How many entries of a user, or of these places, have each stem of a question; and candidates, best first.

        The candidates are ids. `unindexed` has the stems of entries that are not in the index yet.
        """
        most = max(_NEWEST, limit) * (1 if places is None else 10)  # some may be hidden by a narrower scope
        user, some = _token("u", user_id), [_token("p", place) for place in places or ()]
        counts: dict[str, int] = {}
        having: dict[str, list[int]] = {}
        window: list[int] = []
        for stem in question.stems[:MAX_STEMS]:
            found = self.find(connection, [user, stem], some, most)
            count = float(len(found))
            if len(found) == most:
                window = window or self.find(connection, [user], some, WINDOW)
                count *= max(1.0, (window[0] - window[-1] + 1) / (found[0] - found[-1] + 1))
            counts[stem] = round(min(count, entries)) + sum(stem in words for words in unindexed)
            having[stem] = found
        words = [stem for stem in question.resolve(counts) if having.get(stem)]
        weights: dict[int, float] = {}
        for stem in words:
            weight = rarity(counts[stem], entries)
            for number in having[stem]:
                weights[number] = weights.get(number, 0.0) + weight
        if window and len(words) > 1:  # the newest with a common stem may lack the others
            for together in {tuple(words[:3]), tuple(words[:2])}:  # the rarest
                weight = sum(rarity(counts[stem], entries) for stem in together)
                found = self.find(connection, [user, *together], some, MAX_CANDIDATES)
                weights.update((each, max(weight, weights.get(each, 0.0))) for each in found)
        return counts, sorted(weights, key=lambda each: (weights[each], each), reverse=True)


def index_text(user_id: str, place: str, text: str) -> str:
    """The stems of an entry, as `add` expects them."""
    return " ".join((_token("u", user_id), _token("p", place), *dict.fromkeys(stems(text))))


def _token(kind: str, text: str) -> str:
    return f"{kind}{digest(text)}"
