CREATE TABLE experiments (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL,
    design TEXT NOT NULL,
    state TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, name)
);
-- Each session of an experiment: how it was assigned, written before it begins, and what came of it.
CREATE TABLE experiment_sessions (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    experiment TEXT COLLATE "C" NOT NULL,
    session TEXT COLLATE "C" NOT NULL,
    arm TEXT COLLATE "C" NOT NULL,
    propensity DOUBLE PRECISION NOT NULL,
    stratum TEXT COLLATE "C" NOT NULL,
    unit TEXT COLLATE "C" NOT NULL,
    task TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    settled_at DOUBLE PRECISION,
    measures TEXT NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, experiment, session),
    FOREIGN KEY (tenant, experiment) REFERENCES experiments (tenant, name) ON DELETE CASCADE
);
ALTER TABLE experiments ENABLE ROW LEVEL SECURITY;
ALTER TABLE experiments FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON experiments USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE experiment_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE experiment_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON experiment_sessions USING (tenant = (SELECT warmstart_tenant()));
