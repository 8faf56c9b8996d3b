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
CREATE TABLE retired (
    version TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    words TEXT NOT NULL,
    telling TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX retired_of_user ON retired (user_id, words);
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    version TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempted_at REAL,
    refused TEXT
);
CREATE INDEX outbox_of_user ON outbox (user_id, seq);
CREATE INDEX outbox_of_version ON outbox (version);
CREATE TABLE positions (
    user_id TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    pulled_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE patience (one INTEGER PRIMARY KEY, until REAL NOT NULL, step REAL NOT NULL);
CREATE TABLE forgotten (version TEXT PRIMARY KEY, user_id TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, done
    INTEGER NOT NULL DEFAULT 0, conclusions INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
