from __future__ import annotations

import os
import pty
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from threading import Timer
from typing import NamedTuple

import pytest

import warmstart
from warmstart.cli import main

SAMPLES = Path(warmstart.__file__).parent / "samples"
PROGRAM = [sys.executable, "-c", "from warmstart.cli import main; main()"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def program() -> list[str]:
    """The command that starts Warmstart in a process of its own."""
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
    """Run a command on a terminal, and give back its exit code and what came onto the screen."""

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


@pytest.fixture
def synced(run: Run) -> Path:
    """The samples, imported into the store of the test's own home."""
    assert run("sync", "--path", SAMPLES).code == 0
    return SAMPLES


@pytest.fixture
def histories(home: Path) -> Path:
    """The samples of three agents, where these agents keep them."""
    shutil.copytree(SAMPLES / "claude-code", home / ".claude")
    shutil.copytree(SAMPLES / "codex", home / ".codex")
    shutil.copytree(SAMPLES / "gemini-cli" / ".gemini", home / ".gemini")
    return home
