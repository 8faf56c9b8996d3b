-- The index holds our own stems. Everything in it is made from the sessions; the next sync fills it again.
-- `recall_said` and `recall_did` have a GIN index, which row-level security would keep a query from using. So only
-- functions with their owner's rights look into them, and every stem begins with a mark of its tenant.
DROP TRIGGER recall_session_changed ON sessions;
DROP TRIGGER recall_session_added ON sessions;
DROP TRIGGER recall_scrubbed ON scrubs;
DROP TABLE recall_words, recall_segments, recall_parts, recall_lines, recall_dead, recall_stale, recall_state;
DROP TABLE vector_sets, vector_parts, vector_blocks, vector_signs;
DROP FUNCTION warmstart_recall_changed, warmstart_recall_removed, warmstart_recall_empty, warmstart_recall_scrubbed;
DROP FUNCTION IF EXISTS warmstart_holds(text, text), warmstart_uses(text, text, bigint);
CREATE TABLE recall_said (
    tenant TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    stems TEXT[] NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE TABLE recall_did (
    tenant TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    stems TEXT[] NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX recall_said_stems ON recall_said USING gin (stems);
CREATE INDEX recall_did_stems ON recall_did USING gin (stems);
CREATE TABLE said_terms (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    term TEXT COLLATE "C" NOT NULL,
    documents BIGINT NOT NULL,
    PRIMARY KEY (tenant, term)
);
CREATE TABLE did_terms (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    term TEXT COLLATE "C" NOT NULL,
    documents BIGINT NOT NULL,
    PRIMARY KEY (tenant, term)
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
CREATE TABLE recall_documents (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    part INTEGER NOT NULL,
    id INTEGER NOT NULL,
    message BIGINT NOT NULL,
    hash BIGINT NOT NULL,
    PRIMARY KEY (tenant, part, id)
);
CREATE TABLE recall_deleted (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
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
    cleared BIGINT NOT NULL DEFAULT 1,
    parts BIGINT NOT NULL DEFAULT 0,
    documents BIGINT NOT NULL DEFAULT 0,
    deleted BIGINT NOT NULL DEFAULT 0,
    counted BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant)
);
-- The owner sees the tenants that are already there only while their policies do not bind it.
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
INSERT INTO recall_stale (tenant, session) SELECT tenant, pk FROM sessions;
INSERT INTO recall_state (tenant) SELECT DISTINCT tenant FROM sessions;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE recall_said ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_did ENABLE ROW LEVEL SECURITY;
ALTER TABLE said_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE said_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON said_terms USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE did_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE did_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON did_terms USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_parts USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_documents FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_documents USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_deleted ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_deleted FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_deleted USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_stale ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_stale FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_stale USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_state FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_state USING (tenant = (SELECT warmstart_tenant()));
CREATE FUNCTION warmstart_recall_mark() RETURNS text LANGUAGE sql STABLE RETURN left(md5(warmstart_tenant()), 6);
CREATE FUNCTION warmstart_recall_add(kind text, ids bigint[], stems text[]) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    caller text := warmstart_tenant();
    mark text := warmstart_recall_mark();
BEGIN
    EXECUTE format('INSERT INTO %I (tenant, id, stems) SELECT $1, d.id, string_to_array($2 || replace(d.stems, '' '', '' '' || $2), '' '')
        FROM unnest($3, $4) AS d (id, stems)', 'recall_' || kind) USING caller, mark, ids, stems;
END $$;
CREATE FUNCTION warmstart_recall_postings(kind text, wanted text[], most bigint)
RETURNS TABLE (place bigint, ids bigint[]) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = {schema}, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    caller text := warmstart_tenant();
    mark text := warmstart_recall_mark();
BEGIN
    FOR place IN 1 .. cardinality(wanted) LOOP
        IF kind = 'said' THEN
            ids := ARRAY(SELECT r.id FROM recall_said r WHERE r.tenant = caller
                AND r.stems @> ARRAY[mark || wanted[place]] ORDER BY r.id LIMIT most);
        ELSE
            ids := ARRAY(SELECT r.id FROM recall_did r WHERE r.tenant = caller
                AND r.stems @> ARRAY[mark || wanted[place]] ORDER BY r.id LIMIT most);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
-- A stem of one document is as rare as a new one, and half of all stems are.
CREATE FUNCTION warmstart_recall_count() RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    caller text := warmstart_tenant();
BEGIN
    DELETE FROM said_terms WHERE tenant = caller;
    DELETE FROM did_terms WHERE tenant = caller;
    INSERT INTO said_terms (tenant, term, documents) SELECT caller, substr(stem, 7), count(*)
        FROM recall_said, unnest(stems) AS stem WHERE tenant = caller GROUP BY stem HAVING count(*) > 1;
    INSERT INTO did_terms (tenant, term, documents) SELECT caller, substr(stem, 7), count(*)
        FROM recall_did, unnest(stems) AS stem WHERE tenant = caller GROUP BY stem HAVING count(*) > 1;
END $$;
CREATE FUNCTION warmstart_recall_clear() RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    caller text := warmstart_tenant();
BEGIN
    DELETE FROM recall_said WHERE tenant = caller;
    DELETE FROM recall_did WHERE tenant = caller;
    DELETE FROM said_terms WHERE tenant = caller;
    DELETE FROM did_terms WHERE tenant = caller;
    DELETE FROM recall_parts WHERE tenant = caller;
    DELETE FROM recall_deleted WHERE tenant = caller;
    UPDATE recall_state SET generation = generation + 1, cleared = generation + 1,
        documents = 0, deleted = 0, counted = 0 WHERE tenant = caller;
    INSERT INTO recall_stale (tenant, session)
        SELECT caller, pk FROM sessions WHERE tenant = caller ON CONFLICT DO NOTHING;
END $$;
CREATE FUNCTION warmstart_recall_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recall_state (tenant) VALUES (new.tenant) ON CONFLICT DO NOTHING;
    INSERT INTO recall_stale (tenant, session) VALUES (new.tenant, new.pk) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recall_documents d USING gone g WHERE d.tenant = g.tenant AND d.part = g.number;
    UPDATE recall_state s SET generation = generation + 1, cleared = generation + 1,
        documents = documents - g.removed, deleted = deleted + g.removed
        FROM (SELECT tenant, sum(said + did) AS removed FROM gone GROUP BY tenant) g WHERE s.tenant = g.tenant;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_scrubbed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM recall_stale) OR EXISTS (SELECT 1 FROM recall_state WHERE deleted > 0) THEN
        PERFORM warmstart_recall_clear();
    END IF;
    RETURN NULL;
END $$;
-- A session that is imported again without news is written all the same, as it was.
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions FOR EACH ROW WHEN ((new.revision,
    new.title, new.branch) <> (old.revision, old.title, old.branch)) EXECUTE FUNCTION warmstart_recall_changed();
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION warmstart_recall_changed();
-- For each statement and not each row: a row that one transaction updates again and again gets slower.
CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_removed();
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs FOR EACH STATEMENT EXECUTE FUNCTION warmstart_recall_scrubbed();
