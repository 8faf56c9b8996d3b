"""Recall: where was it said? A query in, passages of past sessions out, each with its speaker, date and source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from math import inf, isinf, log
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from warmstart.errors import EmbedderError, StoreError
from warmstart.recall.evidence import Evidence, Hit, SearchResult, choose_spots, read_passages
from warmstart.recall.index import GROUPS, Group, Index, Progress
from warmstart.recall.query import MAX_NAMES, MAX_TERMS, Name, Query, Word, parse, rarest
from warmstart.recall.ranking import CorpusStats, Floats, Postings, Ranked, Scope, Weights, rank, rank_sessions
from warmstart.sessions.lookup import Selection, Use
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import Interrupted
from warmstart.text.dates import find_spans
from warmstart.text.words import stem_word, tokenize

if TYPE_CHECKING:  # loads what only a semantic search needs
    from warmstart.recall.semantic import Near, SemanticIndex

Mode = Literal["lexical", "vector", "hybrid"]

MAX_DEADLINE_MS = 86_400_000  # a longer one counts as no deadline
MAX_STALE = 5  # changed sessions that a search with a deadline indexes first
MAX_HITS = 60  # uses of a name
MAX_CANDIDATES = 2000  # newest texts that are searched for a name
MAX_DATED = 5000  # sessions near a date
_INDEX_BY, _WORDS_BY, _NAMES_BY = 0.5, 0.7, 0.85  # shares of the time; the rest is for passages
_SPARE = 5  # more sessions than passages, in case one is deleted meanwhile
_WIDER = 8  # times as many postings if a project has too few of them
_POSTINGS_PER_SECOND = 500_000  # that can be ranked
_MIN_POSTINGS = 100
_TEXTS_PER_SECOND = 1_000_000  # that can be intersected for several stems
_USE_WEIGHTS: dict[Use, float] = {"text": 1.5, "arguments": 1.0, "result": 0.6}


class _WordResult(NamedTuple):
    """The result of the search by words."""

    ranked: Ranked
    did: Postings
    terms: tuple[Word, ...]
    have: set[str]  # the stems that are in a document in scope
    missing: list[Word]  # the words that are in no document of any project
    is_little: bool  # whether tool output may add to it


class Recall:
    """Searches the sessions of a store; like the store, for one thread.

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
        self._lookup = self._index.lookup
        self._stats = CorpusStats(self._db)
        self._texts = store.index
        self._clock = clock
        self._semantic = None if mode == "lexical" else semantic
        self._mode = mode
        self._weights = weights
        self.pending = 0

    def update(self, progress: Progress | None = None) -> int:
        """Index new and changed sessions. Returns how many there were. Safe for many processes at once."""
        return self._index.update(progress)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Rebuild the index from the sessions. Returns how many there are."""
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
        """Passages that match the query, best first. No query raises an error.

        `project` is a whole path or the end of one; without it all projects are searched. `exclude_session` (an id or a
        native id) leaves out a session, its ancestors and their descendants. With a deadline, the result is what was
        found by then, which may be nothing; `pending` is the number of sessions that were left out because they are not
        indexed yet.
        """
        began = monotonic()
        seconds = inf if deadline_ms is None or deadline_ms > MAX_DEADLINE_MS else deadline_ms / 1000
        if limit <= 0 or seconds <= 0:
            return []
        with self._db.translate_errors(), suppress(Interrupted):
            state = self._index.read_state()
            if state.stale and (isinf(seconds) or state.stale <= MAX_STALE):
                # If another process has locked the store, skip the update.
                with suppress(StoreError, Interrupted), self._terms.time_limit(began + _INDEX_BY * seconds):
                    self._index.update()
                state = self._index.read_state()
            self.pending = state.stale
            deadline = began + _WORDS_BY * seconds
            with self._terms.time_limit(deadline):
                selection = self._lookup.select(
                    project=project, agents=agents, since=since, exclude_session=exclude_session
                )
                self._stats.refresh(state, deadline)
                if not self._stats.everything.parts or (selection.sessions is not None and not selection.sessions):
                    return []
                query = parse(text)
                found = self._search_words(query, selection, limit, deadline)
            deadline = began + _NAMES_BY * seconds
            hits: dict[int, list[Hit]] = {}
            dated: dict[int, float] = {}
            if self._mode != "vector":
                with suppress(Interrupted), self._terms.time_limit(deadline):
                    if query.names or found.missing or found.is_little:
                        hits = self._search_names(query, found, selection, deadline)
                    if query.may_have_date and (hits or found.have & query.content or not query.content):
                        dated = self._search_dates(query.text, selection)
            # For each session, the sum over all names of the best use of each.
            exact = {
                session: sum({hit.what: hit.score for hit in sorted(some, key=lambda hit: hit.score)}.values())
                for session, some in hits.items()
            }
            sessions = rank_sessions(found.ranked, self._stats.session, {"exact": exact, "date": dated}, limit + _SPARE)
            with self._terms.time_limit(began + seconds):
                result = SearchResult(query, found.terms, found.ranked, found.did, sessions, hits)
                spots = choose_spots(result, self._stats.session, limit)
                return read_passages(self._db.connection, self._lookup, result, spots, limit)
        return []

    # -- by words and by meaning

    def _search_words(self, query: Query, selection: Selection, limit: int, deadline: float) -> _WordResult:
        stats, semantic = self._stats, self._semantic
        scope = stats.everything if selection.sessions is None else stats.scope(selection.sessions)
        known = self._index.frequencies([word.stem for word in query.words])
        near = None if semantic is None else self._near(semantic, query, scope, deadline)
        groups: tuple[Group, ...] = GROUPS if stats.has_did else ("said",)
        for budget in (self._weights.postings, _WIDER * self._weights.postings):
            affordable = (deadline - monotonic()) * _POSTINGS_PER_SECOND
            if affordable < _MIN_POSTINGS:
                raise Interrupted
            budget = int(min(budget, affordable))
            words = {group: rarest(query.words, known[group], budget) for group in groups}
            stems = {group: [word.stem for word in some] for group, some in words.items()}
            ids = self._terms.postings(stems, 2 * budget)
            found = {
                # Document frequencies are for all projects; within one project, count only what was read.
                group: stats.join(ids[group], [known[group].get(stem, 0) * scope.is_all for stem in some], scope)
                for group, some in stems.items()
            }
            if monotonic() > deadline:
                raise Interrupted
            did = found.get("did", Postings())
            also = () if near is None else near.parts
            ranked = rank(found["said"], did, scope, stats.lengths, self._weights, also)
            # The words that are rarest over all projects may not occur in this one.
            has_all = min(map(len, words.values())) >= min(len(query.words), MAX_TERMS)
            if scope.is_all or len(ranked.parts) >= limit or has_all:
                break
        exist = {
            stem for group, some in stems.items() for stem, each in zip(some, ids[group], strict=True) if len(each)
        }
        have = {
            stem
            for group, some in stems.items()
            for stem, count in zip(some, found[group].counts.tolist(), strict=True)
            if count
        }
        if self._mode == "vector" or (query.content and not have & query.content):
            ranked = Ranked()
        if semantic is not None and near is not None:
            # If no word of the query occurs, require a higher similarity: something is always nearest.
            sure = 1 if have & query.content or self._mode == "vector" else 2
            ranked = semantic.add(ranked, near, floor=sure * semantic.embedder.floor)
        terms = tuple(dict.fromkeys(word for some in words.values() for word in some))
        missing = [word for word in words["said"] if word.stem not in exist]
        has_all = have.issuperset(word.stem for word in query.words) and bool((ranked.scores > 0).any())
        return _WordResult(ranked, did, terms, have, missing, len(ranked.parts) < limit and not has_all)

    def _near(self, semantic: SemanticIndex, query: Query, scope: Scope, deadline: float) -> Near | None:
        """The messages near the query, with rare words weighted more; `None` if they cannot be determined."""

        def weigh(words: Sequence[str]) -> Floats:
            stems = [next(map(stem_word, tokenize(word)), "") for word in words]
            known = self._index.frequencies(list(set(stems)))["said"]
            having = np.array([known.get(stem, 1) for stem in stems])
            return np.log(1 + (self._stats.everything.said - having + 0.5) / (having + 0.5))

        # Another process may have added or removed parts since the statistics were loaded.
        existing = np.flatnonzero(scope.allowed)
        now = monotonic()
        try:
            near = semantic.near(query.text, weigh, None if scope.is_all else existing, now + (deadline - now) / 2)
        except (EmbedderError, StoreError):
            if self._mode == "vector":
                raise
            return None  # if a service does not answer, or the file is damaged, search by words only
        return near._replace(messages=near.messages[np.isin(near.messages >> 16, existing)])

    # -- by name and by date

    def _search_names(
        self, query: Query, found: _WordResult, selection: Selection, deadline: float
    ) -> dict[int, list[Hit]]:
        """For each session, texts that contain the names of the query literally, or tool output with its words."""
        hits: list[Hit] = []
        for name in (*query.names, *(Name(word.word, (word.stem,)) for word in found.missing[:MAX_NAMES])):
            if isinf(deadline) or self._is_time_for(name.stems, deadline):
                texts = self._texts.find(set(name.stems), every=True, limit=MAX_CANDIDATES)
                texts = self._lookup.containing(texts, name.text) if texts else []
                uses = self._lookup.uses(texts, tuple(_USE_WEIGHTS), selection, MAX_HITS) if texts else []
                # The rarer a name, the higher the weight of its uses.
                messages = len({use.message for use in uses})
                weight = log(1 + max(self._stats.everything.said, len(uses)) / (1 + messages))
                hits += [Hit(use, weight * _USE_WEIGHTS[use.use], name.text) for use in uses]
        words = query.words[:MAX_NAMES]
        stems = [word.stem for word in words]
        if not hits and found.is_little and stems and (isinf(deadline) or self._is_time_for(stems, deadline)):
            positive = found.ranked.scores[found.ranked.scores > 0]  # vectors can push a score below zero
            least = float(positive.min()) if len(positive) else 1.0
            for every, score in ((True, least / 2), (False, least / 6)):
                texts = self._texts.find(stems, every=every, limit=MAX_CANDIDATES)
                uses = self._lookup.uses(texts, ("result",), selection, MAX_HITS) if texts else []
                hits = [Hit(use, score, " ".join(word.word for word in words)) for use in uses]
                if hits:
                    break
        by_session: dict[int, list[Hit]] = {}
        for hit in hits:
            by_session.setdefault(hit.use.session, []).append(hit)
        return by_session

    def _is_time_for(self, stems: Sequence[str], deadline: float) -> bool:
        """Whether there is time to find texts with all of these stems; FTS5 cannot be interrupted while it does."""
        texts = 0
        if len(stems) > 1:
            known = self._index.frequencies(list(set(stems)))
            texts = sum(sum(group.values()) for group in known.values())
        return deadline - monotonic() > texts / _TEXTS_PER_SECOND

    def _search_dates(self, text: str, selection: Selection) -> dict[int, float]:
        """The scores of sessions near the dates in the query: the fewer there are, the higher."""
        now = self._clock()
        zone = now.tzinfo or UTC
        span_of_store = self._lookup.start_range()
        if span_of_store is None:
            return {}
        first_year, last_year = (datetime.fromtimestamp(seconds, zone).year for seconds in span_of_store)

        def begin(day: date) -> float:
            return datetime.combine(day, time.min, zone).timestamp()

        close: dict[int, float] = {}
        for span in find_spans(text, now.date(), range(first_year, last_year + 1)[-20:]):
            days = list(span.reach.days)
            rows = self._lookup.started_between(selection, begin(days[0]), begin(days[-1]) + 86_400, MAX_DATED)
            day = np.searchsorted([begin(day) for day in days], [row[1] for row in rows], "right") - 1
            closeness = np.array([span.closeness(day) for day in days])[day].tolist()
            for (session, _), value in zip(rows, closeness, strict=True):
                close[session] = max(value, close.get(session, 0.0))
        if not close:
            return {}
        sessions = self._stats.everything.parts if selection.sessions is None else len(selection.sessions)
        weight = self._weights.date * log(1 + sessions / max(1.0, sum(close.values())))
        return {session: weight * value for session, value in close.items() if value > 0.01}
