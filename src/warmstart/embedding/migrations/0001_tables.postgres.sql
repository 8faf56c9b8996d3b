CREATE TABLE vector_models (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    requested TEXT NOT NULL,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    PRIMARY KEY (tenant)
);
CREATE TABLE vector_stamps (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    grp BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    PRIMARY KEY (tenant, grp)
);
CREATE TABLE vectors (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    key BIGINT NOT NULL,
    grp BIGINT NOT NULL,
    hash BIGINT NOT NULL,
    bits BIT VARYING,
    vector BYTEA NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX vectors_group ON vectors (tenant, grp);
CREATE INDEX vectors_hash ON vectors (tenant, hash);
ALTER TABLE vector_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_models FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_models USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE vector_stamps ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_stamps FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vector_stamps USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON vectors USING (tenant = (SELECT warmstart_tenant()));
