-- The stemmer changed in details (`technology`), so the index is made again by whoever writes or asks next.
DELETE FROM memory_words;
DELETE FROM memory_indexed;
UPDATE memory_users SET indexed = number << 40 WHERE user_id IS NOT NULL;
