CREATE TABLE memory_users (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    number BIGINT NOT NULL,
    user_id TEXT COLLATE "C",
    indexed BIGINT NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, user_id)
);
CREATE TABLE memories (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    key TEXT NOT NULL,
    scope INTEGER NOT NULL,
    place TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    metadata TEXT NOT NULL,
    past BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, owner, key, scope, place),
    CHECK (id >> 40 = owner)
);
CREATE INDEX memories_expiring ON memories (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE memory_history (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    entry BIGINT NOT NULL,
    prior BIGINT NOT NULL,
    value TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    metadata TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
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
-- Plain keys, because no text index is used behind row-level security.
CREATE TABLE memory_words (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    owner BIGINT NOT NULL,
    word TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (tenant, owner, word, id)
);
CREATE TABLE memory_indexed (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    words TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
ALTER TABLE memory_users ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_users FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_users USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memories USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memory_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_history FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_history USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memory_deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_deletions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_deletions USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memory_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_words FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_words USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE memory_indexed ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_indexed FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memory_indexed USING (tenant = (SELECT warmstart_tenant()));
