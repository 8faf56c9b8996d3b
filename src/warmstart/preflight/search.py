"""Which earlier turns of a project a message is about: a search that a hook can afford.

A hook is a process of its own on every prompt, and numpy alone takes longer to load than the whole hook may, so the
ranking of recall is out of reach here. This reads the same index: the postings of the rarest words of the message. It
scores each turn by the share of the message's words that it has, the rare ones counting more. That share also says how
sure a hit is, which the score of recall does not.
"""

from __future__ import annotations

from math import log

from warmstart.text.words import topic_terms

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Sequence

    from warmstart.storage.database import Connection

MAX_CHARACTERS = 6_000  # of a message
MAX_TERMS = 12  # that several documents have
MAX_RARE = 24  # other words
_BATCH = 12  # terms in a statement
MAX_POSTINGS = 1_500  # document ids that are read for a message
MAX_DOCUMENTS = 40  # whose turns are looked up
PART = 24  # where the part begins in the id of a document, as in `warmstart.recall.index`
_WITHIN_PART = (1 << PART) - 1
GROUPS = {"said": 1.0, "did": 0.6}  # what was said, and what was done, with the weight of each

_POSTINGS = {
    "sqlite": "SELECT group_concat(rowid) FROM (SELECT rowid FROM {0} WHERE {0} MATCH '\"' || ? || '\"' LIMIT ?)",
    "postgres": "SELECT array_to_string(ids, ',') FROM warmstart_recall_postings('{0}', ARRAY[CAST(? AS TEXT)], ?)",
}
_PARTS = """
    SELECT p.number, p.said FROM recall_parts p JOIN sessions s ON s.pk = p.session
    WHERE s.project = ? AND s.native_id <> ? AND coalesce(s.parent_id, '') NOT IN (
        SELECT id FROM sessions WHERE native_id = ?) AND s.id NOT IN (SELECT session FROM template_revoked)
"""
# The message of each document, and the request with which its turn begins. CROSS JOIN is an order of reading in SQLite.
_TURNS = """
    WITH found (part, id) AS (VALUES {0})
    SELECT d.part, d.id, m.session, m.pk, (
        SELECT max(t.first_seq) FROM session_turns t WHERE t.session = m.session AND t.first_seq <= m.seq)
    FROM found f CROSS JOIN recall_documents d JOIN messages m ON m.pk = d.message
    WHERE d.part = f.part AND d.id = f.id
"""


class Hit:
    """A turn of an earlier session. `score` is the share of the message's words, by rarity, that the turn has."""

    __slots__ = ("first_seq", "messages", "score", "session", "terms")

    def __init__(self, session: int, first_seq: int) -> None:
        self.session = session
        self.first_seq = first_seq
        self.score = 0.0
        self.terms: dict[str, float] = {}
        self.messages: dict[int, float] = {}  # row numbers of the messages that were hit, and their share


def find_turns(connection: Connection, dialect: str, text: str, *, project: str, session: str = "") -> list[Hit]:
    """The turns of other sessions of a project that have words of the text, best first.

    `session` is the agent's own id of the session that asks.
    """
    parts = dict(connection.execute(_PARTS, (project, session, session)).fetchall())
    terms = dict.fromkeys(topic_terms(text[:MAX_CHARACTERS]))
    if not parts or not terms:
        return []
    documents = max(1, sum(parts.values()))
    rarity: dict[str, float] = {}
    hits: dict[tuple[int, int], Hit] = {}
    for group, weight in GROUPS.items():
        postings = _postings(connection, dialect, group, list(terms), parts)
        scores: dict[int, float] = {}
        for term, ids in postings.items():
            if term not in rarity:
                rarity[term] = log(1 + (documents - min(len(ids), documents) + 0.5) / (len(ids) + 0.5))
            worth = rarity[term]
            for number in ids:
                scores[number] = scores.get(number, 0.0) + worth
        best = sorted(scores, key=lambda number: (-scores[number], -number))[:MAX_DOCUMENTS]
        found = {term: set(ids) for term, ids in postings.items()}
        _add_hits(
            connection, hits, {one: [term for term in found if one in found[term]] for one in best}, rarity, weight
        )
    total = sum(rarity.values())
    for hit in hits.values():
        hit.score = sum(hit.terms.values()) / total if total else 0.0
    return sorted(hits.values(), key=lambda hit: (-hit.score, -hit.session, -hit.first_seq))


def _postings(
    connection: Connection, dialect: str, group: str, terms: Sequence[str], parts: dict[int, int]
) -> dict[str, list[int]]:
    """For each of the rarest terms the documents in these parts that have it."""
    marks = ", ".join("?" * len(terms))
    known = dict(
        connection.execute(f"SELECT term, documents FROM {group}_terms WHERE term IN ({marks})", terms).fetchall()
    )
    # A term that was not counted is in one document, or in none; both cost nothing.
    chosen = [term for term in terms if term not in known][:MAX_RARE]
    left = MAX_POSTINGS
    for term in sorted(known, key=lambda term: (known[term], term))[:MAX_TERMS]:
        left -= known[term]
        if left < 0 and len(chosen) > len(terms) - len(known):
            break
        chosen.append(term)
    found: dict[str, list[int]] = {}
    for start in range(0, len(chosen), _BATCH):
        batch = chosen[start : start + _BATCH]
        sql = " UNION ALL ".join([_POSTINGS[dialect].format(group)] * len(batch))
        rows = connection.execute(sql, [value for term in batch for value in (term, MAX_POSTINGS)]).fetchall()
        for term, (ids,) in zip(batch, rows, strict=True):
            if inside := [number for number in map(int, ids.split(",")) if number >> PART in parts] if ids else []:
                found[term] = inside
    return found


def _add_hits(
    connection: Connection,
    hits: dict[tuple[int, int], Hit],
    terms_of: dict[int, list[str]],
    rarity: dict[str, float],
    weight: float,
) -> None:
    """Add documents with their terms to the turns that they are in."""
    if not terms_of:
        return
    rows = connection.execute(
        _TURNS.format(", ".join(f"({number >> PART}, {number & _WITHIN_PART})" for number in terms_of))
    ).fetchall()
    for part, number, session, message, first in rows:
        if first is None:
            continue
        hit = hits.setdefault((session, first), Hit(session, first))
        share = 0.0
        for term in terms_of[part << PART | number]:
            share += rarity[term]
            hit.terms[term] = max(hit.terms.get(term, 0.0), weight * rarity[term])
        hit.messages[message] = max(hit.messages.get(message, 0.0), weight * share)
