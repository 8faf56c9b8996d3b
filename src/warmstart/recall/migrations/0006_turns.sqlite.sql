-- One index of turns replaces the index of messages. Everything in it is made from the sessions; the next sync fills it.
DROP TRIGGER IF EXISTS recall_session_added;
DROP TRIGGER IF EXISTS recall_session_changed;
DROP TRIGGER IF EXISTS recall_part_removed;
DROP TRIGGER IF EXISTS recall_scrubbed;
DROP TABLE IF EXISTS said;
DROP TABLE IF EXISTS did;
DROP TABLE IF EXISTS said_terms;
DROP TABLE IF EXISTS did_terms;
DROP TABLE IF EXISTS recall_parts;
DROP TABLE IF EXISTS recall_lines;
DROP TABLE IF EXISTS recall_documents;
DROP TABLE IF EXISTS recall_dead;
DROP TABLE IF EXISTS recall_deleted;
DROP TABLE IF EXISTS recall_stale;
DROP TABLE IF EXISTS recall_state;
-- The sessions in the index, with the words in all their turns.
CREATE TABLE recall_sessions (
    session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    turns INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    said INTEGER NOT NULL,
    thought INTEGER NOT NULL,
    did INTEGER NOT NULL
);
-- A turn: its messages, its words by field, its distinct stems, and how often each field has each stem (four bytes).
CREATE TABLE recall_turns (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES recall_sessions (session) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    said INTEGER NOT NULL,
    thought INTEGER NOT NULL,
    did INTEGER NOT NULL,
    terms TEXT NOT NULL,
    counts BLOB NOT NULL,
    UNIQUE (session, number)
);
-- Stems are separated by spaces; the tokenizer `ascii` leaves everything else in them alone.
CREATE VIRTUAL TABLE recall_index USING fts5 (
    terms, content = 'recall_turns', content_rowid = 'id', columnsize = 0, detail = none, tokenize = 'ascii'
);
INSERT INTO recall_index (recall_index, rank) VALUES ('usermerge', 2);
-- How many turns have each stem.
CREATE TABLE recall_terms (term TEXT PRIMARY KEY, turns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE recall_stale (session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE);
-- The sums over `recall_sessions`.
CREATE TABLE recall_state (
    sessions INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    said INTEGER NOT NULL,
    thought INTEGER NOT NULL,
    did INTEGER NOT NULL
);
INSERT INTO recall_state (sessions, turns, asked, said, thought, did) VALUES (0, 0, 0, 0, 0, 0);
INSERT INTO recall_stale (session) SELECT pk FROM sessions;
-- Triggers look before they insert: SQLite applies what a statement says about conflicts to the triggers it fires.
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision, project, title, branch ON sessions
WHEN (new.revision, new.project, new.title, new.branch) <> (old.revision, old.project, old.title, old.branch) BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
CREATE TRIGGER recall_session_indexed AFTER INSERT ON recall_sessions BEGIN
    UPDATE recall_state SET sessions = sessions + 1, turns = turns + new.turns, asked = asked + new.asked,
        said = said + new.said, thought = thought + new.thought, did = did + new.did;
END;
CREATE TRIGGER recall_session_grown AFTER UPDATE ON recall_sessions BEGIN
    UPDATE recall_state SET turns = turns + new.turns - old.turns, asked = asked + new.asked - old.asked,
        said = said + new.said - old.said, thought = thought + new.thought - old.thought, did = did + new.did - old.did;
END;
CREATE TRIGGER recall_session_removed AFTER DELETE ON recall_sessions BEGIN
    UPDATE recall_state SET sessions = sessions - 1, turns = turns - old.turns, asked = asked - old.asked,
        said = said - old.said, thought = thought - old.thought, did = did - old.did;
END;
CREATE TRIGGER recall_turn_indexed AFTER INSERT ON recall_turns BEGIN
    INSERT INTO recall_index (rowid, terms) VALUES (new.id, new.terms);
    INSERT INTO recall_terms (term, turns)
        SELECT value, 1 FROM json_each('["' || replace(new.terms, ' ', '","') || '"]') WHERE true
        ON CONFLICT (term) DO UPDATE SET turns = turns + 1;
END;
CREATE TRIGGER recall_turn_removed AFTER DELETE ON recall_turns BEGIN
    INSERT INTO recall_index (recall_index, rowid, terms) VALUES ('delete', old.id, old.terms);
    UPDATE recall_terms SET turns = turns - 1
        WHERE term IN (SELECT value FROM json_each('["' || replace(old.terms, ' ', '","') || '"]'));
    DELETE FROM recall_terms
        WHERE turns = 0 AND term IN (SELECT value FROM json_each('["' || replace(old.terms, ' ', '","') || '"]'));
END;
-- Turns of sessions that changed may have words that are gone; the next update adds them again. FTS5 keeps what was
-- deleted until its segments are rewritten.
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs BEGIN
    DELETE FROM recall_sessions WHERE session IN (SELECT session FROM recall_stale);
    INSERT INTO recall_index (recall_index) VALUES ('optimize');
END;
