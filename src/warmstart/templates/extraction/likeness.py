"""What calls are alike by: of a shell command the programs and their flags, of any other the names of its arguments."""

from __future__ import annotations

from warmstart.profile import shell
from warmstart.profile.tools import SHELLS, command_in, fields_of
from warmstart.text.shell import Command, parse_commands


def shape_of(tool: str, arguments: str) -> str:
    """The shape of a call; two calls with the same shape show the same."""
    if tool in SHELLS and (command := command_in(arguments)):
        return " && ".join(_skeleton(each) for each in parse_commands(command)) or "command"
    fields = fields_of(arguments)
    return ",".join(f"{name}:{_kind(value)}" for name, value in sorted(fields.items())) if fields else "text"


def _skeleton(command: Command) -> str:
    """A program with its subcommand and flags: `git commit -m`."""
    flags = sorted({word.partition("=")[0] for word in command.words if word.startswith("-") and len(word) < 30})
    first = next((word for word in command.words if not word.startswith("-")), "")
    verb = first if first.isalpha() and first.islower() and command.program not in shell.FILTERS else ""
    return " ".join(filter(None, (command.program, verb, *flags)))


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"[{_kind(value[0])}]" if value else "[]"
    return "object" if isinstance(value, dict) else type(value).__name__
