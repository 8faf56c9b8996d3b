"""The word index: which entries have which stems.

Each database has its own (FTS5, GIN). The user and place of an entry are indexed too, as tokens that no text contains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from warmstart.memory.search import Question, rarity, stems
from warmstart.memory.values import digest
from warmstart.storage.database import Connection, Database

WINDOW = 5000  # newest entries from which the rarity of a common word is estimated
MAX_CANDIDATES = 40  # entries that are read and scored
MAX_STEMS = 64  # of a question
_NEWEST = 200  # entries of a stem that are candidates


class Candidates(NamedTuple):
    """How many entries have each stem of a question, and the ids of the best candidates, best first."""

    counts: dict[str, int]
    ids: list[int]


class WordIndex(ABC):
    """The stems of entries. Adding and removing is part of the caller's transaction."""

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
    ) -> Candidates:
        """The candidates for a question among the entries of a user, or only those of these places.

        `unindexed` has the stems of entries that are not in the index yet.
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
        return Candidates(counts, sorted(weights, key=lambda each: (weights[each], each), reverse=True))


def index_text(user_id: str, place: str, text: str) -> str:
    """The stems of an entry, as `add` expects them."""
    return " ".join((_token("u", user_id), _token("p", place), *dict.fromkeys(stems(text))))


def _token(kind: str, text: str) -> str:
    return f"{kind}{digest(text)}"
