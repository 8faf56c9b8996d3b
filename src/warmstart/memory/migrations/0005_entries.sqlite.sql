-- One row per entry, whose id never changes. `place` is the scope: empty, `project:NAME` or `agent:NAME`. A trigger keeps
-- replaced values. `is_indexed` says whether the index has the entry as it is now. Deletions are kept without key and
-- user, as digests; those of earlier layouts named the key and are dropped.
PRAGMA secure_delete = ON;
CREATE TABLE memory_entries (
    id INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    place TEXT NOT NULL,
    value TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    since REAL NOT NULL,
    expires_at REAL,
    is_indexed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (user_id, key, place)
);
CREATE TABLE memory_versions (
    entry INTEGER NOT NULL,
    since REAL NOT NULL,
    until REAL NOT NULL,
    value TEXT NOT NULL,
    metadata TEXT NOT NULL,
    PRIMARY KEY (entry, since)
) WITHOUT ROWID;
INSERT INTO memory_entries
    (id, user_id, key, place, value, metadata, created_at, updated_at, since, expires_at)
    SELECT m.id, u.user_id, m.key,
        CASE m.scope WHEN 0 THEN '' WHEN 1 THEN 'project:' || m.place ELSE 'agent:' || m.place END,
        m.value, m.metadata, m.created_at, m.updated_at, m.since, m.expires_at
    FROM memories m JOIN memory_users u ON u.number = m.owner WHERE m.scope >= 0 AND u.user_id IS NOT NULL;
INSERT OR IGNORE INTO memory_versions (entry, value, since, until, metadata)
    WITH RECURSIVE past (entry, id) AS (
        SELECT id, past FROM memories WHERE scope >= 0 AND past > 0
        UNION ALL SELECT past.entry, h.prior FROM past JOIN memory_history h ON h.id = past.id WHERE h.prior > 0
    )
    SELECT past.entry, h.value, h.since, h.until, h.metadata FROM past JOIN memory_history h ON h.id = past.id
    ORDER BY h.id;
DROP TABLE memories;
DROP TABLE memory_history;
DROP TABLE memory_deletions;
DROP TABLE memory_words;
DROP TABLE memory_indexed;
DROP TABLE memory_users;
CREATE INDEX memory_entries_newest ON memory_entries (user_id, is_indexed, updated_at);
CREATE INDEX memory_entries_expiring ON memory_entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE TRIGGER memory_keeps_version BEFORE UPDATE OF value ON memory_entries WHEN old.value <> new.value BEGIN
    INSERT OR IGNORE INTO memory_versions (entry, value, since, until, metadata)
    VALUES (old.id, old.value, old.since, new.since, old.metadata);
END;
CREATE TABLE memory_tombstones (
    owner TEXT NOT NULL,
    entry TEXT NOT NULL,
    place TEXT NOT NULL,
    deleted_at REAL NOT NULL,
    PRIMARY KEY (owner, entry, place, deleted_at)
) WITHOUT ROWID;
-- The stems of an entry, beside the index because FTS5 needs them to delete it there.
CREATE TABLE memory_index (id INTEGER PRIMARY KEY, stems TEXT NOT NULL);
CREATE VIRTUAL TABLE memory_text USING fts5 (stems, content = '', columnsize = 0, detail = none, tokenize = 'ascii');
CREATE TABLE memory_vectors (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id INTEGER NOT NULL UNIQUE,
    model TEXT NOT NULL,
    vector BLOB NOT NULL,
    updated_at REAL NOT NULL
);
