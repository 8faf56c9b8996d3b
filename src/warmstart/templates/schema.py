"""The tables of the room `templates` as an ordered list of migrations, for SQLite and for PostgreSQL.

A version of a template is a row that is never written over; one that was withdrawn has no `body` any more. The row of
the template itself says which version is the newest, and holds in `head` what a choice among thousands needs.
`template_sources` names for every version that can still be read the sessions that it came from, so that all that came
from one is found. An id stays in `template_ids` when its template is deleted, so that it is never given again.

Triggers count the uses of a template in its row, and count up `template_revision` with every write that a summary
could show: whoever writes, both are right.
"""

from __future__ import annotations

from warmstart.storage.database import Connection, Migration
from warmstart.storage.tenants import COLUMN, keep_apart

_TABLES = (
    """
    CREATE TABLE template_ids (
        id TEXT PRIMARY KEY,
        created_at REAL NOT NULL,
        deleted_at REAL,
        deleted_by TEXT
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE templates (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        head TEXT NOT NULL,
        used INTEGER NOT NULL DEFAULT 0,
        successes INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX templates_by_name ON templates (name)",
    """
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
    )
    """,
    """
    CREATE TABLE template_sources (
        session TEXT NOT NULL,
        template TEXT NOT NULL,
        version INTEGER NOT NULL,
        PRIMARY KEY (session, template, version),
        FOREIGN KEY (template, version) REFERENCES template_versions (template, version) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    "CREATE INDEX template_sources_by_version ON template_sources (template, version)",
    """
    CREATE TABLE template_revoked (
        session TEXT PRIMARY KEY,
        at REAL NOT NULL,
        author TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE TABLE template_revision (id INTEGER PRIMARY KEY, number INTEGER NOT NULL)",
    """
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
    )
    """,
    "CREATE INDEX template_uses_counted ON template_uses (arm, template, outcome)",
    "CREATE INDEX template_uses_by_session ON template_uses (session)",
    "CREATE INDEX template_uses_open ON template_uses (at) WHERE settled_at IS NULL",
)
_SHOWN = ("templates", "template_uses")  # what summaries are made of
_WARM = "FROM template_uses u WHERE u.arm = 'warm' AND u.template = templates.id"
COUNTED = f"""
    used = (SELECT count(*) {_WARM}),
    successes = (SELECT count(*) {_WARM} AND u.outcome = 'success'),
    failures = (SELECT count(*) {_WARM} AND u.outcome = 'failure')
"""


def _create_tables(connection: Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute("INSERT INTO template_revision (id, number) VALUES (1, 0)")
    for event, changed in (("INSERT", ("new",)), ("UPDATE", ("old", "new")), ("DELETE", ("old",))):
        templates = ", ".join(f"{row}.template" for row in changed)
        connection.execute(
            f"CREATE TRIGGER template_uses_counted_by_{event.lower()} AFTER {event} ON template_uses BEGIN "
            f"UPDATE templates SET {COUNTED} WHERE id IN ({templates}); END"
        )
        for table in _SHOWN:
            connection.execute(
                f"CREATE TRIGGER {table}_revised_by_{event.lower()} AFTER {event} ON {table} BEGIN "
                "UPDATE template_revision SET number = number + 1 WHERE id = 1; END"
            )


_POSTGRES = (
    f"""
    CREATE TABLE template_ids (
        {COLUMN},
        id TEXT COLLATE "C" NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        deleted_at DOUBLE PRECISION,
        deleted_by TEXT,
        PRIMARY KEY (tenant, id)
    )
    """,
    f"""
    CREATE TABLE templates (
        {COLUMN},
        id TEXT COLLATE "C" NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        head TEXT NOT NULL,
        used BIGINT NOT NULL DEFAULT 0,
        successes BIGINT NOT NULL DEFAULT 0,
        failures BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, id)
    )
    """,
    "CREATE INDEX templates_by_name ON templates (tenant, name)",
    f"""
    CREATE TABLE template_versions (
        {COLUMN},
        template TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        author TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        reason TEXT NOT NULL,
        hash TEXT NOT NULL,
        state TEXT NOT NULL,
        body TEXT,
        PRIMARY KEY (tenant, template, version),
        FOREIGN KEY (tenant, template) REFERENCES templates (tenant, id) ON DELETE CASCADE
    )
    """,
    f"""
    CREATE TABLE template_sources (
        {COLUMN},
        session TEXT COLLATE "C" NOT NULL,
        template TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        PRIMARY KEY (tenant, session, template, version),
        FOREIGN KEY (tenant, template, version)
            REFERENCES template_versions (tenant, template, version) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX template_sources_by_version ON template_sources (tenant, template, version)",
    f"""
    CREATE TABLE template_revoked (
        {COLUMN},
        session TEXT COLLATE "C" NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        author TEXT NOT NULL,
        PRIMARY KEY (tenant, session)
    )
    """,
    f"CREATE TABLE template_revision ({COLUMN}, number BIGINT NOT NULL, PRIMARY KEY (tenant))",
    f"""
    CREATE TABLE template_uses (
        {COLUMN},
        id BIGINT GENERATED BY DEFAULT AS IDENTITY,
        session TEXT COLLATE "C" NOT NULL,
        project TEXT NOT NULL DEFAULT '',
        agent TEXT NOT NULL DEFAULT '',
        arm TEXT NOT NULL,
        template TEXT COLLATE "C",
        version BIGINT,
        at DOUBLE PRECISION NOT NULL,
        task TEXT NOT NULL DEFAULT '',
        why TEXT NOT NULL DEFAULT '',
        propensity DOUBLE PRECISION NOT NULL DEFAULT 1,
        tokens BIGINT NOT NULL DEFAULT 0,
        items TEXT NOT NULL DEFAULT '[]',
        outcome TEXT NOT NULL DEFAULT '',
        errors BIGINT,
        calls BIGINT,
        settled_at DOUBLE PRECISION,
        policy TEXT NOT NULL DEFAULT '{{}}',
        PRIMARY KEY (tenant, id)
    )
    """,
    "CREATE INDEX template_uses_counted ON template_uses (tenant, arm, template, outcome)",
    "CREATE INDEX template_uses_by_session ON template_uses (tenant, session)",
    "CREATE INDEX template_uses_open ON template_uses (tenant, at) WHERE settled_at IS NULL",
    """
    CREATE FUNCTION warmstart_revise_templates() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO template_revision AS r (number) VALUES (1)
        ON CONFLICT (tenant) DO UPDATE SET number = r.number + 1;
        RETURN NULL;
    END
    $$
    """,
    f"""
    CREATE FUNCTION warmstart_count_uses() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE templates SET {COUNTED} WHERE id IN (OLD.template, NEW.template);
        RETURN NULL;
    END
    $$
    """,
    "CREATE TRIGGER template_uses_counted AFTER INSERT OR UPDATE OR DELETE ON template_uses "
    "FOR EACH ROW EXECUTE FUNCTION warmstart_count_uses()",
    *(
        f"CREATE TRIGGER {table}_revised AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION warmstart_revise_templates()"
        for table in _SHOWN
    ),
)
_OF_TENANTS = (
    "template_ids",
    "templates",
    "template_versions",
    "template_sources",
    "template_revoked",
    "template_revision",
    "template_uses",
)


def _create_tables_in_postgres(connection: Connection) -> None:
    for statement in _POSTGRES:
        connection.execute(statement)
    keep_apart(connection, *_OF_TENANTS)


# While the row of the session is still there: a host may have named it by the agent's own id.
_FORGET_TASKS = """
    UPDATE template_uses SET task = ''
    WHERE task <> '' AND session IN (new.id, (SELECT s.native_id FROM sessions s WHERE s.id = new.id));
"""


def _forget_deleted(connection: Connection) -> None:
    """Let what a session was asked for go with it."""
    connection.execute(
        f"CREATE TRIGGER template_uses_forgotten AFTER INSERT ON deleted_sessions BEGIN {_FORGET_TASKS} END"
    )


def _forget_deleted_in_postgres(connection: Connection) -> None:
    connection.execute(
        "CREATE FUNCTION warmstart_forget_tasks() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN {_FORGET_TASKS} RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE TRIGGER template_uses_forgotten AFTER INSERT ON deleted_sessions "
        "FOR EACH ROW EXECUTE FUNCTION warmstart_forget_tasks()"
    )


MIGRATIONS = (
    Migration("templates/0001_tables", _create_tables, postgres=_create_tables_in_postgres),
    Migration("templates/0002_deleted_sessions", _forget_deleted, postgres=_forget_deleted_in_postgres),
)
