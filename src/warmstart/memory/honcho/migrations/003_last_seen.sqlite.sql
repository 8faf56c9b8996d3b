ALTER TABLE positions ADD COLUMN last TEXT NOT NULL DEFAULT '';
ALTER TABLE forgotten_users ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
