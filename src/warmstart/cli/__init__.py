"""The command line: parse, call one library function, show. Commands are loaded when they are called."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click

from warmstart.errors import WarmstartError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Name, and the line that `warmstart --help` shows without loading the command.
COMMANDS = {
    "sync": "Import what is new in the agents' own histories.",
    "sessions": "List, show, judge, export and delete sessions.",
    "dataset": "Publish how sessions went, without what was said in them.",
    "profile": "Show how sessions went: errors, recoveries, and whether sessions learn.",
    "recall": "Find where something was said in past sessions.",
    "memory": "Keep, find, move and compare what is known across sessions.",
    "templates": "Carry what worked from one session into the next.",
    "store": "Move the store: from a file to a server, and back.",
    "redact": "Replace the secrets in a text, or in what is stored.",
    "doctor": "Check the store, the agents' histories and the installation.",
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
@click.option("--debug", is_flag=True, help="Show the traceback when something fails; may stand anywhere.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def root(debug: bool) -> None:
    """Warmstart carries what an agent learned from one session into the next, and proves that it helps."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process: 0 when all went well, 1 for an error, 2 for wrong usage."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    # What runs us may have closed them (`>&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - for as long as the process lives
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that has no "→", or a path that is no text, must not end in a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        _run([argument for argument in arguments if argument != "--debug"])
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        if debug:
            raise
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away; let Python's own flush at exit find nothing to complain about.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (WarmstartError, OSError) as error:
        if debug:
            raise
        click.echo(f"warmstart: {_said(error)}", err=True)
        sys.exit(1)


def _run(arguments: list[str]) -> None:
    try:
        root.main(arguments, "warmstart", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")


def _said(error: WarmstartError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename!r}: {error.strerror}" if error.filename else error.strerror
    return str(error)
