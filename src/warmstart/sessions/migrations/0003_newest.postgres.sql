-- To read and rank a vector is what costs: of more than 500 texts, the newest are ranked. The planner sees the words that
-- are asked for, and so goes back through the newest texts for a common word, and to the index for a rare one.
CREATE OR REPLACE FUNCTION warmstart_found(query text, most bigint)
RETURNS TABLE (id bigint, rank double precision) LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
SET search_path = {schema}, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    caller text := warmstart_tenant();
    asked tsquery := $1::tsquery;
    wanted tsquery := asked && warmstart_mark()::tsquery;
    ranked bigint := greatest(most, 500);
BEGIN
    RETURN QUERY
        SELECT newest.id, -ts_rank(newest.words, asked, 1)::double precision FROM (
            SELECT i.id, i.words FROM texts_index i WHERE i.tenant = caller AND i.words @@ wanted
            ORDER BY i.id DESC LIMIT ranked
        ) AS newest
        ORDER BY 2, newest.id DESC LIMIT most;
END $$;
