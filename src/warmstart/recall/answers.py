"""From the best sessions to evidence: which passages of them are given, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warmstart.recall.board import Board
from warmstart.recall.deadline import Deadline
from warmstart.recall.exact import Hit
from warmstart.recall.excerpts import Marker
from warmstart.recall.passages import LATER, MANY, Passage, Passages, Spot, spots
from warmstart.recall.query import Query
from warmstart.recall.ranking import Postings, Ranked
from warmstart.recall.values import Evidence
from warmstart.sessions.appending import chunks, marks
from warmstart.sessions.rows import to_time
from warmstart.storage.database import Connection


class Found(NamedTuple):
    """What a search came to before any text is read: sessions, best first."""

    query: Query
    terms: tuple[str, ...]
    ranked: Ranked
    did: Postings
    scores: Mapping[int, float]
    board: Board
    hits: Mapping[int, list[Hit]]


class Answers:
    """The best passages of the best sessions. A session gives up to three, each later one for less."""

    def __init__(self, connection: Connection, found: Found, limit: int) -> None:
        self._connection = connection
        self._found = found
        self._limit = limit
        self._words = Marker(found.terms, [exact.text for exact in found.query.exact])
        self._passages = Passages(connection, self._words)
        self._about: dict[int, tuple[Any, ...]] = {}
        self._made: list[Evidence] = []

    @property
    def made(self) -> list[Evidence]:
        """What there is so far, best first; of equal ones the newest."""
        return sorted(
            self._made, key=lambda each: (-round(each.score, 6), -(each.date.timestamp() if each.date else 0.0))
        )

    def make(self, deadline: Deadline) -> None:
        """Read passages until there are enough."""
        scores = self._found.scores
        more = list(scores)
        deadline.check()
        places = {session: self._spots(session) for session in self._next(more, self._limit)}
        deadline.check()
        self._passages.read(each[0] for each in places.values())
        given: Counter[int] = Counter()
        shown: set[tuple[int, str]] = set()
        queue = [(scores[session], session) for session in places]
        while queue and len(self._made) < self._limit and not deadline.passed:
            queue.sort(key=lambda each: -each[0])
            score, session = queue.pop(0)
            spot = places[session].pop(0)
            if spot.session and given[session]:
                continue
            passage = self._passages.at(spot)
            if passage is not None and (session, passage.message_ids[0]) not in shown:
                shown |= {(session, message) for message in passage.message_ids}
                given[session] += 1
                self._made.append(self._evidence(session, passage, score))
            if places[session] and given[session] < MANY:
                share = places[session][0].score / spot.score if given[session] and spot.score > 0 else 1.0
                queue.append((score * (min(1.0, share) * LATER if given[session] else 1.0), session))
            elif not given[session]:
                for other in self._next(more, 1):
                    places[other] = self._spots(other)
                    queue.append((scores[other], other))

    def _next(self, waiting: list[int], most: int) -> list[int]:
        """Take the next sessions that are still there off those that wait."""
        taken: list[int] = []
        while waiting and len(taken) < most:
            some = waiting[: most - len(taken)]
            del waiting[: len(some)]
            about = self._sessions(some)
            self._about |= about
            taken += [session for session in some if session in about]
        return taken

    def _sessions(self, sessions: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        rows: dict[int, tuple[Any, ...]] = {}
        for some in chunks(list(sessions)):
            for row in self._connection.execute(
                f"SELECT pk, id, native_id, agent, project, started_at FROM sessions WHERE pk IN ({marks(some)})", some
            ):
                rows[row[0]] = row[1:]
        return rows

    def _spots(self, session: int) -> list[Spot]:
        found = self._found
        return spots(found.ranked, found.did, session, found.board.parts(session), found.hits.get(session, ()))

    def _evidence(self, session: int, passage: Passage, score: float) -> Evidence:
        session_id, native_id, agent, project, started = self._about[session]
        return Evidence(
            session_id=session_id,
            native_id=native_id,
            agent=agent,
            project=project,
            date=to_time(passage.at if passage.at is not None else started),
            role=passage.role,
            score=round(score, 6),
            text=passage.text,
            message_ids=passage.message_ids,
            matched=self._words.matched(passage.text),
            terms=self._found.terms,
            parts=self._found.board.pieces(session),
        )
