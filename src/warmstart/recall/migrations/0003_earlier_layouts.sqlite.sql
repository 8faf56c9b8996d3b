-- The triggers of the first layout gave in to what a statement says about conflicts.
DROP TRIGGER IF EXISTS recall_session_added;
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
DROP TRIGGER IF EXISTS recall_session_changed;
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions BEGIN
    INSERT INTO recall_stale (session)
        SELECT new.pk WHERE NOT EXISTS (SELECT 1 FROM recall_stale WHERE session = new.pk);
END;
DROP TRIGGER IF EXISTS recall_scrubbed;
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
