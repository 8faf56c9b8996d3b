"""From ranked lines to passages: which messages of a session to show, and their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from warmstart.recall.exact import OUTPUT, Hit
from warmstart.recall.excerpts import Marker, excerpt
from warmstart.recall.lines import SPOKEN, short
from warmstart.recall.packing import FIELD, FIRST, PART, PLACE, SAID
from warmstart.recall.ranking import Postings, Ranked
from warmstart.sessions.appending import chunks
from warmstart.sessions.values import Role
from warmstart.storage.database import Connection

TEXT, REPLY = 600, 300  # characters
MANY = 3  # passages of a session
_SAID = "l.line, m.native_id, m.role, m.at, t.body"
_SAID_BY = f"JOIN messages m ON m.pk = l.message AND {SPOKEN} JOIN texts t ON t.id = m.text"
LATER = 0.6  # what the second and third count, so that no session crowds out the others


class Spot(NamedTuple):
    """Where a passage is: a line of a part, or a message that an exact search found."""

    score: float
    part: int = 0
    line: int = 0  # its place if it was said, the whole number of the line if it was done
    said: bool = True
    hit: Hit | None = None
    session: int = 0  # the beginning of this one, where nothing better is known


class Passage(NamedTuple):
    """A passage ready to be shown."""

    role: Role
    at: float | None
    text: str
    message_ids: tuple[str, ...]


def spots(ranked: Ranked, did: Postings, session: int, parts: Sequence[int], hits: Iterable[Hit]) -> list[Spot]:
    """The best places of a session, best first: windows and exact uses; else what was done, or the beginning."""
    found = [Spot(hit.score, hit=hit) for hit in hits]
    for part in parts:
        found += _windows(ranked, part)
    if not found and len(did.lines):
        lines = did.lines[np.isin(did.lines >> PART, parts)]
        numbers, count = np.unique(lines, return_counts=True)
        best = np.argsort(-count, kind="stable")[:MANY].tolist()
        found += [Spot(float(count[n]), int(numbers[n] >> PART), int(numbers[n] & 0xFFFFFF), said=False) for n in best]
    found.sort(key=lambda spot: -spot.score)
    return [*found[: 2 * MANY], Spot(0.0, session=session)]


def _windows(ranked: Ranked, part: int) -> Iterator[Spot]:
    """The best windows of a part that do not overlap; of equal ones the first."""
    run = ranked.runs.get(part)
    if run is None:
        return
    own = ranked.own_score[run]
    scores = (ranked.window_score[run] + own).tolist()
    # Where the own score is nothing, only the neighbours hold a word.
    windows = zip(scores, ranked.window_place[run].tolist(), own.tolist(), strict=True)
    best = sorted((-round(score, 9), place, score) for score, place, told in windows if told > 0 and score > 0)
    taken: set[int] = set()
    for _, place, score in best[: 4 * MANY]:
        if place - 1 not in taken and place + 1 not in taken:
            taken.add(place)
            yield Spot(score, part, place)
            if len(taken) >= MANY:
                return


def _first(spot: Spot) -> int:
    return (spot.line + FIRST) << PLACE


class Passages:
    """Reads passages; `words` finds the words that were asked for."""

    def __init__(self, connection: Connection, words: Marker) -> None:
        self._run: Callable[..., Any] = connection.execute
        self._words = words
        self._read: dict[Spot, list[Any]] = {}

    def read(self, spots: Iterable[Spot]) -> None:
        """Read what was said at several spots at once, which takes less time than one after the other."""
        wanted = [spot for spot in spots if spot.said and spot.hit is None and not spot.session]
        for some in chunks(wanted):
            values = [
                value for number, spot in enumerate(some) for value in (number, spot.part, (spot.line + FIRST) << PLACE)
            ]
            # SQLite takes CROSS JOIN as the order in which to read.
            rows = self._run(
                f"WITH spots (number, part, line) AS (VALUES {', '.join(['(?, ?, ?)'] * len(some))}) "
                "SELECT s.number, l.line, m.native_id, m.role, m.at, t.body FROM spots s CROSS JOIN recall_lines l "
                "JOIN messages m ON m.pk = l.message JOIN texts t ON t.id = m.text "
                f"WHERE l.part = s.part AND l.line >= s.line AND l.line < s.line + {2 << PLACE} "
                f"AND l.line & {15 << FIELD} < {SAID << FIELD} AND {SPOKEN}",
                values,
            ).fetchall()
            rows.sort(key=itemgetter(0, 1))
            self._read.update((spot, []) for spot in some)
            for row in rows:
                self._read[some[row[0]]].append(row[2:])

    def at(self, spot: Spot) -> Passage | None:
        """The passage at a spot, if it is still there."""
        if spot.session:
            return self._beginning(spot.session)
        if spot.hit is not None:
            return self._used(spot.hit)
        return self._said(spot) if spot.said else self._done(spot)

    def _said(self, spot: Spot) -> Passage | None:
        if spot not in self._read:
            self.read([spot])
        rows = self._read[spot]
        return self._passage(rows[0], rows[1] if len(rows) > 1 else None) if rows else None

    def _passage(self, row: Sequence[Any], after: Sequence[Any] | None) -> Passage:
        native, role, at, body = row
        text = excerpt(body, self._words, TEXT)
        if role == "user" and after is not None and after[1] == "assistant":
            return Passage(role, at, f"{text}\n\n{excerpt(after[3], self._words, REPLY)}", (native, after[0]))
        return Passage(role, at, text, (native,))

    def _done(self, spot: Spot) -> Passage | None:
        row = self._run(
            "SELECT message, hash FROM recall_lines WHERE part = ? AND line = ?", (spot.part, spot.line)
        ).fetchone()
        if row is None or not row[0]:
            return None
        for native, role, at, key, body in self._run(
            "SELECT m.native_id, m.role, m.at, t.hash, t.body FROM messages m "
            "LEFT JOIN tool_calls c ON c.message = m.pk JOIN texts t ON t.id IN (m.reasoning, c.arguments) "
            "WHERE m.pk = ?",
            (row[0],),
        ):
            if short(key) == row[1]:
                return Passage(role, at, excerpt(body, self._words, TEXT), (native,))
        return None

    def _used(self, hit: Hit) -> Passage | None:
        row = self._run(
            "SELECT m.native_id, m.role, m.at, t.body FROM messages m JOIN texts t ON t.id = ? WHERE m.pk = ?",
            (hit.text, hit.message),
        ).fetchone()
        if row is None:
            return None
        words = Marker((), [hit.what]) if any(Marker((), [hit.what]).find(row[3])) else self._words
        return Passage("tool" if hit.kind == OUTPUT else row[1], row[2], excerpt(row[3], words, TEXT), (row[0],))

    def _beginning(self, session: int) -> Passage | None:
        """The first thing that a person asked, for a session of which only the date or the title fits."""
        rows = self._run(
            "SELECT m.native_id, m.role, m.at, t.body FROM messages m JOIN texts t ON t.id = m.text "
            f"WHERE m.session = ? AND m.role IN ('user', 'assistant') AND {SPOKEN} ORDER BY m.seq LIMIT 2",
            (session,),
        ).fetchall()
        return self._passage(rows[0], rows[1] if len(rows) > 1 else None) if rows else None
