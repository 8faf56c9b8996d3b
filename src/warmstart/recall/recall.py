"""Recall: where was it said? A query in, passages of past sessions out, each with its speaker, date and source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, time
from math import inf, isinf, log
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import warmstart.recall.ranking as ranking
from warmstart.errors import StoreError
from warmstart.profile.calls import SHELLS
from warmstart.recall.evidence import Evidence, Passage, Renderer, Statement, order_updates
from warmstart.recall.index import Index, Progress
from warmstart.recall.query import Query, parse
from warmstart.recall.ranking import Turn, in_order, rarity
from warmstart.recall.search import Found, Scope, find_turns, read_turns, turn_at
from warmstart.sessions.indexed_store import IndexedStore
from warmstart.sessions.lookup import PassageText, Selection, SessionLookup
from warmstart.storage.deadline import Interrupted, time_limit
from warmstart.text.dates import find_spans
from warmstart.text.names import MAX_NAMES, Name
from warmstart.text.words import stem_word, tokenize

if TYPE_CHECKING:  # loads what only a semantic search needs
    from warmstart.recall.semantic import SemanticIndex

MAX_DEADLINE_MS = 86_400_000  # a longer one counts as no deadline
MAX_STALE = 5  # changed sessions that a search with a deadline indexes first
MAX_HITS = 60  # uses of a name in tool output
MAX_CANDIDATES = 500  # newest texts that are searched for a name
MAX_NAMED = 10  # turns that are searched for a name
MAX_DATED = 5000  # sessions near a date
MAX_DATED_ONLY = 30  # of them, that have no word of the query
MAX_YEARS = 20  # that "in March" may mean
MIN_CLOSENESS = 0.01  # to a date
OUTPUT = 0.6  # weight of a name in tool output
_INDEX_BY, _RANK_BY = 0.5, 0.8  # shares of the time; the rest is for passages
_SPARE = 5  # more turns than passages, if one of them may have what is asked for
_MAX_READ = 4  # times as many turns as passages: some only repeat the question, and some are deleted meanwhile
_SAME = 120  # characters at the beginning of a passage that repeats another
_DAY = 86_400  # seconds


class _Search(NamedTuple):
    """A search while it runs."""

    query: Query
    selection: Selection
    scope: Scope
    found: Found
    texts: dict[int, Sequence[PassageText]]  # by turn, those that were read
    outputs: dict[int, PassageText]  # by turn, the tool output that was found


class Recall:
    """Searches the sessions of a store; like the store, for one thread.

    `clock` gives the time and zone for words like `yesterday`. With `semantic` (see `open_semantic_index`) it searches
    by words and meaning.
    """

    def __init__(
        self,
        store: IndexedStore,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
        semantic: SemanticIndex | None = None,
    ) -> None:
        self._db = store.database
        self._index = Index(store)
        self._lookup = SessionLookup(self._db.connection)
        self._texts = store.index
        self._clock = clock
        self.semantic = semantic
        self.pending = 0

    def update(self, progress: Progress | None = None) -> int:
        """Index new and changed sessions. Returns how many there were. Safe for many processes at once."""
        return self._index.update(progress)

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
        ranked_by = began + _RANK_BY * seconds
        with self._db.translate_errors(), suppress(Interrupted):
            self._update(began + _INDEX_BY * seconds)
            query = parse(text)
            with self._limit(ranked_by):
                selection = self._lookup.select(
                    project=project, agents=agents, since=since, exclude_session=exclude_session
                )
                scope = Scope()
                if selection.sessions is not None:
                    projects = None if project is None else self._lookup.projects(selection)
                    scope = Scope(projects=projects, sessions=frozenset(selection.sessions))
                found = find_turns(self._db.connection, self._db.DIALECT, [*query.words], scope)
                if query.content and query.content.isdisjoint(found.known):
                    found.turns.clear()  # they have only words that say when
            search = _Search(query, selection, scope, found, {}, {})
            with suppress(Interrupted), self._limit(ranked_by):
                if self.semantic:
                    self.semantic.add(found, text, scope, ranked_by)
                self._add_names(search)
                self._add_output(search)
                self._add_dates(search)
            with self._limit(began + seconds):
                return self._evidence(search, limit)
        return []

    def _limit(self, deadline: float) -> time_limit:
        return time_limit(self._db.connection, self._db.DIALECT, deadline)

    def _update(self, deadline: float) -> None:
        """Index what has changed; with a deadline, only if it is little."""
        self.pending = self._index.pending()
        if self.pending and (isinf(deadline) or self.pending <= MAX_STALE):
            # If another process has locked the store, skip the update.
            with suppress(StoreError, Interrupted), self._limit(deadline):
                self._index.update()
            self.pending = self._index.pending()

    # -- what adds to the score of a turn

    def _add_names(self, search: _Search) -> None:
        """Raise the turns that contain a name of the query as it was typed."""
        places = {term: place for place, term in enumerate(search.found.terms)}
        for name in search.query.names:
            stems = {places[stem] for stem in name.stems if stem in places}
            if len(name.stems) < 2 or not stems:
                continue  # a single word is as exact as it can be
            candidates = [turn for turn in search.found.turns if stems <= turn.counts.keys()]
            having = [turn for turn in candidates[:MAX_NAMED] if self._has_name(search, turn, name)]
            for turn in having:
                turn.add("names", ranking.NAMES * rarity(len(having), search.found.documents))

    def _has_name(self, search: _Search, turn: Turn, name: Name) -> bool:
        return any(name.text in text.body.lower() for text in self._read(search, turn))

    def _read(self, search: _Search, turn: Turn) -> Sequence[PassageText]:
        """The texts of a turn. Calls other than commands are read only if nothing else matches."""
        if turn.id not in search.texts:
            search.texts[turn.id] = self._texts_of(turn, SHELLS) or self._texts_of(turn)
        return search.texts[turn.id]

    def _texts_of(self, turn: Turn, tools: Iterable[str] = ()) -> Sequence[PassageText]:
        return self._lookup.passage(turn.session, turn.first_seq, turn.last_seq, tools)

    def _add_output(self, search: _Search) -> None:
        """Add turns whose tool output has the names and the words of the query that no turn has."""
        query, found = search.query, search.found
        missing = [name.text for name in query.names if not found.known.keys() >= set(name.stems)]
        missing += [word for stem, word in query.words.items() if stem not in found.known]
        for name in missing[:MAX_NAMES]:
            texts = self._texts.find(set(map(stem_word, tokenize(name))), every=True, limit=MAX_CANDIDATES)
            texts = self._lookup.containing(texts, name) if texts else []
            weight = OUTPUT * rarity(len(texts), found.documents)
            new: dict[int, PassageText] = {}
            for output in self._lookup.outputs(texts, search.selection, MAX_HITS):
                new.setdefault(turn_at(self._db.connection, output.session, output.seq), output.text)
            added = new.keys() - {turn.id for turn in found.turns}
            found.turns += read_turns(self._db.connection, found.terms, sorted(added), search.scope)
            for turn in found.turns:
                if turn.id in new:
                    turn.add("output", weight)
            search.outputs.update(new)

    def _add_dates(self, search: _Search) -> None:
        """Raise the turns of sessions near the dates in the query, and add those sessions if it is only a date."""
        query, found = search.query, search.found
        if not query.may_have_date or (query.content and not found.turns):
            return
        close = self._search_dates(query.text, search.selection)
        for turn in found.turns:
            if turn.session in close:
                turn.add("date", close[turn.session])
        only_dated = close.keys() - {turn.session for turn in found.turns}
        nearest = sorted(only_dated, key=lambda session: (-close[session], -session))[:MAX_DATED_ONLY]
        sessions = ", ".join(map(str, nearest)) or "NULL"
        rows = self._db.connection.execute(f"SELECT id FROM recall_turns WHERE number = 0 AND session IN ({sessions})")
        for turn in read_turns(self._db.connection, (), [row[0] for row in rows.fetchall()], search.scope):
            turn.add("date", close[turn.session])
            found.turns.append(turn)

    def _search_dates(self, text: str, selection: Selection) -> dict[int, float]:
        """The scores of sessions near the dates in the query: the fewer there are, the higher."""
        now = self._clock()
        starts = self._lookup.start_range()
        if starts is None:
            return {}
        first, last = (datetime.fromtimestamp(seconds, now.tzinfo).year for seconds in starts)
        close: dict[int, float] = {}
        for span in find_spans(text, now.date(), range(first, last + 1)[-MAX_YEARS:]):
            days = list(span.reach.days)
            begin, end = (datetime.combine(day, time.min, now.tzinfo).timestamp() for day in (days[0], days[-1]))
            for session, started in self._lookup.started_between(selection, begin, end + _DAY, MAX_DATED):
                value = span.closeness(datetime.fromtimestamp(started, now.tzinfo).date())
                close[session] = max(value, close.get(session, 0.0))
        sessions = self._lookup.count_sessions() if selection.sessions is None else len(selection.sessions)
        weight = ranking.DATES * log(1 + sessions / max(1.0, sum(close.values())))
        return {session: weight * value for session, value in close.items() if value > MIN_CLOSENESS}

    # -- passages

    def _evidence(self, search: _Search, limit: int) -> list[Evidence]:
        found = search.found
        rarities = {stem: rarity(found.known.get(stem, 0), found.documents) for stem in search.query.words}
        renderer = Renderer(search.query, rarities)
        statements: dict[tuple[int, str], Statement] = {}  # by what was said: people repeat themselves
        for passage in self._passages(search, renderer, limit):
            if len(statements) < limit:
                statement = renderer.render(passage)
                if not statement.evidence.matched and passage.output is None:  # then it is a call that matches
                    statement = renderer.render(passage._replace(texts=self._texts_of(passage.turn)))
                statements.setdefault((passage.turn.session, statement.evidence.text[:_SAME]), statement)
        if search.query.asks_for_order:
            return [statement.evidence for statement in sorted(statements.values(), key=attrgetter("time"))]
        by_score = sorted(statements.values(), key=lambda statement: (-statement.evidence.score, -statement.time))
        return order_updates(by_score, renderer.weigher)

    def _passages(self, search: _Search, renderer: Renderer, limit: int) -> list[Passage]:
        """The best turns with their texts: `limit` that do not repeat the question, and more if one may answer it."""
        turns = in_order(search.found.turns)[: _MAX_READ * limit]
        sources = self._lookup.sources({turn.session for turn in turns})
        best = turns[0].score if turns else 0.0
        wanted = limit + _SPARE if renderer.weigher.pattern else limit
        passages: list[Passage] = []
        for turn in turns:
            if not wanted:
                break
            texts = self._read(search, turn)
            if turn.session in sources and (texts or turn.id in search.outputs):
                passage = Passage(turn, sources[turn.session], texts, search.outputs.get(turn.id))
                passages.append(passage)
                if renderer.answers(passage):
                    turn.add("answer", ranking.ANSWER * best)
                if renderer.repeats_question(passage):
                    turn.add("answer", -turn.score / 2)
                else:
                    wanted -= 1
        return sorted(passages, key=lambda passage: -passage.turn.score)
