CREATE TABLE profiles (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    session BIGINT NOT NULL,
    rules TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, session),
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE
);
ALTER TABLE profiles ENABLE ROW LEVEL SECURITY;
ALTER TABLE profiles FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON profiles USING (tenant = (SELECT warmstart_tenant()));
CREATE FUNCTION warmstart_outdate_profile() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN DELETE FROM profiles WHERE tenant = new.tenant AND session = new.pk; RETURN NULL; END $$;
CREATE TRIGGER profiles_outdated AFTER UPDATE OF revision ON sessions
    FOR EACH ROW WHEN (new.revision <> old.revision) EXECUTE FUNCTION warmstart_outdate_profile();
