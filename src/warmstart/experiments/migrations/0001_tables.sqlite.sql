CREATE TABLE experiments (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    design TEXT NOT NULL,
    state TEXT NOT NULL,
    at REAL NOT NULL
);
-- Each session of an experiment: how it was assigned, written before it begins, and what came of it.
CREATE TABLE experiment_sessions (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL REFERENCES experiments (name) ON DELETE CASCADE,
    session TEXT NOT NULL,
    arm TEXT NOT NULL,
    propensity REAL NOT NULL,
    stratum TEXT NOT NULL,
    unit TEXT NOT NULL,
    task TEXT NOT NULL,
    at REAL NOT NULL,
    settled_at REAL,
    measures TEXT NOT NULL,
    UNIQUE (experiment, session)
);
