-- A session says in which working tree it was, and an outcome that was found in it is forgotten when it changes.
ALTER TABLE sessions ADD COLUMN directory TEXT NOT NULL DEFAULT '';
CREATE TRIGGER outcomes_outdated AFTER UPDATE OF revision ON sessions
WHEN new.revision <> old.revision AND new.judge = '' BEGIN
    UPDATE sessions SET outcome = 'unknown', evidence = '' WHERE pk = new.pk;
END;
