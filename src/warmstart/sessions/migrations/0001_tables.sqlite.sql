CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    body TEXT NOT NULL
);
CREATE VIRTUAL TABLE texts_index USING fts5 (
    body, content = 'texts', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN
    INSERT INTO texts_index (texts_index, rowid, body) VALUES ('delete', old.id, old.body);
END;
CREATE TABLE sessions (
    pk INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    native_id TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    branch TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL DEFAULT '',
    started_at REAL,
    ended_at REAL,
    parent_id TEXT,
    parent_kind TEXT,
    outcome TEXT NOT NULL DEFAULT 'unknown' CHECK (outcome IN ('success', 'failure', 'unknown')),
    evidence TEXT NOT NULL DEFAULT '',
    judge TEXT NOT NULL DEFAULT '',
    UNIQUE (agent, native_id)
);
CREATE INDEX sessions_started ON sessions (started_at);
CREATE INDEX sessions_project ON sessions (project);
CREATE INDEX sessions_parent ON sessions (parent_id);
CREATE INDEX sessions_native ON sessions (native_id);
CREATE TABLE messages (
    pk INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    key BLOB NOT NULL UNIQUE,
    native_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    flags INTEGER NOT NULL DEFAULT 0,
    at REAL,
    model TEXT NOT NULL DEFAULT '',
    origin TEXT NOT NULL DEFAULT '',
    usage TEXT,
    text INTEGER REFERENCES texts (id),
    reasoning INTEGER REFERENCES texts (id)
);
CREATE UNIQUE INDEX messages_order ON messages (session, seq);
CREATE INDEX messages_text ON messages (text);
CREATE INDEX messages_reasoning ON messages (reasoning) WHERE reasoning IS NOT NULL;
CREATE TABLE tool_calls (
    message INTEGER NOT NULL REFERENCES messages (pk) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments INTEGER REFERENCES texts (id),
    PRIMARY KEY (message, position)
) WITHOUT ROWID;
CREATE INDEX tool_calls_arguments ON tool_calls (arguments);
CREATE TABLE tool_results (
    message INTEGER NOT NULL REFERENCES messages (pk) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'error', 'rejected', 'unknown')),
    text INTEGER REFERENCES texts (id),
    duration REAL,
    flag INTEGER,
    exit_code INTEGER,
    PRIMARY KEY (message, position)
) WITHOUT ROWID;
CREATE INDEX tool_results_text ON tool_results (text);
CREATE TABLE positions (
    path TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    signature TEXT NOT NULL,
    mark TEXT NOT NULL,
    offset INTEGER NOT NULL,
    line INTEGER NOT NULL,
    state TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE deleted_sessions (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE deleted_messages (key BLOB PRIMARY KEY, session_id TEXT NOT NULL) WITHOUT ROWID;
