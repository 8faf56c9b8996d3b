CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp);
COMMENT ON TABLE migrations IS 'Warmstart';
-- All may read it, and its owner alone may write it, whatever others were granted.
ALTER TABLE migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY everyone_reads ON migrations FOR SELECT USING (true);
-- `session_user` and `role`, and not `current_user`: in a function that runs with its owner's rights, the latter is the
-- owner. Nobody can set `role` to a role that he is no member of.
CREATE FUNCTION warmstart_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    CASE WHEN coalesce(current_setting('warmstart.tenant', true), '') = ''
    THEN CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END
    WHEN pg_has_role(
        CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END,
        to_regrole('warmstart_service'), 'member')
    THEN current_setting('warmstart.tenant', true)
    ELSE CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END END;
CREATE TABLE tenants (
    tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(),
    since TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    PRIMARY KEY (tenant)
);
-- Everyone, also the owner, sees and writes the rows of his own tenant. As a query of its own, the tenant is asked for
-- once a statement.
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON tenants USING (tenant = (SELECT warmstart_tenant()));
