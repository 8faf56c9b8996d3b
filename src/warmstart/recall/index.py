"""The inverted index of what was said and done, kept in sync with the sessions.

A document is one indexed text: a message, a reasoning block, the arguments of a call, a title or a branch. Its id is
one number, so that ranking reads no other table: the part (a session, or a section of a very long one), the position in
it, the field, and a length class. Tool output is not indexed here; the session store's text index finds it.

Triggers record which sessions changed. An update indexes a few of them at a time under the write lock, so that several
processes share the work; documents that are already indexed are not touched. Neither database can remove a document
without its text, which is gone when a session is deleted. So the document becomes a tombstone that ranking skips; when
a tenth of the documents are deleted, the index is rebuilt.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isinf, log2
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

from warmstart.embedding.files import MIGRATIONS as VECTOR_MIGRATIONS
from warmstart.profile.tools import SHELLS
from warmstart.recall.query import index_terms
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import BAD_SESSION, SQLSessionStore, log_skip
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Interrupted, batches, migrations_of, placeholders
from warmstart.storage.sqlite import SQLiteDatabase

if TYPE_CHECKING:  # numpy takes a tenth of a second to load, and only a search needs it; psycopg is an extra
    import numpy as np
    from numpy.typing import NDArray

    from warmstart.storage.postgres import PostgresDatabase

MIGRATIONS = migrations_of("recall", __file__)

Group = Literal["said", "did"]
GROUPS: tuple[Group, Group] = ("said", "did")
Ids: TypeAlias = "NDArray[np.int64]"

FIELDS = ("user", "assistant", "reasoning", "edits", "commands", "lookups")
USER, ASSISTANT, REASONING, EDITS, COMMANDS, LOOKUPS = range(len(FIELDS))
SAID = 2  # the first fields are what was said, the others what was done
COLUMNS = ", ".join(f'"{name}"' for name in FIELDS)

PART, POSITION, FIELD = 24, 8, 4  # the bit offsets of these in a document id
FIRST = 2  # the first position, so that the neighbours of neighbours have ids in the same part
MAX_POSITIONS = 65_000  # per part
DELETED = 255  # the length class of a tombstone
SHORT_HASH = Struct(">q")  # the first eight bytes of a hash as an integer that databases can hold
LENGTHS = tuple(2 ** (size / 2) for size in range(16))  # words in a document of each length class: up to 181

MAX_DELETED = 0.1  # the share of deleted documents at which the index is rebuilt
MIN_DELETED = 1000
_RECOUNT = 1.1  # growth after which document frequencies are recounted
_BATCH_DOCUMENTS, _BATCH_SESSIONS = 4000, 50  # per write
_BATCH_ADDED = 500  # documents per statement
_BATCH_STEMS = 8  # per statement, so that there are few different statements to prepare
_STEPS = 500  # instructions of SQLite's virtual machine between two checks of the clock

_EDIT = re.compile(r"edit|write(?!_(?:stdin|bash|powershell|todo))|patch|replace|create|insert", re.IGNORECASE)
_LOOKUP = re.compile(r"read|grep|glob|search|fetch|view|list|find|^ls$|query|browse", re.IGNORECASE)
_PLAN = re.compile(r"todo|plan|task|question|ask_user|skill", re.IGNORECASE)
_SPOKEN = {name: number for number, name in enumerate(FIELDS[: REASONING + 1])}
_TRUNKS = ("", "main", "master", "HEAD")
_SAVE_PART = (
    f"INSERT INTO recall_parts (number, session, generation, said, did, lengths, {COLUMNS}) "
    f"VALUES ({placeholders(range(6 + len(FIELDS)))}) ON CONFLICT (number) DO UPDATE SET "
    "generation = excluded.generation, said = excluded.said, did = excluded.did, lengths = excluded.lengths, "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in FIELDS)
)

Progress = Callable[[int, int], None]


class State(NamedTuple):
    """The state of the index.

    `generation` rises with every write, `cleared` is the last one that removed something, and `stale` is the number of
    sessions that have changed since they were indexed.
    """

    generation: int
    cleared: int
    parts: int
    documents: int
    deleted: int
    counted: int
    stale: int


class Document(NamedTuple):
    """A document to index: its field, its message (for a title, the first one), the hash and the id of its text."""

    field: int
    message: int
    hash: int
    text: int
    body: str = ""  # of a title or a branch, whose text has no id


@dataclass(slots=True)
class _Part:
    """A session in the index, or a section of a long one."""

    number: int
    documents: dict[Group, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    lengths: bytearray = field(default_factory=bytearray)  # the length class of every document that was said
    words: list[float] = field(default_factory=lambda: [0.0] * len(FIELDS))


@dataclass(slots=True)
class _Write:
    """What one write adds to the index."""

    generation: int
    parts: int  # in the index
    removed: int = 0
    stems: dict[Group, dict[int, str]] = field(default_factory=lambda: {group: {} for group in GROUPS})  # by document
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)


class Index:
    """The index of the sessions in one store."""

    def __init__(self, store: SQLSessionStore) -> None:
        self._db = store.database
        self._db.migrate((*VECTOR_MIGRATIONS, *MIGRATIONS))
        self.terms: TermIndex = (
            SQLiteTermIndex(self._db) if isinstance(self._db, SQLiteDatabase) else PostgresTermIndex(self._db)  # type: ignore[arg-type]
        )
        self.lookup = SessionLookup(self._db.connection)

    def read_state(self) -> State:
        """The state of the index, in one query."""
        row = self._db.connection.execute(
            "SELECT generation, cleared, parts, documents, deleted, counted, (SELECT count(*) FROM recall_stale) "
            "FROM recall_state"
        ).fetchone()
        return State(*(row or (1, 1, 0, 0, 0, 0, 0)))  # a tenant without sessions has no row

    def update(self, progress: Progress | None = None) -> int:
        """Index new and changed sessions. Returns how many there were. Safe for many processes at once."""
        with self._db.translate_errors():
            total = count = self.read_state().stale
        done = 0
        while count:
            with self._db.transaction() as connection:
                count = self._index_batch(connection)
                done += count
                if done and not count:  # all is indexed: rebuild, or recount terms, if enough has changed
                    state = self.read_state()
                    if state.deleted > MIN_DELETED and state.deleted > MAX_DELETED * (state.documents + state.deleted):
                        self._clear(connection)
                        while self._index_batch(connection):
                            pass
                        state = self.read_state()
                    if state.documents > _RECOUNT * state.counted or state.documents < state.counted / 2:
                        for statement in (*self.terms.COUNT, "UPDATE recall_state SET counted = documents"):
                            connection.execute(statement)
            if progress is not None:
                progress(done, max(done, total))
        return done

    def rebuild(self, progress: Progress | None = None) -> int:
        """Rebuild the index from the sessions. Returns how many there are."""
        with self._db.transaction() as connection:
            self._clear(connection)
        return self.update(progress)

    def _clear(self, connection: Connection) -> None:
        """Remove everything, and mark every session as changed."""
        for statement in self.terms.CLEAR:
            connection.execute(statement)

    def frequencies(self, stems: Sequence[str]) -> dict[Group, dict[str, int]]:
        """The approximate document frequency of each stem; a stem that is missing is in at most one document."""
        found: dict[Group, dict[str, int]] = {group: {} for group in GROUPS}
        for batch in batches(stems):
            statements = (
                f"SELECT '{group}', term, documents FROM {group}_terms WHERE term IN ({placeholders(batch)})"
                for group in GROUPS
            )
            for group, term, documents in self._db.connection.execute(" UNION ALL ".join(statements), batch * 2):
                found[group][term] = documents
        return found

    def _index_batch(self, connection: Connection) -> int:
        """Index some of the changed sessions. Returns how many."""
        sessions = connection.execute(
            "SELECT session FROM recall_stale ORDER BY session DESC LIMIT ?", (_BATCH_SESSIONS,)
        ).fetchall()
        if not sessions:
            return 0
        state = self.read_state()
        write = _Write(state.generation + 1, state.parts)
        done = 0
        for (session,) in sessions:
            try:
                self._index_session(connection, session, write)
            except BAD_SESSION as error:  # its documents stay as they were
                log_skip(f"number {session}", error)
            connection.execute("DELETE FROM recall_stale WHERE session = ?", (session,))
            done += 1
            if len(write.rows) > _BATCH_DOCUMENTS:
                break
        for group, stems in write.stems.items():
            for batch in batches(stems.items(), _BATCH_ADDED):
                connection.execute(self.terms.ADD.format(group), (msgspec.json.encode(dict(batch)).decode(),))
        connection.executemany("INSERT INTO recall_documents (part, id, message, hash) VALUES (?, ?, ?, ?)", write.rows)
        connection.execute(
            "UPDATE recall_state SET generation = generation + 1, parts = ?, documents = documents + ?, "
            "deleted = deleted + ?, cleared = CASE WHEN ? > 0 THEN generation + 1 ELSE cleared END",
            (write.parts, len(write.rows) - write.removed, write.removed, write.removed),
        )
        return done

    def _index_session(self, connection: Connection, session: int, write: _Write) -> None:
        """Index what is new in a session, and remove what is gone."""
        current = _documents(self.lookup, session)
        rows = connection.execute(
            f"SELECT number, said, did, lengths, {COLUMNS} FROM recall_parts WHERE session = ? ORDER BY number",
            (session,),
        ).fetchall()
        parts = {row[0]: _Part(row[0], {"said": row[1], "did": row[2]}, bytearray(row[3]), [*row[4:]]) for row in rows}
        indexed = connection.execute(
            "SELECT d.part, d.id, d.message, d.hash FROM recall_parts p JOIN recall_documents d ON d.part = p.number "
            "WHERE p.session = ?",
            (session,),
        )
        known = {((number >> FIELD & 15) >= SAID, *key): (part, number) for part, number, *key in indexed}
        gone = [place for key, place in known.items() if key not in current]
        new = [document for key, document in current.items() if key not in known]
        if not gone and not new:
            return
        bodies = self.lookup.bodies({document.text for document in new if document.text})
        terms = []
        for document in new:  # before anything is written, because a text may be unreadable
            body = document.body or bodies.get(document.text, "")
            terms.append(index_terms(body if document.field <= REASONING else _decode_arguments(body)))
        if gone:
            _remove(connection, parts, gone)
            write.removed += len(gone)
        part = parts[max(parts)] if parts else None
        for document, (words, stems) in zip(new, terms, strict=True):
            if part is None or max(part.documents.values()) >= MAX_POSITIONS:
                write.parts += 1
                part = parts[write.parts] = _Part(write.parts)
            group: Group = "said" if document.field < SAID else "did"
            length = min(15, int(2 * log2(max(words, 1))))
            number = (part.documents[group] + FIRST) << POSITION | document.field << FIELD | length
            write.stems[group][part.number << PART | number] = " ".join(stems)
            write.rows.append((part.number, number, document.message, document.hash))
            part.documents[group] += 1
            part.words[document.field] += max(1, words)
            if group == "said":
                part.lengths.append(length)
        connection.executemany(
            _SAVE_PART,
            [
                (part.number, session, write.generation, *part.documents.values(), bytes(part.lengths), *part.words)
                for part in parts.values()
            ],
        )


def _remove(connection: Connection, parts: dict[int, _Part], gone: Sequence[tuple[int, int]]) -> None:
    for part_number, number in gone:
        part, position, field = parts[part_number], (number >> POSITION) - FIRST, number >> FIELD & 15
        part.words[field] = max(0.0, part.words[field] - LENGTHS[number & 15])
        if field < SAID:
            part.lengths[position] = DELETED
    connection.executemany(
        "INSERT INTO recall_deleted (id) VALUES (?)", [(part << PART | number,) for part, number in gone]
    )
    connection.executemany("DELETE FROM recall_documents WHERE part = ? AND id = ?", gone)


def _documents(lookup: SessionLookup, session: int) -> dict[tuple[bool, int, int], Document]:
    """The documents of a session by their identity: first what was said, then what was done, in order."""
    found: list[Document] = []
    title, branch, texts = lookup.content(session)
    for text in texts:
        field = _SPOKEN[text.kind] if text.kind in _SPOKEN else _field_of_call(text.kind)
        if field is not None:
            found.append(Document(field, text.message, SHORT_HASH.unpack_from(text.hash)[0], text.text))
    first = next((document.message for document in found if document.field < SAID), 0)
    facts = (title, "" if branch in _TRUNKS else branch.split("/", 1)[-1])
    headline = []
    for fact in filter(None, facts):
        digest = blake2b(fact.encode("utf-8", "replace"), digest_size=8).digest()
        headline.append(Document(COMMANDS, first, SHORT_HASH.unpack(digest)[0], 0, fact))
    ordered = sorted((*headline, *found), key=lambda document: document.field >= SAID)
    # A message may contain the same text twice.
    return {(document.field >= SAID, document.message, document.hash): document for document in ordered}


def _field_of_call(tool: str) -> int | None:
    """The field of a call; calls that only plan or ask have none."""
    if tool in SHELLS:
        return COMMANDS
    if _PLAN.search(tool):
        return None
    if _EDIT.search(tool):
        return EDITS
    return LOOKUPS if _LOOKUP.search(tool) else None


def _decode_arguments(arguments: str) -> str:
    """The arguments of a call without JSON's escapes."""
    if "\\u" in arguments:
        with suppress(ValueError, RecursionError):
            arguments = clean(json.dumps(json.loads(arguments), ensure_ascii=False))
    return arguments.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ")


# -- what the dialects implement


class TermIndex(ABC):
    """The posting lists of one kind of database: for each stem, the documents that have it."""

    ADD: ClassVar[str]  # its parameter is a JSON object: by document id, the stems joined by spaces
    COUNT: ClassVar[tuple[str, ...]]  # recount the document frequency of each stem
    CLEAR: ClassVar[tuple[str, ...]]  # remove everything, and mark every session as changed

    @abstractmethod
    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        """For each stem, the first `limit` ids of the documents that have it, in order."""

    @abstractmethod
    def time_limit(self, deadline: float) -> AbstractContextManager[None]:
        """Raise `Interrupted` in statements that run past the deadline, a time of `time.monotonic`."""


class SQLiteTermIndex(TermIndex):
    """Two contentless FTS5 tables without positions, over our own stems."""

    ADD = "INSERT INTO {0} (rowid, stems) SELECT CAST(key AS INTEGER), value FROM json_each(?)"
    # A stem in one document is as rare as an unknown one, and half of all stems are.
    COUNT = tuple(
        statement.format(group)
        for group in GROUPS
        for statement in (
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.{0}_vocabulary USING fts5vocab (main, {0}, row)",
            "DELETE FROM {0}_terms",
            "INSERT INTO {0}_terms SELECT term, doc FROM temp.{0}_vocabulary WHERE doc > 1",
        )
    )
    CLEAR = (
        "INSERT INTO said (said) VALUES ('delete-all')",
        "INSERT INTO did (did) VALUES ('delete-all')",
        "DELETE FROM said_terms",
        "DELETE FROM did_terms",
        "DELETE FROM recall_parts",
        "DELETE FROM recall_documents",
        "DELETE FROM recall_deleted",
        "UPDATE recall_state SET generation = generation + 1, cleared = generation + 1, "
        "documents = 0, deleted = 0, counted = 0",
        "INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale)",
    )

    def __init__(self, database: SQLiteDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        import numpy as np

        found: dict[Group, list[Ids]] = {group: [] for group in stems}
        for group, some in stems.items():
            # One string with all ids is three times as fast as a row per id, and one statement is faster than several.
            one = f"SELECT group_concat(rowid) FROM (SELECT rowid FROM {group} WHERE {group} MATCH ? LIMIT ?)"
            for batch in batches(some, _BATCH_STEMS):
                values = [value for stem in batch for value in (f'"{stem}"', limit)]
                for (ids,) in self._connection.execute(" UNION ALL ".join([one] * len(batch)), values):
                    found[group].append(np.fromstring(ids or "", dtype=np.int64, sep=","))
        return found

    @contextmanager
    def time_limit(self, deadline: float) -> Iterator[None]:
        if isinf(deadline):
            yield
            return
        wait = self._connection.execute("PRAGMA busy_timeout").fetchone()[0]
        left = max(0, int((deadline - time.monotonic()) * 1000))
        self._connection.execute(f"PRAGMA busy_timeout = {left}")
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise Interrupted from None
            raise
        finally:
            self._connection.set_progress_handler(None, 0)
            self._connection.execute(f"PRAGMA busy_timeout = {wait}")


class PostgresTermIndex(TermIndex):
    """Two tables with a GIN index over arrays of our own stems, accessed through SQL functions."""

    ADD = (
        "SELECT warmstart_recall_add('{0}', array_agg(CAST(key AS BIGINT)), array_agg(value)) "
        "FROM json_each_text(CAST(? AS JSON))"
    )
    COUNT = ("SELECT warmstart_recall_count()",)
    CLEAR = ("SELECT warmstart_recall_clear()",)

    def __init__(self, database: PostgresDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        import numpy as np

        # The function numbers its rows with NULL; WITH ORDINALITY counts them.
        one = (
            "SELECT '{0}', number, ids FROM warmstart_recall_postings('{0}', CAST(? AS TEXT[]), ?) "
            "WITH ORDINALITY AS found (place, ids, number)"
        )
        rows = self._connection.execute(
            " UNION ALL ".join(one.format(group) for group in stems) + " ORDER BY 1, 2",
            [value for some in stems.values() for value in (list(some), limit)],
            binary=True,
        )
        found: dict[Group, list[Ids]] = {group: [] for group in stems}
        for group, _, ids in rows:
            found[group].append(np.array(ids, np.int64))
        return found

    def time_limit(self, deadline: float) -> AbstractContextManager[None]:
        return self._connection.limited(None if isinf(deadline) else max(0.0, deadline - time.monotonic()))
