-- only if: SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('memories') AND attname = 'past')
-- Earlier layouts gave an entry a new number with every write. A past value had the number that the entry had then; now
-- it has that of the write after it, and the entry, or the value after it, points back to it. Deletions were among the
-- past values. The index is made again by whoever writes or asks next.
-- Tables are changed in place, so that whoever may use them still may.
ALTER TABLE memory_users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memories NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_history NO FORCE ROW LEVEL SECURITY;
CREATE TEMPORARY TABLE earlier_history ON COMMIT DROP AS SELECT * FROM memory_history;
TRUNCATE memory_history, memory_words;
ALTER TABLE memory_users ALTER COLUMN user_id DROP NOT NULL;
UPDATE memory_users SET indexed = number << 40;
ALTER TABLE memories DROP COLUMN IF EXISTS prior;
ALTER TABLE memories ADD COLUMN past BIGINT NOT NULL DEFAULT 0, ADD CHECK (id >> 40 = owner);
ALTER TABLE memory_history
    DROP COLUMN IF EXISTS number, DROP COLUMN owner, DROP COLUMN key, DROP COLUMN scope, DROP COLUMN place,
    DROP COLUMN entry, DROP COLUMN value, DROP COLUMN since, DROP COLUMN until, DROP COLUMN session,
    DROP COLUMN source;
ALTER TABLE memory_history
    ADD COLUMN id BIGINT NOT NULL, ADD COLUMN entry BIGINT NOT NULL, ADD COLUMN prior BIGINT NOT NULL,
    ADD COLUMN value TEXT NOT NULL, ADD COLUMN since DOUBLE PRECISION NOT NULL,
    ADD COLUMN until DOUBLE PRECISION NOT NULL, ADD COLUMN metadata TEXT NOT NULL, ADD PRIMARY KEY (tenant, id);
ALTER TABLE memory_words DROP COLUMN word, DROP COLUMN id;
ALTER TABLE memory_words
    ADD COLUMN owner BIGINT NOT NULL, ADD COLUMN word TEXT COLLATE "C" NOT NULL, ADD COLUMN id BIGINT NOT NULL,
    ADD PRIMARY KEY (tenant, owner, word, id);
CREATE FUNCTION memory_keep_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_history (id, entry, prior, value, since, until, metadata)
    VALUES (NEW.past, OLD.id, OLD.past, OLD.value, OLD.since, NEW.since, OLD.metadata);
    RETURN NEW;
END
$$;
CREATE TRIGGER memory_keeps_history BEFORE UPDATE OF value ON memories FOR EACH ROW WHEN (OLD.value <> NEW.value)
    EXECUTE FUNCTION memory_keep_history();
CREATE TABLE memory_deletions (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    owner BIGINT NOT NULL,
    key TEXT NOT NULL,
    scope INTEGER NOT NULL,
    place TEXT NOT NULL,
    deleted_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, owner, key, scope, place, deleted_at)
);
CREATE TABLE memory_indexed (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    words TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
INSERT INTO memory_history (tenant, id, entry, prior, value, since, until, metadata)
    SELECT h.tenant, coalesce(lead(h.entry) OVER past, m.id), h.entry,
        CASE WHEN lag(h.entry) OVER past IS NULL THEN 0 ELSE h.entry END,
        h.value, h.since, coalesce(h.until, h.since),
        CASE WHEN h.session = '' AND h.source = '' THEN ''
            ELSE json_build_object('session', h.session, 'source', h.source)::text END
    FROM earlier_history h JOIN memories m ON m.tenant = h.tenant
        AND m.owner = h.owner AND m.key = h.key AND m.scope = h.scope AND m.place = h.place
    WHERE h.value IS NOT NULL
    WINDOW past AS (PARTITION BY h.tenant, h.owner, h.key, h.scope, h.place ORDER BY h.entry);
UPDATE memories m SET past = m.id FROM memory_history h WHERE h.tenant = m.tenant AND h.id = m.id;
INSERT INTO memory_deletions (tenant, owner, key, scope, place, deleted_at)
    SELECT DISTINCT tenant, owner, key, scope, place, since FROM earlier_history WHERE value IS NULL;
ALTER TABLE memory_users FORCE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_history FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_deletions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_deletions USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memory_indexed ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_indexed FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_indexed USING (tenant = (SELECT warmstart_tenant()));
