-- Earlier layouts looked up exact names with other functions.
DROP FUNCTION IF EXISTS warmstart_uses(text);
CREATE OR REPLACE FUNCTION warmstart_holds(body text, part text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 5000 AS
$$ BEGIN RETURN strpos(lower(body COLLATE "C"), part) > 0; END $$;
CREATE OR REPLACE FUNCTION warmstart_uses(query text, candidates text, most bigint) RETURNS TABLE (id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    RETURN QUERY
        WITH newest AS MATERIALIZED (
            SELECT i.id, i.words FROM texts_index i
            WHERE i.tenant = warmstart_tenant() AND i.words @@ ($2::tsquery && warmstart_mark()::tsquery)
            ORDER BY i.id DESC LIMIT most)
        SELECT n.id FROM newest n WHERE n.words @@ $1::tsquery ORDER BY n.id DESC;
END $$;
-- Earlier vectors have no signs beside them. They are emptied; `warmstart recall index` makes them again.
DO $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('vector_blocks') AND attname = 'signs'
    ) THEN
        TRUNCATE vector_sets, vector_parts, vector_signs, vector_blocks;
        ALTER TABLE vector_blocks
            DROP COLUMN hashes, DROP COLUMN vectors,
            ADD COLUMN signs BYTEA NOT NULL, ADD COLUMN hashes BYTEA NOT NULL, ADD COLUMN vectors BYTEA NOT NULL;
        ALTER TABLE vector_blocks
            ALTER COLUMN hashes SET STORAGE EXTERNAL, ALTER COLUMN vectors SET STORAGE EXTERNAL;
    END IF;
END $$;
