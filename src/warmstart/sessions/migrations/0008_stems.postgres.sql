-- The index holds the stems of `warmstart.text.words`. Texts up to `pending` are not in it yet; sync indexes them.
--
-- As before, nobody may look into `texts_index` but functions that run with the rights of their owner and ask for the
-- caller's tenant themselves: row-level security would keep PostgreSQL from using the GIN index. Each row holds its
-- tenant as a stem that no text has, so that a search reads the rows of its own tenant alone.
DROP FUNCTION IF EXISTS warmstart_found(text, bigint);
DROP FUNCTION IF EXISTS warmstart_index(bigint[], text[]);
DROP FUNCTION IF EXISTS warmstart_mark();
DROP TABLE texts_index;
CREATE TABLE texts_index (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    id BIGINT NOT NULL,
    stems TEXT[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, id) REFERENCES texts (tenant, id) ON DELETE CASCADE
);
CREATE INDEX texts_index_stems ON texts_index USING gin (stems);
ALTER TABLE texts_index ENABLE ROW LEVEL SECURITY;
CREATE TABLE index_state (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    pending BIGINT NOT NULL,
    PRIMARY KEY (tenant)
);
ALTER TABLE texts NO FORCE ROW LEVEL SECURITY;
INSERT INTO index_state (tenant, pending) SELECT tenant, max(id) FROM texts GROUP BY tenant;
ALTER TABLE texts FORCE ROW LEVEL SECURITY;
ALTER TABLE index_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE index_state FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON index_state USING (tenant = (SELECT warmstart_tenant()));
-- The stems of a text are separated by spaces.
CREATE FUNCTION warmstart_index(texts bigint[], stems text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    caller text := warmstart_tenant();
BEGIN
    INSERT INTO texts_index SELECT caller, new.id, array_append(string_to_array(new.stems, ' '), '@' || caller)
        FROM unnest($1, $2) AS new (id, stems);
END $$;
-- The planner sees the stems, and so goes back through the newest texts for a common one and to the index for a rare one.
CREATE FUNCTION warmstart_texts(wanted text[], every boolean, most bigint) RETURNS TABLE (id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = {schema}, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    caller text := warmstart_tenant();
    own text := '@' || caller;
BEGIN
    IF every THEN
        RETURN QUERY SELECT i.id FROM texts_index i
            WHERE i.tenant = caller AND i.stems @> array_append(wanted, own) ORDER BY i.id DESC LIMIT most;
    ELSE
        RETURN QUERY SELECT i.id FROM texts_index i
            WHERE i.tenant = caller AND i.stems @> ARRAY[own] AND i.stems && wanted ORDER BY i.id DESC LIMIT most;
    END IF;
END $$;
