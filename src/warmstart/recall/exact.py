"""What was typed exactly, and what only tools said, through the index over all texts.

That index knows the places of words, so that `conversation_loop.py` finds the texts that hold these words side by side;
of those the ones count that hold it to the letter. It also holds the output of tools, which counts less than words.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from warmstart.recall.engine import Engine, Word
from warmstart.recall.lines import SPOKEN
from warmstart.recall.query import Exact
from warmstart.recall.scope import Choice
from warmstart.storage.database import Connection

SAID, DID, OUTPUT = range(3)
_WEIGHT = {SAID: 1.5, DID: 1.0, OUTPUT: 0.6}
_MOST = 60
_LOOKED_AT = 2000  # texts, the newest, of which some may be of other projects
_USES = {
    SAID: f"JOIN messages m ON m.text = f.id AND m.role IN ('user', 'assistant') AND {SPOKEN}",
    DID: f"JOIN tool_calls c ON c.arguments = f.id JOIN messages m ON m.pk = c.message AND {SPOKEN}",
    OUTPUT: f"JOIN tool_results r ON r.text = f.id JOIN messages m ON m.pk = r.message AND {SPOKEN}",
}


class Hit(NamedTuple):
    """A text that holds what was asked for, in a message of a session."""

    session: int
    message: int
    kind: int
    text: int
    score: float
    what: str


class Texts:
    """Looks into the index over all texts. In a large store no more than the newest uses of common words are seen."""

    def __init__(self, connection: Connection, engine: Engine, choice: Choice, *, lines: int, large: bool) -> None:
        self._connection = connection
        self._engine = engine
        self._choice = choice
        self._lines = lines
        # A limit inside keeps its order; to sort again would mean to look at all of them.
        self._newest, self._order = (f" LIMIT {_LOOKED_AT}", engine.NEWEST) if large else ("", "ORDER BY f.id DESC")

    def exact(self, exact: Exact) -> list[Hit]:
        """The newest uses of what was typed, each as rare as they are."""
        found = self._uses(self._engine.phrase(exact.words), (SAID, DID, OUTPUT), holds=exact.text)
        weight = log(1 + max(self._lines, len(found)) / (1 + len({message for _, message, _, _ in found})))
        return [Hit(*each, weight * _WEIGHT[each[2]], exact.text) for each in found]

    def output(self, words: Sequence[Word], score: float) -> list[Hit]:
        """Where tools said all of these words, or else, for less, any of them."""
        for query, worth in ((self._engine.all_of, score), (self._engine.any_of, score / 3)):
            if found := self._uses(query(words), (OUTPUT,)):
                return [Hit(*each, worth, " ".join(word.word for word in words)) for each in found]
        return []

    def _uses(self, query: str, kinds: Sequence[int], *, holds: str = "") -> list[tuple[int, int, int, int]]:
        condition = self._choice.condition + (f" AND {self._engine.HOLDS}" if holds else "")
        uses = (
            f"SELECT * FROM (SELECT m.session, m.pk, {kind}, f.id FROM ({self._engine.TEXTS}{self._newest}) f "
            f"JOIN texts t ON t.id = f.id {_USES[kind]} JOIN sessions s ON s.pk = m.session "
            f"WHERE {condition} {self._order} LIMIT :most) AS uses{kind}"
            for kind in kinds
        )
        rows = self._connection.execute(
            " UNION ALL ".join(uses),
            {**self._choice.values, "query": query, "most": _MOST, **({"holds": holds} if holds else {})},
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]
