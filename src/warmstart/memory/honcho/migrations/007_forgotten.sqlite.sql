-- That a user was forgotten is a tombstone without an entry.
INSERT INTO memory_tombstones (owner, entry, place, deleted_at) SELECT owner, '', '', at FROM mirror_forgotten;
DROP TABLE mirror_forgotten;
