-- The index holds our own stems. Everything in it is made from the sessions; the next sync fills it again.
DROP TRIGGER recall_session_added;
DROP TRIGGER recall_session_changed;
DROP TRIGGER recall_part_removed;
DROP TRIGGER recall_scrubbed;
DROP TABLE said;
DROP TABLE did;
DROP TABLE said_terms;
DROP TABLE did_terms;
DROP TABLE recall_parts;
DROP TABLE recall_lines;
DROP TABLE recall_dead;
DROP TABLE recall_stale;
DROP TABLE recall_state;
-- Stems are separated by spaces; the tokenizer `ascii` leaves everything else in them alone.
CREATE VIRTUAL TABLE said USING fts5 (stems, content = '', columnsize = 0, detail = none, tokenize = 'ascii');
CREATE VIRTUAL TABLE did USING fts5 (stems, content = '', columnsize = 0, detail = none, tokenize = 'ascii');
CREATE TABLE said_terms (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE did_terms (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
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
CREATE TABLE recall_documents (
    part INTEGER NOT NULL,
    id INTEGER NOT NULL,
    message INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (part, id)
) WITHOUT ROWID;
CREATE TABLE recall_deleted (id INTEGER PRIMARY KEY);
CREATE TABLE recall_stale (session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE);
CREATE TABLE recall_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL DEFAULT 1,
    cleared INTEGER NOT NULL DEFAULT 1,
    parts INTEGER NOT NULL DEFAULT 0,
    documents INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    counted INTEGER NOT NULL DEFAULT 0
);
INSERT INTO recall_state (id) VALUES (1);
INSERT INTO recall_stale (session) SELECT pk FROM sessions;
-- Triggers look before they insert: SQLite applies what a statement says about conflicts to the triggers it fires.
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts BEGIN
    DELETE FROM recall_documents WHERE part = old.number;
    UPDATE recall_state SET generation = generation + 1, cleared = generation + 1,
        documents = documents - old.said - old.did, deleted = deleted + old.said + old.did;
END;
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs
WHEN EXISTS (SELECT 1 FROM recall_stale) OR (SELECT deleted FROM recall_state) > 0 BEGIN
    INSERT INTO said (said) VALUES ('delete-all');
    INSERT INTO did (did) VALUES ('delete-all');
    DELETE FROM said_terms;
    DELETE FROM did_terms;
    DELETE FROM recall_parts;
    DELETE FROM recall_documents;
    DELETE FROM recall_deleted;
    UPDATE recall_state SET generation = generation + 1, cleared = generation + 1,
        documents = 0, deleted = 0, counted = 0;
    INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale);
END;
