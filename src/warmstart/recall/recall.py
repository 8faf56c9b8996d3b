"""Recall: where was it said? A question in, passages of past sessions out, with who said it, when and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from typing import Any, Literal, NamedTuple

import numpy as np

from warmstart.errors import EmbedderError, StoreError
from warmstart.recall.answers import Answers, Found
from warmstart.recall.board import Board, strongest
from warmstart.recall.dates import names_a_date, spans
from warmstart.recall.deadline import Deadline
from warmstart.recall.engine import GROUPS, Group, Interrupted, Numbers, Word
from warmstart.recall.exact import Hit, Texts
from warmstart.recall.index import Index, Progress, State, engine_of
from warmstart.recall.packing import PART, SAID
from warmstart.recall.query import Exact, Query, parse, rarest
from warmstart.recall.ranking import EMPTY, TERMS, Floats, Postings, Ranked, Scope, Weights, rank
from warmstart.recall.scope import Choice, choose
from warmstart.recall.sizes import Sizes
from warmstart.recall.values import Evidence
from warmstart.recall.vectors.meaning import Meaning, Near
from warmstart.sessions.sql import SQLSessionStore

Mode = Literal["lexical", "vector", "hybrid"]

BUDGET = 2000  # lines that are looked at, of what was said and of what was done
_WIDER = 8  # times as much where a project has too little of it
_FINDING = 0.7  # of the time that is left, for words, and again for the rest; what is over is for passages
_PARSING = 0.3  # of that
_LINES = 500_000  # that are ranked in a second
_TOO_FEW = 100  # of them to begin with it
_TOGETHER = 500_000  # texts with the rarest of some words that are searched for the others in a second
_PASSED_OVER = 6_000_000  # texts with the others that are passed over in a second
_FEW = 5  # changed sessions that a search with a deadline brings up to date first
_DATED = 5000  # sessions near a date that are looked at
_OUTPUT = 4  # of the rarest words, for the output of tools
_LONGEST = 86_400_000  # milliseconds; a deadline that is further away is none
_SESSIONS = 3  # times as many sessions as passages are looked at


class _ByWords(NamedTuple):
    query: Query
    terms: tuple[str, ...]
    ranked: Ranked
    did: Postings
    parts: int  # that words found
    least: float  # the lowest score of any
    missing: Sequence[Word]  # that nobody said


class Recall:
    """Searches the sessions of a store. Lives as long as that store, and is for one thread as it is.

    `clock` tells the time and the zone that words like `yesterday` are counted from. With `meaning`, which is what
    `open_meaning` gives, it searches by words and by meaning, or in the mode `vector` by meaning alone.
    """

    def __init__(
        self,
        store: SQLSessionStore,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
        meaning: Meaning | None = None,
        mode: Mode = "hybrid",
        weights: Weights = Weights(),  # noqa: B008 - Weights is frozen
        budget: int = BUDGET,
    ) -> None:
        self._db = store.database
        self._engine = engine_of(store)
        self._index = Index(self._db, self._engine)
        self._sizes = Sizes(self._db)
        self._clock = clock
        self._meaning = None if mode == "lexical" else meaning
        self._mode = mode
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
        deadline = Deadline(None if deadline_ms is None or deadline_ms > _LONGEST else deadline_ms / 1000)
        if limit <= 0 or deadline.passed:
            return []
        with self._db.translated():
            state = self._fresh(deadline)
            finding = deadline.share(_FINDING)
            try:
                with self._engine.limited(finding.left):
                    choice = choose(
                        self._db.connection,
                        project=project,
                        agents=agents,
                        since=since,
                        exclude_session=exclude_session,
                    )
                    by_words = self._by_words(text, state, choice, limit, finding)
            except Interrupted:
                return []
            if by_words is None:
                return []
            found = self._found(by_words, choice, limit, deadline.share(_FINDING))
            answers = Answers(self._db.connection, found, limit)
            with suppress(Interrupted), self._engine.limited(deadline.left):
                answers.make(deadline)
            return answers.made

    def _fresh(self, deadline: Deadline) -> State:
        """Bring the index up to date, as far as time allows; where another process holds the store, do without."""
        state, stale = self._index.standing(1 if deadline.left is None else _FEW + 1)
        if not stale or stale > _FEW:
            return state
        with suppress(StoreError, Interrupted), self._engine.limited(deadline.share(0.5).left):
            self._index.update()
        return self._index.state()

    # -- finding sessions

    def _by_words(self, text: str, state: State, choice: Choice, limit: int, deadline: Deadline) -> _ByWords | None:
        query = parse(text, self._engine, deadline.share(_PARSING).left)
        self._sizes.refresh(state, deadline)
        if not self._sizes.parts or (choice.sessions is not None and not len(choice.sessions)):
            return None
        allowed = self._allowed(choice)
        scope = self._scope(allowed)
        near = Near()
        for budget in (self._budget, _WIDER * self._budget):
            said, words, held = self._postings("said", query, allowed, budget, deadline)
            did, others, done = EMPTY, list[Word](), set[str]()
            if self._sizes.totals[SAID:].any():
                did, others, done = self._postings("did", query, allowed, budget, deadline)
            near = near or self._near(query, words, said, scope, allowed, deadline)
            deadline.check()
            ranked = rank(said, did, scope, self._sizes.lengths, self._weights, near.parts)
            # The rarest words of all projects may be none of this one.
            if (
                allowed is None
                or len(ranked.parts) >= limit
                or min(len(words), len(others) or TERMS) >= len(query.words)
            ):
                break
        told = len(ranked.parts), float(ranked.scores.min()) if len(ranked.parts) else 1.0
        if self._meaning is not None:
            ranked = self._meaning.add(ranked, near, alone=self._mode == "vector")
        terms = tuple(dict.fromkeys(word.word for word in (*words, *others)))
        missing = [word for word in words if word.stem not in held | done]
        return _ByWords(query, terms, ranked, did, *told, missing[:_OUTPUT])

    def _found(self, by_words: _ByWords, choice: Choice, limit: int, deadline: Deadline) -> Found:
        """With what dates and exact words add, as far as time allows."""
        query, terms, ranked, did, told, _, missing = by_words
        board = Board(ranked, self._sizes.session)
        if self._mode == "vector":
            return Found(query, terms, ranked, EMPTY, board.best(limit * _SESSIONS), board, {})
        if names_a_date(query.text) and not deadline.passed:
            with suppress(Interrupted), self._engine.limited(deadline.left):
                board.add("date", self._dated(query.text, choice))
        hits: list[Hit] = []
        if query.exact or missing or told < limit:
            with suppress(Interrupted), self._engine.limited(deadline.left):
                for some in self._hits(by_words, choice, limit, deadline):
                    hits += some
            board.add("exact", strongest(hits))
        by_session: dict[int, list[Hit]] = {}
        for hit in hits:
            by_session.setdefault(hit.session, []).append(hit)
        return Found(query, terms, ranked, did, board.best(limit * _SESSIONS), board, by_session)

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

    def _postings(
        self, group: Group, query: Query, allowed: Any, budget: int, deadline: Deadline
    ) -> tuple[Postings, list[Word], set[str]]:
        """The lines in scope of the rarest words, and which of these stand anywhere.

        A small store drops no word, but for want of time.
        """
        known = self._engine.frequencies(group, [word.stem for word in query.words])
        small = self._sizes.lines <= self._weights.small
        budget = 2**40 if small else budget
        if (left := deadline.left) is not None:
            budget = min(budget, int(left * _LINES))
            if budget < _TOO_FEW:
                raise Interrupted
        words = rarest(query.words, known, budget, TERMS)
        lines = self._engine.postings(group, words, 2 * budget)
        held = {word.stem for word, some in zip(words, lines, strict=True) if len(some)}
        found = Postings.of(lines, [known.get(word.stem, 0) if allowed is None else 0 for word in words])
        alive = self._living(found.lines, allowed)
        if not alive.all():
            found = found.only(alive, counts=allowed is not None)
        return found, words, held

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

    def _near(
        self, query: Query, words: Sequence[Word], said: Postings, scope: Scope, allowed: Any, deadline: Deadline
    ) -> Near:
        """What is near the question; a word of it tells the more, the fewer lines hold it."""
        if self._meaning is None:
            return Near()
        found = dict(zip((word.stem for word in words), said.found.tolist(), strict=True))
        share = scope.lines / max(1, self._sizes.lines)

        def weigh(typed: Sequence[str]) -> Floats:
            self._engine.words(" ".join(typed))  # all at once is quicker than one by one, and they are remembered
            stems = [next((each.stem for each in self._engine.words(word)), "") for word in typed]
            known = self._engine.frequencies("said", [stem for stem in set(stems) if stem not in found])
            holding = np.array([found.get(stem, known.get(stem, 0) * share) for stem in stems])
            return np.asarray(np.log(1 + (scope.lines - holding + 0.5) / (holding + 0.5)), np.float64)

        parts = None if allowed is None else np.flatnonzero(allowed)
        try:
            near = self._meaning.near(query.text, weigh, parts, deadline.share(0.5).left)
        except (EmbedderError, StoreError):
            if self._mode == "vector":
                raise
            return Near()  # a service that does not answer, or a damaged file, leaves the words
        # Another process may have added parts, or taken some out, since the sizes were read.
        there = np.flatnonzero(self._sizes.session > 0 if allowed is None else allowed)
        return near.within(there)

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
            days = list(span.reach.days)
            limits = {"first": _seconds(days[0], zone), "last": _seconds(days[-1], zone, 1), "most": _DATED}
            rows = run(
                "SELECT s.pk, s.started_at FROM sessions s WHERE s.started_at >= :first AND s.started_at < :last "
                f"AND {choice.condition} ORDER BY s.started_at DESC LIMIT :most",
                {**choice.values, **limits},
            ).fetchall()
            began = np.fromiter((row[1] for row in rows), np.float64)
            day = np.searchsorted([_seconds(day, zone) for day in days], began, "right") - 1
            closeness = np.array([span.closeness(day) for day in days])[day].tolist()
            near = dict(zip((row[0] for row in rows), closeness, strict=True))
            close = {session: max(value, near.get(session, 0.0)) for session, value in close.items()}
            close = {**near, **close}
        if not close:
            return {}
        everything = self._sizes.parts if choice.sessions is None else len(choice.sessions)
        weight = float(self._weights.date * np.log1p(everything / max(1.0, sum(close.values()))))
        return {session: weight * value for session, value in close.items() if value > 0.01}

    def _hits(self, by_words: _ByWords, choice: Choice, limit: int, deadline: Deadline) -> Iterator[list[Hit]]:
        query = by_words.query
        lines = self._sizes.lines
        texts = Texts(self._db.connection, self._engine, choice, lines=lines, large=lines > self._weights.small)
        any_found = False
        # A word that nobody said may be one that only a tool did.
        said = (Exact(word.word, (word,)) for word in by_words.missing)
        for exact in (*query.exact, *said):
            if self._is_time_for(exact.words, deadline):
                found = texts.exact(exact)
                any_found = any_found or bool(found)
                yield found
        words = query.words[:_OUTPUT]
        if not any_found and by_words.parts < limit and words and self._is_time_for(words, deadline):
            yield texts.output(words, by_words.least / 2)

    def _is_time_for(self, words: Sequence[Word], deadline: Deadline) -> bool:
        """Whether there is time to look for texts with all of these words; SQLite cannot be stopped before the next."""
        left = deadline.left
        if left is None:
            return True
        if len(words) == 1:
            return left > 0
        stems = list({word.stem for word in words})
        said, did = (self._engine.frequencies(group, stems) for group in GROUPS)
        texts = [said.get(stem, 1) + did.get(stem, 1) for stem in stems]
        return left > min(texts) / _TOGETHER + sum(texts) / _PASSED_OVER


def _day(seconds: float, zone: Any) -> date:
    return datetime.fromtimestamp(seconds, zone).date()


def _seconds(day: date, zone: Any, more: int = 0) -> float:
    """When a day begins, or so many days later."""
    return datetime.combine(day, time_of_day.min, zone).timestamp() + more * 86_400
