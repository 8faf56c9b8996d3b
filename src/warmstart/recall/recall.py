"""Recall: where was it said? A question in, passages of past sessions out, with who said it, when and where."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from typing import Any, NamedTuple, Protocol

import numpy as np

from warmstart.errors import StoreError
from warmstart.recall.dates import names_a_date, spans
from warmstart.recall.engine import Group, Interrupted, Numbers, Word
from warmstart.recall.exact import Hit, Texts
from warmstart.recall.excerpts import Marker
from warmstart.recall.index import Index, Progress, engine_of
from warmstart.recall.packing import PART, SAID
from warmstart.recall.passages import LATER, MANY, Passage, Passages, Spot, spots
from warmstart.recall.query import Query, parse, rarest
from warmstart.recall.ranking import EMPTY, TERMS, Floats, Postings, Ranked, Scope, Weights, rank
from warmstart.recall.scope import Choice, choose
from warmstart.recall.sizes import Sizes
from warmstart.recall.values import Evidence
from warmstart.sessions.appending import chunks, marks
from warmstart.sessions.rows import to_time
from warmstart.sessions.sql import SQLSessionStore

BUDGET = 2000  # lines that are looked at, of what was said and of what was done
_WIDER = 8  # times as much where a project has too little of it
_FEW = 5  # changed sessions that a search with a deadline brings up to date first
_DATED = 5000  # sessions near a date that are looked at
_OUTPUT = 4  # of the rarest words, for the output of tools
_SESSIONS = 3  # times as many sessions as passages are looked at


class Reranker(Protocol):
    """Adds what words cannot tell. `parts` and `places` name the windows of the best sessions, one score for each."""

    def scores(self, question: str, parts: Numbers, places: Numbers) -> Floats: ...


class _Deadline:
    def __init__(self, milliseconds: float | None) -> None:
        self._end = None if milliseconds is None else time.monotonic() + milliseconds / 1000

    def left(self, share: float = 1.0) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic()) * share

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


class _Found(NamedTuple):
    """What a search came to before any text is read: sessions, best first."""

    query: Query
    terms: tuple[str, ...]
    ranked: Ranked
    did: Postings
    scores: Mapping[int, float]
    board: _Board
    hits: Mapping[int, list[Hit]]


class Recall:
    """Searches the sessions of a store. Lives as long as that store, and is for one thread as it is.

    `clock` tells the time and the zone that words like `yesterday` are counted from.
    """

    def __init__(
        self,
        store: SQLSessionStore,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
        reranker: Reranker | None = None,
        weights: Weights = Weights(),  # noqa: B008 - Weights is frozen
        budget: int = BUDGET,
    ) -> None:
        self._db = store.database
        self._engine = engine_of(store)
        self._index = Index(self._db, self._engine)
        self._sizes = Sizes(self._db)
        self._clock = clock
        self._reranker = reranker
        self._weights = weights
        self._budget = budget

    def update(self, progress: Progress | None = None) -> int:
        """Index what is new or has changed; returns how many sessions that were. Safe for many processes at once."""
        return self._index.update(progress)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Make the index anew from the sessions; returns how many there are."""
        return self._index.rebuild(progress)

    def search(
        self,
        text: str,
        *,
        project: str | None = None,
        limit: int = 5,
        since: datetime | None = None,
        agents: Sequence[str] = (),
        exclude_session: str | None = None,
        deadline_ms: float | None = None,
    ) -> list[Evidence]:
        """Passages that answer the question, best first; whatever was typed, this never raises for it.

        `project` is a whole path or the last part of one; without it all projects are searched. The family of
        `exclude_session` (its id, or the agent's own) is left out: what it came from and what came from it. With a
        deadline the answer is what was found by then, which may be nothing.
        """
        deadline = _Deadline(deadline_ms)
        if limit <= 0 or deadline.passed:
            return []
        self._freshen(deadline)
        with self._db.translated():
            try:
                with self._engine.limited(deadline.left(0.7)):
                    choice = choose(
                        self._db.connection,
                        project=project,
                        agents=agents,
                        since=since,
                        exclude_session=exclude_session,
                    )
                    found = self._find(text, choice, limit, deadline)
            except Interrupted:
                return []
            return self._evidence(found, limit, deadline) if found else []

    def _freshen(self, deadline: _Deadline) -> None:
        """Bring the index up to date, as far as time allows; where another process holds the store, do without."""
        with self._db.translated():
            most = 1 if deadline.left() is None else _FEW + 1
            stale = self._index.stale(most)
        if not stale or stale > _FEW:
            return
        with suppress(StoreError, Interrupted), self._engine.limited(deadline.left(0.5)):
            self._index.update()

    # -- finding sessions

    def _find(self, text: str, choice: Choice, limit: int, deadline: _Deadline) -> _Found | None:
        query = parse(text, self._engine)
        self._sizes.refresh(self._index.state())
        if not self._sizes.parts or (choice.sessions is not None and not len(choice.sessions)):
            return None
        allowed = self._allowed(choice)
        scope = self._scope(allowed)
        for budget in (self._budget, _WIDER * self._budget):
            said, words = self._postings("said", query, allowed, budget)
            did, others = (EMPTY, list[Word]())
            if self._sizes.totals[SAID:].any():
                did, others = self._postings("did", query, allowed, budget)
            ranked = rank(said, did, scope, self._lengths, self._weights)
            # The rarest words of all projects may be none of this one.
            if (
                allowed is None
                or len(ranked.parts) >= limit
                or min(len(words), len(others) or TERMS) >= len(query.words)
            ):
                break
        if self._reranker is not None and len(ranked.window_part):
            self._rerank(ranked, query.text)
        board = _Board(ranked, self._sizes.session)
        if names_a_date(query.text):
            board.add("date", self._dated(query.text, choice))
        hits: list[Hit] = []
        with suppress(Interrupted):
            hits = self._hits(query, choice, board, limit, deadline)
        board.add("exact", _strongest(hits))
        by_session: dict[int, list[Hit]] = {}
        for hit in hits:
            by_session.setdefault(hit.session, []).append(hit)
        terms = tuple(dict.fromkeys(word.word for word in (*words, *others)))
        best = board.best(limit * _SESSIONS)
        return _Found(query, terms, ranked, did, best, board, by_session)

    def _allowed(self, choice: Choice) -> Any:
        """By the number of a part: whether it is searched; nothing where all are."""
        if choice.sessions is None:
            return None
        room = max(int(self._sizes.session.max()), int(choice.sessions.max())) + 1
        chosen = np.zeros(room, bool)
        chosen[choice.sessions] = True
        return chosen[self._sizes.session] & (self._sizes.session > 0)

    def _scope(self, allowed: Any) -> Scope:
        sizes = self._sizes
        if allowed is None:
            return Scope(sizes.parts, sizes.lines, sizes.totals, sizes.words)
        return Scope(int(allowed.sum()), int(sizes.said[allowed].sum()), sizes.words[allowed].sum(axis=0), sizes.words)

    def _postings(self, group: Group, query: Query, allowed: Any, budget: int) -> tuple[Postings, list[Word]]:
        """The lines in scope of the rarest words; a small store drops none."""
        known = self._engine.frequencies(group, [word.stem for word in query.words])
        small = self._sizes.lines <= self._weights.small
        budget = 2**40 if small else budget
        words = rarest(query.words, known, budget, TERMS)
        lines = self._engine.postings(group, words, 2**40 if small else 2 * budget)
        found = Postings.of(lines, [known.get(word.stem, 0) if allowed is None else 0 for word in words])
        alive = self._living(found.lines, allowed)
        if not alive.all():
            found = found.only(alive, counts=allowed is not None)
        return found, words

    def _living(self, lines: Numbers, allowed: Any) -> Any:
        """Which of these lines are in scope, and not dead."""
        sizes = self._sizes
        part = np.minimum(lines >> PART, len(sizes.session) - 1)
        alive = sizes.session[part] > 0 if allowed is None else allowed[part]
        alive &= part == lines >> PART  # otherwise another process has just added it
        if len(sizes.dead):
            at = np.minimum(np.searchsorted(sizes.dead, lines), len(sizes.dead) - 1)
            alive &= sizes.dead[at] != lines
        return alive

    def _lengths(self, parts: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for some in chunks(list(parts)):
            found.update(
                self._db.connection.execute(
                    f"SELECT number, lengths FROM recall_parts WHERE number IN ({marks(some)})", some
                )
            )
        return found

    def _rerank(self, ranked: Ranked, question: str) -> None:
        assert self._reranker is not None  # noqa: S101 - for the type
        scores = self._reranker.scores(question, ranked.window_part, ranked.window_place)
        ranked.window_score = ranked.window_score + scores
        parts, index = np.unique(ranked.window_part, return_inverse=True)
        top = np.full(len(parts), -np.inf)
        np.maximum.at(top, index, scores)
        ranked.add("vectors", parts, top)

    # -- dates and exact words

    def _dated(self, text: str, choice: Choice) -> dict[int, float]:
        """What sessions near the dates in the question are worth for it: the fewer there are, the more."""
        now = self._clock()
        run = self._db.connection.execute
        first, last = run("SELECT min(started_at), max(started_at) FROM sessions").fetchone()
        if first is None:
            return {}
        zone = now.tzinfo or UTC
        years = range(_day(first, zone).year, _day(last, zone).year + 1)
        named = spans(text, now.date(), years[-20:])
        close: dict[int, float] = {}
        for span in named:
            reach = span.reach
            limits = {"first": _seconds(reach.first, zone), "last": _seconds(reach.last, zone, 1), "most": _DATED}
            rows = run(
                "SELECT s.pk, s.started_at FROM sessions s WHERE s.started_at >= :first AND s.started_at < :last "
                f"AND {choice.condition} ORDER BY s.started_at DESC LIMIT :most",
                {**choice.values, **limits},
            )
            for session, started in rows:
                close[session] = max(close.get(session, 0.0), span.closeness(_day(started, zone)))
        if not close:
            return {}
        everything = self._sizes.parts if choice.sessions is None else len(choice.sessions)
        weight = self._weights.date * np.log1p(everything / max(1.0, sum(close.values())))
        return {session: float(weight * value) for session, value in close.items() if value > 0.01}

    def _hits(self, query: Query, choice: Choice, board: _Board, limit: int, deadline: _Deadline) -> list[Hit]:
        lines = self._sizes.lines
        texts = Texts(self._db.connection, self._engine, choice, lines=lines, large=lines > self._weights.small)
        hits: list[Hit] = []
        for exact in query.exact:
            if deadline.passed:
                return hits
            hits += texts.exact(exact)
        if not hits and len(board) < limit and query.words and not deadline.passed:
            words = query.words[:_OUTPUT]
            hits += texts.output(words, board.least / 2)
        return hits

    # -- passages

    def _evidence(self, found: _Found, limit: int, deadline: _Deadline) -> list[Evidence]:
        """The best passages of the best sessions. A session gives up to three, each later one for less."""
        words = Marker(found.terms, [exact.text for exact in found.query.exact])
        passages = Passages(self._db.connection, words)
        made: list[Evidence] = []
        with suppress(Interrupted), self._engine.limited(deadline.left()):
            about = self._sessions(list(found.scores))
            waiting = [session for session in found.scores if session in about]
            places = {session: self._spots(found, session) for session in waiting[:limit]}
            passages.prepare(some[0] for some in places.values())
            given: Counter[int] = Counter()
            shown: set[tuple[int, str]] = set()
            queue = [(found.scores[session], session) for session in places]
            more = waiting[limit:]
            while queue and len(made) < limit and not deadline.passed:
                queue.sort(key=lambda each: -each[0])
                score, session = queue.pop(0)
                spot = places[session].pop(0)
                if spot.session and given[session]:
                    continue
                passage = passages.at(spot)
                if passage is not None and (session, passage.message_ids[0]) not in shown:
                    shown |= {(session, message) for message in passage.message_ids}
                    given[session] += 1
                    made.append(_evidence(about[session], passage, found, session, score, words))
                if places[session] and given[session] < MANY:
                    share = places[session][0].score / spot.score if given[session] and spot.score > 0 else 1.0
                    queue.append((score * (min(1.0, share) * LATER if given[session] else 1.0), session))
                elif not given[session] and more:
                    places[more[0]] = self._spots(found, more[0])
                    queue.append((found.scores[more[0]], more.pop(0)))
        made.sort(key=lambda each: (-round(each.score, 6), -(each.date.timestamp() if each.date else 0.0)))
        return made

    def _spots(self, found: _Found, session: int) -> list[Spot]:
        return spots(found.ranked, found.did, session, found.board.parts(session), found.hits.get(session, ()))

    def _sessions(self, sessions: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        rows: dict[int, tuple[Any, ...]] = {}
        for some in chunks(list(sessions)):
            for row in self._db.connection.execute(
                f"SELECT pk, id, native_id, agent, project, started_at FROM sessions WHERE pk IN ({marks(some)})", some
            ):
                rows[row[0]] = tuple(row[1:])
        return rows


class _Board:
    """Scores by session: of a long one that of its best part."""

    def __init__(self, ranked: Ranked, session_of: Numbers) -> None:
        self._ranked = ranked
        self._more: dict[str, Mapping[int, float]] = {}
        order = np.lexsort((ranked.scores, session_of[ranked.parts]))
        sessions = session_of[ranked.parts[order]]
        last = np.append(sessions[1:] != sessions[:-1], True) if len(sessions) else np.zeros(0, bool)
        self._sessions = sessions[last]
        self._place = order[last]  # of the best part
        self._session_of = session_of

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def least(self) -> float:
        """The lowest score of any session."""
        return float(self._ranked.scores.min()) if len(self) else 1.0

    def add(self, name: str, scores: Mapping[int, float]) -> None:
        if scores:
            self._more[name] = scores

    def best(self, most: int) -> dict[int, float]:
        """The best sessions with their scores, best first; of equal ones the last that came."""
        top = self._ranked.scores[self._place]
        some = np.argsort(-top, kind="stable")[: most + len(self._more) * _DATED] if self._more else _top(top, most)
        scores = dict(zip(self._sessions[some].tolist(), top[some].tolist(), strict=True))
        for more in self._more.values():
            for session, score in more.items():
                scores[session] = scores.get(session, 0.0) + score
        best = sorted(scores.items(), key=lambda each: (-round(each[1], 9), -each[0]))[:most]
        return dict(best)

    def pieces(self, session: int) -> dict[str, float]:
        found: dict[str, float] = {}
        at = int(np.searchsorted(self._sessions, session))
        if at < len(self._sessions) and self._sessions[at] == session:
            found = {name: float(values[self._place[at]]) for name, values in self._ranked.pieces.items()}
        found |= {name: scores[session] for name, scores in self._more.items() if session in scores}
        return {name: round(value, 3) for name, value in found.items() if value}

    def parts(self, session: int) -> list[int]:
        parts: list[int] = self._ranked.parts[self._session_of[self._ranked.parts] == session].tolist()
        return parts


def _top(scores: Floats, most: int) -> Any:
    return np.argpartition(-scores, most)[:most] if len(scores) > most else np.arange(len(scores))


def _strongest(hits: Iterable[Hit]) -> dict[int, float]:
    """By session: the best use of everything that was typed exactly."""
    best: dict[tuple[int, str], float] = {}
    for hit in hits:
        key = (hit.session, hit.what)
        best[key] = max(best.get(key, 0.0), hit.score)
    sums: dict[int, float] = {}
    for (session, _), score in best.items():
        sums[session] = sums.get(session, 0.0) + score
    return sums


def _evidence(
    about: tuple[Any, ...], passage: Passage, found: _Found, session: int, score: float, words: Marker
) -> Evidence:
    session_id, native_id, agent, project, started = about
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
        matched=tuple(dict.fromkeys(each.word for each in words.find(passage.text))),
        terms=found.terms,
        parts=found.board.pieces(session),
    )


def _day(seconds: float, zone: Any) -> date:
    return datetime.fromtimestamp(seconds, zone).date()


def _seconds(day: date, zone: Any, more: int = 0) -> float:
    """When a day begins, or so many days later."""
    return datetime.combine(day, time_of_day.min, zone).timestamp() + more * 86_400
