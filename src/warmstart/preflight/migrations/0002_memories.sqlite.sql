-- Which memories may be quoted, by the time and the size of the entry, so that a hook need not judge them. No text.
CREATE TABLE screened_memories (
    updated_at REAL NOT NULL,
    size INTEGER NOT NULL,
    is_quotable INTEGER NOT NULL,
    PRIMARY KEY (updated_at, size)
) WITHOUT ROWID;
