"""Real agents while our store, or our installation, is broken: the turn goes on, and the user is told once at most."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.hosts.clients import MARKS, Client, Turn
from tests.hosts.scenario import QUESTION, ours, work_once
from warmstart.testing.model import Reply

pytestmark = MARKS

# What a failure of ours would look like.
NOISE = ("Traceback", "sqlite3", "StoreError", "database is locked", "malformed", "No space left", "newer Warmstart")
MAX_SECONDS = 10  # that a turn may take longer than usual


def test_a_broken_store_is_no_concern_of_the_agent(newest: Client, subtests, tmp_path: Path) -> None:
    client = newest
    client.install()
    work_once(client)
    good = client.ask(QUESTION)
    assert "yarn" in good.requests[0].text
    settle(client)
    for breaking in (locked, missing, not_a_folder, corrupt, corrupt_inside, newer, full_disk):
        folder = tmp_path / breaking.__name__
        shutil.copytree(client.home / ".warmstart", folder)
        with subtests.test(breaking.__name__), breaking(folder):
            client.variables = {"WARMSTART_HOME": str(folder)}
            client.model.add(Reply(when=QUESTION, calls=[client.shell("yarn test")]), Reply(text="Done."))
            expect_silence(client, good)
    client.variables = {}
    assert "yarn" in client.ask(QUESTION).requests[0].text


def test_an_installation_that_is_gone_is_no_concern_of_the_agent(newest: Client, tmp_path: Path) -> None:
    client = newest
    client.python = create_installation(tmp_path / "venv")
    client.install()
    work_once(client)
    good = client.ask(QUESTION)
    assert "yarn" in good.requests[0].text
    settle(client)
    (tmp_path / "venv").rename(tmp_path / "gone")
    assert ours(expect_silence(client, good).requests[0]) == ""


def expect_silence(client: Client, good: Turn) -> Turn:
    """A turn that ends as it would without us, but for one message to the user."""
    turn = client.ask(QUESTION)
    assert turn.seconds < 2 * good.seconds + MAX_SECONDS
    assert turn.text.strip() == "Done."
    lines = [line for line in turn.errors.splitlines() if "warmstart" in line.lower()]
    notices = {line[line.lower().index("warmstart:") :] for line in lines}  # an agent may print it twice
    assert len(notices) <= 1
    assert all(notice.endswith("see `warmstart doctor`") for notice in notices)
    usual = good.requests[0].text
    for request in turn.requests:
        assert [noise for noise in NOISE if noise in request.text and noise not in usual] == []
        assert "earlier sessions here" not in ours(request)  # how to use what it has may be there
    return turn


def settle(client: Client) -> None:
    """Wait until no sync runs any more that a hook started."""
    client.warmstart("sync")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another process has the database for itself."""
    with closing(sqlite3.connect(folder / "warmstart.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("CREATE TABLE mine (x)")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def missing(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder)
    yield


@contextmanager
def not_a_folder(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder)
    folder.write_text("a file\n")
    yield


@contextmanager
def corrupt(folder: Path) -> Iterator[None]:
    (folder / "warmstart.db").write_bytes(b"this is no database" * 4096)
    yield


@contextmanager
def corrupt_inside(folder: Path) -> Iterator[None]:
    """The first page is whole, all others are not."""
    with (folder / "warmstart.db").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    yield


@contextmanager
def newer(folder: Path) -> Iterator[None]:
    with closing(sqlite3.connect(folder / "warmstart.db")) as connection, connection:
        connection.execute("INSERT INTO migrations (name) VALUES ('sessions/9999_of_tomorrow')")
    yield


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """A file system of its own without a free byte; only root can mount one."""
    copy = folder.with_name("copy")
    folder.rename(copy)
    folder.mkdir()
    size = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size + 1_000_000}", "tmpfs", folder], check=True)
    try:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert shutil.disk_usage(folder).free == 0
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def create_installation(folder: Path) -> str:
    """The Python of a virtual environment that has Warmstart as this one has."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "warmstart.pth").write_text("".join(f"{path}\n" for path in sys.path if Path(path).is_dir()))
    return str(folder / "bin" / "python")
