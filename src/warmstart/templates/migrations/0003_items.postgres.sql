-- The items of a session, extracted once per revision and version of the rules, like its profile.
CREATE TABLE session_items (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session BIGINT NOT NULL,
    rules TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, session),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
ALTER TABLE session_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_items FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON session_items USING (tenant = (SELECT warmstart_tenant()));
CREATE FUNCTION warmstart_outdate_items() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN DELETE FROM session_items WHERE tenant = new.tenant AND session = new.pk; RETURN NULL; END $$;
CREATE TRIGGER session_items_outdated AFTER UPDATE OF revision ON sessions
    FOR EACH ROW WHEN (new.revision <> old.revision) EXECUTE FUNCTION warmstart_outdate_items();
