-- only if: SELECT 1 FROM notes WHERE body = 'wanted'
INSERT INTO notes (body) VALUES ('applied');
