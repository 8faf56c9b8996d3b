"""Find the earlier turns of a project that a message is about: a search that a hook can afford.

A hook is a new process on every prompt, and loading numpy alone exceeds its time limit, so it cannot use recall's
ranking. This search reads the same index: the postings of the rarest words of the message. A turn is ranked by its best
document, where short ones count more, and by its whole session. Such a score does not say how certain a hit is; that is
the share of the message's words that the turn has. Words that the project never used count against every hit, so a
question about something else finds nothing certain.
"""

from __future__ import annotations

from math import log

from warmstart.text.words import topic_terms

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from warmstart.storage.database import Connection

MAX_CHARACTERS = 6_000  # of a message
MAX_TERMS = 12  # that occur in several documents
MAX_RARE = 24  # other words
_BATCH = 12  # terms per statement
MAX_POSTINGS = 1_500  # document ids read for one message
MAX_DOCUMENTS = 24  # whose turns are looked up
PART = 24  # bit offset of the part in the id of a document, as in `warmstart.recall.index`
_WITHIN_PART = (1 << PART) - 1
GROUPS = {"said": 1.0, "did": 0.6}  # weights of what was said and what was done
_WHOLE = {"said": 0.5, "did": 0.4}  # the same for whole sessions, as in `warmstart.recall.ranking`
_K1 = 1.2
_LENGTH = 15  # mask of the length in a document's id: 2 ** (n / 2) words
_BREVITY = [(_K1 + 1) / (1 + _K1 * (0.25 + 0.75 * 2 ** (size / 2) / 20)) for size in range(_LENGTH + 1)]
# Stems of words about when something was said, not what: they do not count as missing.
_WHEN = frozenset(("ago", "earlier", "last", "previou", "previous", "recent", "session", "time", "todai", "yesterdai"))

_POSTINGS = {
    "sqlite": "SELECT group_concat(rowid) FROM (SELECT rowid FROM {0} WHERE {0} MATCH '\"' || ? || '\"' LIMIT ?)",
    "postgres": "SELECT array_to_string(ids, ',') FROM warmstart_recall_postings('{0}', ARRAY[CAST(? AS TEXT)], ?)",
}
_PARTS = """
    SELECT p.number, p.said FROM recall_parts p JOIN sessions s ON s.pk = p.session
    WHERE s.project = ? AND s.native_id <> ? AND coalesce(s.parent_id, '') NOT IN (
        SELECT id FROM sessions WHERE native_id = ?) AND s.id NOT IN (SELECT session FROM template_revoked)
"""
# The message of each document, and the request that starts its turn. CROSS JOIN fixes the join order in SQLite.
_TURNS = """
    WITH found (part, id) AS (VALUES {0})
    SELECT d.part, d.id, m.session, m.pk, (
        SELECT max(t.first_seq) FROM session_turns t WHERE t.session = m.session AND t.first_seq <= m.seq)
    FROM found f CROSS JOIN recall_documents d JOIN messages m ON m.pk = d.message
    WHERE d.part = f.part AND d.id = f.id
"""


class Hit:
    """A turn of an earlier session.

    `score` is the share of the message's words, weighted by rarity, that the turn has; `nearness` decides the rank.
    """

    __slots__ = ("first_seq", "messages", "nearness", "score", "session", "terms")

    def __init__(self, session: int, first_seq: int) -> None:
        self.session = session
        self.first_seq = first_seq
        self.score = self.nearness = 0.0
        self.terms: dict[str, float] = {}
        self.messages: dict[int, float] = {}  # row numbers of the messages that were hit, and how well they fit


def find_turns(connection: Connection, dialect: str, text: str, *, project: str, session: str = "") -> list[Hit]:
    """The turns of a project's other sessions that share words with the text, best first.

    `session` is the agent's own id of the current session.
    """
    parts = dict(connection.execute(_PARTS, (project, session, session)).fetchall())
    terms = dict.fromkeys(topic_terms(text[:MAX_CHARACTERS]))
    if not parts or not terms:
        return []
    documents = max(1, sum(parts.values()))
    # The rarity of an unused word, until the word is found.
    rarity = dict.fromkeys((term for term in terms if term not in _WHEN), _rarity(0, documents))
    groups = {group: _postings(connection, dialect, group, list(terms), parts) for group in GROUPS}
    for postings in reversed(groups.values()):
        rarity.update({term: _rarity(len(ids), documents) for term, ids in postings.items()})
    near = _near_parts(groups, len(parts))
    hits: dict[tuple[int, int], Hit] = {}
    for group, postings in groups.items():
        scores: dict[int, float] = {}
        for term, ids in postings.items():
            worth = [GROUPS[group] * rarity[term] * share for share in _BREVITY]
            for number in ids:
                scores[number] = scores.get(number, 0.0) + worth[number & _LENGTH]
        scores = {number: score + near[number >> PART] for number, score in scores.items()}
        best = sorted(scores, key=lambda number: (-scores[number], -number))[:MAX_DOCUMENTS]
        having = {term: set(ids) for term, ids in postings.items()}
        for document, of_session, message, first in _turns_of(connection, best):
            hit = hits.setdefault((of_session, first), Hit(of_session, first))
            hit.nearness = max(hit.nearness, scores[document])
            hit.messages[message] = max(hit.messages.get(message, 0.0), scores[document])
            for term in (term for term in having if document in having[term]):
                hit.terms[term] = max(hit.terms.get(term, 0.0), GROUPS[group] * rarity[term])
    total = sum(rarity.values())
    for hit in hits.values():
        hit.score = sum(hit.terms.values()) / total
    return sorted(hits.values(), key=lambda hit: (-hit.nearness, -hit.session, -hit.first_seq))


def _rarity(having: int, documents: int) -> float:
    return log(1 + (documents - min(having, documents) + 0.5) / (having + 0.5))


def _near_parts(groups: dict[str, dict[str, list[int]]], parts: int) -> dict[int, float]:
    """The score of each part of the index as a whole: BM25 over its documents that have a term."""
    near: dict[int, float] = {}
    for group, postings in groups.items():
        for ids in postings.values():
            counts: dict[int, int] = {}
            for number in ids:
                counts[number >> PART] = counts.get(number >> PART, 0) + 1
            worth = _WHOLE[group] * _rarity(len(counts), parts) * (_K1 + 1)
            for part, having in counts.items():
                near[part] = near.get(part, 0.0) + worth * having / (having + _K1)
    return near


def _postings(
    connection: Connection, dialect: str, group: str, terms: Sequence[str], parts: dict[int, int]
) -> dict[str, list[int]]:
    """For each of the rarest terms, the documents in these parts that have it."""
    marks = ", ".join("?" * len(terms))
    known = dict(
        connection.execute(f"SELECT term, documents FROM {group}_terms WHERE term IN ({marks})", terms).fetchall()
    )
    # A term without a count occurs in one document or in none, so it is cheap to read.
    chosen = [term for term in terms if term not in known][:MAX_RARE]
    left = MAX_POSTINGS
    for term in sorted(known, key=lambda term: (known[term], term))[:MAX_TERMS]:
        left -= known[term]
        if left < 0 and len(chosen) > len(terms) - len(known):
            break
        chosen.append(term)
    postings: dict[str, list[int]] = {}
    for start in range(0, len(chosen), _BATCH):
        batch = chosen[start : start + _BATCH]
        sql = " UNION ALL ".join([_POSTINGS[dialect].format(group)] * len(batch))
        rows = connection.execute(sql, [value for term in batch for value in (term, MAX_POSTINGS)]).fetchall()
        for term, (ids,) in zip(batch, rows, strict=True):
            if inside := [number for number in map(int, ids.split(",")) if number >> PART in parts] if ids else []:
                postings[term] = inside
    return postings


def _turns_of(connection: Connection, documents: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """The documents that are in a turn, each with its session, its message and the start of the turn."""
    if documents:
        ids = ", ".join(f"({number >> PART}, {number & _WITHIN_PART})" for number in documents)
        for part, number, session, message, first in connection.execute(_TURNS.format(ids)).fetchall():
            if first is not None:
                yield part << PART | number, session, message, first
