"""Baselines for recall: an FTS5 table over messages, and one over turns, each searched with one statement."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from recall_questions import Question
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Message
from warmstart.text.words import STOPWORDS

MAX_ROWS = 200
MAX_CALLS = 4000  # characters of a message's tool calls that are indexed

_WORD = re.compile(r"[^\W_]+")


class Hit(NamedTuple):
    """A session, and the messages of the passage that was found in it."""

    session: str
    messages: tuple[str, ...]


Searcher = Callable[[Question], list[Hit]]


class Document(NamedTuple):
    """What a row of the table holds."""

    request: str
    reply: str
    calls: str
    messages: tuple[str, ...]


class Fts5Baseline:
    """Any word of the question, Porter stems, BM25.

    A session's score is the sum of its best `best` rows, each weighing half as much as the one before.
    """

    def __init__(
        self,
        store: SQLSessionStore,
        split: Callable[[Iterable[Message]], Iterator[Document]],
        *,
        weights: tuple[float, float, float],
        stopwords: Iterable[str],
        best: int,
    ) -> None:
        self._weights = weights
        self._stopwords = frozenset(stopwords)
        self._best = best
        self._hits: list[Hit] = []  # by rowid
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE documents USING fts5 "
            "(request, reply, calls, project UNINDEXED, tokenize = 'porter unicode61')"
        )
        for row in store.list():
            for document in split(store.messages(row.session.id)):
                self._connection.execute(
                    "INSERT INTO documents (rowid, request, reply, calls, project) VALUES (?, ?, ?, ?, ?)",
                    (len(self._hits), document.request, document.reply, document.calls, row.session.project),
                )
                self._hits.append(Hit(row.session.native_id, document.messages))

    def search(self, question: Question) -> list[Hit]:
        words = [word for word in _WORD.findall(question.text.lower()) if word not in self._stopwords]
        if not words:
            return []
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        rows = self._connection.execute(
            "SELECT rowid, -bm25(documents, ?, ?, ?) AS score FROM documents "
            "WHERE documents MATCH ? AND (? IS NULL OR project = ?) ORDER BY score DESC LIMIT ?",
            (*self._weights, query, question.project, question.project, MAX_ROWS),
        ).fetchall()
        hits = [(self._hits[rowid], score) for rowid, score in rows]
        if question.unit == "session":
            return self._rank_sessions(hits)
        return [hit for hit, _ in hits]

    def _rank_sessions(self, hits: list[tuple[Hit, float]]) -> list[Hit]:
        count: dict[str, int] = {}
        total: dict[str, float] = {}
        for hit, score in hits:
            place = count.get(hit.session, 0)
            count[hit.session] = place + 1
            if place < self._best:
                total[hit.session] = total.get(hit.session, 0.0) + score / 2**place
        order = sorted(total, key=lambda session: -total[session])
        return [Hit(session, ()) for session in order]


def fts5_over_messages(store: SQLSessionStore) -> Fts5Baseline:
    return Fts5Baseline(store, split_messages, weights=(1.0, 1.0, 1.0), stopwords=(), best=1)


def fts5_over_turns(store: SQLSessionStore) -> Fts5Baseline:
    return Fts5Baseline(store, split_turns, weights=(1.2, 1.0, 0.6), stopwords=STOPWORDS, best=3)


def split_messages(messages: Iterable[Message]) -> Iterator[Document]:
    """Every message is a document."""
    for message in messages:
        yield Document(message.text, "", "", (message.native_id,))


def split_turns(messages: Iterable[Message]) -> Iterator[Document]:
    """A turn is a request with everything up to the next one."""
    turn: list[Message] = []
    for message in messages:
        if turn and message.role == "user" and message.text.strip():
            yield _join(turn)
            turn = []
        turn.append(message)
    if turn:
        yield _join(turn)


def _join(turn: list[Message]) -> Document:
    requests: list[str] = []
    replies: list[str] = []
    calls: list[str] = []
    for message in turn:
        said = requests if message.role == "user" else replies
        said.append(message.text)
        arguments = " ".join(call.arguments for call in message.tool_calls)
        calls.append(arguments[:MAX_CALLS])
    ids = tuple(message.native_id for message in turn)
    return Document("\n".join(requests), "\n".join(replies), "\n".join(calls), ids)
