"""Keeping the index in step with the sessions: triggers note what changed, and it is put right a few at a time.

Each step reads and writes under the write lock, so that no other process changes a session in between and two that
update at once share the work. A line that is already there is left alone; a session that grows costs what it grew by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from warmstart.errors import ConfigError
from warmstart.recall.engine import Engine
from warmstart.recall.lines import Line, bodies_of, lines_of
from warmstart.recall.packing import FIELDS, FIRST, GONE, PLACE, PLACES, SAID, length_class, pack, words_in
from warmstart.recall.sqlite import SQLiteEngine
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.database import AnyDatabase, Connection
from warmstart.storage.sqlite import Database as SQLiteDatabase

_LINES = 4000  # in one write
_SESSIONS = 50
_GROWTH = 1.1  # after which words are counted anew
_DEAD = 0.1  # the share of dead lines at which they are taken out, or the index is made anew
_SMALL = 1000  # lines with which none of this is worth a thought

_NAMES = tuple(f'"{name}"' for name in FIELDS)
COLUMNS = ", ".join(_NAMES)

Progress = Callable[[int, int], None]


class State(NamedTuple):
    """Where the index stands. `generation` rises with every write, `emptied` is the last that took something out."""

    generation: int
    emptied: int
    part: int
    lines: int
    dead: int
    counted: int


_NOTHING = State(1, 1, 0, 0, 0, 0)


class Part(NamedTuple):
    """A session in the index, or a stretch of a long one."""

    number: int
    said: int
    did: int
    sizes: list[float]
    lengths: bytearray


class Index:
    """The index of the sessions in one database."""

    def __init__(self, database: AnyDatabase, engine: Engine) -> None:
        self._db = database
        self._engine = engine
        database.migrate(engine.MIGRATIONS)

    def state(self) -> State:
        row = self._db.connection.execute(
            "SELECT generation, emptied, part, lines, dead, counted FROM recall_state"
        ).fetchone()
        return State(*row) if row else _NOTHING

    def standing(self, most: int) -> tuple[State, int]:
        """The state, and `stale`, with one statement."""
        row = self._db.connection.execute(
            "SELECT generation, emptied, part, lines, dead, counted, "
            "(SELECT count(*) FROM (SELECT 1 FROM recall_stale LIMIT ?) noted) FROM recall_state",
            (most,),
        ).fetchone()
        return (State(*row[:6]), int(row[6])) if row else (_NOTHING, self.stale(most))

    def stale(self, most: int) -> int:
        """How many sessions changed since they were indexed, as far as there are at most so many."""
        row = self._db.connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM recall_stale LIMIT ?) noted", (most,)
        ).fetchone()
        return int(row[0])

    def update(self, progress: Progress | None = None) -> int:
        """Index what is new or has changed; returns how many sessions that were."""
        with self._db.translated():
            total = self.stale(2**62)
        done = 0
        while True:
            with self._db.transaction() as connection:
                number = self._step(connection)
            done += number
            if progress is not None:
                progress(done, max(done, total))
            if not number:
                break
        if done:
            self._settle()
        return done

    def rebuild(self, progress: Progress | None = None) -> int:
        """Make the index anew; returns how many sessions are in it."""
        with self._db.transaction():
            self._engine.empty()
        return self.update(progress)

    def _step(self, connection: Connection) -> int:
        sessions = connection.execute(
            "SELECT t.session FROM recall_stale t JOIN sessions s ON s.pk = t.session "
            "ORDER BY s.started_at DESC NULLS LAST LIMIT ?",
            (_SESSIONS,),
        ).fetchall()
        if not sessions:
            return 0
        state = self.state()
        write = _Write(self._engine, connection, state.generation + 1, state.part)
        done = 0
        for (session,) in sessions:
            write.session(session)
            connection.execute("DELETE FROM recall_stale WHERE session = ?", (session,))
            done += 1
            if write.added > _LINES:
                break
        write.end()
        connection.execute(
            "UPDATE recall_state SET generation = generation + 1, part = ?, lines = lines + ?, dead = dead + ?, "
            "emptied = CASE WHEN ? > 0 THEN generation + 1 ELSE emptied END",
            (write.part, write.added - write.removed, write.removed, write.removed),
        )
        return done

    def _settle(self) -> None:
        """Count words anew, or take out what is dead, where it has become worth it."""
        with self._db.transaction() as connection:
            state = self.state()
            if state.dead > _SMALL and state.dead > _DEAD * (state.lines + state.dead):
                self._remove_dead(connection)
                state = self.state()
            if state.lines > _GROWTH * state.counted or state.lines < state.counted / 2:
                self._engine.count()
                connection.execute("UPDATE recall_state SET counted = lines")

    def _remove_dead(self, connection: Connection) -> None:
        if self._engine.purge():
            connection.execute("DELETE FROM recall_dead")
            connection.execute(
                "UPDATE recall_state SET generation = generation + 1, emptied = generation + 1, dead = 0"
            )
            return
        self._engine.empty()
        while self._step(connection):
            pass


def engine_of(store: SQLSessionStore) -> Engine:
    """What indexes the words of a store."""
    if isinstance(store.database, SQLiteDatabase):
        return SQLiteEngine(store.database)
    from warmstart.recall.postgres import PostgresEngine  # with psycopg, which comes with an extra
    from warmstart.storage.postgres import Database as PostgresDatabase

    if isinstance(store.database, PostgresDatabase):
        return PostgresEngine(store.database)
    raise ConfigError(f"recall works on SQLite and PostgreSQL, and the store is {store.name!r}")


def update_index(store: SQLSessionStore, progress: Progress | None = None) -> int:
    """Index what is new in a store; loads nothing that only a search needs."""
    return Index(store.database, engine_of(store)).update(progress)


class _Write:
    """One write into the index: lines are collected and go in at its end."""

    def __init__(self, engine: Engine, connection: Connection, generation: int, part: int) -> None:
        self._engine = engine
        self._connection = connection
        self._generation = generation
        self.part = part
        self.added = 0
        self.removed = 0
        self._said: list[tuple[int, str]] = []
        self._did: list[tuple[int, str]] = []
        self._lines: list[tuple[object, ...]] = []

    def session(self, session: int) -> None:
        """Bring one session up to date."""
        now = lines_of(self._connection, session)
        parts = self._parts(session)
        known = self._known(parts)
        wanted = {line.key for line in now}
        if gone := [place for key, place in known.items() if key not in wanted]:
            self._remove(parts, gone)
        new = [line for line in now if line.key not in known]
        # The same message may hold the same text twice.
        new = list({line.key: line for line in new}.values())
        if new:
            self._append(session, parts, new)
        elif gone:
            self._save(session, parts.values())

    def end(self) -> None:
        self._engine.add("said", self._said)
        self._engine.add("did", self._did)
        self._connection.executemany(
            "INSERT INTO recall_lines (part, line, message, hash) VALUES (?, ?, ?, ?)", self._lines
        )

    def _parts(self, session: int) -> dict[int, Part]:
        rows = self._connection.execute(
            f"SELECT number, said, did, lengths, {COLUMNS} FROM recall_parts WHERE session = ? ORDER BY number",
            (session,),
        ).fetchall()
        return {row[0]: Part(row[0], row[1], row[2], list(row[4:]), bytearray(row[3])) for row in rows}

    def _known(self, parts: dict[int, Part]) -> dict[tuple[bool, int, int], tuple[int, int]]:
        known = {}
        for number in parts:
            for line, message, key in self._connection.execute(
                "SELECT line, message, hash FROM recall_lines WHERE part = ?", (number,)
            ):
                known[(line >> 4 & 15) >= SAID, message, key] = (number, line)
        return known

    def _remove(self, parts: dict[int, Part], gone: Sequence[tuple[int, int]]) -> None:
        """Let lines be passed over from now on."""
        for number, line in gone:
            part, place, field = parts[number], (line >> PLACE) - FIRST, line >> 4 & 15
            part.sizes[field] = max(0.0, part.sizes[field] - 2 ** ((line & 15) / 2))
            if field < SAID:
                part.lengths[place] = GONE
        self._connection.executemany(
            "INSERT INTO recall_dead (line) VALUES (?)", [(number << 24 | line,) for number, line in gone]
        )
        self._connection.executemany("DELETE FROM recall_lines WHERE part = ? AND line = ?", gone)
        self.removed += len(gone)

    def _append(self, session: int, parts: dict[int, Part], new: Sequence[Line]) -> None:
        part = parts[max(parts)] if parts else self._next_part(parts)
        said, did = part.said, part.did
        for line, body in bodies_of(self._connection, new):
            if max(said, did) >= PLACES:
                parts[part.number] = part._replace(said=said, did=did)
                part = self._next_part(parts)
                said = did = 0
            words = words_in(body)
            length = length_class(words)
            is_said = line.field < SAID
            number = pack(part.number, said if is_said else did, line.field, length)
            (self._said if is_said else self._did).append((number, body))
            self._lines.append((part.number, number & 0xFFFFFF, line.message, line.hash))
            part.sizes[line.field] += words
            if is_said:
                said += 1
                part.lengths.append(length)
            else:
                did += 1
        parts[part.number] = part._replace(said=said, did=did)
        self.added += len(new)
        self._save(session, parts.values())

    def _next_part(self, parts: dict[int, Part]) -> Part:
        self.part += 1
        part = parts[self.part] = Part(self.part, 0, 0, [0.0] * len(FIELDS), bytearray())
        return part

    def _save(self, session: int, parts: Any) -> None:
        self._connection.executemany(
            f"INSERT INTO recall_parts (number, session, generation, said, did, lengths, {COLUMNS}) "
            f"VALUES (?, ?, ?, ?, ?, ?, {', '.join('?' * len(FIELDS))}) ON CONFLICT (number) DO UPDATE SET "
            "generation = excluded.generation, said = excluded.said, did = excluded.did, lengths = excluded.lengths, "
            + ", ".join(f"{name} = excluded.{name}" for name in _NAMES),
            [
                (part.number, session, self._generation, part.said, part.did, bytes(part.lengths), *part.sizes)
                for part in parts
            ],
        )
