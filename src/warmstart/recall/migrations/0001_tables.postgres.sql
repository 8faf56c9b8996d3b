-- `warmstart_uses` looks into the text index of the sessions, which only functions with its owner's rights may.
-- The state of a tenant is made with its first session. Tenants that were there before are seen only while the policies
-- are lifted for their owner, for a moment in the same transaction.
CREATE TABLE recall_words (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    kind SMALLINT NOT NULL,
    segment INTEGER NOT NULL,
    place INTEGER NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    lines INTEGER NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (tenant, kind, segment, place, first)
);
-- It is compressed already.
ALTER TABLE recall_words ALTER data SET STORAGE EXTERNAL;
CREATE TABLE recall_segments (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    kind SMALLINT NOT NULL,
    number INTEGER NOT NULL,
    lines BIGINT NOT NULL,
    PRIMARY KEY (tenant, kind, number)
);
CREATE TABLE recall_parts (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    number BIGINT NOT NULL,
    session BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    said BIGINT NOT NULL,
    did BIGINT NOT NULL,
    "user" DOUBLE PRECISION NOT NULL,
    "assistant" DOUBLE PRECISION NOT NULL,
    "reasoning" DOUBLE PRECISION NOT NULL,
    "edits" DOUBLE PRECISION NOT NULL,
    "commands" DOUBLE PRECISION NOT NULL,
    "lookups" DOUBLE PRECISION NOT NULL,
    lengths BYTEA NOT NULL,
    PRIMARY KEY (tenant, number),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
CREATE INDEX recall_parts_session ON recall_parts (session, tenant);
CREATE INDEX recall_parts_generation ON recall_parts (tenant, generation);
CREATE TABLE recall_lines (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    part INTEGER NOT NULL,
    line INTEGER NOT NULL,
    message BIGINT NOT NULL,
    hash BIGINT NOT NULL,
    PRIMARY KEY (tenant, part, line)
);
CREATE TABLE recall_dead (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    line BIGINT NOT NULL,
    PRIMARY KEY (tenant, line)
);
CREATE TABLE recall_stale (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session BIGINT NOT NULL,
    PRIMARY KEY (session, tenant),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
CREATE TABLE recall_state (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    generation BIGINT NOT NULL DEFAULT 1,
    emptied BIGINT NOT NULL DEFAULT 1,
    part BIGINT NOT NULL DEFAULT 0,
    lines BIGINT NOT NULL DEFAULT 0,
    dead BIGINT NOT NULL DEFAULT 0,
    counted BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant)
);
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
INSERT INTO recall_stale (tenant, session) SELECT tenant, pk FROM sessions;
INSERT INTO recall_state (tenant) SELECT DISTINCT tenant FROM sessions;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE recall_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_words FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_words USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_segments ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_segments FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_segments USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_parts USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_lines ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_lines FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_lines USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_dead ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_dead FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_dead USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_stale ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_stale FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_stale USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_state FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_state USING (tenant = (SELECT warmstart_tenant()));
CREATE FUNCTION warmstart_recall_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recall_state (tenant) VALUES (new.tenant) ON CONFLICT DO NOTHING;
    INSERT INTO recall_stale (tenant, session) VALUES (new.tenant, new.pk) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recall_lines l USING gone g WHERE l.tenant = g.tenant AND l.part = g.number;
    UPDATE recall_state s SET generation = generation + 1, emptied = generation + 1,
        lines = lines - g.removed, dead = dead + g.removed
        FROM (SELECT tenant, sum(said + did) AS removed FROM gone GROUP BY tenant) g WHERE s.tenant = g.tenant;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_empty() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recall_words;
    DELETE FROM recall_segments;
    DELETE FROM recall_parts;
    DELETE FROM recall_dead;
    UPDATE recall_state SET generation = generation + 1, emptied = generation + 1,
        lines = 0, dead = 0, counted = 0;
    INSERT INTO recall_stale (session) SELECT pk FROM sessions ON CONFLICT DO NOTHING;
END $$;
CREATE FUNCTION warmstart_recall_scrubbed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM recall_stale) OR EXISTS (SELECT 1 FROM recall_state WHERE dead > 0) THEN
        PERFORM warmstart_recall_empty();
    END IF;
    RETURN NULL;
END $$;
-- It costs much, and PostgreSQL is told so: it shall ask for the newest uses, and not for all texts.
CREATE FUNCTION warmstart_holds(body text, part text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 5000 AS
$$ BEGIN RETURN strpos(lower(body COLLATE "C"), part) > 0; END $$;
CREATE FUNCTION warmstart_uses(query text, candidates text, most bigint) RETURNS TABLE (id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    RETURN QUERY
        WITH newest AS MATERIALIZED (
            SELECT i.id, i.words FROM texts_index i
            WHERE i.tenant = warmstart_tenant() AND i.words @@ ($2::tsquery && warmstart_mark()::tsquery)
            ORDER BY i.id DESC LIMIT most)
        SELECT n.id FROM newest n WHERE n.words @@ $1::tsquery ORDER BY n.id DESC;
END $$;
-- A session that is met again without news is written all the same, as it was.
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions FOR EACH ROW WHEN ((new.revision,
    new.title, new.branch) <> (old.revision, old.title, old.branch)) EXECUTE FUNCTION warmstart_recall_changed();
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION warmstart_recall_changed();
-- For a statement and not for each row: a row that is updated again and again in a transaction gets slower.
CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_removed();
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs FOR EACH STATEMENT EXECUTE FUNCTION warmstart_recall_scrubbed();
