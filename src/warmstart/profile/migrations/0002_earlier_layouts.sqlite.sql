-- The first trigger also fired for a session that is met again without news.
DROP TRIGGER IF EXISTS profiles_outdated;
CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions WHEN new.revision <> old.revision BEGIN
    DELETE FROM profiles WHERE session = new.pk;
END;
