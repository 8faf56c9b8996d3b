from __future__ import annotations

import os
import pty
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fcntl import ioctl
from pathlib import Path
from tempfile import mkdtemp
from termios import TIOCSWINSZ
from threading import Timer
from typing import NamedTuple

import pytest
from tests.conftest import VARIABLES

import warmstart
from warmstart.cli import main

SAMPLES = Path(warmstart.__file__).parent / "samples"
PROGRAM = [sys.executable, "-c", "from warmstart.cli import main; main()"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def outside_of_any_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory that belongs to no project, so that commands show all projects."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def program() -> list[str]:
    """The command that starts Warmstart in its own process."""
    return PROGRAM


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, from its arguments to its exit code."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Run a command on a terminal. Returns its exit code and the screen."""

    def terminal(*arguments: object, columns: int = 80, typed: str = "") -> tuple[int, str]:
        ours, theirs = pty.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        with subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm-256color"},
        ) as process:
            os.close(theirs)
            os.write(ours, typed.encode())
            screen = b""
            limit = Timer(60, process.kill)
            limit.start()
            try:
                while piece := os.read(ours, 65536):
                    screen += piece
            except OSError:
                pass  # how Linux says that the other end was closed
            finally:
                limit.cancel()
                os.close(ours)
        return process.returncode, screen.decode()

    return terminal


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with the samples, for tests to copy."""
    home = tmp_path_factory.mktemp("imported")
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    subprocess.run([*PROGRAM, "sync", "--path", SAMPLES], env={**env, "HOME": str(home)}, check=True)
    return home / ".warmstart"


@pytest.fixture
def synced(run: Run, home: Path, imported: Path) -> Path:
    """The samples, imported into the test's store."""
    if os.environ.keys() & {"WARMSTART_HOME", "WARMSTART_STORE"}:
        assert run("sync", "--path", SAMPLES).code == 0
    else:
        shutil.copytree(imported, home / ".warmstart")
    return SAMPLES


@pytest.fixture
def fresh(tmp_path: Path, imported: Path) -> Callable[..., AbstractContextManager[Path]]:
    """Switches to a new home and current directory, for one of many cases in a test."""

    @contextmanager
    def move(*, synced: bool = False) -> Iterator[Path]:
        place = Path(mkdtemp(dir=tmp_path))
        (place / "here").mkdir()
        (place / "home").mkdir()
        if synced:
            shutil.copytree(imported, place / "home" / ".warmstart")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("HOME", str(place / "home"))
            patched.chdir(place / "here")
            yield place / "home"

    return move


@pytest.fixture
def histories(home: Path) -> Path:
    """The samples of three agents, in these agents' default locations."""
    shutil.copytree(SAMPLES / "claude-code", home / ".claude")
    shutil.copytree(SAMPLES / "codex", home / ".codex")
    shutil.copytree(SAMPLES / "gemini-cli" / ".gemini", home / ".gemini")
    return home
