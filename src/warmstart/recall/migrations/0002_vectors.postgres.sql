CREATE TABLE vector_sets (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id INTEGER NOT NULL,
    asked TEXT NOT NULL,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE TABLE vector_parts (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    part BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    PRIMARY KEY (tenant, part)
);
CREATE TABLE vector_blocks (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    part BIGINT NOT NULL,
    number INTEGER NOT NULL,
    signs BYTEA NOT NULL,
    hashes BYTEA NOT NULL,
    vectors BYTEA NOT NULL,
    PRIMARY KEY (tenant, part, number)
);
-- Random numbers gain nothing by compression.
ALTER TABLE vector_blocks ALTER COLUMN hashes SET STORAGE EXTERNAL, ALTER COLUMN vectors SET STORAGE EXTERNAL;
CREATE TABLE vector_signs (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    line BIGINT NOT NULL,
    dimensions INTEGER NOT NULL,
    bits BIT VARYING NOT NULL,
    PRIMARY KEY (tenant, line)
);
ALTER TABLE vector_sets ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_sets FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_sets USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE vector_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_parts USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE vector_blocks ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_blocks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_blocks USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE vector_signs ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_signs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_signs USING (tenant = (SELECT warmstart_tenant()));
