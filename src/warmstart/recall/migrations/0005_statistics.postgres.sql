-- When terms are counted, much has been added: the planner learns of it, and the GIN indexes have no list to scan.
CREATE OR REPLACE FUNCTION warmstart_recall_count() RETURNS void LANGUAGE plpgsql
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
    PERFORM gin_clean_pending_list('recall_said_stems'), gin_clean_pending_list('recall_did_stems');
    ANALYZE recall_said, recall_did, said_terms, did_terms;
END $$;
