"""Find turns by their terms, in either database. Hooks load this module too, so it imports next to nothing.

The databases find the turns that have a term. The best few hundred, by the rarity of the terms they have, are read with
their counts and ranked by `warmstart.recall.ranking`, so both databases return the same turns in the same order. Terms
are taken by rarity until their postings exceed a budget: this bounds the time of a search, however large the store is.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes as long as the search

from warmstart.recall.ranking import FIELDS, Turn, rank, rarity

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from warmstart.storage.database import Connection

MAX_TERMS = 30  # looked up
MAX_POSTINGS = 2000
MAX_TURNS = 160  # ranked
MAX_CANDIDATES = 600  # read, if most of them are outside the scope
MAX_PER_TERM = 24_000  # postings
_SCAN = 1 / 4  # of the time for a hit, to skip a posting of another project
_FIELDS = len(FIELDS)
_PROJECT_SIGN = "¶"  # begins a term that is the project of a turn; no word has it

_STATE = f"SELECT turns, sessions, {', '.join(FIELDS)} FROM recall_state"
# A string of ids is several times as fast as a row per id.
_SQLITE_POSTINGS = (
    "SELECT group_concat(rowid) FROM "
    "(SELECT rowid FROM recall_index WHERE recall_index MATCH ? ORDER BY rowid DESC LIMIT ?)"
)
_POSTGRES_POSTINGS = "SELECT warmstart_recall_postings(?, ?, ?)"
_TURNS = (
    f"SELECT t.id, t.session, t.number, t.first_seq, t.last_seq, {', '.join(f't.{field}' for field in FIELDS)}, "
    f"{', '.join(f'r.{field}' for field in FIELDS)}, t.terms, t.counts "
    "FROM recall_turns t JOIN recall_sessions r ON r.session = t.session "
    "WHERE t.id IN ({0})"
)
_TURN_AT = "SELECT id FROM recall_turns WHERE session = ? AND first_seq <= ? ORDER BY number DESC LIMIT 1"


class Scope:
    """Which turns to search: of these projects, and of these sessions. `None` means all."""

    def __init__(
        self,
        *,
        projects: Collection[str] | None = None,
        sessions: Collection[int] | None = None,
        without: Collection[int] = (),
    ) -> None:
        self.projects = projects
        self.sessions = sessions
        self.without = without

    def allows(self, session: int) -> bool:
        return session not in self.without and (self.sessions is None or session in self.sessions)


class Found:
    """The turns that were found, best first, and how many turns of the store have each stem that was asked for."""

    def __init__(self, known: dict[str, int], documents: int) -> None:
        self.known = known
        self.documents = documents
        self.terms: list[str] = []  # those that were looked up, in the order of `Turn.counts`
        self.turns: list[Turn] = []


def project_term(project: str) -> str:
    """The term that a turn has for its project."""
    return _PROJECT_SIGN + blake2b(project.encode("utf-8", "replace"), digest_size=6).hexdigest()


def find_turns(connection: Connection, dialect: str, stems: Sequence[str], scope: Scope, limit: int = 0) -> Found:
    """The turns in scope that have any of the stems, best first. `limit` is about how many are ranked."""
    turns, sessions, *words = connection.execute(_STATE).fetchone() or (0, 0, 0, 0, 0, 0)
    projects = [] if scope.projects is None else [project_term(project) for project in scope.projects]
    known = _frequencies(connection, [*dict.fromkeys(stems), *projects])
    inside = turns if scope.projects is None else sum(known.pop(term, 0) for term in projects)
    found = Found(known, turns)
    if not known or not inside:
        return found
    found.terms = _rarest(known, max(inside / turns, _SCAN))
    postings = _postings(connection, dialect, found.terms, projects)
    found.turns = _read(connection, found, postings, scope, limit or MAX_TURNS)
    rarities = [rarity(known[term], turns) for term in found.terms]
    count = sessions if scope.sessions is None else len(scope.sessions)
    means = [max(1.0, total / turns) for total in words]
    session_means = [max(1.0, total / sessions) for total in words]
    found.turns = rank(found.turns, rarities, means, session_means, count)
    return found


def _frequencies(connection: Connection, stems: Sequence[str]) -> dict[str, int]:
    """How many turns have each stem; one that no turn has is missing."""
    marks = ", ".join("?" * len(stems)) or "NULL"
    rows = connection.execute(f"SELECT term, turns FROM recall_terms WHERE term IN ({marks})", stems)
    return dict(rows.fetchall())


def _rarest(known: dict[str, int], share: float) -> list[str]:
    """The rarest terms whose postings stay within the budget; at least one."""
    chosen: list[str] = []
    used = 0.0
    for term in sorted(known, key=lambda term: (known[term], term))[:MAX_TERMS]:
        used += known[term] * share
        if chosen and used > MAX_POSTINGS:
            break
        chosen.append(term)
    return chosen


def _postings(connection: Connection, dialect: str, terms: Sequence[str], projects: Sequence[str]) -> list[list[int]]:
    """For each term, the newest turns of these projects that have it."""
    if dialect == "postgres":
        rows = connection.execute(_POSTGRES_POSTINGS, (list(terms), list(projects), MAX_PER_TERM))
    else:
        values: list[object] = []
        for term in terms:
            values += (f"({' OR '.join(projects)}) AND {term}" if projects else term, MAX_PER_TERM)
        rows = connection.execute(" UNION ALL ".join([_SQLITE_POSTINGS] * len(terms)), values)
    return [list(map(int, ids.split(","))) if ids else [] for (ids,) in rows.fetchall()]


def _candidates(found: Found, postings: Sequence[Collection[int]]) -> list[int]:
    """The turns that have the rarest terms, best first."""
    weights: dict[int, float] = {}
    for term, ids in zip(found.terms, postings, strict=True):
        weight = rarity(found.known[term], found.documents)
        for number in ids:
            weights[number] = weights.get(number, 0.0) + weight
    newest_first = sorted(weights, reverse=True)
    return sorted(newest_first, key=weights.__getitem__, reverse=True)[:MAX_CANDIDATES]


def _read(
    connection: Connection, found: Found, postings: Sequence[Sequence[int]], scope: Scope, limit: int
) -> list[Turn]:
    """The first candidates that are in scope, with their counts."""
    candidates = _candidates(found, postings)
    turns: list[Turn] = []
    for start in range(0, len(candidates), limit):
        places: dict[int, list[int]] = {number: [] for number in candidates[start : start + limit]}
        for place, ids in enumerate(postings):
            for number in places.keys() & ids:
                places[number].append(place)
        turns += read_turns(connection, found.terms, [*places], scope, places)
        if len(turns) >= limit:
            break
    return turns


def read_turns(
    connection: Connection,
    terms: Sequence[str],
    ids: Sequence[int],
    scope: Scope,
    places: Mapping[int, Sequence[int]] | None = None,
) -> list[Turn]:
    """Turns by their ids, in that order, with their counts of these terms.

    `places` are those of the terms that each turn has, if that is known.
    """
    turns: dict[int, Turn] = {}
    words = [f" {term} " for term in terms]
    for row in connection.execute(_TURNS.format(", ".join("?" * len(ids)) or "NULL"), ids).fetchall():
        if scope.allows(row[1]):
            stems = f" {row[-2]} "
            by_term: dict[int, bytes] = {}
            for place in places[row[0]] if places else range(len(terms)):
                at = stems.find(words[place])
                if at >= 0:
                    first = _FIELDS * stems.count(" ", 0, at)
                    by_term[place] = row[-1][first : first + _FIELDS]
            turns[row[0]] = Turn(row, by_term)
    return [turns[number] for number in ids if number in turns]


def turn_at(connection: Connection, session: int, seq: int) -> int:
    """The turn at a position in a session; 0 if it is in none."""
    row = connection.execute(_TURN_AT, (session, seq)).fetchone()
    return int(row[0]) if row else 0
