"""The tables of the room `memory` as an ordered list of migrations, for SQLite and for PostgreSQL.

Each user has a number, and the ids of his entries are a range of their own, `number << 40` and up: his newest entries
are the end of his range, whatever others have. An entry gets a new id whenever it is written, so that the order of ids
is the order of writes, and what came after the last indexed id is what the index does not know yet. `prior` is the id
under which the index still has an entry that was written anew. A range begins with a row of the scope -1 that is no
entry; it takes over the id of an entry that is forgotten, so that no id is ever given twice.
"""

from __future__ import annotations

from warmstart.storage.database import Connection, Migration
from warmstart.storage.tenants import COLUMN, keep_apart

_ENTRY = """
    owner BIGINT NOT NULL,
    key TEXT NOT NULL,
    scope INTEGER NOT NULL,
    place TEXT NOT NULL,
"""

_TABLES = (
    """
    CREATE TABLE memory_users (
        number INTEGER PRIMARY KEY,
        user_id TEXT NOT NULL UNIQUE,
        indexed INTEGER NOT NULL
    )
    """,
    f"""
    CREATE TABLE memories (
        id INTEGER PRIMARY KEY,
        {_ENTRY}
        value TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        since REAL NOT NULL,
        expires_at REAL,
        metadata TEXT NOT NULL,
        prior INTEGER NOT NULL DEFAULT 0,
        UNIQUE (owner, key, scope, place)
    )
    """,
    "CREATE INDEX memories_expiring ON memories (expires_at) WHERE expires_at IS NOT NULL",
    f"""
    CREATE TABLE memory_history (
        {_ENTRY}
        entry INTEGER NOT NULL,
        value TEXT,
        since REAL NOT NULL,
        until REAL,
        session TEXT NOT NULL,
        source TEXT NOT NULL,
        PRIMARY KEY (owner, key, entry)
    ) WITHOUT ROWID
    """,
    # Words are made in Python, for both databases alike; whatever is not ASCII is part of a word for this tokenizer.
    "CREATE VIRTUAL TABLE memory_index USING fts5 (words, columnsize = 0, detail = none, tokenize = 'ascii')",
)


def _create_tables(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


_POSTGRES = (
    f"""
    CREATE TABLE memory_users (
        {COLUMN},
        number BIGINT NOT NULL,
        user_id TEXT COLLATE "C" NOT NULL,
        indexed BIGINT NOT NULL,
        PRIMARY KEY (tenant, number),
        UNIQUE (tenant, user_id)
    )
    """,
    f"""
    CREATE TABLE memories (
        {COLUMN},
        id BIGINT NOT NULL,
        {_ENTRY}
        value TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        expires_at DOUBLE PRECISION,
        metadata TEXT NOT NULL,
        prior BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, owner, key, scope, place)
    )
    """,
    "CREATE INDEX memories_expiring ON memories (tenant, expires_at) WHERE expires_at IS NOT NULL",
    f"""
    CREATE TABLE memory_history (
        {COLUMN},
        {_ENTRY}
        entry BIGINT NOT NULL,
        value TEXT,
        since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION,
        session TEXT NOT NULL,
        source TEXT NOT NULL,
        PRIMARY KEY (tenant, owner, key, entry)
    )
    """,
    # A word and the entries that have it. Plain keys, because no text index is used behind row-level security.
    f"""
    CREATE TABLE memory_words (
        {COLUMN},
        word TEXT COLLATE "C" NOT NULL,
        id BIGINT NOT NULL,
        PRIMARY KEY (tenant, word, id)
    )
    """,
    "CREATE INDEX memory_words_entries ON memory_words (tenant, id)",
)


def _create_tables_in_postgres(connection: Connection) -> None:
    for statement in _POSTGRES:
        connection.execute(statement)
    keep_apart(connection, "memory_users", "memories", "memory_history", "memory_words")


MIGRATIONS = (Migration("memory/0001_tables", _create_tables, postgres=_create_tables_in_postgres),)
