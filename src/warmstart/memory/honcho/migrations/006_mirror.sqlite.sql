-- What is at Honcho is mirrored in the tables of the local backend; what is here besides is the outbox and how far each
-- session was read. A row of the outbox holds all that is sent. Which keys were deleted is not kept.
PRAGMA secure_delete = ON;
CREATE TABLE mirror_outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    attempted_at REAL,
    rejected TEXT
);
CREATE TABLE mirror_positions (
    session TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    seen INTEGER NOT NULL,
    is_complete INTEGER NOT NULL,
    pulled_at REAL NOT NULL,
    last TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE mirror_forgotten (
    owner TEXT PRIMARY KEY,
    at REAL NOT NULL,
    is_done INTEGER NOT NULL,
    is_told INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE circuit_breaker (one INTEGER PRIMARY KEY, until REAL NOT NULL, step REAL NOT NULL);
INSERT INTO memory_entries (user_id, key, place, value, metadata, created_at, updated_at, since, expires_at)
    SELECT e.user_id, e.key, e.place, e.value, e.metadata, e.created_at, e.updated_at, e.updated_at, e.expires_at
    FROM entries e;
INSERT OR IGNORE INTO memory_versions (entry, value, since, until, metadata)
    SELECT entry, value, since, until, metadata FROM (
        SELECT m.id AS entry, v.id AS version, e.version AS now, v.value, v.at AS since, v.metadata,
            lead(v.at) OVER (PARTITION BY v.user_id, v.place, v.key ORDER BY v.at, v.id) AS until
        FROM versions v
        JOIN entries e ON e.user_id = v.user_id AND e.place = v.place AND e.key = v.key
        JOIN memory_entries m ON m.user_id = v.user_id AND m.place = v.place AND m.key = v.key
        WHERE NOT v.deleted AND v.value IS NOT NULL
    ) WHERE version <> now AND until IS NOT NULL ORDER BY since;
INSERT INTO mirror_outbox (seq, user_id, kind, id, body, attempted_at, rejected)
    SELECT o.seq, o.user_id, o.kind, o.version,
        json_object('key', v.key, 'place', v.place, 'value', v.value, 'at', v.at, 'expires_at', v.expires_at,
            'metadata', v.metadata),
        o.attempted_at, o.refused
    FROM outbox o JOIN versions v ON v.id = o.version
    WHERE o.kind = 'message' AND (v.deleted OR v.value IS NOT NULL);
INSERT INTO mirror_outbox (seq, user_id, kind, id, body, attempted_at, rejected)
    SELECT o.seq, o.user_id, 'blank', o.version, json_object('key', v.key, 'place', v.place, 'at', v.at), NULL, o.refused
    FROM outbox o JOIN versions v ON v.id = o.version WHERE o.kind = 'forget';
INSERT INTO mirror_outbox (seq, user_id, kind, id, body, rejected)
    SELECT seq, user_id, 'forget_user', '', json_object('at', CAST(payload AS REAL)), refused
    FROM outbox WHERE kind = 'forget_user';
DROP TABLE entries;
DROP TABLE entries_text;
DROP TABLE versions;
DROP TABLE outbox;
DROP TABLE positions;
DROP TABLE patience;
DROP TABLE forgotten;
DROP TABLE forgotten_users;
DROP TABLE traffic;
