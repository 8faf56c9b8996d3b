CREATE TABLE template_ids (
    id TEXT PRIMARY KEY,
    created_at REAL NOT NULL,
    deleted_at REAL,
    deleted_by TEXT
) WITHOUT ROWID;
CREATE TABLE templates (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at REAL NOT NULL,
    head TEXT NOT NULL,
    used INTEGER NOT NULL DEFAULT 0,
    successes INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX templates_by_name ON templates (name);
CREATE TABLE template_versions (
    template TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    author TEXT NOT NULL,
    at REAL NOT NULL,
    reason TEXT NOT NULL,
    hash TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT,
    PRIMARY KEY (template, version)
);
CREATE TABLE template_sources (
    session TEXT NOT NULL,
    template TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (session, template, version),
    FOREIGN KEY (template, version) REFERENCES template_versions (template, version) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX template_sources_by_version ON template_sources (template, version);
CREATE TABLE template_revoked (
    session TEXT PRIMARY KEY,
    at REAL NOT NULL,
    author TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE template_revision (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE template_uses (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT '',
    agent TEXT NOT NULL DEFAULT '',
    arm TEXT NOT NULL,
    template TEXT,
    version INTEGER,
    at REAL NOT NULL,
    task TEXT NOT NULL DEFAULT '',
    why TEXT NOT NULL DEFAULT '',
    propensity REAL NOT NULL DEFAULT 1,
    tokens INTEGER NOT NULL DEFAULT 0,
    items TEXT NOT NULL DEFAULT '[]',
    outcome TEXT NOT NULL DEFAULT '',
    errors INTEGER,
    calls INTEGER,
    settled_at REAL,
    policy TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX template_uses_counted ON template_uses (arm, template, outcome);
CREATE INDEX template_uses_by_session ON template_uses (session);
CREATE INDEX template_uses_open ON template_uses (at) WHERE settled_at IS NULL;
INSERT INTO template_revision (id, number) VALUES (1, 0);
CREATE TRIGGER template_uses_counted_by_insert AFTER INSERT ON template_uses BEGIN
    UPDATE templates
        SET used = (SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id),
        successes = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'success'),
        failures = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'failure')
        WHERE id IN (new.template);
END;
CREATE TRIGGER templates_revised_by_insert AFTER INSERT ON templates BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
CREATE TRIGGER template_uses_revised_by_insert AFTER INSERT ON template_uses BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
CREATE TRIGGER template_uses_counted_by_update AFTER UPDATE ON template_uses BEGIN
    UPDATE templates
        SET used = (SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id),
        successes = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'success'),
        failures = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'failure')
        WHERE id IN (old.template, new.template);
END;
CREATE TRIGGER templates_revised_by_update AFTER UPDATE ON templates BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
CREATE TRIGGER template_uses_revised_by_update AFTER UPDATE ON template_uses BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
CREATE TRIGGER template_uses_counted_by_delete AFTER DELETE ON template_uses BEGIN
    UPDATE templates
        SET used = (SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id),
        successes = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'success'),
        failures = (
            SELECT count(*) FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id AND u.outcome = 'failure')
        WHERE id IN (old.template);
END;
CREATE TRIGGER templates_revised_by_delete AFTER DELETE ON templates BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
CREATE TRIGGER template_uses_revised_by_delete AFTER DELETE ON template_uses BEGIN
    UPDATE template_revision SET number = number + 1 WHERE id = 1;
END;
