"""Several users on one server: nobody sees or changes the templates of another."""

from __future__ import annotations

from contextlib import ExitStack, closing

import psycopg
import pytest

from tests.postgres import Server
from tests.templates.made import FIRST, revision, template, use
from warmstart.errors import TemplateNotFound
from warmstart.sessions.sql_store import PostgresSessionStore
from warmstart.templates.revoke import revoke
from warmstart.templates.store import SQLTemplateStore

TABLES = (
    "template_ids",
    "templates",
    "template_versions",
    "template_sources",
    "template_revoked",
    "template_revision",
    "template_uses",
)
USERS = ("templates_ann", "templates_ben")


def test_tenants_never_see_each_other(postgres: Server) -> None:
    with postgres.database(empty=True) as name:
        with closing(PostgresSessionStore(postgres.url(name))) as owner:
            SQLTemplateStore(owner).add(template(name="the owner's"))
        for role in USERS:
            postgres.run(f"DROP ROLE IF EXISTS {role}")
            postgres.run(f"CREATE ROLE {role} LOGIN")
        try:
            postgres.run(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {', '.join(USERS)}", name
            )
            with ExitStack() as opened:
                ann, ben = (
                    SQLTemplateStore(opened.enter_context(closing(PostgresSessionStore(postgres.url(name, role)))))
                    for role in USERS
                )
                check(ann, ben)
            for table in TABLES:
                assert postgres.run(f"SELECT DISTINCT tenant FROM {table} WHERE tenant = '{USERS[0]}'", name), table
                with psycopg.connect(postgres.url(name, USERS[1]), autocommit=True) as raw:
                    found = raw.execute(f"SELECT DISTINCT tenant FROM {table}".encode()).fetchall()
                    assert set(found) <= {(USERS[1],)}, table
        finally:
            postgres.run(f"DROP OWNED BY {', '.join(USERS)}", name)
            postgres.run(f"DROP ROLE {', '.join(USERS)}")


def check(ann: SQLTemplateStore, ben: SQLTemplateStore) -> None:
    kept = ann.add(template(name="ann's"))
    use(ann, kept.id, outcome="success")
    before = revision(ann)
    assert ben.list() == []
    with pytest.raises(TemplateNotFound):
        ben.get(kept.id)
    assert revision(ben) == 0
    revoke(ben, FIRST)
    use(ben, kept.id, outcome="failure")
    assert ann.get(kept.id).failures == 0
    assert revision(ann) == before
    assert ann.revoked() == frozenset()
    assert ann.get(kept.id).seed == template().seed
    revoke(ann, "0123456789abcdef")
