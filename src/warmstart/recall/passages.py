"""From ranked lines to passages: which messages of a session to show, and their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from warmstart.recall.excerpts import excerpt
from warmstart.recall.exact import OUTPUT, Hit
from warmstart.recall.lines import SPOKEN, short
from warmstart.recall.packing import FIRST, PART, PLACE
from warmstart.recall.ranking import Postings, Ranked
from warmstart.storage.database import Connection

TEXT, REPLY = 600, 300  # characters
_MANY = 3  # passages of a session
_LATER = 0.6  # what the second and third count, so that no session crowds out the others


class Spot(NamedTuple):
    """Where a passage is: a line of a part, or a message that an exact search found."""

    score: float
    part: int = 0
    line: int = 0  # its place if it was said, the whole number of the line if it was done
    said: bool = True
    hit: Hit | None = None


class Passage(NamedTuple):
    """A passage ready to be shown."""

    share: float  # of the score of its session
    role: str
    at: float | None
    text: str
    message_ids: tuple[str, ...]


def spots(ranked: Ranked, did: Postings, parts: Sequence[int], hits: Iterable[Hit]) -> list[Spot]:
    """The best places of a session, best first: windows, exact uses, and if there are none of these what was done."""
    found = [Spot(hit.score, hit=hit) for hit in hits]
    mine = np.isin(ranked.window_part, parts) & (ranked.own_score > 0)
    score = ranked.window_score[mine] + ranked.own_score[mine]
    taken: set[tuple[int, int]] = set()
    for number in np.argsort(-score, kind="stable").tolist():
        part, place = int(ranked.window_part[mine][number]), int(ranked.window_place[mine][number])
        if not {(part, place - 1), (part, place + 1)} & taken:
            taken.add((part, place))
            found.append(Spot(float(score[number]), part, place))
        if len(taken) > _MANY:
            break
    if not found and len(did.lines):
        lines = did.lines[np.isin(did.lines >> PART, parts)]
        numbers, count = np.unique(lines, return_counts=True)
        best = np.argsort(-count, kind="stable")[:_MANY].tolist()
        found += [Spot(float(count[n]), int(numbers[n] >> PART), int(numbers[n] & 0xFFFFFF), said=False) for n in best]
    return sorted(found, key=lambda spot: -spot.score)


class Passages:
    """Reads passages; `words` finds the words that were asked for."""

    def __init__(self, connection: Connection, words: re.Pattern[str] | None) -> None:
        self._run: Callable[..., Any] = connection.execute
        self._words = words

    def of(self, session: int, found: Sequence[Spot]) -> list[Passage]:
        """The passages at these spots; the beginning of the session if there is none."""
        passages: list[Passage] = []
        seen: set[str] = set()
        for spot in found:
            share = (spot.score / found[0].score if found[0].score > 0 else 1.0) * _LATER ** len(passages)
            for passage in self._at(spot, share):
                if passage.message_ids[0] not in seen:
                    seen.update(passage.message_ids)
                    passages.append(passage)
            if len(passages) >= _MANY:
                break
        return passages or list(self._beginning(session))

    def _at(self, spot: Spot, share: float) -> Iterator[Passage]:
        if spot.hit is not None:
            yield from self._used(spot.hit, share)
        elif spot.said:
            yield from self._said(spot, share)
        else:
            yield from self._done(spot, share)

    def _said(self, spot: Spot, share: float) -> Iterator[Passage]:
        first = (spot.line + FIRST) << PLACE
        rows = self._run(
            "SELECT l.line, m.native_id, m.role, m.at, t.body FROM recall_lines l JOIN messages m ON m.pk = l.message "
            f"JOIN texts t ON t.id = m.text WHERE l.part = ? AND l.line >= ? AND l.line < ? AND {SPOKEN} ORDER BY l.line",
            (spot.part, first, first + (2 << PLACE)),
        ).fetchall()
        rows = [row[1:] for row in rows if row[0] >> 4 & 15 < 2]
        if rows:
            yield self._passage(share, rows[0], rows[1] if len(rows) > 1 else None)

    def _passage(self, share: float, row: Sequence[Any], after: Sequence[Any] | None) -> Passage:
        native, role, at, body = row
        text = excerpt(body, self._words, TEXT)
        if role == "user" and after is not None and after[1] == "assistant":
            return Passage(share, role, at, f"{text}\n\n{excerpt(after[3], self._words, REPLY)}", (native, after[0]))
        return Passage(share, role, at, text, (native,))

    def _done(self, spot: Spot, share: float) -> Iterator[Passage]:
        row = self._run(
            "SELECT message, hash FROM recall_lines WHERE part = ? AND line = ?", (spot.part, spot.line)
        ).fetchone()
        if row is None or not row[0]:
            return
        for native, role, at, key, body in self._run(
            "SELECT m.native_id, m.role, m.at, t.hash, t.body FROM messages m "
            "LEFT JOIN tool_calls c ON c.message = m.pk JOIN texts t ON t.id IN (m.reasoning, c.arguments) "
            "WHERE m.pk = ?",
            (row[0],),
        ):
            if short(key) == row[1]:
                yield Passage(share, role, at, excerpt(body, self._words, TEXT), (native,))
                return

    def _used(self, hit: Hit, share: float) -> Iterator[Passage]:
        row = self._run(
            "SELECT m.native_id, m.role, m.at, t.body FROM messages m JOIN texts t ON t.id = ? WHERE m.pk = ?",
            (hit.text, hit.message),
        ).fetchone()
        if row is not None:
            role = "tool" if hit.kind == OUTPUT else row[1]
            words = re.compile(re.escape(hit.what), re.IGNORECASE)
            words = words if words.search(row[3]) else self._words or words
            yield Passage(share, role, row[2], excerpt(row[3], words, TEXT), (row[0],))

    def _beginning(self, session: int) -> Iterator[Passage]:
        """The first thing that a person asked, for a session of which only the date or the title fits."""
        rows = self._run(
            "SELECT m.native_id, m.role, m.at, t.body FROM messages m JOIN texts t ON t.id = m.text "
            f"WHERE m.session = ? AND m.role IN ('user', 'assistant') AND {SPOKEN} ORDER BY m.seq LIMIT 2",
            (session,),
        ).fetchall()
        if rows:
            yield self._passage(1.0, rows[0], rows[1] if len(rows) > 1 else None)
