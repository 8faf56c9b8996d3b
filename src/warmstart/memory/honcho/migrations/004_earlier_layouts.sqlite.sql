-- only if: SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info('entries') WHERE name = 'key_words')
-- The first layout kept no words of entries, and no end of versions. The words are those of the text until it is written
-- again.
PRAGMA secure_delete = ON;
ALTER TABLE versions RENAME TO earlier_versions;
ALTER TABLE entries RENAME TO earlier_entries;
DROP TABLE entries_text;
DROP TRIGGER entries_added;
DROP TRIGGER entries_gone;
DROP TRIGGER entries_changed;
DROP INDEX versions_of_key;
DROP INDEX entries_by_time;
DROP INDEX entries_by_version;
DROP INDEX entries_by_expiry;
CREATE TABLE versions (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    place TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    at REAL NOT NULL,
    expires_at REAL,
    metadata TEXT NOT NULL,
    message_id TEXT NOT NULL,
    deleted INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX versions_of_key ON versions (user_id, place, key, at);
CREATE TABLE entries (
    rowid INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    place TEXT NOT NULL,
    key TEXT NOT NULL,
    version TEXT NOT NULL,
    value TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    expires_at REAL,
    key_words TEXT NOT NULL,
    value_words TEXT NOT NULL,
    metadata_words TEXT NOT NULL,
    UNIQUE (user_id, place, key)
);
CREATE INDEX entries_by_key ON entries (user_id, key);
CREATE INDEX entries_by_time ON entries (user_id, updated_at);
CREATE INDEX entries_by_version ON entries (version);
CREATE VIRTUAL TABLE entries_text USING fts5 (key_words, value_words, metadata_words, content = 'entries',
    tokenize = 'unicode61');
CREATE TRIGGER entries_added AFTER INSERT ON entries BEGIN
    INSERT INTO entries_text (rowid, key_words, value_words, metadata_words)
        VALUES (new.rowid, new.key_words, new.value_words, new.metadata_words);
END;
CREATE TRIGGER entries_gone AFTER DELETE ON entries BEGIN
    INSERT INTO entries_text (entries_text, rowid, key_words, value_words, metadata_words)
        VALUES ('delete', old.rowid, old.key_words, old.value_words, old.metadata_words);
END;
CREATE TRIGGER entries_changed AFTER UPDATE ON entries BEGIN
    INSERT INTO entries_text (entries_text, rowid, key_words, value_words, metadata_words)
        VALUES ('delete', old.rowid, old.key_words, old.value_words, old.metadata_words);
    INSERT INTO entries_text (rowid, key_words, value_words, metadata_words)
        VALUES (new.rowid, new.key_words, new.value_words, new.metadata_words);
END;
CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX outbox_of_version ON outbox (version);
INSERT INTO versions (id, user_id, place, key, value, at, expires_at, metadata, message_id, deleted)
    SELECT v.id, v.user_id, v.place, v.key, v.value, v.at,
        (SELECT e.expires_at FROM earlier_entries e WHERE e.version = v.id), v.metadata, v.message_id, v.deleted
    FROM earlier_versions v;
INSERT INTO entries (rowid, user_id, place, key, version, value, metadata, created_at, updated_at, expires_at,
        key_words, value_words, metadata_words)
    SELECT rowid, user_id, place, key, version, value, metadata, created_at, updated_at, expires_at,
        key, value, metadata
    FROM earlier_entries;
DROP TABLE earlier_versions;
DROP TABLE earlier_entries;
