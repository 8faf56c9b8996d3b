-- Earlier layouts filled and searched the index with other functions.
DROP FUNCTION IF EXISTS warmstart_found(text[], bigint);
DROP FUNCTION IF EXISTS warmstart_index(bigint);
DROP FUNCTION IF EXISTS warmstart_index(bigint, text);
DROP FUNCTION IF EXISTS warmstart_plain(text);
DROP TEXT SEARCH CONFIGURATION IF EXISTS warmstart;
DROP TEXT SEARCH DICTIONARY IF EXISTS warmstart_stem;
CREATE OR REPLACE FUNCTION warmstart_mark() RETURNS text LANGUAGE sql STABLE RETURN
    ' ''@' || replace(replace(warmstart_tenant(), '\', '\\'), '''', '''''') || '''';
CREATE OR REPLACE FUNCTION warmstart_index(texts bigint[], words text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    caller text := warmstart_tenant();
    mark text := warmstart_mark();
BEGIN
    INSERT INTO texts_index
        SELECT caller, given.id, (given.words || mark)::tsvector FROM unnest($1, $2) AS given (id, words);
END $$;
-- In some, `0004_scrubs` made its table in SQLite only.
DO $$
BEGIN
    IF to_regclass('scrubs') IS NULL THEN
        CREATE TABLE scrubs (
            tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
            id BIGINT NOT NULL,
            PRIMARY KEY (tenant, id)
        );
        ALTER TABLE scrubs ENABLE ROW LEVEL SECURITY;
        ALTER TABLE scrubs FORCE ROW LEVEL SECURITY;
        CREATE POLICY own_rows ON scrubs USING (tenant = (SELECT warmstart_tenant()));
    END IF;
END $$;
