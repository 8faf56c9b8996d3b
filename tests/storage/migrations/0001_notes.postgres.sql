CREATE TABLE notes (tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant(), body TEXT);
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE notes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON notes USING (tenant = (SELECT warmstart_tenant()));
