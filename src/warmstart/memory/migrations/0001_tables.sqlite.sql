CREATE TABLE memory_users (
    number INTEGER PRIMARY KEY,
    user_id TEXT UNIQUE,
    indexed INTEGER NOT NULL
);
CREATE TABLE memories (
    id INTEGER PRIMARY KEY,
    owner BIGINT NOT NULL,
    key TEXT NOT NULL,
    scope INTEGER NOT NULL,
    place TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    since REAL NOT NULL,
    expires_at REAL,
    metadata TEXT NOT NULL,
    past INTEGER NOT NULL DEFAULT 0,
    UNIQUE (owner, key, scope, place),
    CHECK (id >> 40 = owner)
);
CREATE INDEX memories_expiring ON memories (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE memory_history (
    id INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL,
    prior INTEGER NOT NULL,
    value TEXT NOT NULL,
    since REAL NOT NULL,
    until REAL NOT NULL,
    metadata TEXT NOT NULL
);
CREATE TRIGGER memory_keeps_history BEFORE UPDATE OF value ON memories WHEN old.value <> new.value BEGIN
    INSERT INTO memory_history (id, entry, prior, value, since, until, metadata)
    VALUES (new.past, old.id, old.past, old.value, old.since, new.since, old.metadata);
END;
CREATE TABLE memory_deletions (
    owner BIGINT NOT NULL,
    key TEXT NOT NULL,
    scope INTEGER NOT NULL,
    place TEXT NOT NULL,
    deleted_at REAL NOT NULL,
    PRIMARY KEY (owner, key, scope, place, deleted_at)
) WITHOUT ROWID;
-- The words of entries, both ways. No index of FTS5, which keeps words of what is deleted for long.
CREATE TABLE memory_words (
    owner INTEGER NOT NULL,
    word TEXT NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (owner, word, id)
) WITHOUT ROWID;
CREATE TABLE memory_indexed (id INTEGER PRIMARY KEY, words TEXT NOT NULL);
