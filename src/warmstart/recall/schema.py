"""The tables of the room `recall`: an index of what was said and one of what was done.

`said` and `did` are FTS5 indexes without the text and without places of words; the number of a line tells its part,
place, field and length (see `packing`). `recall_parts` has a row for every session that is indexed, or several for a
very long one, `recall_lines` which message and which text each line was made from.

FTS5 can take a line out only for whoever still has its text, which is gone when a session is. So a line that is no more
stays in the index and is passed over: its part is not in `recall_parts`, or it is in `recall_dead`. When a tenth of the
lines is dead, the index is made anew; when traces are to be removed, it is emptied and made anew with the next search.

Triggers note which sessions changed, whoever changes them. They ask before they insert: what a statement says about
conflicts is also said, by SQLite, to the triggers that it fires.
"""

from __future__ import annotations

from warmstart.recall.schema_postgres import create_tables, create_vectors
from warmstart.storage.database import Connection, Migration

_INDEX = (
    "CREATE VIRTUAL TABLE {name} USING fts5 (body, content = '', columnsize = 0, detail = none, "
    "tokenize = 'porter unicode61 remove_diacritics 2')"
)
EMPTY = (
    "INSERT INTO said (said) VALUES ('delete-all')",
    "INSERT INTO did (did) VALUES ('delete-all')",
    "DELETE FROM said_terms",
    "DELETE FROM did_terms",
    "DELETE FROM recall_parts",
    "DELETE FROM recall_lines",
    "DELETE FROM recall_dead",
    "UPDATE recall_state SET generation = generation + 1, emptied = generation + 1, lines = 0, dead = 0, counted = 0",
    "INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale)",
)
_TABLES = (
    _INDEX.format(name="said"),
    _INDEX.format(name="did"),
    "CREATE TABLE said_terms (term TEXT PRIMARY KEY, lines INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE did_terms (term TEXT PRIMARY KEY, lines INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE recall_parts (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
        generation INTEGER NOT NULL,
        said INTEGER NOT NULL,
        did INTEGER NOT NULL,
        "user" REAL NOT NULL,
        assistant REAL NOT NULL,
        reasoning REAL NOT NULL,
        edits REAL NOT NULL,
        commands REAL NOT NULL,
        lookups REAL NOT NULL,
        lengths BLOB NOT NULL
    )
    """,
    "CREATE INDEX recall_parts_session ON recall_parts (session)",
    "CREATE INDEX recall_parts_generation ON recall_parts (generation)",
    """
    CREATE TABLE recall_lines (
        part INTEGER NOT NULL,
        line INTEGER NOT NULL,
        message INTEGER NOT NULL,
        hash INTEGER NOT NULL,
        PRIMARY KEY (part, line)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE recall_dead (line INTEGER PRIMARY KEY)",
    "CREATE TABLE recall_stale (session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE)",
    """
    CREATE TABLE recall_state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        generation INTEGER NOT NULL DEFAULT 1,
        emptied INTEGER NOT NULL DEFAULT 1,
        part INTEGER NOT NULL DEFAULT 0,
        lines INTEGER NOT NULL DEFAULT 0,
        dead INTEGER NOT NULL DEFAULT 0,
        counted INTEGER NOT NULL DEFAULT 0
    )
    """,
    "INSERT INTO recall_state (id) VALUES (1)",
    "INSERT INTO recall_stale (session) SELECT pk FROM sessions",
    """
    CREATE TRIGGER recall_session_added AFTER INSERT ON sessions BEGIN
        INSERT INTO recall_stale (session)
            SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
    END
    """,
    """
    CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions BEGIN
        INSERT INTO recall_stale (session)
            SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
    END
    """,
    """
    CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts BEGIN
        DELETE FROM recall_lines WHERE part = old.number;
        UPDATE recall_state SET generation = generation + 1, emptied = generation + 1,
            lines = lines - old.said - old.did, dead = dead + old.said + old.did;
    END
    """,
    f"""
    CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs
    WHEN EXISTS (SELECT 1 FROM recall_stale) OR (SELECT dead FROM recall_state) > 0 BEGIN
        {"; ".join(EMPTY)};
    END
    """,
)


def _create_tables(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


MIGRATIONS = (
    Migration("recall/0001_tables", _create_tables, postgres=create_tables),
    # Beside a SQLite store vectors are in a file of their own.
    Migration("recall/0002_vectors", lambda connection: None, postgres=create_vectors),
)
