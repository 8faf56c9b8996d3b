"""The tables of the room `recall` in PostgreSQL: those of `schema.py`, every row with its tenant.

In place of the FTS5 tables there is `recall_words`, whose rows are the blocks of segments (see `blocks`); the segments
are in `recall_segments`. What was said is of the kind 0, what was done of the kind 1. No text is needed to empty it or
to make it anew, so what deletes a session or removes traces does here what it does in SQLite.

`warmstart_uses` looks into the text index of the room `sessions`, which only functions with its owner's rights may.

The state of a tenant is made with its first session. Tenants that were there before are seen only while the policies
are lifted for their owner, for a moment in the same transaction.
"""

from __future__ import annotations

from warmstart.recall.packing import FIELDS
from warmstart.storage.database import Connection
from warmstart.storage.tenants import COLUMN, keep_apart

_SIZES = ", ".join(f'"{name}" DOUBLE PRECISION NOT NULL' for name in FIELDS)
_SESSION = "FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, pk) ON DELETE CASCADE"
_APART = (
    "recall_words",
    "recall_segments",
    "recall_parts",
    "recall_lines",
    "recall_dead",
    "recall_stale",
    "recall_state",
)

_TABLES = (
    f"""
    CREATE TABLE recall_words (
        {COLUMN},
        kind SMALLINT NOT NULL,
        segment INTEGER NOT NULL,
        place INTEGER NOT NULL,
        first TEXT COLLATE "C" NOT NULL,
        lines INTEGER NOT NULL,
        data BYTEA NOT NULL,
        PRIMARY KEY (tenant, kind, segment, place, first)
    )
    """,
    "ALTER TABLE recall_words ALTER data SET STORAGE EXTERNAL",  # it is compressed already
    f"""
    CREATE TABLE recall_segments (
        {COLUMN},
        kind SMALLINT NOT NULL,
        number INTEGER NOT NULL,
        lines BIGINT NOT NULL,
        PRIMARY KEY (tenant, kind, number)
    )
    """,
    f"""
    CREATE TABLE recall_parts (
        {COLUMN},
        number BIGINT NOT NULL,
        session BIGINT NOT NULL,
        generation BIGINT NOT NULL,
        said BIGINT NOT NULL,
        did BIGINT NOT NULL,
        {_SIZES},
        lengths BYTEA NOT NULL,
        PRIMARY KEY (tenant, number),
        {_SESSION}
    )
    """,
    "CREATE INDEX recall_parts_session ON recall_parts (session, tenant)",
    "CREATE INDEX recall_parts_generation ON recall_parts (tenant, generation)",
    f"""
    CREATE TABLE recall_lines (
        {COLUMN},
        part INTEGER NOT NULL,
        line INTEGER NOT NULL,
        message BIGINT NOT NULL,
        hash BIGINT NOT NULL,
        PRIMARY KEY (tenant, part, line)
    )
    """,
    f"CREATE TABLE recall_dead ({COLUMN}, line BIGINT NOT NULL, PRIMARY KEY (tenant, line))",
    f"CREATE TABLE recall_stale ({COLUMN}, session BIGINT NOT NULL, PRIMARY KEY (session, tenant), {_SESSION})",
    f"""
    CREATE TABLE recall_state (
        {COLUMN},
        generation BIGINT NOT NULL DEFAULT 1,
        emptied BIGINT NOT NULL DEFAULT 1,
        part BIGINT NOT NULL DEFAULT 0,
        lines BIGINT NOT NULL DEFAULT 0,
        dead BIGINT NOT NULL DEFAULT 0,
        counted BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant)
    )
    """,
)

_OLD_SESSIONS = (
    "ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY",
    "INSERT INTO recall_stale (tenant, session) SELECT tenant, pk FROM sessions",
    "INSERT INTO recall_state (tenant) SELECT DISTINCT tenant FROM sessions",
    "ALTER TABLE sessions FORCE ROW LEVEL SECURITY",
)

_FUNCTIONS = (
    """
    CREATE FUNCTION warmstart_recall_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO recall_state (tenant) VALUES (new.tenant) ON CONFLICT DO NOTHING;
        INSERT INTO recall_stale (tenant, session) VALUES (new.tenant, new.pk) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION warmstart_recall_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM recall_lines l USING gone g WHERE l.tenant = g.tenant AND l.part = g.number;
        UPDATE recall_state s SET generation = generation + 1, emptied = generation + 1,
            lines = lines - g.removed, dead = dead + g.removed
            FROM (SELECT tenant, sum(said + did) AS removed FROM gone GROUP BY tenant) g WHERE s.tenant = g.tenant;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION warmstart_recall_empty() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM recall_words;
        DELETE FROM recall_segments;
        DELETE FROM recall_parts;
        DELETE FROM recall_dead;
        UPDATE recall_state SET generation = generation + 1, emptied = generation + 1,
            lines = 0, dead = 0, counted = 0;
        INSERT INTO recall_stale (session) SELECT pk FROM sessions ON CONFLICT DO NOTHING;
    END $$
    """,
    """
    CREATE FUNCTION warmstart_recall_scrubbed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT 1 FROM recall_stale) OR EXISTS (SELECT 1 FROM recall_state WHERE dead > 0) THEN
            PERFORM warmstart_recall_empty();
        END IF;
        RETURN NULL;
    END $$
    """,
    # It costs much, and PostgreSQL is told so: it shall ask for the newest uses, and not for all texts.
    """
    CREATE FUNCTION warmstart_holds(body text, part text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 5000 AS
    $$ BEGIN RETURN strpos(lower(body COLLATE "C"), part) > 0; END $$
    """,
    """
    CREATE FUNCTION warmstart_uses(query text, candidates text, most bigint) RETURNS TABLE (id bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
    BEGIN
        RETURN QUERY
            WITH newest AS MATERIALIZED (
                SELECT i.id, i.words FROM texts_index i
                WHERE i.tenant = warmstart_tenant() AND i.words @@ ($2::tsquery && warmstart_mark()::tsquery)
                ORDER BY i.id DESC LIMIT most)
            SELECT n.id FROM newest n WHERE n.words @@ $1::tsquery ORDER BY n.id DESC;
    END $$
    """,
)

_TRIGGERS = (
    # A session that is met again without news is written all the same, as it was.
    "CREATE TRIGGER recall_session_changed AFTER UPDATE OF revision ON sessions FOR EACH ROW "
    "WHEN ((new.revision, new.title, new.branch) <> (old.revision, old.title, old.branch)) "
    "EXECUTE FUNCTION warmstart_recall_changed()",
    "CREATE TRIGGER recall_session_added AFTER INSERT ON sessions FOR EACH ROW "
    "EXECUTE FUNCTION warmstart_recall_changed()",
    # For a statement and not for each row: a row that is updated again and again in a transaction gets slower.
    "CREATE TRIGGER recall_part_removed AFTER DELETE ON recall_parts REFERENCING OLD TABLE AS gone "
    "FOR EACH STATEMENT EXECUTE FUNCTION warmstart_recall_removed()",
    "CREATE TRIGGER recall_scrubbed AFTER INSERT ON scrubs FOR EACH STATEMENT "
    "EXECUTE FUNCTION warmstart_recall_scrubbed()",
)


def create_tables(connection: Connection) -> None:
    """Make the tables, their policies, and what keeps them in step with the sessions."""
    for statement in (*_TABLES, *_OLD_SESSIONS):
        connection.execute(statement)
    keep_apart(connection, *_APART)
    schema = connection.execute("SELECT quote_ident(current_schema())").fetchone()[0]
    for statement in (*(function.replace("{schema}", schema) for function in _FUNCTIONS), *_TRIGGERS):
        connection.execute(statement)


_VECTORS = (
    f"""
    CREATE TABLE vector_sets (
        {COLUMN}, id INTEGER NOT NULL, asked TEXT NOT NULL, name TEXT NOT NULL, dimensions INTEGER NOT NULL,
        PRIMARY KEY (tenant, id)
    )
    """,
    f"CREATE TABLE vector_parts ({COLUMN}, part BIGINT NOT NULL, stamp BIGINT NOT NULL, PRIMARY KEY (tenant, part))",
    f"""
    CREATE TABLE vector_blocks (
        {COLUMN}, part BIGINT NOT NULL, number INTEGER NOT NULL, signs BYTEA NOT NULL, hashes BYTEA NOT NULL,
        vectors BYTEA NOT NULL, PRIMARY KEY (tenant, part, number)
    )
    """,
    # Random numbers gain nothing by compression.
    "ALTER TABLE vector_blocks ALTER COLUMN hashes SET STORAGE EXTERNAL, ALTER COLUMN vectors SET STORAGE EXTERNAL",
    f"""
    CREATE TABLE vector_signs (
        {COLUMN}, line BIGINT NOT NULL, dimensions INTEGER NOT NULL, bits BIT VARYING NOT NULL,
        PRIMARY KEY (tenant, line)
    )
    """,
)


def create_vectors(connection: Connection) -> None:
    """Make the tables of search by meaning, which need no extension."""
    for statement in _VECTORS:
        connection.execute(statement)
    keep_apart(connection, "vector_sets", "vector_parts", "vector_blocks", "vector_signs")
