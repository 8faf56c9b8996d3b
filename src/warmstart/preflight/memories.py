"""Find the memories that a message is about: the second source of the overlay, with the shape of `find_turns`.

It reads rows of the store and ranks them here, because a hook cannot load the search of memory. A memory counts only if
it shares a number or a name with the message, and with that most of the words of one of the two: silence is better than
a guess. What the user stored comes before what agents noted.
"""

from __future__ import annotations

import json
import time

from warmstart.memory.authors import NOTES, USER, author_of, is_shown, noted_by
from warmstart.memory.keys import describe
from warmstart.text.truncate import one_line
from warmstart.text.words import STOPWORDS, split_words, stem_word

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from warmstart.storage.database import Connection

_MAX_CHARACTERS = 1_500  # of a message
_MAX_TERMS = 60  # different words of a message
_MAX_ROWS = 20  # of the user, and of agents
_MIN_SHARE = 0.5  # of the words of the message, or of the memory, by weight
_TELLING = 2.0  # weight of a number or a name; other words have 1
_MIN_CAPITALS = 5  # letters; shorter acronyms, such as PR and API, are common words
_MAX_LINE = 300  # characters
_STRIPPED = ".,;:!?()[]{}<>\"'`“”‘’…*"
_CONTAINS = {"sqlite": "instr({0}, ?) > 0", "postgres": "strpos({0}, ?) > 0"}
_ROWS = """
    SELECT key, value, metadata, updated_at FROM (
        SELECT key, value, metadata, updated_at, {matches} AS shared FROM memory_entries
        WHERE user_id = 'default' AND place IN (?, ?) AND (expires_at IS NULL OR expires_at > ?)
    ) found WHERE shared > 0 ORDER BY shared DESC, updated_at DESC LIMIT ?
"""


class Memory:
    """A memory that a message is about; `score` is the share of its words, or of the message's, that they share."""

    __slots__ = ("author", "key", "metadata", "score", "updated_at", "value")

    def __init__(self, key: str, value: str, metadata: dict[str, Any], updated_at: float) -> None:
        self.key = key
        self.value = value
        self.metadata = metadata
        self.updated_at = updated_at
        self.author = author_of(metadata)
        self.score = 0.0

    @property
    def line(self) -> str:
        """The memory with its source and date."""
        text = one_line(describe(self.key, self.value), _MAX_LINE)
        return f"{noted_by(self.author, self.updated_at)}: “{text}”"


def find_memories(connection: Connection, dialect: str, text: str, *, project: str) -> list[Memory]:
    """The memories that a session in a project may see and that the text is about, the user's first, best first."""
    if len(text) > _MAX_CHARACTERS:
        return []  # a long text shares something with every memory
    terms = list(dict.fromkeys(_terms(text)))
    if not terms or len(terms) > _MAX_TERMS:
        return []
    names = _names(text)
    places = [("", f"project:{project}")]
    if project:
        places.append((f"{NOTES}{project}",) * 2)
    found: list[Memory] = []
    for some in places:
        for row in _rows(connection, dialect, terms, some):
            memory = Memory(row[0], row[1], json.loads(row[2]) if row[2] else {}, row[3])
            if is_shown(memory.metadata, project):
                memory.score = _score(memory, set(terms), names)
                found.append(memory)
    found = [memory for memory in found if memory.score > _MIN_SHARE]
    return sorted(found, key=lambda memory: (memory.author != USER, -memory.score, -memory.updated_at))


def _rows(connection: Connection, dialect: str, terms: Sequence[str], places: Sequence[str]) -> list[Any]:
    """The entries in these places that contain most of the terms, roughly."""
    contains = _CONTAINS[dialect].format("lower(key || ' ' || value)")
    matches = " + ".join([f"CASE WHEN {contains} THEN 1 ELSE 0 END"] * len(terms))
    # The stem of "deploy" is "deploi".
    beginnings = [term.removesuffix("i") for term in terms]
    return connection.execute(_ROWS.format(matches=matches), (*beginnings, *places, time.time(), _MAX_ROWS)).fetchall()


def _score(memory: Memory, asked: set[str], names: set[str]) -> float:
    """How much of the message or of the memory is shared; 0 if they share no number and no name."""
    own = set(_terms(f"{memory.key} {memory.value}"))
    shared = own & asked
    names = names | _names(memory.value)
    if not shared & names:
        return 0.0
    weight = _weigh(shared, names)
    of_memory = weight / _weigh(own, names) if len(shared) > 1 else 0.0
    return max(weight / _weigh(asked, names), of_memory)


def _weigh(terms: set[str], names: set[str]) -> float:
    return sum(_TELLING if term in names else 1.0 for term in terms)


def _terms(text: str) -> list[str]:
    """The words of a text as they are compared. Names stay whole: `GitLab` has nothing to do with `git`."""
    words = [word.lower() for word in split_words(text)]
    return [stem_word(word) for word in words if len(word) > 1 and word not in STOPWORDS]


def _names(text: str) -> set[str]:
    """The terms that are numbers or names: with digits, inner capitals, or a capital within a sentence."""
    names: set[str] = set()
    starts = True
    for raw in text.split():
        word = raw.strip(_STRIPPED)
        if any(letter.isdigit() for letter in word):
            names.update(term for term in _terms(word) if any(letter.isdigit() for letter in term))
        elif word.isupper():
            names.update(_terms(word) if len(word) >= _MIN_CAPITALS else ())
        elif (word[:1].isupper() and not starts) or any(letter.isupper() for letter in word[1:]):
            names.update(_terms(word))
        starts = raw[-1] in ".!?:*-#•"
    return names
