"""Search by meaning: which turns are near a query, and how that is added to their scores.

Every message has a vector; a turn is as near as the nearest of its messages. Turns near the query join those that have
its words, and every turn gets the cosine of its similarity, in units of the best score by words, times one weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic

import numpy as np

from warmstart.config import Settings
from warmstart.embedding.embedders import Embedder, Matrix
from warmstart.embedding.index import VectorIndex, create_vector_index, open_vector_index, prune_vector_index
from warmstart.embedding.vectors import Progress
from warmstart.errors import EmbedderError, StoreError
from warmstart.recall.query import Query, parse
from warmstart.recall.ranking import Turn, in_order, rarity
from warmstart.recall.search import Found, Scope, read_turns, turn_at
from warmstart.sessions.indexed_store import IndexedStore
from warmstart.sessions.lookup import SessionLookup

WEIGHT = 0.1
MAX_NEAR = 50  # messages that are near the query, and turns with its words that are compared with it
MAX_SESSIONS = 200  # a scope with more is searched like the whole store
MAX_QUERY = 4000  # characters
MAX_TEXT = 1000  # characters of a message that are embedded
TIMEOUT = 2.0  # seconds for the embedder, and as many for the vectors

_STAMPS = (
    "SELECT session, CAST(sum(hash & 4294967295) + count(*) AS BIGINT) FROM recall_turns "
    "GROUP BY session ORDER BY session DESC"
)


class Messages:
    """The messages in the index as a `Source` of texts to embed; a group is a session."""

    def __init__(self, store: IndexedStore) -> None:
        self._db = store.database

    def stamps(self) -> Mapping[int, int]:
        with self._db.translate_errors():
            return dict(self._db.connection.execute(_STAMPS).fetchall())

    def texts(self, group: int) -> Mapping[int, str]:
        with self._db.translate_errors():
            messages = SessionLookup(self._db.connection).spoken(group)
        return {message: text[:MAX_TEXT] for message, text in messages}


class SemanticIndex(AbstractContextManager["SemanticIndex"]):
    """The vectors of a store's messages, and the embedder that computes them."""

    def __init__(self, store: IndexedStore, index: VectorIndex) -> None:
        self._db = store.database
        self._index = index
        self._vectors = index.vectors
        self._messages = Messages(store)
        self._lookup = SessionLookup(store.database.connection)
        self.embedder = index.embedder

    def update(self, progress: Progress | None = None) -> int:
        """Embed new messages and delete the vectors of deleted ones. Returns how many texts were embedded."""
        return self._index.update(self._messages, progress)

    def close(self) -> None:
        self._vectors.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, found: Found, text: str, scope: Scope, deadline: float) -> None:
        """Add the turns near a query to those with its words, and to all of them a score for their similarity.

        If a service does not answer, or the file is damaged, the turns stay as they are.
        """
        with suppress(EmbedderError, StoreError):
            self._add(found, parse(text), self._name_sessions(scope), deadline)
            found.turns = in_order(found.turns)

    def _name_sessions(self, scope: Scope) -> Scope:
        """The same scope with the sessions of its projects, because vectors know nothing about projects."""
        if scope.projects is None or scope.sessions is not None:
            return scope
        sessions: set[int] = set()
        for project in scope.projects:
            sessions.update(self._lookup.select(project=project).sessions or ())
        return Scope(projects=scope.projects, sessions=sessions, without=scope.without)

    def _add(self, found: Found, query: Query, scope: Scope, deadline: float) -> None:
        weights: dict[str, float] = {}
        for stem, word in query.words.items():
            weights[word] = rarity(found.known.get(stem, 1), found.documents)
        seconds = min(TIMEOUT, deadline - monotonic())
        vector = self._index.embed(query.text[:MAX_QUERY], weights, seconds)
        if vector is None:
            return
        near = self._near(found, vector, scope, min(TIMEOUT, deadline - monotonic()))
        similarities = self._similarities([*found.turns[:MAX_NEAR], *near], vector)
        unit = WEIGHT * max(turn.score for turn in found.turns) if found.turns else 1.0
        for turn in found.turns:
            turn.add("vectors", unit * similarities.get(turn.id, 0.0))
        # If no word of the query occurs, require a higher similarity: something is always nearest.
        floor = self.embedder.floor * (1 if query.content & found.known.keys() else 2)
        for turn in near:
            similarity = similarities.get(turn.id, 0.0)
            if similarity >= floor:
                turn.add("vectors", unit * similarity)
                found.turns.append(turn)

    def _near(self, found: Found, vector: Matrix, scope: Scope, seconds: float) -> list[Turn]:
        """The turns near a vector that were not found by words."""
        sessions = None
        if scope.sessions is not None and len(scope.sessions) <= MAX_SESSIONS:
            sessions = np.array(sorted(scope.sessions), np.int64)
        messages = self._vectors.nearest(vector, sessions, MAX_NEAR, max(0.0, seconds))
        places = self._lookup.positions(messages.tolist())
        near = {turn_at(self._db.connection, session, seq) for session, seq in places}
        new = near.difference(turn.id for turn in found.turns)
        return read_turns(self._db.connection, found.terms, sorted(new), scope)

    def _similarities(self, turns: Sequence[Turn], vector: Matrix) -> dict[int, float]:
        """The cosine of the nearest message of each turn, if it is positive."""
        turn_of = self._lookup.spoken_in((turn.id, turn.session, turn.first_seq, turn.last_seq) for turn in turns)
        nearest: dict[int, float] = {}
        for message, cosine in self._vectors.cosines(sorted(turn_of), vector).items():
            turn = turn_of[message]
            nearest[turn] = max(cosine, nearest.get(turn, 0.0))
        return nearest


def open_semantic_index(store: IndexedStore, settings: Settings) -> SemanticIndex | None:
    """The vectors of a store's messages, if there are any. Raises `ConfigError` if their embedder is not available."""
    index = open_vector_index(store.database, settings)
    return None if index is None else SemanticIndex(store, index)


def create_semantic_index(store: IndexedStore, settings: Settings, embedder: str | Embedder) -> SemanticIndex:
    """The vectors of a store's messages by this embedder; deletes those of another one."""
    return SemanticIndex(store, create_vector_index(store.database, settings, embedder))


def delete_old_vectors(store: IndexedStore) -> None:
    """Delete the vectors of deleted sessions."""
    prune_vector_index(store.database, Messages(store))
