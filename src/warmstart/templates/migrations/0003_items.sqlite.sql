-- The items of a session, extracted once per revision and version of the rules, like its profile.
CREATE TABLE session_items (
    session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    rules TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TRIGGER session_items_outdated AFTER UPDATE OF revision ON sessions WHEN new.revision <> old.revision BEGIN
    DELETE FROM session_items WHERE session = new.pk;
END;
