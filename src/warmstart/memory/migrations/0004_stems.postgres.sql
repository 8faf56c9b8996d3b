-- The stemmer changed in details (`technology`), so the index is made again by whoever writes or asks next.
TRUNCATE memory_words, memory_indexed;
ALTER TABLE memory_users NO FORCE ROW LEVEL SECURITY;
UPDATE memory_users SET indexed = number << 40 WHERE user_id IS NOT NULL;
ALTER TABLE memory_users FORCE ROW LEVEL SECURITY;
