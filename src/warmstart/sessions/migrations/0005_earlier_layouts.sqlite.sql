-- The first layout had no list of deleted messages.
CREATE TABLE IF NOT EXISTS deleted_messages (key BLOB PRIMARY KEY, session_id TEXT NOT NULL) WITHOUT ROWID;
