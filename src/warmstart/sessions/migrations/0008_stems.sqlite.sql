-- The index holds the stems of `warmstart.text.words` and no text. The store adds and deletes its rows together with the
-- texts. Texts up to `pending` are not in it yet; sync indexes them.
DROP TRIGGER IF EXISTS texts_removed;
DROP TABLE texts_index;
CREATE VIRTUAL TABLE texts_index USING fts5 (
    stems, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);
CREATE TABLE index_state (pending INTEGER NOT NULL);
INSERT INTO index_state (pending) SELECT max(id) FROM texts HAVING max(id) IS NOT NULL;
