-- One index of turns replaces the index of messages. Everything in it is made from the sessions; the next sync fills it.
-- `recall_stems` has a GIN index, which row-level security would keep a query from using. So only functions with their
-- owner's rights look into it, and every stem begins with a mark of its tenant.
DROP TRIGGER IF EXISTS recall_session_changed ON sessions;
DROP TRIGGER IF EXISTS recall_session_added ON sessions;
DROP TRIGGER IF EXISTS recall_scrubbed ON scrubs;
DROP TABLE IF EXISTS recall_words, recall_segments, recall_lines, recall_dead, vector_sets, vector_parts, vector_blocks,
    vector_signs, recall_said, recall_did, said_terms, did_terms, recall_parts, recall_documents, recall_deleted,
    recall_stale, recall_state;
DROP FUNCTION IF EXISTS warmstart_recall_changed, warmstart_recall_removed, warmstart_recall_empty,
    warmstart_recall_scrubbed, warmstart_recall_mark, warmstart_recall_add, warmstart_recall_postings,
    warmstart_recall_count, warmstart_recall_clear;
DROP FUNCTION IF EXISTS warmstart_holds(text, text), warmstart_uses(text), warmstart_uses(text, text, bigint);
-- The sessions in the index, with the words in all their turns.
CREATE TABLE recall_sessions (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    asked BIGINT NOT NULL,
    said BIGINT NOT NULL,
    thought BIGINT NOT NULL,
    did BIGINT NOT NULL,
    PRIMARY KEY (tenant, session),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
-- A turn: its messages, its words by field, its distinct stems, and how often each field has each stem (four bytes).
CREATE TABLE recall_turns (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    session BIGINT NOT NULL,
    number BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    hash BIGINT NOT NULL,
    asked BIGINT NOT NULL,
    said BIGINT NOT NULL,
    thought BIGINT NOT NULL,
    did BIGINT NOT NULL,
    terms TEXT NOT NULL,
    counts BYTEA NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, session, number),
    FOREIGN KEY (tenant, session) REFERENCES recall_sessions (tenant, session) ON DELETE CASCADE
);
CREATE TABLE recall_stems (
    tenant TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    stems TEXT[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, id) REFERENCES recall_turns (tenant, id) ON DELETE CASCADE
);
-- Every lookup of a stem reads the whole list of pending entries, so it stays short.
CREATE INDEX recall_stems_stems ON recall_stems USING gin (stems) WITH (gin_pending_list_limit = 256);
-- How many turns have each stem.
CREATE TABLE recall_terms (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    term TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL,
    PRIMARY KEY (tenant, term)
);
CREATE TABLE recall_stale (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session BIGINT NOT NULL,
    PRIMARY KEY (session, tenant),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
-- The sums over `recall_sessions`.
CREATE TABLE recall_state (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    sessions BIGINT NOT NULL DEFAULT 0,
    turns BIGINT NOT NULL DEFAULT 0,
    asked BIGINT NOT NULL DEFAULT 0,
    said BIGINT NOT NULL DEFAULT 0,
    thought BIGINT NOT NULL DEFAULT 0,
    did BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant)
);
-- The owner sees the tenants that are already there only while their policies do not bind it.
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
INSERT INTO recall_stale (tenant, session) SELECT tenant, pk FROM sessions;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE recall_stems ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_sessions USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_turns USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_terms USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_stale ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_stale FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_stale USING (tenant = (SELECT warmstart_tenant()));
ALTER TABLE recall_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_state FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON recall_state USING (tenant = (SELECT warmstart_tenant()));
CREATE FUNCTION warmstart_recall_mark() RETURNS text LANGUAGE sql STABLE RETURN left(md5(warmstart_tenant()), 6);
-- For each term, the newest turns that have it, of these projects or of all, as a string of ids. The plan is made once a
-- connection, so it must not depend on how common a term is. Nor may it depend on statistics, which a new table does not
-- have: the tenant is concatenated, so that the only index of use is that of the stems.
CREATE FUNCTION warmstart_recall_postings(wanted text[], projects text[], most bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_indexscan = off SET jit = off
SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    caller text := warmstart_tenant();
    mark text := warmstart_recall_mark();
    marked text[] := ARRAY(SELECT mark || project FROM unnest(projects) AS project);
BEGIN
    IF cardinality(projects) = 0 THEN
        RETURN QUERY SELECT (SELECT string_agg(CAST(f.id AS text), ',') FROM (SELECT r.id FROM recall_stems r
            WHERE r.tenant || '' = caller AND r.stems @> ARRAY[mark || w.term] ORDER BY r.id DESC LIMIT most) AS f)
            FROM unnest(wanted) WITH ORDINALITY AS w (term, place) ORDER BY w.place;
    ELSE
        RETURN QUERY SELECT (SELECT string_agg(CAST(f.id AS text), ',') FROM (SELECT r.id FROM recall_stems r
            WHERE r.tenant || '' = caller AND r.stems @> ARRAY[mark || w.term] AND r.stems && marked
            ORDER BY r.id DESC LIMIT most) AS f)
            FROM unnest(wanted) WITH ORDINALITY AS w (term, place) ORDER BY w.place;
    END IF;
END $$;
-- For each statement and not each row: a row that one transaction updates again and again gets slower.
CREATE FUNCTION warmstart_recall_indexed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    mark text := warmstart_recall_mark();
BEGIN
    INSERT INTO recall_stems (tenant, id, stems)
        SELECT tenant, id, string_to_array(mark || replace(terms, ' ', ' ' || mark), ' ') FROM added;
    INSERT INTO recall_terms (tenant, term, turns)
        SELECT a.tenant, t.term, count(*) FROM added a, unnest(string_to_array(a.terms, ' ')) AS t (term)
        GROUP BY a.tenant, t.term ORDER BY t.term
        ON CONFLICT (tenant, term) DO UPDATE SET turns = recall_terms.turns + excluded.turns;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE recall_terms r SET turns = r.turns - g.turns FROM (
        SELECT o.tenant, t.term, count(*) AS turns FROM gone o, unnest(string_to_array(o.terms, ' ')) AS t (term)
        GROUP BY o.tenant, t.term) g WHERE r.tenant = g.tenant AND r.term = g.term;
    DELETE FROM recall_terms r USING gone o, unnest(string_to_array(o.terms, ' ')) AS t (term)
        WHERE r.tenant = o.tenant AND r.term = t.term AND r.turns = 0;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        UPDATE recall_state s SET sessions = s.sessions - g.sessions, turns = s.turns - g.turns,
            asked = s.asked - g.asked, said = s.said - g.said, thought = s.thought - g.thought, did = s.did - g.did
            FROM (SELECT tenant, count(*) AS sessions, sum(turns) AS turns, sum(asked) AS asked, sum(said) AS said,
                sum(thought) AS thought, sum(did) AS did FROM gone GROUP BY tenant) g WHERE s.tenant = g.tenant;
    END IF;
    IF TG_OP IN ('UPDATE', 'INSERT') THEN
        INSERT INTO recall_state AS s (tenant, sessions, turns, asked, said, thought, did)
            SELECT tenant, count(*), sum(turns), sum(asked), sum(said), sum(thought), sum(did) FROM added
            GROUP BY tenant
            ON CONFLICT (tenant) DO UPDATE SET sessions = s.sessions + excluded.sessions,
                turns = s.turns + excluded.turns, asked = s.asked + excluded.asked, said = s.said + excluded.said,
                thought = s.thought + excluded.thought, did = s.did + excluded.did;
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION warmstart_recall_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recall_stale (tenant, session) VALUES (new.tenant, new.pk) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- Turns of sessions that changed may have words that are gone; the next update adds them again.
CREATE FUNCTION warmstart_recall_scrubbed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recall_sessions WHERE session IN (SELECT session FROM recall_stale);
    RETURN NULL;
END $$;
CREATE TRIGGER recall_turn_indexed AFTER INSERT ON recall_turns REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_indexed();
CREATE TRIGGER recall_turn_removed AFTER DELETE ON recall_turns REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_removed();
CREATE TRIGGER recall_session_indexed AFTER INSERT ON recall_sessions REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_counted();
CREATE TRIGGER recall_session_grown AFTER UPDATE ON recall_sessions REFERENCING OLD TABLE AS gone NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION warmstart_recall_counted();
CREATE TRIGGER recall_session_removed AFTER DELETE ON recall_sessions REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION warmstart_recall_counted();
CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision, project, title, branch ON sessions FOR EACH ROW
    WHEN ((new.revision, new.project, new.title, new.branch) <> (old.revision, old.project, old.title, old.branch))
    EXECUTE FUNCTION warmstart_recall_changed();
CREATE TRIGGER recall_session_added AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION warmstart_recall_changed();
CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs FOR EACH ROW EXECUTE FUNCTION warmstart_recall_scrubbed();
