"""Find the memories that a message is about: the second source of the overlay, with the shape of `find_turns`.

It reads rows of the store and ranks them here, because a hook cannot load the search of memory. A memory counts only if
it shares a number or a name with the message, and with that most of the words of one of the two: silence is better than
a guess. What the user stored comes before what agents noted.
"""

from __future__ import annotations

import json
import re
import time
from operator import attrgetter

from warmstart.memory.authors import NOTES, USER, author_of, is_shown, noted_by
from warmstart.memory.keys import describe
from warmstart.text.truncate import one_line
from warmstart.text.words import STOPWORDS, split_words, stem_word

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.storage.database import Connection

_MAX_CHARACTERS = 1_500  # of a message
_MAX_TERMS = 60  # different words of a message
_MIN_SHARE = 0.5  # of the words of the message, or of the memory, by weight
_MAX_LINE = 300  # characters
# Numbers, words with a capital inside, longer acronyms (PR and API are common words), and capitals within a sentence.
_NAMES = r"\w*\d\w*|\w*[a-z]\w*[A-Z]\w*|\b[A-Z]{5,}\b|(?<=[^.!?:*#•\s-]\s)[\"'`“‘(\[]*[A-Z]\w*[a-z]\w*"
_CONTAINS = {
    "sqlite": "(instr(lower(key || ' ' || value), ?) > 0)",
    "postgres": "(strpos(lower(key || ' ' || value), ?) > 0)::int",
}
# The memories that share most with a message: 20 of the user, and 20 of agents.
_ROWS = """
    SELECT key, value, metadata, updated_at FROM (
        SELECT *, row_number() OVER (PARTITION BY place LIKE 'note:%' ORDER BY shared DESC, updated_at DESC) AS rank
        FROM (
            SELECT key, value, metadata, updated_at, place, {0} AS shared FROM memory_entries
            WHERE user_id = 'default' AND place IN (?, ?, ?) AND (expires_at IS NULL OR expires_at > ?)
        ) AS entries WHERE shared > 0
    ) AS ranked WHERE rank <= 20
"""


class Memory:
    """A memory that a message is about."""

    def __init__(self, key: str, value: str, metadata: str, updated_at: float) -> None:
        self.key = key
        self.value = value
        self.metadata = json.loads(metadata)
        self.updated_at = updated_at
        self.version = (updated_at, len(key) + len(value))  # by which it was judged
        author = author_of(self.metadata)
        self.is_users = author == USER
        self.share = 0.0  # of the words of a message
        text = one_line(describe(key, value), _MAX_LINE)
        self.line = f"{noted_by(author, updated_at)}: “{text}”"  # with its source and date


def find_memories(connection: Connection, dialect: str, text: str, *, project: str) -> list[Memory]:
    """The memories that a session in a project may see and that the text is about, the user's first, best first."""
    if len(text) > _MAX_CHARACTERS:
        return []  # a long text shares something with every memory
    terms = _terms(text)
    if not terms or len(terms) > _MAX_TERMS:
        return []
    matches = " + ".join([_CONTAINS[dialect]] * len(terms))
    beginnings = [term.removesuffix("i") for term in terms]  # the stem of "deploy" is "deploi"
    places = ("", f"project:{project}", f"{NOTES}{project}")
    rows = connection.execute(_ROWS.format(matches), (*beginnings, *places, time.time())).fetchall()
    names = _names(text)
    found: list[Memory] = []
    for row in rows:
        memory = Memory(*row)
        memory.share = _share(memory, terms, names)
        if memory.share > _MIN_SHARE and is_shown(memory.metadata, project):
            found.append(memory)
    return sorted(found, key=attrgetter("is_users", "share", "updated_at"), reverse=True)


def _share(memory: Memory, asked: set[str], names: set[str]) -> float:
    """How much of the message or of the memory is shared; 0 if they share no number and no name."""
    own = _terms(f"{memory.key} {memory.value}")
    shared = own & asked
    names = names | _names(memory.value)
    if not shared & names:
        return 0.0
    smaller = min(_weigh(asked, names), _weigh(own, names)) if len(shared) > 1 else _weigh(asked, names)
    return _weigh(shared, names) / smaller


def _weigh(terms: set[str], names: set[str]) -> float:
    """Numbers and names count twice."""
    return len(terms) + len(terms & names)


def _terms(text: str) -> set[str]:
    """The words of a text as they are compared. Names stay whole: `GitLab` has nothing to do with `git`."""
    words = [word.lower() for word in split_words(text)]
    return {stem_word(word) for word in words if len(word) > 1 and word not in STOPWORDS}


def _names(text: str) -> set[str]:
    """The words that are numbers or names."""
    return _terms(" ".join(re.findall(_NAMES, text)))
