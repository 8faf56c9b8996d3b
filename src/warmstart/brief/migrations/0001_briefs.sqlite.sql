-- The brief of a project on a branch, as the next session prints it, with the state of everything it was made from.
CREATE TABLE briefs (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    branch TEXT NOT NULL,
    state TEXT NOT NULL,
    UNIQUE (project, branch)
);
CREATE TABLE brief_lines (
    brief INTEGER NOT NULL REFERENCES briefs (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    heading TEXT NOT NULL,
    key TEXT NOT NULL,
    text TEXT NOT NULL,
    paths TEXT NOT NULL,
    needs_files INTEGER NOT NULL,
    PRIMARY KEY (brief, place)
) WITHOUT ROWID;
CREATE TABLE brief_sources (
    session TEXT NOT NULL,
    brief INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (session, brief, place),
    FOREIGN KEY (brief, place) REFERENCES brief_lines (brief, place) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX brief_sources_line ON brief_sources (brief, place);
-- A line goes with each of its sources, and with a rewrite of the store.
CREATE TRIGGER brief_lines_deleted AFTER DELETE ON sessions BEGIN
    DELETE FROM brief_lines WHERE (brief, place) IN (SELECT brief, place FROM brief_sources WHERE session = old.id);
END;
CREATE TRIGGER brief_lines_revoked AFTER INSERT ON template_revoked BEGIN
    DELETE FROM brief_lines WHERE (brief, place) IN (SELECT brief, place FROM brief_sources WHERE session = new.session);
END;
CREATE TRIGGER briefs_scrubbed AFTER INSERT ON scrubs BEGIN
    DELETE FROM briefs;
END;
