-- What each turn of a session did, for the lines that a later session is shown.
CREATE TABLE session_turns (
    session INTEGER NOT NULL REFERENCES session_items (session) ON DELETE CASCADE,
    first_seq INTEGER NOT NULL,
    at REAL,
    asked TEXT NOT NULL,
    changed TEXT NOT NULL,
    read TEXT NOT NULL,
    ran TEXT NOT NULL,
    PRIMARY KEY (session, first_seq)
) WITHOUT ROWID;
-- Commands that failed and what worked instead, by project.
CREATE TABLE session_traps (
    session INTEGER NOT NULL REFERENCES session_items (session) ON DELETE CASCADE,
    command TEXT NOT NULL,
    error TEXT NOT NULL,
    fix TEXT NOT NULL,
    PRIMARY KEY (session, command, error)
) WITHOUT ROWID;
-- Messages that must not be quoted: they hold a secret, or imitate an instruction.
CREATE TABLE unquotable_messages (message INTEGER PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE);
-- The items of which the rows above were made.
CREATE TABLE preflight_sessions (
    session INTEGER PRIMARY KEY REFERENCES session_items (session) ON DELETE CASCADE,
    rules TEXT NOT NULL
);
-- One row per decision: what was injected, or why nothing was. No text.
CREATE TABLE preflight_turns (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    host TEXT NOT NULL,
    project TEXT NOT NULL,
    at REAL NOT NULL,
    event TEXT NOT NULL,
    reason TEXT NOT NULL,
    evidence TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    milliseconds REAL NOT NULL
);
CREATE INDEX preflight_turns_session ON preflight_turns (session);
