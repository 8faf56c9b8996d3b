"""The command line, for tests that cover every command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from warmstart.cli import main

# `warmstart` for a shell, wherever it is installed.
SHELL = f"""warmstart() {{ '{sys.executable}' -c 'from warmstart.cli import main; main()' "$@"; }}\n"""


def tree(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command with its name."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from tree(child, (*path, name))


def run_line(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command line, in a shell only if it needs one. Returns the exit code and standard error."""
    commands = [shlex.split(part) for part in line.split("&&")]
    if set(line) & set("|<>$~*;`\\") or any(words[0] != "warmstart" for words in commands):
        ran = subprocess.run(["sh", "-c", SHELL + line], capture_output=True, text=True, check=False)
        return ran.returncode, ran.stderr
    code = 0
    for _, *arguments in commands:
        if code == 0:
            try:
                main(arguments)
            except SystemExit as left:
                code = int(left.code or 0)
    return code, capsys.readouterr().err
