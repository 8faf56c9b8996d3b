"""Commands that destroy or promote ask on a terminal, and without one require `--yes`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import closing
from functools import partial
from itertools import product

import click
import pytest

from warmstart.cli.commands import root
from warmstart.config import ambient_settings
from warmstart.memory import LocalBackend

SESSION = "58e3c7d9"
COMMANDS = {
    "memory": ("memory", "delete", "pref_editor"),
    "keep": ("memory", "promote", "deploy_day"),
    "sessions": ("sessions", "delete", SESSION),
    "forget": ("sessions", "forget", SESSION),
    "templates": ("templates", "delete", "surges"),
    "revoke": ("templates", "revoke", SESSION),
    "promote": ("templates", "promote", "surges"),
}
DESTROYING = frozenset(
    "delete forget revoke promote remove rm drop purge prune clear reset wipe destroy erase scrub activate".split()  # noqa: SIM905
)


def fill(run) -> None:
    """Store one of everything that can be destroyed or promoted."""
    assert run("memory", "set", "pref_editor", "Helix").code == 0
    with closing(LocalBackend(settings=ambient_settings())) as backend:
        backend.store("default", "deploy_day", "Tuesday")
    assert run("templates", "extract", SESSION, "--name", "surges").code == 0
    assert run("templates", "retire", "surges").code == 0


def seen(run) -> list[str]:
    """The output of the commands that list it."""
    shown = (
        ("memory", "get", "pref_editor"),
        ("memory", "list", "--json"),
        ("sessions", "list", "--json"),
        ("templates", "show", "surges", "--json"),
    )
    return [run(*each).out for each in shown]


@pytest.fixture
def known(run, synced):
    """A store with one of everything."""
    fill(run)
    return partial(seen, run)


def test_without_a_terminal_nothing_is_destroyed_or_promoted(run, known, monkeypatch, subtests):
    for name, typed in product(COMMANDS, ["", "n\n", "y\n", "yes\n"]):
        with subtests.test(name, typed=typed):
            before = known()
            monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
            ran = run(*COMMANDS[name])
            assert ran.code == 1
            assert ran.err.count("\n") == 1
            assert "pass --yes" in ran.err
            assert known() == before


def test_yes_skips_the_question(run, fresh, subtests):
    for name, line in COMMANDS.items():
        with subtests.test(name), fresh(synced=True):
            fill(run)
            before = seen(run)
            assert run(*line, "--yes").code == 0
            assert seen(run) != before


def test_closed_input_is_no_terminal(run, known, monkeypatch):
    for stdin in (None, io.StringIO()):
        if stdin is not None:
            stdin.close()
        monkeypatch.setattr(sys, "stdin", stdin)
        assert "pass --yes" in run(*COMMANDS["promote"]).err


def test_a_pipe_does_not_confirm(run, known, program):
    before = known()
    for typed in ("n\n", "y\n"):
        ran = subprocess.run(
            [*program, *COMMANDS["promote"]], input=typed, capture_output=True, text=True, check=False, timeout=60
        )
        assert ran.returncode == 1
        assert "pass --yes" in ran.stderr
    assert known() == before


def test_on_a_terminal_it_asks(known, terminal, subtests):
    for name, line in COMMANDS.items():
        with subtests.test(name):
            before = known()
            code, screen = terminal(*line, typed="n\n")
            assert code == 0
            assert "[y/N]" in screen
            assert known() == before


def test_questions_are_not_part_of_json(run, known, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    ran = run(*COMMANDS["memory"], "--json")
    assert json.loads(ran.out)["deleted"] == ["pref_editor"]
    assert "[y/N]" in ran.err


def test_a_promotion_shows_every_call_in_full_before_it_asks(run, known, terminal):
    texts = [
        text
        for item in json.loads(run("templates", "show", "surges", "--json").out)["seed"]["items"]
        for text in (item["text"], *(call["arguments"] for call in item["calls"]))
    ]
    _, screen = terminal("templates", "promote", "surges", typed="n\n")
    before = screen[: screen.index("[y/N]")]
    assert texts
    assert all(" ".join(text.split()) in before for text in texts)


def commands(group: click.Group, *path: str):
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from commands(command, *path, name)


def test_every_command_that_destroys_or_promotes_has_yes():
    named = {path: command for path, command in commands(root) if DESTROYING & set(path[-1].split("-"))}
    assert {path for path in named if path[-1] != "group"} == {args[:2] for args in COMMANDS.values()}
    assert not [path for path, command in named.items() if "yes" not in {each.name for each in command.params}]
