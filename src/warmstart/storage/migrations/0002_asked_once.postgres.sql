-- Let earlier policies ask for the tenant once a statement, and not for every row.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT quote_ident(tablename) FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'own_rows'
    LOOP
        EXECUTE 'ALTER POLICY own_rows ON ' || name || ' USING (tenant = (SELECT warmstart_tenant()))';
    END LOOP;
END $$;
