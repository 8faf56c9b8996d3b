CREATE TABLE scrubs (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
ALTER TABLE scrubs ENABLE ROW LEVEL SECURITY;
ALTER TABLE scrubs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON scrubs USING (tenant = (SELECT warmstart_tenant()));
