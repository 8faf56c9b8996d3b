-- only if: SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('memory_users') AND attname = 'floor'
-- The first layout kept the highest number that was forgotten with the user, and not as the start of his range.
ALTER TABLE memory_users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memories NO FORCE ROW LEVEL SECURITY;
INSERT INTO memories (tenant, id, owner, key, scope, place, value, created_at, updated_at, since, metadata)
    SELECT tenant, floor, number, '', -1, '', '', 0, 0, 0, '' FROM memory_users;
ALTER TABLE memory_users FORCE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_users DROP COLUMN floor;
DROP TABLE memory_stale;
