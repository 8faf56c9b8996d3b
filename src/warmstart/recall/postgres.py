"""The word index on PostgreSQL: segments of blocks (see `blocks`), which every write adds to and joins with others.

One statement finds what a question needs to know of its words, of what was said and of what was done alike: a server
may be a millisecond away. Only the lines of a word that has many are asked for apart, when they are wanted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple
from zlib import decompress

from warmstart.recall.blocks import PIECE, Block, Stem, blocks_of, find, merged, packed, stems_of, unpacked
from warmstart.recall.dividing import Divider, Inverter
from warmstart.recall.engine import GROUPS, Group, Numbers, Word
from warmstart.recall.packing import PART
from warmstart.recall.schema import MIGRATIONS
from warmstart.sessions.postgres import stems
from warmstart.storage.database import Migration
from warmstart.storage.postgres import Database

_AHEAD = 1000  # lines of a word that are fetched before it is known whether they are wanted
_EVEN = 3  # times as large as what follows is what a segment must be to be left alone
_LATER = 100_000  # lines from which on joining is left to `count`
_TEXTS = 5000  # the newest that hold all words, of which those are found that hold them side by side
_ROWS = 200  # blocks in one statement

_FIND = """
    SELECT f.kind, f.number, f.first, f.lines, f.stems, (
        SELECT r.data FROM recall_words r WHERE r.kind = f.kind AND r.segment = f.number AND r.place = 0
            AND r.first = f.first AND r.lines <= ?)
    FROM (
        SELECT s.kind, s.number, b.first, b.lines, array_agg(w.stem) AS stems
        FROM recall_segments s CROSS JOIN unnest(CAST(? AS TEXT[])) AS w (stem)
        CROSS JOIN LATERAL (
            SELECT r.first, r.lines FROM recall_words r
            WHERE r.kind = s.kind AND r.segment = s.number AND r.place = 0 AND r.first <= w.stem
            ORDER BY r.first DESC LIMIT 1) b
        WHERE b.lines = 0 OR b.first = w.stem
        GROUP BY s.kind, s.number, b.first, b.lines) f
    ORDER BY f.kind, f.number
"""


class _Run(NamedTuple):
    """Lines of a word in one segment; without `data` where they are many."""

    segment: int
    lines: int
    data: bytes | None


class PostgresEngine:
    """Implements `Engine`."""

    MIGRATIONS: ClassVar[Sequence[Migration]] = MIGRATIONS
    TEXTS: ClassVar = "SELECT id FROM unnest(CAST(:query AS BIGINT[])) AS id"
    NEWEST: ClassVar = "ORDER BY f.id DESC"
    HOLDS: ClassVar = "warmstart_holds(t.body, :holds)"

    def __init__(self, database: Database) -> None:
        self._db = database
        self._divider = Divider()
        self._inverter = Inverter()
        self._stems = stems(database)
        self._asked: tuple[str, ...] = ()
        self._found: dict[Group, dict[str, list[_Run]]] = {group: {} for group in GROUPS}
        self._told: set[Group] = set()

    def words(self, text: str) -> list[Word]:
        return self._divider.words(text)

    # -- reading

    def frequencies(self, group: Group, stems: Sequence[str]) -> dict[str, int]:
        # What was found for one group is good for the other, once.
        if self._asked != tuple(stems) or group in self._told:
            self._look_up(stems)
        self._told.add(group)
        counts = {stem: sum(run.lines for run in runs) for stem, runs in self._found[group].items()}
        return {stem: lines for stem, lines in counts.items() if lines > 1}  # which words are chosen rests on that

    def _look_up(self, stems: Sequence[str]) -> None:
        self._asked, self._told = tuple(stems), set()
        self._found = {group: {} for group in GROUPS}
        if not stems:
            return
        for kind, segment, first, lines, some, data in self._db.connection.execute(_FIND, (_AHEAD, list(stems))):
            found = self._found[GROUPS[kind]]
            if lines:
                found.setdefault(first, []).append(_Run(segment, lines, data and decompress(data)))
                continue
            for stem, held in find(data, some):
                found.setdefault(stem, []).append(_Run(segment, len(held) // 8, held))

    def postings(self, group: Group, words: Sequence[Word], limit: int) -> list[Numbers]:
        import numpy as np  # takes a tenth of a second to load, and only a search needs it

        stems = [word.stem for word in words]
        if group not in self._told or not set(stems) <= set(self._asked):
            self._look_up(stems)
        found = {stem: self._found[group].get(stem, []) for stem in stems}
        more = self._pieces(group, found, limit)
        result = []
        for stem in stems:
            runs = (run.data or more.get((stem, run.segment), b"") for run in found[stem])
            lines = np.frombuffer(b"".join(runs), "<i8").astype(np.int64)
            result.append(np.sort(lines)[:limit])
        return result

    def _pieces(self, group: Group, found: dict[str, list[_Run]], limit: int) -> dict[tuple[str, int], bytes]:
        """The lines of words that have many, as far as they are wanted."""
        wanted: dict[str, list[int]] = {}
        for stem, runs in found.items():
            room = limit
            for run in runs:
                if run.data is None and room > 0:
                    wanted.setdefault(stem, []).append(run.segment)
                room -= run.lines
        if not wanted:
            return {}
        rows = self._db.connection.execute(
            "SELECT first, segment, data FROM recall_words WHERE kind = ? AND segment = ANY(CAST(? AS INTEGER[])) "
            "AND place < ? AND first = ANY(CAST(? AS TEXT[])) AND lines > 0 ORDER BY first, segment, place",
            (GROUPS.index(group), sorted(set().union(*wanted.values())), -(-limit // PIECE), list(wanted)),
        )
        pieces: dict[tuple[str, int], bytes] = {}
        for stem, segment, data in rows:
            pieces[stem, segment] = pieces.get((stem, segment), b"") + decompress(data)
        return pieces

    def phrase(self, words: Sequence[Word]) -> str:
        return self._texts(self._stems.query([" ".join(word.word for word in words)]), self._all(words))

    def all_of(self, words: Sequence[Word]) -> str:
        return self._texts(self._all(words), self._all(words))

    def any_of(self, words: Sequence[Word]) -> str:
        query = " | ".join(filter(None, (self._stems.query([word.word]) for word in words)))
        return self._texts(query, query)

    def _all(self, words: Sequence[Word]) -> str:
        return self._stems.query([word.word for word in words])

    def _texts(self, query: str, candidates: str) -> str:
        """The ids of the newest texts that fit, looked up here and once, for what they are used in is asked thrice."""
        if not query:
            return "{}"
        rows = self._db.connection.execute("SELECT id FROM warmstart_uses(?, ?, ?)", (query, candidates, _TEXTS))
        return f"{{{','.join(str(row[0]) for row in rows)}}}"

    def limited(self, seconds: float | None) -> AbstractContextManager[None]:
        return self._db.connection.limited(seconds)

    # -- writing

    def add(self, group: Group, lines: Iterable[tuple[int, str]]) -> None:
        new = [(stem, packed(found)) for stem, found in self._inverter.stems(lines)]
        if new:
            self._join(group, new, most=_LATER)

    def count(self) -> None:
        """Join what `add` left apart; how many lines a word has need not be counted."""
        for group in GROUPS:
            self._join(group, (), most=2**62)

    def purge(self) -> bool:
        run = self._db.connection.execute
        parts = {row[0] for row in run("SELECT number FROM recall_parts")}
        dead = {row[0] for row in run("SELECT line FROM recall_dead")}

        def living(lines: bytes) -> bytes:
            return packed(array("q", [line for line in unpacked(lines) if line >> PART in parts and line not in dead]))

        for kind in range(len(GROUPS)):
            old = [number for number, _ in self._segments(kind)]
            stems = ((stem, living(lines)) for stem, lines in merged(self._read(kind, number) for number in old))
            self._replace(kind, old, ((stem, lines) for stem, lines in stems if lines))
        return True

    def empty(self) -> None:
        self._db.connection.execute("SELECT warmstart_recall_empty()")

    def _join(self, group: Group, new: Sequence[Stem], *, most: int) -> None:
        """Write a segment; it takes in those before it that are not much larger, so that there are never many."""
        kind = GROUPS.index(group)
        size = sum(len(lines) // 8 for _, lines in new)
        old: list[int] = []
        for number, lines in reversed(self._segments(kind)):
            if size and (lines >= _EVEN * size or lines + size > most):
                break
            old.insert(0, number)
            size += lines
        if new or len(old) > 1:
            self._replace(kind, old, merged([*(self._read(kind, number) for number in old), new]))

    def _segments(self, kind: int) -> list[tuple[int, int]]:
        return self._db.connection.execute(
            "SELECT number, lines FROM recall_segments WHERE kind = ? ORDER BY number", (kind,)
        ).fetchall()

    def _replace(self, kind: int, old: Sequence[int], stems: Iterable[Stem]) -> None:
        """Write a segment in place of others."""
        run = self._db.connection.execute
        number = max((number for number, _ in self._segments(kind)), default=0) + 1
        lines = self._write(kind, number, stems)
        for table, column in (("recall_words", "segment"), ("recall_segments", "number")):
            run(f"DELETE FROM {table} WHERE kind = ? AND {column} = ANY(CAST(? AS INTEGER[]))", (kind, list(old)))
        if lines:
            run("INSERT INTO recall_segments (kind, number, lines) VALUES (?, ?, ?)", (kind, number, lines))

    def _read(self, kind: int, segment: int) -> Iterator[Stem]:
        rows = self._db.stream(
            "SELECT first, place, lines, data FROM recall_words WHERE kind = ? AND segment = ? ORDER BY first, place",
            (kind, segment),
        )
        return stems_of(Block(*row) for row in rows)

    def _write(self, kind: int, segment: int, stems: Iterable[Stem]) -> int:
        """Returns how many lines the segment has."""
        lines = 0

        def counted() -> Iterator[Stem]:
            nonlocal lines
            for stem, found in stems:
                lines += len(found) // 8
                yield stem, found

        statement = "INSERT INTO recall_words (kind, segment, first, place, lines, data) VALUES (?, ?, ?, ?, ?, ?)"
        rows: list[tuple[object, ...]] = []
        for block in blocks_of(counted()):
            rows.append((kind, segment, *block))
            if len(rows) >= _ROWS:
                self._db.connection.executemany(statement, rows)
                rows = []
        self._db.connection.executemany(statement, rows)
        return lines
