"""Recall: where was it said? A query in, passages of past sessions out, with who said it, when and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from math import log
from typing import Any, Literal, NamedTuple

import numpy as np

from warmstart.errors import EmbedderError, StoreError
from warmstart.recall.corpus_stats import CorpusStats, Floats, Scope
from warmstart.recall.deadline import Deadline
from warmstart.recall.documents import GROUPS, Group
from warmstart.recall.evidence import Evidence
from warmstart.recall.index import Index, Progress, State
from warmstart.recall.passages import Found, Hit, PassageReader, choose_spots
from warmstart.recall.query import MAX_NAMES, Name, Query, Word, parse, rarest
from warmstart.recall.ranking import EMPTY, MAX_TERMS, Postings, Ranked, Weights, rank, rank_sessions
from warmstart.recall.semantic import Near, SemanticIndex
from warmstart.sessions.lookup import Selection, SessionLookup, Use
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import Interrupted
from warmstart.text.dates import find_spans, names_date
from warmstart.text.words import stem_words, tokenize

Mode = Literal["lexical", "vector", "hybrid"]

MAX_DEADLINE_MS = 86_400_000  # a later deadline is none
MAX_STALE = 5  # changed sessions that a search with a deadline indexes first
MAX_HITS = 60  # uses of a name
MAX_CANDIDATES = 2000  # newest texts among which a name is searched
MAX_DATED = 5000  # sessions near a date
_SPARE = 5  # more sessions than passages, in case one is deleted meanwhile
_WIDER = 8  # times as many postings where a project has too few of them
_SHARE = 0.7  # of the time left for words, and again for the rest; the last part is for passages
_POSTINGS_PER_SECOND = 500_000  # that are ranked
_MIN_POSTINGS = 100
_TEXTS_PER_SECOND = 1_000_000  # that are compared for several stems
_USE_WEIGHTS: dict[Use, float] = {"text": 1.5, "arguments": 1.0, "result": 0.6}


class _Lexical(NamedTuple):
    """What words found."""

    ranked: Ranked
    did: Postings
    terms: tuple[Word, ...]
    have: set[str]  # the stems that are in a document in scope
    missing: list[Word]  # that are in no document of any project


class Recall:
    """Searches the sessions of a store; as the store, for one thread.

    `clock` gives the time and zone for words like `yesterday`. With `semantic` (see `open_semantic_index`) it searches
    by words and meaning, or in the mode `vector` by meaning alone.
    """

    def __init__(
        self,
        store: SQLSessionStore,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
        semantic: SemanticIndex | None = None,
        mode: Mode = "hybrid",
        weights: Weights = Weights(),  # noqa: B008 - Weights is frozen
    ) -> None:
        self._db = store.database
        self._index = Index(store)
        self._terms = self._index.terms
        self._stats = CorpusStats(self._db)
        self._lookup = SessionLookup(self._db.connection)
        self._texts = store.index
        self._clock = clock
        self._semantic = None if mode == "lexical" else semantic
        self._mode = mode
        self._weights = weights
        self.pending = 0

    def update(self, progress: Progress | None = None) -> int:
        """Index what is new or has changed; returns how many sessions that were. Safe for many processes at once."""
        return self._index.update(progress)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Build the index again from the sessions; returns how many there are."""
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
        """Passages that answer the query, best first. No query raises an error.

        `project` is a whole path or the last part of one; without it all projects are searched. `exclude_session` (its
        id, or the agent's own) leaves out a session, its ancestors and their descendants. With a deadline the answer is
        what was found by then, which may be nothing; `pending` says how many sessions it left out because they are not
        indexed yet.
        """
        deadline = Deadline(None if deadline_ms is None or deadline_ms > MAX_DEADLINE_MS else deadline_ms / 1000)
        if limit <= 0 or deadline.passed:
            return []
        with self._db.translate_errors():
            state = self._refresh(deadline)
            evidence: list[Evidence] = []
            with suppress(Interrupted):
                finding = deadline.share(_SHARE)
                with self._terms.time_limit(finding.left):
                    selection = self._lookup.select(
                        project=project, agents=agents, since=since, exclude_session=exclude_session
                    )
                    query = parse(text)
                    found = self._search_words(query, state, selection, limit, finding)
                complete = self._search_rest(query, found, selection, limit, deadline.share(_SHARE))
                with self._terms.time_limit(deadline.left):
                    spots = choose_spots(complete, self._stats.session, limit)
                    evidence = PassageReader(self._db.connection, self._lookup, complete).read(spots, limit)
            return evidence

    def _refresh(self, deadline: Deadline) -> State:
        """Update the index as far as time allows; if another process has the store, do without."""
        state, stale = self._index.state_and_stale(2**31)
        if stale and (deadline.left is None or stale <= MAX_STALE):
            with suppress(StoreError, Interrupted), self._terms.time_limit(deadline.share(0.5).left):
                self._index.update()
            state, stale = self._index.state_and_stale(2**31)
        self.pending = stale
        return state

    # -- by words and by meaning

    def _search_words(
        self, query: Query, state: State, selection: Selection, limit: int, deadline: Deadline
    ) -> _Lexical:
        self._stats.refresh(state, deadline)
        if not self._stats.parts or (selection.sessions is not None and not selection.sessions):
            raise Interrupted
        scope = self._stats.scope(selection.sessions)
        known = self._index.frequencies([word.stem for word in query.words])
        near = self._near(query, scope, deadline)
        groups: tuple[Group, ...] = GROUPS if self._stats.has_did else ("said",)
        for budget in (self._weights.postings, _WIDER * self._weights.postings):
            budget = self._affordable(budget, deadline)
            words = {group: rarest(query.words, known[group], budget, MAX_TERMS) for group in groups}
            found, exist = self._postings(words, known, scope, 2 * budget)
            deadline.check()
            did = found.get("did", EMPTY)
            ranked = rank(found["said"], did, scope, self._stats.lengths, self._weights, near.parts)
            # The rarest words of all projects may not occur in this one.
            has_all = min(map(len, words.values())) >= min(len(query.words), MAX_TERMS)
            if scope.allowed is None or len(ranked.parts) >= limit or has_all:
                break
        have = {
            word.stem
            for group in groups
            for word, count in zip(words[group], found[group].counts.tolist(), strict=True)
            if count
        }
        if self._mode == "vector" or (query.content and not have & query.content):
            ranked = Ranked()
        if self._semantic is not None:
            # Where no word of the query occurs, only what is certainly similar counts: something is always nearest.
            sure = 1 if have & query.content or self._mode == "vector" else 2
            ranked = self._semantic.add(ranked, near, floor=sure * self._semantic.embedder.floor)
        terms = tuple(dict.fromkeys(word for some in words.values() for word in some))
        return _Lexical(ranked, did, terms, have, [word for word in words["said"] if word.stem not in exist])

    def _affordable(self, budget: int, deadline: Deadline) -> int:
        """How many postings there is time to read."""
        if (left := deadline.left) is not None:
            budget = min(budget, int(left * _POSTINGS_PER_SECOND))
            if budget < _MIN_POSTINGS:
                raise Interrupted
        return budget

    def _postings(
        self, words: Mapping[Group, Sequence[Word]], known: Mapping[Group, Mapping[str, int]], scope: Scope, limit: int
    ) -> tuple[dict[Group, Postings], set[str]]:
        """The postings of some words, and those of their stems that any document has."""
        found = self._terms.postings({group: [word.stem for word in some] for group, some in words.items()}, limit)
        exist = {
            word.stem for group, some in words.items() for word, ids in zip(some, found[group], strict=True) if len(ids)
        }
        return {
            group: Postings.join(
                found[group],
                lambda ids: self._stats.exists(ids, scope.allowed),
                [known[group].get(word.stem, 0) if scope.allowed is None else 0 for word in some],
            )
            for group, some in words.items()
        }, exist

    def _near(self, query: Query, scope: Scope, deadline: Deadline) -> Near:
        """What is near the query; the rarer a word, the more it weighs."""
        if self._semantic is None:
            return Near()

        def weigh(words: Sequence[str]) -> Floats:
            stems = [next(iter(stem_words(tokenize(word))), "") for word in words]
            known = self._index.frequencies(list(set(stems)))["said"]
            having = np.array([known.get(stem, 1) for stem in stems])
            return np.log(1 + (self._stats.documents - having + 0.5) / (having + 0.5))

        parts = None if scope.allowed is None else np.flatnonzero(scope.allowed)
        try:
            near = self._semantic.near(query.text, weigh, parts, deadline.share(0.5).left)
        except (EmbedderError, StoreError):
            if self._mode == "vector":
                raise
            return Near()  # a service that does not answer, or a damaged file, leaves the words
        # Another process may have added or removed parts since the statistics were read.
        existing = np.flatnonzero(self._stats.session > 0 if scope.allowed is None else scope.allowed)
        return near._replace(messages=near.messages[np.isin(near.messages >> 16, existing)])

    # -- by date and by name

    def _search_rest(
        self, query: Query, found: _Lexical, selection: Selection, limit: int, deadline: Deadline
    ) -> Found:
        """Add what dates and names find, as far as time allows."""
        more: dict[str, dict[int, float]] = {}
        hits: dict[int, list[Hit]] = {}
        if self._mode != "vector":
            with suppress(Interrupted), self._terms.time_limit(deadline.left):
                hits = self._hits(query, found, selection, limit, deadline)
                more["exact"] = _best_hits(hits)
                anything = found.have & query.content or hits or not query.content
                if names_date(query.text) and anything and not deadline.passed:
                    more["date"] = self._dated(query.text, selection)
        sessions = rank_sessions(found.ranked, self._stats.session, more, limit + _SPARE)
        return Found(query, tuple(word.word for word in found.terms), found.ranked, found.did, sessions, hits)

    def _dated(self, text: str, selection: Selection) -> dict[int, float]:
        """What sessions near the dates in the query are worth: the fewer there are, the more."""
        now = self._clock()
        zone = now.tzinfo or UTC
        span_of_store = self._lookup.start_range()
        if span_of_store is None:
            return {}
        years = range(*(datetime.fromtimestamp(seconds, zone).year for seconds in span_of_store))
        years = range(years.start, years.stop + 1)
        close: dict[int, float] = {}
        for span in find_spans(text, now.date(), years[-20:]):
            days = list(span.reach.days)
            first, last = _seconds(days[0], zone), _seconds(days[-1], zone) + 86_400
            rows = self._lookup.started_between(selection, first, last, MAX_DATED)
            day = np.searchsorted([_seconds(day, zone) for day in days], [row[1] for row in rows], "right") - 1
            closeness = np.array([span.closeness(day) for day in days])[day].tolist()
            for (session, _), value in zip(rows, closeness, strict=True):
                close[session] = max(value, close.get(session, 0.0))
        if not close:
            return {}
        sessions = self._stats.parts if selection.sessions is None else len(selection.sessions)
        weight = self._weights.date * log(1 + sessions / max(1.0, sum(close.values())))
        return {session: weight * value for session, value in close.items() if value > 0.01}

    def _hits(
        self, query: Query, found: _Lexical, selection: Selection, limit: int, deadline: Deadline
    ) -> dict[int, list[Hit]]:
        """Texts that have the names of the query to the letter, and words that nobody said but a tool printed."""
        hits: list[Hit] = []
        for name in (*query.names, *(Name(word.word, (word.stem,)) for word in found.missing[:MAX_NAMES])):
            if self._is_time_for(name.stems, deadline):
                hits += self._uses(name, selection)
        few = len(found.ranked.parts) < limit
        stems = [word.stem for word in query.words[:MAX_NAMES]]
        if not hits and few and stems and self._is_time_for(stems, deadline):
            least = float(found.ranked.scores.min()) if len(found.ranked.parts) else 1.0
            for every, score in ((True, least / 2), (False, least / 6)):
                texts = self._texts.find(stems, every=every, limit=MAX_CANDIDATES)
                uses = self._lookup.uses(texts, ("result",), selection, MAX_HITS)
                hits = [Hit(use, score, " ".join(word.word for word in query.words[:MAX_NAMES])) for use in uses]
                if hits:
                    break
        by_session: dict[int, list[Hit]] = {}
        for hit in hits:
            by_session.setdefault(hit.use.session, []).append(hit)
        return by_session

    def _uses(self, name: Name, selection: Selection) -> list[Hit]:
        """The newest uses of a name; the rarer, the more they are worth."""
        texts = self._texts.find(set(name.stems), every=True, limit=MAX_CANDIDATES)
        texts = self._lookup.containing(texts, name.text)
        uses = self._lookup.uses(texts, tuple(_USE_WEIGHTS), selection, MAX_HITS)
        messages = len({use.message for use in uses})
        weight = log(1 + max(self._stats.documents, len(uses)) / (1 + messages))
        return [Hit(use, weight * _USE_WEIGHTS[use.use], name.text) for use in uses]

    def _is_time_for(self, stems: Sequence[str], deadline: Deadline) -> bool:
        """Whether there is time to find texts with all of these stems; SQLite cannot stop within a step."""
        if (left := deadline.left) is None or len(stems) < 2:
            return left is None or left > 0
        known = self._index.frequencies(list(set(stems)))
        return left > sum(sum(group.values()) for group in known.values()) / _TEXTS_PER_SECOND


def _best_hits(hits: Mapping[int, Iterable[Hit]]) -> dict[int, float]:
    """By session: the sum over all names of the best use of each."""
    sums: dict[int, float] = {}
    for session, some in hits.items():
        best: dict[str, float] = {}
        for hit in some:
            best[hit.what] = max(best.get(hit.what, 0.0), hit.score)
        sums[session] = sum(best.values())
    return sums


def _seconds(day: date, zone: Any) -> float:
    """When a day begins."""
    return datetime.combine(day, time.min, zone).timestamp()
