-- Triggers ask before they insert: what a statement says about conflicts is also said, by SQLite, to the triggers that it
-- fires.
CREATE VIRTUAL TABLE said USING fts5 (body, content = '', columnsize = 0, detail = none,
    tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE did USING fts5 (body, content = '', columnsize = 0, detail = none,
    tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE said_terms (term TEXT PRIMARY KEY, lines INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE did_terms (term TEXT PRIMARY KEY, lines INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE recall_parts (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    said INTEGER NOT NULL,
    did INTEGER NOT NULL,
    "user" REAL NOT NULL,
    assistant REAL NOT NULL,
    reasoning REAL NOT NULL,
    edits REAL NOT NULL,
    commands REAL NOT NULL,
    lookups REAL NOT NULL,
    lengths BLOB NOT NULL
);
CREATE INDEX recall_parts_session ON recall_parts (session);
CREATE INDEX recall_parts_generation ON recall_parts (generation);
CREATE TABLE recall_lines (
    part INTEGER NOT NULL,
    line INTEGER NOT NULL,
    message INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (part, line)
) WITHOUT ROWID;
CREATE TABLE recall_dead (line INTEGER PRIMARY KEY);
CREATE TABLE recall_stale (session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE);
CREATE TABLE recall_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL DEFAULT 1,
    emptied INTEGER NOT NULL DEFAULT 1,
    part INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    counted INTEGER NOT NULL DEFAULT 0
);
INSERT INTO recall_state (id) VALUES (1);
INSERT INTO recall_stale (session) SELECT pk FROM sessions;
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts BEGIN
    DELETE FROM recall_lines WHERE part = old.number;
    UPDATE recall_state SET generation = generation + 1, emptied = generation + 1,
        lines = lines - old.said - old.did, dead = dead + old.said + old.did;
END;
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs
WHEN EXISTS (SELECT 1 FROM recall_stale) OR (SELECT dead FROM recall_state) > 0 BEGIN
    INSERT INTO said (said) VALUES ('delete-all');
    INSERT INTO did (did) VALUES ('delete-all');
    DELETE FROM said_terms;
    DELETE FROM did_terms;
    DELETE FROM recall_parts;
    DELETE FROM recall_lines;
    DELETE FROM recall_dead;
    UPDATE recall_state SET generation = generation + 1, emptied = generation + 1, lines = 0, dead = 0, counted = 0;
    INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale);
END;
