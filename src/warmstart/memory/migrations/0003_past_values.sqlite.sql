-- only if: SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info('memories') WHERE name = 'past')
-- Earlier layouts gave an entry a new number with every write. A past value had the number that the entry had then; now
-- it has that of the write after it, and the entry, or the value after it, points back to it. Deletions were among the
-- past values. The index is made again by whoever writes or asks next.
PRAGMA secure_delete = ON;
ALTER TABLE memory_users RENAME TO earlier_users;
ALTER TABLE memories RENAME TO earlier_memories;
ALTER TABLE memory_history RENAME TO earlier_history;
DROP INDEX memories_expiring;
DROP TABLE memory_index;
DROP TABLE IF EXISTS memory_stale;
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
INSERT INTO memory_users (number, user_id, indexed) SELECT number, user_id, number << 40 FROM earlier_users;
INSERT INTO memories
    (id, owner, key, scope, place, value, created_at, updated_at, since, expires_at, metadata)
    SELECT id, owner, key, scope, place, value, created_at, updated_at, since, expires_at, metadata
    FROM earlier_memories;
INSERT INTO memory_history (id, entry, prior, value, since, until, metadata)
    SELECT coalesce(lead(h.entry) OVER past, m.id), h.entry,
        CASE WHEN lag(h.entry) OVER past IS NULL THEN 0 ELSE h.entry END,
        h.value, h.since, coalesce(h.until, h.since),
        CASE WHEN h.session = '' AND h.source = '' THEN ''
            ELSE json_object('session', h.session, 'source', h.source) END
    FROM earlier_history h JOIN earlier_memories m
        ON m.owner = h.owner AND m.key = h.key AND m.scope = h.scope AND m.place = h.place
    WHERE h.value IS NOT NULL
    WINDOW past AS (PARTITION BY h.owner, h.key, h.scope, h.place ORDER BY h.entry);
UPDATE memories SET past = id WHERE id IN (SELECT id FROM memory_history);
INSERT INTO memory_deletions (owner, key, scope, place, deleted_at)
    SELECT DISTINCT owner, key, scope, place, since FROM earlier_history WHERE value IS NULL;
DROP TABLE earlier_users;
DROP TABLE earlier_memories;
DROP TABLE earlier_history;
