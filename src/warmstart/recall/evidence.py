"""Evidence: the passages that recall returns, with their sources and the words of the query in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from warmstart.profile.tools import SHELLS, command_in
from warmstart.recall.index import FIELD, FIRST, PART, POSITION, SAID, SHORT_HASH, Ids
from warmstart.recall.query import Query, Word
from warmstart.recall.ranking import Postings, Ranked, SessionScore
from warmstart.sessions.lookup import SessionLookup, StoredMessage, TextUse
from warmstart.sessions.values import Role
from warmstart.storage.database import Connection, Interrupted, batches
from warmstart.text.words import stem_word, tokenize

MAX_TEXT, MAX_REPLY, MAX_COMMAND = 600, 300, 120  # characters
MAX_COMMANDS = 3
MAX_PER_SESSION = 3  # passages, if other sessions are about as good
AS_GOOD = 0.8  # another session's passage is as good if it has this share of the score

_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s")
_MAX_CHARACTERS = 50_000  # of a text that are searched
_MAX_MATCHES = 500
_MAX_WORD = 40  # maximum characters to drop so that an excerpt begins and ends at a word boundary


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. Higher scores are better; they are only comparable within one search.

    `text` is the relevant part of the message `message_ids[0]`, which `role` wrote at `date`. A request is followed by
    the beginning of the reply (the second message id) and the commands that were run for it, each after `$`. `matched`
    are the words of the query in the passage; `components` are the parts of the score of its session.
    """

    session_id: str
    native_id: str
    agent: str
    project: str
    date: datetime | None
    role: Role
    score: float
    text: str
    message_ids: tuple[str, ...]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    components: Mapping[str, float] = field(default_factory=dict)


class Match(NamedTuple):
    """A word of the query in a text."""

    start: int
    end: int
    word: str


class Matcher(NamedTuple):
    """Finds the words of a query in a text, in all inflections, and its names as they were typed."""

    words: Mapping[str, str]  # by stem
    names: tuple[str, ...] = ()  # those that are not words

    @classmethod
    def of(cls, words: Iterable[str], names: Iterable[str] = ()) -> Matcher:
        """A matcher for these words and names."""
        by_stem: dict[str, str] = {}
        for word in words:
            for stem in map(stem_word, tokenize(word)):
                by_stem.setdefault(stem, word)
        return cls(by_stem, tuple(name for name in dict.fromkeys(names) if not name.isalnum()))

    def find(self, text: str) -> list[Match]:
        """Every match in order; matches do not overlap."""
        text = text[:_MAX_CHARACTERS]
        lower = text.lower()
        found: list[Match] = []
        if len(lower) == len(text):  # otherwise offsets differ: some letters are longer in lower case
            for name in self.names:
                found += (Match(at.start(), at.end(), name) for at in re.finditer(re.escape(name), lower))
        words = list(_WORD.finditer(text))
        if text.isascii():
            stems: list[Iterable[str]] = [(stem_word(word[0].lower()),) for word in words]
        else:
            stems = [map(stem_word, tokenize(word[0])) for word in words]
        for word, some in zip(words, stems, strict=True):
            if matched := next((self.words[stem] for stem in some if stem in self.words), ""):
                found.append(Match(word.start(), word.end(), matched))
        disjoint: list[Match] = []
        for match in sorted(found, key=lambda match: (match.start, -match.end)):
            if not disjoint or match.start >= disjoint[-1].end:
                disjoint.append(match)
        return disjoint

    def excerpt(self, text: str, size: int) -> str:
        """At most `size` characters of a text around most of the matches, with `…` where something is left out."""
        text = text.strip()
        if len(text) <= size:
            return text
        start = max(0, min(self._densest(text, size) - size // 6, len(text) - size))
        end = start + size
        if start:
            space = _SPACE.search(text, start, min(len(text), start + _MAX_WORD))
            start = space.end() if space else start
        if end < len(text):
            end = max(text.rfind(" ", start, end), text.rfind("\n", start, end), end - _MAX_WORD)
        return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"

    def _densest(self, text: str, size: int) -> int:
        """The start of the section with the most distinct words of the query."""
        found = self.find(text)[:_MAX_MATCHES]
        best, where, last = 0, 0, 0
        for number, match in enumerate(found):
            last = max(last, number)
            while last < len(found) and found[last].start < match.start + size * 2 // 3:
                last += 1
            distinct = len({other.word for other in found[number:last]})
            if distinct > best:
                best, where = distinct, match.start
        return where


# -- which passages to show


class Hit(NamedTuple):
    """A text that contains a name from the query, or tool output that contains its words."""

    use: TextUse
    score: float
    what: str


class Spot(NamedTuple):
    """Where a passage is: a window, a document, a hit, or the beginning of a session if nothing better is known."""

    session: int
    score: float
    part: int = 0
    position: int = 0
    document: int = 0  # the id within the part, for something that was done
    hit: Hit | None = None


class SearchResult(NamedTuple):
    """The result of a search, before any text is read."""

    query: Query
    terms: Sequence[Word]  # the words that were looked up
    ranked: Ranked
    did: Postings
    sessions: Mapping[int, SessionScore]  # best first
    hits: Mapping[int, Sequence[Hit]]


def choose_spots(result: SearchResult, session_of: Ids, limit: int) -> list[Spot]:
    """The best spots of all sessions, best first.

    The best spot of a session has the score of the session, the others a share of it. After its third one, a session
    yields to others that are as good.
    """
    ranked = result.ranked
    merit = ranked.window_scores + ranked.own
    sessions = session_of[ranked.windows >> 16]
    useful = np.flatnonzero((ranked.own > 0) & (merit > 0) & np.isin(sessions, list(result.sessions)))
    order = useful[np.lexsort((ranked.windows[useful], -merit[useful], sessions[useful]))]
    place = np.arange(len(order)) - np.searchsorted(sessions[order], sessions[order])
    order = order[place < limit]
    windows: dict[int, list[Spot]] = {}
    best: dict[int, float] = {}  # the score of the best window by session
    columns = (sessions[order], merit[order], ranked.windows[order], ranked.window_scores[order])
    for session, score, window, alone in zip(*(column.tolist() for column in columns), strict=True):
        windows.setdefault(session, []).append(Spot(session, score, window >> 16, window & 0xFFFF))
        best[session] = max(alone, best.get(session, 0.0))
    spots: list[tuple[float, Spot]] = []  # each with its sort key
    for session, scored in result.sessions.items():
        some = [*windows.get(session, ()), *(Spot(session, hit.score, hit=hit) for hit in result.hits.get(session, ()))]
        some = some or _did_spots(result.did, session_of, session) or [Spot(session, 1.0)]
        some = sorted(some, key=lambda spot: -spot.score)[:limit]
        # A passage is not better because its session has many good ones.
        single = scored.score - scored.components.get("windows", 0.0) + best.get(session, 0.0)
        for place, spot in enumerate(some):
            share = spot.score / some[0].score
            counts = scored.score if place < MAX_PER_SESSION else min(single, scored.score) * AS_GOOD
            spots.append((share * counts, spot._replace(score=share * scored.score)))
    spots.sort(key=lambda each: -round(each[0], 9))
    return [spot for _, spot in spots]


def _did_spots(did: Postings, session_of: Ids, session: int) -> list[Spot]:
    """The documents of what was done in a session that have the most terms."""
    ids = did.ids[session_of[did.ids >> PART] == session]
    numbers, count = np.unique(ids, return_counts=True)
    best = np.argsort(-count, kind="stable")[:MAX_PER_SESSION].tolist()
    documents = ((float(count[place]), int(numbers[place])) for place in best)
    return [Spot(session, score, packed >> PART, document=packed & ((1 << PART) - 1)) for score, packed in documents]


class _Passage(NamedTuple):
    """A passage before it is rendered: its message, its text, and the reply to it."""

    spot: Spot
    number: int  # of the message
    message: StoredMessage
    body: str
    reply: StoredMessage | None


def read_passages(
    connection: Connection, lookup: SessionLookup, result: SearchResult, spots: Sequence[Spot], limit: int
) -> list[Evidence]:
    """Evidence for the first `limit` spots whose messages still exist, best first; ties go to the newest."""
    passages: list[_Passage] = []
    shown: set[int] = set()
    # Twice as many as needed, because a reply is shown with its request: one round is usually enough.
    for batch in batches(spots, 2 * limit):
        located = _locate(connection, lookup, batch)
        known = lookup.messages({number for numbers in located.values() for number in numbers})
        bodies = lookup.bodies({spot.hit.use.text for spot in batch if spot.hit})
        for spot in batch:
            number, *others = [each for each in located.get(spot, ()) if each in known] or [0]
            if not number or number in shown or len(passages) >= limit:
                continue
            message = known[number]
            body = message.body
            if spot.hit:
                body = bodies.get(spot.hit.use.text, "")
            elif spot.document:
                # A title or a branch is not part of a message; the first message is shown instead.
                body = _read_document(connection, lookup, spot, number) or body
            has_reply = others and message.role == "user" and known[others[0]].role == "assistant"
            reply = others[0] if has_reply and others[0] not in shown else 0
            shown |= {number, reply}
            passages.append(_Passage(spot, number, message, body, known.get(reply)))
        if len(passages) >= limit:
            break
    calls: list[tuple[int, str, str]] = []
    with suppress(Interrupted):  # passages are worth showing without them
        calls = list(lookup.calls_after([passage.number for passage in passages], SHELLS))
    commands: dict[int, list[str]] = {}
    for number, _, arguments in calls:
        lines = command_in(arguments).strip().splitlines()
        if lines and lines[0] not in (some := commands.setdefault(number, [])):
            some.append(lines[0] if len(lines) == 1 else f"{lines[0]} …")
    names = tuple(name.text for name in result.query.names if not name.text.isalnum())
    matcher = Matcher({word.stem: word.word for word in result.terms}, names)
    evidence = [_evidence(passage, result, matcher, commands.get(passage.number, ())) for passage in passages]
    return sorted(evidence, key=lambda each: (-each.score, -(each.date.timestamp() if each.date else 0.0)))


def _locate(connection: Connection, lookup: SessionLookup, spots: Sequence[Spot]) -> dict[Spot, list[int]]:
    """The message of every spot, and the next message of the user or the assistant."""
    found: dict[Spot, list[int]] = {spot: [spot.hit.use.message] for spot in spots if spot.hit}
    found |= {spot: lookup.first_messages(spot.session) for spot in spots if not spot.hit and not spot.part}
    for batch in batches(spot for spot in spots if spot.part):
        values: list[int] = []
        for number, spot in enumerate(batch):
            first = spot.document or (spot.position + FIRST) << POSITION
            values += (number, spot.part, first, first + (1 if spot.document else 2 << POSITION))
        # In SQLite, CROSS JOIN fixes the join order.
        rows = connection.execute(
            f"WITH spots (number, part, first, last) AS (VALUES {', '.join(['(?, ?, ?, ?)'] * len(batch))}) "
            "SELECT s.number, d.id, d.message FROM spots s CROSS JOIN recall_documents d "
            "WHERE d.part = s.part AND d.id >= s.first AND d.id < s.last",
            values,
        ).fetchall()
        for number, document, message in sorted(rows, key=itemgetter(0, 1)):
            spot = batch[number]
            if (spot.document > 0) == ((document >> FIELD & 15) >= SAID):
                found.setdefault(spot, []).append(message)
    return found


def _read_document(connection: Connection, lookup: SessionLookup, spot: Spot, message: int) -> str:
    """The reasoning or the call at a spot."""
    row = connection.execute(
        "SELECT hash FROM recall_documents WHERE part = ? AND id = ?", (spot.part, spot.document)
    ).fetchone()
    texts = lookup.message_texts(message)
    return next((body for digest, body in texts if row and SHORT_HASH.unpack_from(digest) == row), "")


def _evidence(passage: _Passage, result: SearchResult, matcher: Matcher, commands: Sequence[str]) -> Evidence:
    spot, message, reply = passage.spot, passage.message, passage.reply
    literal = Matcher.of((), [spot.hit.what]) if spot.hit else matcher
    if spot.hit and not literal.find(passage.body):
        literal = matcher
    texts = [literal.excerpt(passage.body, MAX_TEXT)]
    if reply is not None:
        texts.append(matcher.excerpt(reply.body, MAX_REPLY))
    if commands and not spot.document:
        stems = {word.stem for word in result.query.words}
        shared = Counter({command: len(stems.intersection(map(stem_word, tokenize(command)))) for command in commands})
        best = {command for command, _ in shared.most_common(MAX_COMMANDS)}
        texts.append("\n".join(f"$ {matcher.excerpt(each, MAX_COMMAND)}" for each in commands if each in best))
    text = "\n\n".join(filter(None, texts))
    stems, lower = set(map(stem_word, tokenize(text))), text.lower()
    words = [word for stem, word in matcher.words.items() if stem in stems]
    return Evidence(
        session_id=message.session_id,
        native_id=message.session_native_id,
        agent=message.agent,
        project=message.project,
        date=message.date,
        role="tool" if spot.hit and spot.hit.use.use == "result" else message.role,
        score=round(spot.score, 6),
        text=text,
        message_ids=(message.native_id, *((reply.native_id,) if reply else ())),
        matched=tuple(dict.fromkeys([*words, *(name for name in matcher.names if name in lower)])),
        terms=tuple(word.word for word in result.terms),
        components=result.sessions[spot.session].components,
    )
