-- What a packet was made of: with it, the same packet can be made again.
CREATE TABLE packets (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id TEXT COLLATE "C" NOT NULL,
    session BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    budget BIGINT NOT NULL,
    note TEXT NOT NULL,
    git TEXT NOT NULL,
    at DOUBLE PRECISION,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
CREATE INDEX packets_session ON packets (tenant, session);
-- A session that ended with a handoff, and the one that continues it: at most one.
CREATE TABLE handoffs (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    parent BIGINT NOT NULL,
    child TEXT COLLATE "C" NOT NULL,
    packet TEXT COLLATE "C" NOT NULL,
    ledger TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, parent),
    FOREIGN KEY (tenant, parent) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
-- How often the context of a session was compressed since it was last handed over or its user was asked to.
CREATE TABLE compressions (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    prompts BIGINT NOT NULL,
    ledger TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, session)
);
ALTER TABLE packets ENABLE ROW LEVEL SECURITY;
ALTER TABLE packets FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON packets USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE handoffs ENABLE ROW LEVEL SECURITY;
ALTER TABLE handoffs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON handoffs USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE compressions ENABLE ROW LEVEL SECURITY;
ALTER TABLE compressions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON compressions USING (tenant = (SELECT warmstart_tenant()));
