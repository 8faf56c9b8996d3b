-- The first trigger also fired for a session that is met again without news.
DROP TRIGGER IF EXISTS profiles_outdated ON sessions;
CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions
    FOR EACH ROW WHEN (new.revision <> old.revision) EXECUTE FUNCTION warmstart_outdate_profile();
