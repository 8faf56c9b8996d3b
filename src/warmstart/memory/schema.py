"""The tables of the room `memory` as an ordered list of migrations, for SQLite and for PostgreSQL.

Each user has a number, and his writes are counted in a range of their own, `number << 40` and up. A new entry takes the
number of its write as its id. A write over it changes the entry where it is, and a trigger keeps what it was before as
a row of history, whose id is the number of that write: `past` of the entry, and through `prior` back to the first.

The index is brought up to date later, up to the write `indexed` of the user. An entry that was written over meanwhile
then gets `past` for its id, so that the order of ids is the order of writes again. A range begins with a row of the
scope -1 that is no entry; it takes over the number of an entry that is forgotten, so that no number is given twice.
"""

from __future__ import annotations

from warmstart.storage.database import Connection, Migration
from warmstart.storage.tenants import COLUMN, keep_apart

BITS = 40  # of a number that count a user's writes

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
        user_id TEXT UNIQUE,
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
        past INTEGER NOT NULL DEFAULT 0,
        UNIQUE (owner, key, scope, place),
        CHECK (id >> {BITS} = owner)
    )
    """,
    "CREATE INDEX memories_expiring ON memories (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE memory_history (
        id INTEGER PRIMARY KEY,
        entry INTEGER NOT NULL,
        prior INTEGER NOT NULL,
        value TEXT NOT NULL,
        since REAL NOT NULL,
        until REAL NOT NULL,
        metadata TEXT NOT NULL
    )
    """,
    """
    CREATE TRIGGER memory_keeps_history BEFORE UPDATE OF value ON memories WHEN old.value <> new.value BEGIN
        INSERT INTO memory_history (id, entry, prior, value, since, until, metadata)
        VALUES (new.past, old.id, old.past, old.value, old.since, new.since, old.metadata);
    END
    """,
    f"""
    CREATE TABLE memory_deletions (
        {_ENTRY}
        deleted_at REAL NOT NULL,
        PRIMARY KEY (owner, key, scope, place, deleted_at)
    ) WITHOUT ROWID
    """,
    # The words of entries, both ways. A table and no index of FTS5, which keeps words of what is deleted for long.
    """
    CREATE TABLE memory_words (
        owner INTEGER NOT NULL,
        word TEXT NOT NULL,
        id INTEGER NOT NULL,
        PRIMARY KEY (owner, word, id)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE memory_indexed (id INTEGER PRIMARY KEY, words TEXT NOT NULL)",
)


def _create_tables(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


_POSTGRES = (
    f"""
    CREATE TABLE memory_users (
        {COLUMN},
        number BIGINT NOT NULL,
        user_id TEXT COLLATE "C",
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
        past BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, owner, key, scope, place),
        CHECK (id >> {BITS} = owner)
    )
    """,
    "CREATE INDEX memories_expiring ON memories (tenant, expires_at) WHERE expires_at IS NOT NULL",
    f"""
    CREATE TABLE memory_history (
        {COLUMN},
        id BIGINT NOT NULL,
        entry BIGINT NOT NULL,
        prior BIGINT NOT NULL,
        value TEXT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION NOT NULL,
        metadata TEXT NOT NULL,
        PRIMARY KEY (tenant, id)
    )
    """,
    """
    CREATE FUNCTION memory_keep_history() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO memory_history (id, entry, prior, value, since, until, metadata)
        VALUES (NEW.past, OLD.id, OLD.past, OLD.value, OLD.since, NEW.since, OLD.metadata);
        RETURN NEW;
    END
    $$
    """,
    "CREATE TRIGGER memory_keeps_history BEFORE UPDATE OF value ON memories FOR EACH ROW "
    "WHEN (OLD.value <> NEW.value) EXECUTE FUNCTION memory_keep_history()",
    f"""
    CREATE TABLE memory_deletions (
        {COLUMN},
        {_ENTRY}
        deleted_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (tenant, owner, key, scope, place, deleted_at)
    )
    """,
    # Plain keys, because no text index is used behind row-level security.
    f"""
    CREATE TABLE memory_words (
        {COLUMN},
        owner BIGINT NOT NULL,
        word TEXT COLLATE "C" NOT NULL,
        id BIGINT NOT NULL,
        PRIMARY KEY (tenant, owner, word, id)
    )
    """,
    f"CREATE TABLE memory_indexed ({COLUMN}, id BIGINT NOT NULL, words TEXT NOT NULL, PRIMARY KEY (tenant, id))",
)
_OF_TENANTS = ("memory_users", "memories", "memory_history", "memory_deletions", "memory_words", "memory_indexed")


def _create_tables_in_postgres(connection: Connection) -> None:
    for statement in _POSTGRES:
        connection.execute(statement)
    keep_apart(connection, *_OF_TENANTS)


MIGRATIONS = (Migration("memory/0001_tables", _create_tables, postgres=_create_tables_in_postgres),)
