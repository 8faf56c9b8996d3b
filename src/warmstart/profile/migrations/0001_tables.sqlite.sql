-- A session that is met again without news is written all the same, with the revision it had.
CREATE TABLE profiles (
    session INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    rules TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions WHEN new.revision <> old.revision BEGIN
    DELETE FROM profiles WHERE session = new.pk;
END;
