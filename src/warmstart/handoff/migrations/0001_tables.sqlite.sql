-- What a packet was made of: with it, the same packet can be made again.
CREATE TABLE packets (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    messages INTEGER NOT NULL,
    budget INTEGER NOT NULL,
    note TEXT NOT NULL,
    git TEXT NOT NULL,
    at REAL
);
CREATE INDEX packets_session ON packets (session);
-- A session that ended with a handoff, and the one that continues it: at most one.
CREATE TABLE handoffs (
    parent INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    child TEXT NOT NULL,
    packet TEXT NOT NULL,
    ledger TEXT NOT NULL,
    at REAL NOT NULL
);
-- How often the context of a session was compressed since it was last handed over or its user was asked to.
CREATE TABLE compressions (
    session TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    ledger TEXT NOT NULL
);
