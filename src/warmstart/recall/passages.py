"""From ranked sessions to evidence: which passages to show, and their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from warmstart.profile.tools import SHELLS, command_in
from warmstart.recall.documents import FIELD, FIRST, PART, POSITION, SAID, Ids, short_hash
from warmstart.recall.evidence import Evidence
from warmstart.recall.excerpts import Matcher, excerpt
from warmstart.recall.query import Query
from warmstart.recall.ranking import Postings, Ranked, SessionScore
from warmstart.sessions.lookup import SessionLookup, StoredMessage, TextUse
from warmstart.sessions.rows import to_time
from warmstart.sessions.values import Role
from warmstart.storage.database import Connection, Interrupted
from warmstart.storage.sql import batches
from warmstart.text.words import stems as stems_in

MAX_TEXT, MAX_REPLY, MAX_COMMAND = 600, 300, 120  # characters
MAX_COMMANDS = 3
MAX_PER_SESSION = 3  # passages, where other sessions are as good
AS_GOOD = 0.8  # the share of a passage's score with which another session's is as good


class Hit(NamedTuple):
    """A text that has a name of the query, or words that only a tool printed."""

    use: TextUse
    score: float
    what: str


class Spot(NamedTuple):
    """Where a passage is: a document, a hit, or the beginning of a session if nothing better is known."""

    session: int
    score: float
    part: int = 0
    position: int = 0
    document: int = 0  # the id within the part, of something that was done
    hit: Hit | None = None


class Found(NamedTuple):
    """The result of a search before any text is read."""

    query: Query
    terms: tuple[str, ...]
    ranked: Ranked
    did: Postings
    sessions: Mapping[int, SessionScore]  # best first
    hits: Mapping[int, Sequence[Hit]]


def choose_spots(found: Found, session_of: Ids, limit: int) -> list[Spot]:
    """The best spots of all sessions, best first.

    The best spot of a session has the score of the session, the others their share of it. After its third one, a
    session gives way to others that are as good.
    """
    ranked = found.ranked
    merit = ranked.window_scores + ranked.own
    sessions = session_of[ranked.windows >> 16]
    useful = np.flatnonzero((ranked.own > 0) & (merit > 0) & np.isin(sessions, list(found.sessions)))
    order = useful[np.lexsort((ranked.windows[useful], -merit[useful], sessions[useful]))]
    place = np.arange(len(order)) - np.searchsorted(sessions[order], sessions[order])
    order = order[place < limit]
    windows: dict[int, list[Spot]] = {}
    best: dict[int, float] = {}  # the score of the best window by session
    columns = (sessions[order], merit[order], ranked.windows[order], ranked.window_scores[order])
    for session, score, window, alone in zip(*(column.tolist() for column in columns), strict=True):
        windows.setdefault(session, []).append(Spot(session, score, window >> 16, window & 0xFFFF))
        best[session] = max(alone, best.get(session, 0.0))
    spots: list[tuple[float, Spot]] = []  # each with what counts for its place
    for session, scored in found.sessions.items():
        some = [*windows.get(session, ()), *(Spot(session, hit.score, hit=hit) for hit in found.hits.get(session, ()))]
        some = some or _done(found.did, session_of, session) or [Spot(session, 1.0)]
        some = sorted(some, key=lambda spot: -spot.score)[:limit]
        # That a session has many good passages makes none of them better.
        single = scored.score - scored.components.get("windows", 0.0) + best.get(session, 0.0)
        for place, spot in enumerate(some):
            share = spot.score / some[0].score
            counts = scored.score if place < MAX_PER_SESSION else min(single, scored.score) * AS_GOOD
            spots.append((share * counts, spot._replace(score=share * scored.score)))
    spots.sort(key=lambda each: -round(each[0], 9))
    return [spot for _, spot in spots]


def _done(did: Postings, session_of: Ids, session: int) -> list[Spot]:
    """What was done in a session and has the most terms."""
    ids = did.ids[session_of[did.ids >> PART] == session]
    numbers, count = np.unique(ids, return_counts=True)
    best = np.argsort(-count, kind="stable")[:MAX_PER_SESSION].tolist()
    documents = ((float(count[place]), int(numbers[place])) for place in best)
    return [Spot(session, score, packed >> PART, document=packed & ((1 << PART) - 1)) for score, packed in documents]


class _Passage(NamedTuple):
    """A passage before it is shown: its message, what it says, and the reply to it."""

    spot: Spot
    message: int
    role: Role
    body: str
    reply: int = 0
    matcher: Matcher | None = None


class PassageReader:
    """Reads the texts of spots and makes evidence of them."""

    def __init__(self, connection: Connection, lookup: SessionLookup, found: Found) -> None:
        self._run: Any = connection.execute
        self._lookup = lookup
        self._found = found
        self._matcher = Matcher(found.terms, [name.text for name in found.query.names])
        self._stems = {word.stem for word in found.query.words}
        self._bodies: dict[int, str] = {}

    def read(self, spots: Sequence[Spot], limit: int) -> list[Evidence]:
        """Evidence for the first `limit` spots whose messages still exist, best first; of equal ones the newest."""
        found: list[Evidence] = []
        shown: set[int] = set()
        waiting = list(spots)
        while waiting and len(found) < limit:
            wanted = limit - len(found)
            # Twice as many, because a reply is shown with its request: one round is enough, as a rule.
            batch, waiting = waiting[: 2 * wanted], waiting[2 * wanted :]
            found += self._read(batch, wanted, shown)
        return sorted(found, key=lambda each: (-each.score, -(each.date.timestamp() if each.date else 0.0)))

    def _read(self, spots: Sequence[Spot], limit: int, shown: set[int]) -> list[Evidence]:
        messages = self._messages(spots)
        known = self._lookup.messages({message for some in messages.values() for message in some})
        self._bodies = self._lookup.bodies({spot.hit.use.text for spot in spots if spot.hit})
        passages: list[_Passage] = []
        for spot in spots:
            if len(passages) >= limit:
                break
            passage = self._passage(spot, [each for each in messages.get(spot, ()) if each in known], known)
            if passage is not None and passage.message not in shown:
                if passage.reply in shown:
                    passage = passage._replace(reply=0)
                shown |= {passage.message, passage.reply}
                passages.append(passage)
        commands: dict[int, list[str]] = {}
        with suppress(Interrupted):  # a passage is worth showing without them
            commands = self._commands([passage.message for passage in passages])
        return [
            self._evidence(passage, known[passage.message], known.get(passage.reply), commands.get(passage.message, ()))
            for passage in passages
        ]

    def _messages(self, spots: Sequence[Spot]) -> dict[Spot, list[int]]:
        """The message of every spot, and the next one that was said."""
        found: dict[Spot, list[int]] = {spot: [spot.hit.use.message] for spot in spots if spot.hit}
        found |= {spot: self._lookup.first_messages(spot.session) for spot in spots if not spot.hit and not spot.part}
        for batch in batches(spot for spot in spots if spot.part):
            values: list[int] = []
            for number, spot in enumerate(batch):
                first = spot.document or (spot.position + FIRST) << POSITION
                values += (number, spot.part, first, first + (1 if spot.document else 2 << POSITION))
            # SQLite takes CROSS JOIN as the order in which to read.
            rows = self._run(
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

    def _passage(self, spot: Spot, messages: Sequence[int], known: Mapping[int, StoredMessage]) -> _Passage | None:
        if not messages:
            return None
        message = known[messages[0]]
        passage = _Passage(spot, messages[0], message.role, message.body)
        if spot.hit is not None:
            body = self._bodies.get(spot.hit.use.text, "")
            literal = Matcher((), [spot.hit.what])
            role: Role = "tool" if spot.hit.use.use == "result" else message.role
            return passage._replace(role=role, body=body, matcher=literal if literal.find(body) else None)
        if spot.document:
            # A title or a branch is no text of a message; the first message stands for it.
            return passage._replace(body=self._document(spot, messages[0]) or message.body)
        if message.role == "user" and len(messages) > 1 and known[messages[1]].role == "assistant":
            return passage._replace(reply=messages[1])
        return passage

    def _document(self, spot: Spot, message: int) -> str:
        row = self._run(
            "SELECT hash FROM recall_documents WHERE part = ? AND id = ?", (spot.part, spot.document)
        ).fetchone()
        texts = self._lookup.message_texts(message)
        return next((body for digest, body in texts if row and short_hash(digest) == row[0]), "")

    def _commands(self, messages: Iterable[int]) -> dict[int, list[str]]:
        """The commands that were run for each message: those that share the most words with the query, in order."""
        calls: dict[int, list[str]] = {}
        for message, _, arguments in self._lookup.calls_after(messages, SHELLS):
            lines = command_in(arguments).strip().splitlines()
            if lines and lines[0] not in (some := calls.setdefault(message, [])):
                some.append(lines[0] if len(lines) == 1 else f"{lines[0]} …")
        return {message: self._best_commands(some) for message, some in calls.items()}

    def _best_commands(self, commands: Sequence[str]) -> list[str]:
        shared = Counter({command: len(self._stems & set(stems_in(command))) for command in commands})
        best = {command for command, _ in shared.most_common(MAX_COMMANDS)}
        return [command for command in commands if command in best]

    def _evidence(
        self, passage: _Passage, message: StoredMessage, reply: StoredMessage | None, commands: Sequence[str]
    ) -> Evidence:
        texts = [excerpt(passage.body, passage.matcher or self._matcher, MAX_TEXT)]
        if reply is not None:
            texts.append(excerpt(reply.body, self._matcher, MAX_REPLY))
        if not passage.spot.document:
            texts.append("\n".join(f"$ {excerpt(command, self._matcher, MAX_COMMAND)}" for command in commands))
        text = "\n\n".join(filter(None, texts))
        return Evidence(
            session_id=message.session_id,
            native_id=message.session_native_id,
            agent=message.agent,
            project=message.project,
            date=to_time(message.at),
            role=passage.role,
            score=round(passage.spot.score, 6),
            text=text,
            message_ids=(message.native_id, *((reply.native_id,) if reply else ())),
            matched=self._matcher.matched(text),
            terms=self._found.terms,
            components=self._found.sessions[passage.spot.session].components,
        )
