"""The index of what was said and done, kept in step with the sessions.

Triggers note which sessions changed. An update indexes a few of them at a time under the write lock, so that several
processes share the work; documents that are already indexed stay as they are. Neither database can remove a document
without its text, which is gone when a session is deleted: it stays, and ranking skips it. When a tenth of the documents
is deleted, the index is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from warmstart.embedding.files import MIGRATIONS as VECTOR_MIGRATIONS
from warmstart.errors import ConfigError
from warmstart.recall.documents import (
    DELETED,
    FIELD,
    FIELDS,
    FIRST,
    GROUPS,
    LENGTHS,
    MAX_POSITIONS,
    PART,
    POSITION,
    REASONING,
    SAID,
    Document,
    Group,
    TermIndex,
    decode_arguments,
    document_id,
    documents_of,
    length_class,
)
from warmstart.recall.query import index_terms
from warmstart.recall.sqlite import SQLiteTermIndex
from warmstart.sessions.bad_sessions import BAD_SESSION, log_skip
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import Connection, Database
from warmstart.storage.schema import migrations_of
from warmstart.storage.sql import batches, placeholders
from warmstart.storage.sqlite import SQLiteDatabase

MIGRATIONS = migrations_of("recall", __file__)

MAX_DELETED = 0.1  # the share of deleted documents at which the index is rebuilt
MIN_DELETED = 1000
_RECOUNT = 1.1  # growth after which terms are counted again
_BATCH_DOCUMENTS, _BATCH_SESSIONS = 4000, 50  # in one write

_NAMES = tuple(f'"{name}"' for name in FIELDS)
COLUMNS = ", ".join(_NAMES)

Progress = Callable[[int, int], None]


class State(NamedTuple):
    """The state of the index. `generation` rises with every write, `cleared` is the last one that removed something."""

    generation: int = 1
    cleared: int = 1
    parts: int = 0
    documents: int = 0
    deleted: int = 0
    counted: int = 0


class Index:
    """The index of the sessions in one store."""

    def __init__(self, store: SQLSessionStore) -> None:
        self._db = store.database
        self._db.migrate((*VECTOR_MIGRATIONS, *MIGRATIONS))
        self.terms = open_term_index(self._db)

    def state(self) -> State:
        return self.state_and_stale(0)[0]

    def state_and_stale(self, limit: int) -> tuple[State, int]:
        """The state, and how many sessions changed since they were indexed (counted up to `limit`)."""
        stale = "(SELECT count(*) FROM (SELECT 1 FROM recall_stale LIMIT ?) changed)"
        row = self._db.connection.execute(
            f"SELECT generation, cleared, parts, documents, deleted, counted, {stale} FROM recall_state", (limit,)
        ).fetchone()
        if row is None:  # a tenant without sessions
            return State(), self._db.connection.execute(f"SELECT {stale}", (limit,)).fetchone()[0]
        return State(*row[:6]), row[6]

    def update(self, progress: Progress | None = None) -> int:
        """Index what is new or has changed; returns how many sessions that were."""
        with self._db.translate_errors():
            total = self.state_and_stale(2**40)[1]
        done = 0
        while True:
            with self._db.transaction() as connection:
                count = self._index_some(connection)
            done += count
            if progress is not None:
                progress(done, max(done, total))
            if not count:
                break
        if done:
            self._tidy()
        return done

    def rebuild(self, progress: Progress | None = None) -> int:
        """Build the index again; returns how many sessions are in it."""
        with self._db.transaction():
            self.terms.clear()
        return self.update(progress)

    def frequencies(self, stems: Sequence[str]) -> dict[Group, dict[str, int]]:
        """About how many documents have each stem; a stem that is missing is in one, or in none."""
        found: dict[Group, dict[str, int]] = {group: {} for group in GROUPS}
        for batch in batches(stems):
            statements = (
                f"SELECT '{group}', term, documents FROM {group}_terms WHERE term IN ({placeholders(batch)})"
                for group in GROUPS
            )
            for group, term, documents in self._db.connection.execute(" UNION ALL ".join(statements), batch * 2):
                found[group][term] = documents
        return found

    def _index_some(self, connection: Connection) -> int:
        sessions = connection.execute(
            "SELECT session FROM recall_stale ORDER BY session DESC LIMIT ?", (_BATCH_SESSIONS,)
        ).fetchall()
        if not sessions:
            return 0
        write = _Write(self.terms, connection, self.state())
        done = 0
        for (session,) in sessions:
            try:
                write.update_session(session)
            except BAD_SESSION as error:  # stays as it was
                log_skip(f"number {session}", error)
            connection.execute("DELETE FROM recall_stale WHERE session = ?", (session,))
            done += 1
            if write.added > _BATCH_DOCUMENTS:
                break
        write.finish()
        return done

    def _tidy(self) -> None:
        """Count terms again, or rebuild, where enough has changed."""
        with self._db.transaction() as connection:
            state = self.state()
            if state.deleted > MIN_DELETED and state.deleted > MAX_DELETED * (state.documents + state.deleted):
                self.terms.clear()
                while self._index_some(connection):
                    pass
                state = self.state()
            if state.documents > _RECOUNT * state.counted or state.documents < state.counted / 2:
                self.terms.count_terms()
                connection.execute("UPDATE recall_state SET counted = documents")


def open_term_index(database: Database) -> TermIndex:
    """The inverted index of a database."""
    if isinstance(database, SQLiteDatabase):
        return SQLiteTermIndex(database)
    from warmstart.recall.postgres import PostgresTermIndex  # with psycopg, which is an extra
    from warmstart.storage.postgres import PostgresDatabase

    if isinstance(database, PostgresDatabase):
        return PostgresTermIndex(database)
    raise ConfigError(f"recall works on SQLite and PostgreSQL, not on {database.name!r}")


def update_index(store: SQLSessionStore, progress: Progress | None = None) -> int:
    """Index what is new in a store; loads nothing that only a search needs."""
    return Index(store).update(progress)


class _Part(NamedTuple):
    """A session in the index, or a stretch of a long one."""

    number: int
    said: int
    did: int
    words: list[float]  # by field
    lengths: bytearray  # the class of every document that was said


class _Write:
    """One write to the index; collects documents and inserts them at its end."""

    def __init__(self, terms: TermIndex, connection: Connection, state: State) -> None:
        self._terms = terms
        self._connection = connection
        self._lookup = SessionLookup(connection)
        self._generation = state.generation + 1
        self._parts = state.parts
        self.added = 0
        self._removed = 0
        self._documents: dict[Group, list[tuple[int, str]]] = {"said": [], "did": []}
        self._rows: list[tuple[object, ...]] = []

    def update_session(self, session: int) -> None:
        """Index what is new in a session, and delete what is gone."""
        current = documents_of(self._lookup, session)
        parts = self._read_parts(session)
        known = self._indexed(parts)
        wanted = {document.key for document in current}
        gone = [place for key, place in known.items() if key not in wanted]
        new = [document for document in current if document.key not in known]
        if gone:
            self._remove(parts, gone)
        if new:
            self._append(parts, new)
        if gone or new:
            self._save(session, parts.values())

    def finish(self) -> None:
        for group, documents in self._documents.items():
            self._terms.add(group, documents)
        self._connection.executemany(
            "INSERT INTO recall_documents (part, id, message, hash) VALUES (?, ?, ?, ?)", self._rows
        )
        self._connection.execute(
            "UPDATE recall_state SET generation = generation + 1, parts = ?, documents = documents + ?, "
            "deleted = deleted + ?, cleared = CASE WHEN ? > 0 THEN generation + 1 ELSE cleared END",
            (self._parts, self.added - self._removed, self._removed, self._removed),
        )

    def _read_parts(self, session: int) -> dict[int, _Part]:
        rows = self._connection.execute(
            f"SELECT number, said, did, lengths, {COLUMNS} FROM recall_parts WHERE session = ? ORDER BY number",
            (session,),
        ).fetchall()
        return {row[0]: _Part(row[0], row[1], row[2], list(row[4:]), bytearray(row[3])) for row in rows}

    def _indexed(self, parts: Iterable[int]) -> dict[tuple[bool, int, int], tuple[int, int]]:
        known = {}
        for number in parts:
            for document, message, digest in self._connection.execute(
                "SELECT id, message, hash FROM recall_documents WHERE part = ?", (number,)
            ):
                known[(document >> FIELD & 15) >= SAID, message, digest] = (number, document)
        return known

    def _remove(self, parts: dict[int, _Part], gone: Sequence[tuple[int, int]]) -> None:
        for number, document in gone:
            part, position, field = parts[number], (document >> POSITION) - FIRST, document >> FIELD & 15
            part.words[field] = max(0.0, part.words[field] - LENGTHS[document & 15])
            if field < SAID:
                part.lengths[position] = DELETED
        self._connection.executemany(
            "INSERT INTO recall_deleted (id) VALUES (?)", [(number << PART | document,) for number, document in gone]
        )
        self._connection.executemany("DELETE FROM recall_documents WHERE part = ? AND id = ?", gone)
        self._removed += len(gone)

    def _append(self, parts: dict[int, _Part], new: Sequence[Document]) -> None:
        bodies = self._lookup.bodies({document.text for document in new if document.text})
        part = parts[max(parts)] if parts else self._add_part(parts)
        for document in new:
            if max(part.said, part.did) >= MAX_POSITIONS:
                part = self._add_part(parts)
            body = document.body or bodies.get(document.text, "")
            words, stems = index_terms(body if document.field <= REASONING else decode_arguments(body))
            length = length_class(words)
            is_said = document.field < SAID
            packed = document_id(part.number, part.said if is_said else part.did, document.field, length)
            self._documents["said" if is_said else "did"].append((packed, " ".join(stems)))
            self._rows.append((part.number, packed & ((1 << PART) - 1), document.message, document.hash))
            part.words[document.field] += max(1, words)
            if is_said:
                part.lengths.append(length)
                part = parts[part.number] = part._replace(said=part.said + 1)
            else:
                part = parts[part.number] = part._replace(did=part.did + 1)
        self.added += len(new)

    def _add_part(self, parts: dict[int, _Part]) -> _Part:
        self._parts += 1
        part = parts[self._parts] = _Part(self._parts, 0, 0, [0.0] * len(FIELDS), bytearray())
        return part

    def _save(self, session: int, parts: Iterable[_Part]) -> None:
        self._connection.executemany(
            f"INSERT INTO recall_parts (number, session, generation, said, did, lengths, {COLUMNS}) "
            f"VALUES ({', '.join('?' * (6 + len(FIELDS)))}) ON CONFLICT (number) DO UPDATE SET "
            "generation = excluded.generation, said = excluded.said, did = excluded.did, lengths = excluded.lengths, "
            + ", ".join(f"{name} = excluded.{name}" for name in _NAMES),
            [
                (part.number, session, self._generation, part.said, part.did, bytes(part.lengths), *part.words)
                for part in parts
            ],
        )
