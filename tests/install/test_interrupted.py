"""An install, upgrade or uninstall that is killed at any step can be repeated, and then undone without a trace."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.install.test_install import tree, write
from warmstart.hosts.install import HOSTS, Place, install, plan_install, plan_uninstall, uninstall

KILLED = 9
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}  # the events of Python that come before each
FILES = {
    "claude-code": {".claude/settings.json": '{"model": "opus"}', ".claude.json": '{"mcpServers": {}}\n'},
    "codex": {".codex/config.toml": 'model = "x"  # mine\n'},
    "copilot-cli": {".copilot/mcp-config.json": "{}"},
    "gemini-cli": {".gemini/settings.json": '{\n  // mine\n  "theme": "x"\n}\n'},
    "hermes": {".hermes/config.yaml": "model: x\n...\n"},
    "opencode": {".config/opencode/opencode.json": "{}\n"},
}
# What runs first, the command that is killed, and what runs after it.
SEQUENCES = {
    "install": ("", "new", "new uninstall"),
    "install and undo": ("", "new", "uninstall"),
    "upgrade": ("old", "new", "new uninstall"),
    "upgrade and undo": ("old", "new", "uninstall"),
    "uninstall": ("old", "uninstall", "uninstall"),
    "uninstall and install": ("new", "uninstall", "new uninstall"),
}


def run(command: str, host: str, folder: Path) -> list[Any]:
    """Run a command as the command line does. `old` installs from another place. Returns its notes."""
    place, kept = Place(folder / "home", {}), folder / "kept"
    if command == "old":
        place = place._replace(python="/old/bin/python")
    if command == "uninstall":
        plan = plan_uninstall(host, place, kept)
        uninstall(plan, place, kept)
        return plan.notes
    plan = plan_install(host, place, kept)
    install(plan, place, kept)
    return plan.notes + plan_install(host, place, kept).changes


def is_killed(step: int, command: Callable[[], Any], folder: Path) -> bool:
    """Run a command in a process that dies before its change number `step` below `folder`, if it makes so many."""
    left = step

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(KILLED)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES and (not Path(arguments[0]).is_absolute() or Path(arguments[0]).is_relative_to(folder)):
            count()

    def child() -> None:
        fsync = os.fsync
        os.fsync = lambda handle: (count(), fsync(handle))[1]
        sys.addaudithook(watch)
        command()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, KILLED)
    return process.exitcode == KILLED


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_killed_command_can_be_repeated_and_undone(tmp_path, host, sequence):
    first, killed, then = SEQUENCES[sequence]
    step, is_complete = 0, False
    while not is_complete:
        step += 1
        folder = tmp_path / str(step)
        home = folder / "home"
        for name, text in FILES[host].items():
            write(home / name, text)
        before = tree(home)
        for command in first.split():
            run(command, host, folder)
        is_complete = not is_killed(step, lambda folder=folder: run(killed, host, folder), folder)
        for command in then.split():
            assert run(command, host, folder) == [], step
        assert tree(home) == before, step
        assert not (folder / "kept" / "hosts").exists()
    assert step > 4
