"""The commands, each loaded when it is called."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

# Name, and the line that `warmstart --help` shows without loading the command.
COMMANDS = {
    "sync": "Import what is new in your agents' logs.",
    "sessions": "List, show, judge, export and delete sessions.",
    "dataset": "Export how sessions went, without their text.",
    "profile": "Show how sessions went: errors, recoveries, and whether sessions learn.",
    "recall": "Find where something was said in past sessions.",
    "memory": "Remember facts and preferences across sessions.",
    "templates": "Start new sessions from what worked in past ones.",
    "store": "Copy the store to another file or server.",
    "redact": "Replace secrets in a text or in the store.",
    "doctor": "Check the store, the agents' logs and the installation.",
    "completion": "Print a completion script for your shell.",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"warmstart.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"warmstart {version('warmstart')}")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: warmstart sync && warmstart sessions list",
)
@click.option("--debug", is_flag=True, help="Show tracebacks; may stand anywhere on the line.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def root(debug: bool) -> None:
    """Carry what your agent learned in one session into the next, and measure whether that helps."""


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Errors are raised."""
    for argument in arguments:
        _reject_unusable(argument)
    try:
        code = root.main(arguments, "warmstart", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        code = 0
    except SystemExit as left:
        code = left.code
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _reject_unusable(argument: str) -> None:
    """Reject arguments that can be neither text nor a path. File names that are not UTF-8 are fine."""
    try:
        usable = b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise click.UsageError(f"{argument!r} contains a character that is not valid in text or paths; remove it")
