-- The tables of the vector file next to a SQLite store.
CREATE TABLE vector_models (requested TEXT NOT NULL, name TEXT NOT NULL, dimensions INTEGER NOT NULL);
CREATE TABLE vector_stamps (grp INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
CREATE TABLE vectors (
    key INTEGER PRIMARY KEY, grp INTEGER NOT NULL, hash INTEGER NOT NULL, vector BLOB NOT NULL
);
CREATE INDEX vectors_group ON vectors (grp);
CREATE INDEX vectors_hash ON vectors (hash);
PRAGMA user_version = 2;
