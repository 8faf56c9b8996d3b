-- only if: SELECT 1 FROM pragma_table_info('memory_users') WHERE name = 'floor'
-- The first layout kept the highest number that was forgotten with the user, and not as the start of his range.
INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, metadata)
    SELECT floor, number, '', -1, '', '', 0, 0, 0, '' FROM memory_users;
