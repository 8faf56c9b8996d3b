"""A large store of made-up words with natural frequencies, and queries for it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import numpy as np

from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Message, Session
from warmstart.text.words import STOPWORDS

PROJECTS = 20
SESSION = 50  # messages
MAX_QUERIES = 400

_BATCH = 100  # sessions per transaction
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvw", "aeiou"


class SyntheticStore:
    """Writes sessions, each with its topic. The same number of messages always gives the same store."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        self._words = vocabulary(200_000)
        weights = 1 / np.arange(1, len(self._words) + 1) ** 1.05
        self._cumulative = np.cumsum(weights / weights.sum())

    def fill(self, store: SQLSessionStore, messages: int) -> list[str]:
        """Store sessions with this many messages in total; returns queries for them."""
        sources: list[str] = []
        sessions = messages // SESSION
        for first in range(0, sessions, _BATCH):
            with store.transaction():
                for number in range(first, min(first + _BATCH, sessions)):
                    rows = self._messages(number)
                    project = f"/synthetic/{number % PROJECTS}"
                    began = rows[0].timestamp
                    session = Session(agent="synthetic", native_id=str(number), project=project, started_at=began)
                    store.append(session, rows)
                    if number % 5 == 0 and len(sources) < MAX_QUERIES:
                        sources.append(rows[7].text)
        return make_queries(sources, self._words[:40])

    def _messages(self, session: int) -> list[Message]:
        topic = np.searchsorted(self._cumulative, self._random.random(60) ** 0.7)
        began = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=session * 40)
        return [
            Message(
                native_id=str(session * SESSION + place),
                role="assistant" if place % 2 else "user",
                text=self._text(topic),
                timestamp=began + timedelta(minutes=place),
            )
            for place in range(SESSION)
        ]

    def _text(self, topic: np.ndarray) -> str:
        size = int(np.clip(self._random.lognormal(3.0, 0.8), 3, 300))
        drawn = np.searchsorted(self._cumulative, self._random.random(size))
        on_topic = self._random.random(size) < 0.3
        drawn = np.where(on_topic, topic[self._random.integers(0, len(topic), size)], drawn)
        return " ".join(self._words[number] for number in drawn)


def vocabulary(size: int) -> list[str]:
    """Distinct words of consonants and vowels, the shortest first."""
    return [_word(number) for number in range(size)]


def _word(number: int) -> str:
    letters = ""
    number += 1
    while number:
        letters += _CONSONANTS[number % 17] + _VOWELS[number // 17 % 5]
        number //= 85
    return letters + "k"


def make_queries(texts: list[str], common: list[str]) -> list[str]:
    """Queries of 5 to 25 words: part of a text in random order, and some stopwords."""
    chance = random.Random(3)
    stopwords = sorted(STOPWORDS)
    queries = []
    for text in texts:
        words = [word for word in text.split() if word not in common]
        chance.shuffle(words)
        chosen = words[: chance.randint(3, 15)]
        queries.append(" ".join(chosen + chance.sample(stopwords, k=chance.randint(2, 10))))
    return queries
