-- How often a session changed, and by which rules its outcomes were decided (0: not known).
ALTER TABLE sessions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN rules INTEGER NOT NULL DEFAULT 0;
