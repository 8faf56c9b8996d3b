-- Which memories may be quoted, by the time and the size of the entry, so that a hook need not judge them. No text.
CREATE TABLE screened_memories (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    updated_at DOUBLE PRECISION NOT NULL,
    size BIGINT NOT NULL,
    is_quotable INTEGER NOT NULL,
    PRIMARY KEY (tenant, updated_at, size)
);
ALTER TABLE screened_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE screened_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON screened_memories USING (tenant = (SELECT warmstart_tenant()));
