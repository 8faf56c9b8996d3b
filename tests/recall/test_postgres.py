"""What recall does on a server that it need not do in a file: tenants, deadlines of the server, few round trips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread

import psycopg
import pytest

from tests.postgres import OWNER, Server
from tests.recall.stores import NOW, fill, keep, opened
from tests.waiting import SECONDS, in_time
from warmstart import Evidence, Settings
from warmstart.recall import create_semantic_index
from warmstart.recall.recall import Recall
from warmstart.recall.search import Scope, find_turns
from warmstart.sessions.copy import copy_store
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore

USERS = ("alice", "bob")
TABLES = ("recall_sessions", "recall_turns", "recall_terms", "recall_stale", "recall_state")
QUESTIONS = (
    "the tide at the harbour",
    "lighthouses and ferries in March",
    "gauge_7.py",
    "why does gauge_3.py fail at harbour 4",
    "moon yesterday",
    "ECONNREFUSED",
    "数据库",
    '"moon 5"',
    "buoys",
    "terraform",
    "flux capacitor",
)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresSessionStore]:
    with closing(PostgresSessionStore(postgres_url)) as fresh:
        yield fresh


def natives(found: list[Evidence]) -> list[str]:
    return [each.native_id for each in found]


# -- tenants


@pytest.fixture
def shared(postgres: Server) -> Iterator[str]:
    """An empty database that two users share, as the documentation says."""
    for role in (*USERS, "portal", "warmstart_service", "warmstart_users"):
        postgres.run(f"DROP ROLE IF EXISTS {role}")
    postgres.run("CREATE ROLE warmstart_users NOLOGIN")
    postgres.run("CREATE ROLE warmstart_service NOLOGIN")
    for role in USERS:
        postgres.run(f"CREATE ROLE {role} LOGIN IN ROLE warmstart_users")
    postgres.run("CREATE ROLE portal LOGIN IN ROLE warmstart_users, warmstart_service")
    with postgres.database(empty=True) as name:
        grant = f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES"
        postgres.run(f"{grant} TO warmstart_users", name)
        PostgresSessionStore(postgres.url(name)).close()
        yield name
        postgres.run("DROP OWNED BY warmstart_users", name)
    for role in (*USERS, "portal", "warmstart_service", "warmstart_users"):
        postgres.run(f"DROP ROLE {role}")


def made(url: str) -> None:
    """Let the owner of a database make the tables."""
    with closing(opened(url)) as store:
        Recall(store).update()


def test_sessions_of_all_tenants_from_before_are_indexed(postgres, shared):
    stores = {role: opened(postgres.url(shared, role)) for role in (*USERS, OWNER)}
    for role in USERS:
        keep(stores[role], role, f"the secret of {role}")
    Recall(stores[OWNER])  # who owns the tables makes them
    for role in USERS:
        assert natives(Recall(stores[role]).search("secret")) == [role]
    assert Recall(stores[OWNER]).search("secret") == []
    for store in stores.values():
        store.close()


def test_nobody_sees_or_infers_the_words_of_another(postgres, shared):
    made(postgres.url(shared))
    alice, bob = (opened(postgres.url(shared, role)) for role in USERS)
    fill(alice, 10)
    before = {question: Recall(alice, clock=lambda: NOW).search(question) for question in (*QUESTIONS, "xylophone")}
    fill(bob)
    for number in range(20):
        keep(bob, f"x{number}", "the xylophone and zither_table.zig")
    Recall(bob).update()
    recall = Recall(alice, clock=lambda: NOW)
    assert {question: recall.search(question) for question in before} == before
    assert recall.search("xylophone") == recall.search("zither_table.zig") == []

    found = find_turns(alice.database.connection, "postgres", ["xylophon", "tide"], Scope())
    assert found.known.keys() == {"tide"}
    assert found.documents == alice.fetch("SELECT count(*) FROM recall_turns")[0][0]
    with psycopg.connect(postgres.url(shared, "alice"), autocommit=True) as raw:
        for table in TABLES:
            owners = raw.execute(f"SELECT DISTINCT tenant FROM {table}".encode()).fetchall()
            assert owners in ([], [("alice",)]), table
        raw.execute("SET warmstart.tenant = 'bob'")
        assert raw.execute("SELECT * FROM recall_stems").fetchall() == []
        assert raw.execute("DELETE FROM recall_stems").rowcount == 0
        assert raw.execute("SELECT warmstart_recall_postings('{xylophon}', '{}', 100)").fetchall() == [(None,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            raw.execute("INSERT INTO recall_stale (tenant, session) SELECT 'bob', pk FROM sessions LIMIT 1")
    assert len(Recall(bob).search("xylophone", limit=30)) == 20
    alice.close()
    bob.close()


def test_a_service_searches_the_tenant_it_acts_for(postgres, shared):
    made(postgres.url(shared))
    for role in USERS:
        with closing(opened(postgres.url(shared, "portal"), role)) as store:
            keep(store, role, f"the secret of {role}, in secret_{role}.py")
            recall = Recall(store)
            for question in ("secret", "secret_alice.py"):
                for deadline in (None, 60_000):
                    assert natives(recall.search(question, deadline_ms=deadline)) == [role]
    with closing(opened(postgres.url(shared, "bob"))) as store:
        assert natives(Recall(store).search("secret")) == ["bob"]


# -- what is deleted


def stems(postgres: Server, store: PostgresSessionStore) -> set[str]:
    """Every stem in the tables of the index, of all tenants, without projects."""
    database = store.name.split("?")[0].rsplit("/", 1)[1]
    marked = postgres.run("SELECT unnest(stems) FROM recall_stems", database)
    found = {str(row[0])[6:] for row in marked}
    plain = postgres.run(
        "SELECT term FROM recall_terms UNION SELECT unnest(string_to_array(terms, ' ')) FROM recall_turns", database
    )
    assert found == {row[0] for row in plain}
    return {stem for stem in found if not stem.startswith("¶")}


def test_after_a_scrub_no_word_of_what_is_gone_is_in_the_tables(postgres, store):
    kept = keep(store, "one", "the xylophonist plays", title="zitherist")
    keep(store, "two", "the drawbridge", "the key is hunterhunter2")
    recall = Recall(store)
    recall.update()
    assert {"xylophonist", "zitherist", "hunterhunter2"} <= stems(postgres, store)
    store.delete(kept.id)
    assert stems(postgres, store) == {"the", "drawbridg", "kei", "is", "hunterhunter2"}
    store.rewrite(lambda text: text.replace("hunterhunter2", "[secret]"))
    store.scrub()
    assert stems(postgres, store) == set()
    assert natives(recall.search("drawbridge")) == ["two"]
    assert stems(postgres, store) == {"the", "drawbridg", "kei", "is", "secret"}


# -- time


def test_a_search_takes_few_round_trips(store, monkeypatch):
    fill(store)
    recall = Recall(store, clock=lambda: NOW)
    recall.update()
    trips = 0
    wait, pipeline = psycopg.Connection.wait, psycopg.Connection.pipeline

    def waits(self, *arguments, **options):
        nonlocal trips
        trips += self._pipeline is None
        return wait(self, *arguments, **options)

    def pipelines(self):
        nonlocal trips
        trips += 1
        return pipeline(self)

    monkeypatch.setattr(psycopg.Connection, "wait", waits)
    monkeypatch.setattr(psycopg.Connection, "pipeline", pipelines)
    for question, options, most in (
        ("the tide at the harbour", {}, 11),
        ("the tide at the harbour", {"project": "/src/1"}, 13),
        ("the tide at the harbour", {"deadline_ms": 60_000}, 15),
        ("gauge_3.py", {}, 16),
    ):
        recall.search(question, **options)
        trips = 0
        assert recall.search(question, **options)
        assert trips <= most, (question, trips)


def test_stems_are_looked_up_in_their_index_before_the_server_analyses_the_table(store):
    fill(store)
    Recall(store).update()
    with store.transaction() as connection:
        connection.execute("SELECT warmstart_recall_postings(?, ?, ?)", (["tide", "moon"], [], 100)).fetchall()
        scans = [
            connection.execute("SELECT pg_stat_get_xact_numscans(to_regclass(?))", (index,)).fetchone()[0]
            for index in ("recall_stems_stems", "recall_stems_pkey")
        ]
    assert scans == [2, 0]


@pytest.fixture
def hold(postgres_url: str) -> Iterator[object]:
    """Lets another process hold a lock until the test ends."""
    done, threads = Event(), []

    def hold(statement: str) -> Thread:
        held = Event()

        def run() -> None:
            with psycopg.connect(postgres_url) as other:
                other.execute(statement.encode())
                held.set()
                done.wait(SECONDS)

        threads.append(Thread(target=run))
        threads[-1].start()
        assert held.wait(SECONDS)
        return threads[-1]

    yield hold
    done.set()
    for thread in threads:
        thread.join()


def test_a_server_that_does_not_answer_is_not_waited_for(store, hold, postgres_url):
    keep(store, "one", "the tide")
    recall = Recall(store)
    assert natives(recall.search("tide")) == ["one"]
    holder = hold("LOCK TABLE recall_turns IN ACCESS EXCLUSIVE MODE")
    for milliseconds in (1, 50, 200):
        assert recall.search("tide gauge_1.py", deadline_ms=milliseconds) == []
    assert holder.is_alive()  # it was not waited for
    assert store.list()  # the connection is as good as before


def test_what_words_found_is_kept_when_names_take_too_long(store, hold):
    keep(store, "one", "the tide")
    recall = Recall(store)
    recall.update()
    holder = hold("LOCK TABLE texts_index IN ACCESS EXCLUSIVE MODE")
    assert natives(in_time(lambda deadline: recall.search("tide gauge_1.py", deadline_ms=deadline))) == ["one"]
    assert holder.is_alive()


def test_changes_that_cannot_be_indexed_in_time_wait(store, hold):
    keep(store, "one", "the tide")
    recall = Recall(store)
    recall.update()
    keep(store, "two", "the tide")
    holder = hold("SELECT 1 FROM tenants FOR UPDATE")
    assert natives(in_time(lambda deadline: recall.search("tide gauge_1.py", deadline_ms=deadline))) == ["one"]
    assert holder.is_alive()


# -- copies


def test_a_copy_is_indexed_where_it_goes(store, postgres, tmp_path):
    fill(store, 12)
    question = "the tide of gauge_3.py"
    expected = Recall(store, clock=lambda: NOW).search(question, limit=10)
    with (
        postgres.database() as name,
        closing(SQLiteSessionStore(tmp_path / "store.db")) as file,
        closing(opened(postgres.url(name))) as back,
    ):
        for source, target in ((store, file), (file, back)):
            assert copy_store(source, target).differences == ()
            assert Recall(target, clock=lambda: NOW).search(question, limit=10) == expected


# -- vectors


def test_without_pgvector_the_nearest_are_the_same(postgres, tmp_path):
    settings = Settings(home=tmp_path, store_path=tmp_path / "s.db")
    found = []
    for extended in (True, False):
        with postgres.database(empty=True) as name:
            if extended:
                postgres.run("CREATE EXTENSION vector", name)
            with closing(PostgresSessionStore(postgres.url(name))) as store:
                fill(store)
                recall = Recall(store, clock=lambda: NOW)
                recall.update()
                with create_semantic_index(store, settings, "wordllama") as semantic:
                    semantic.update()
                    by_meaning = Recall(store, clock=lambda: NOW, semantic=semantic)
                    found.append([by_meaning.search(question, limit=8) for question in QUESTIONS])
            assert bool(postgres.run("SELECT 1 FROM pg_extension WHERE extname = 'vector'", name)) == extended
    assert found[0] == found[1]
    assert any(evidence.components.get("vectors") for passages in found[0] for evidence in passages)


def test_a_superuser_installs_pgvector(postgres, tmp_path):
    settings = Settings(home=tmp_path, store_path=tmp_path / "s.db")
    with postgres.database(empty=True) as name:
        with closing(PostgresSessionStore(postgres.url(name, "postgres"))) as store:
            fill(store, 5)
            Recall(store).update()
            with create_semantic_index(store, settings, "wordllama") as semantic:
                assert semantic.update() > 0
                (best, *_) = Recall(store, semantic=semantic).search("the tide gauge")
                assert best.components["vectors"] > 0
        assert postgres.run("SELECT 1 FROM pg_extension WHERE extname = 'vector'", name)


def test_a_tenant_sees_its_own_vectors_alone(postgres, shared, tmp_path):
    settings = Settings(home=tmp_path, store_path=tmp_path / "s.db")
    made(postgres.url(shared))
    for user in USERS:
        with closing(opened(postgres.url(shared, user))) as store:
            keep(store, user, f"what {user} said about the tide")
            Recall(store).update()
            with create_semantic_index(store, settings, "wordllama") as semantic:
                assert semantic.update() == 1
                found = Recall(store, semantic=semantic).search("what was said about tides", limit=10)
                assert natives(found) == [user]
                assert found[0].components["vectors"] > 0


def test_a_rollback_that_runs_out_of_time_is_tried_again(store, monkeypatch):
    keep(store, "one", "the tide table")
    recall = Recall(store, clock=lambda: NOW)
    recall.update()
    raw = store.database.connection.raw
    rollback, cancelled = raw.rollback, [True, True]

    def unlucky() -> None:
        if cancelled:
            cancelled.pop()
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        rollback()

    monkeypatch.setattr(raw, "rollback", unlucky)
    assert natives(recall.search("tide", deadline_ms=60_000)) == ["one"]
    assert not cancelled
    assert natives(recall.search("tide")) == ["one"]
    assert raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
