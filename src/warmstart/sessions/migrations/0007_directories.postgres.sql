-- A session says in which working tree it was, and an outcome that was found in it is forgotten when it changes.
ALTER TABLE sessions ADD COLUMN directory TEXT NOT NULL DEFAULT '';
CREATE FUNCTION warmstart_forget_outcome() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN new.outcome := 'unknown'; new.evidence := ''; RETURN new; END $$;
CREATE TRIGGER outcomes_outdated BEFORE UPDATE OF revision ON sessions
FOR EACH ROW WHEN (new.revision <> old.revision AND new.judge = '') EXECUTE FUNCTION warmstart_forget_outcome();
