"""The commands, each loaded when it is called, and how their errors are reported.

An error is one line on standard error, an exit code, and a log entry if it helps.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TextIO

import click

from warmstart import __version__
from warmstart.cli.terminal import printable, raw
from warmstart.errors import EmbedderError, InvalidTemplate, MemoryBackendError, StoreError, WarmstartError

# The commands with their line in `warmstart --help`, which must not load them.
COMMANDS = {
    "init": "Get started: find your agents, import their sessions, and set up the agents.",
    "install": "Set up your agents, so that their next sessions start warm.",
    "uninstall": "Undo what `warmstart install` changed.",
    "pause": "Pause the hooks in your agents, until `warmstart pause off` or for a while.",
    "sync": "Import new sessions from your agents' logs.",
    "sessions": "List, show, rate, export and delete sessions.",
    "dataset": "Export how sessions went, without their text.",
    "profile": "Show how sessions went: errors, recoveries, and whether sessions learn.",
    "brief": "Print what a new session in this project should know.",
    "prompt": "Show what makes up an agent's prompt in a project.",
    "preflight": "Show what an agent would see from earlier sessions for a message.",
    "recall": "Find where something was said in past sessions.",
    "memory": "Remember facts and preferences across sessions.",
    "templates": "Start new sessions from what worked in past ones.",
    "experiment": "Measure whether it helps: compare sessions that start differently.",
    "handoff": "Hand a session over to a fresh one, and see what a compaction keeps.",
    "mcp": "Serve recall, memory, briefs, templates and sessions to an agent over MCP.",
    "store": "Copy the store to another file or server.",
    "hook": "Answer an agent's hook (set up by `warmstart install`).",
    "redact": "Replace secrets in a text or in the store.",
    "doctor": "Check the store, the agents' logs and the installation.",
    "completion": "Print a completion script for your shell.",
}

# Commands that share a module. A module has its own command as `command`, the others as `NAME_command`.
_MODULES = {
    "hook": "commands",
    "mcp": "commands",
    "prompt": "preflight",
    "uninstall": "install",
}

# Errors that are worth a log entry; typos and wrong names are not.
_LOGGED = (StoreError, MemoryBackendError, EmbedderError, OSError)
_MAX_MESSAGE = 300  # characters of an unexpected error


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"warmstart.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command" if cmd_name in _MODULES else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"warmstart {__version__}")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: warmstart sync && warmstart sessions list",
)
@click.option("--debug", is_flag=True, help="Show tracebacks. Works anywhere on the command line.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def root(debug: bool) -> None:
    """Carry what your agent learned in one session into the next, and measure whether that helps."""


@click.command(epilog="Example: warmstart mcp < /dev/null")
def mcp_command() -> None:
    """Serve recall, memory, briefs, templates and sessions to an agent over MCP.

    Configure `warmstart mcp` as an MCP server in your agent, which starts it and talks to it over standard input and
    output. With empty input it only checks that it starts.
    """
    from warmstart.mcp_server import serve

    if sys.stdin.isatty():
        raise click.ClickException("this server is started by an agent; see `warmstart mcp --help`")
    serve()


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: warmstart hook claude-code SessionStart < event.json",
)
@click.argument("host")
@click.argument("event")
@click.argument("rest", nargs=-1)
def hook_command(host: str, event: str, rest: tuple[str, ...]) -> None:
    """Answer an agent's hook (set up by `warmstart install`).

    Reads the event from standard input and prints one JSON object, or nothing. It always exits with 0, so that
    Warmstart never stops an agent.
    """
    from warmstart.hosts.hook import main  # `warmstart.__main__` goes there directly; this one shows the help

    main([host, event, *rest])


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


def explain(error: BaseException, words: list[str], *, debug: bool) -> int:
    """Print what went wrong, log it, and return the exit code. With `debug`, raise it again."""
    if isinstance(error, click.ClickException):
        _say(_usage(error))
        return error.exit_code
    if isinstance(error, BrokenPipeError):  # the program we pipe into has closed the pipe
        _discard_lost_output(sys.stdout)
        return 1
    if debug:
        raise error
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return 130
    expected = isinstance(error, WarmstartError | OSError)
    path = _log(error, words) if not expected or isinstance(error, _LOGGED) else None
    _say(_message(error) if expected else _unexpected(error, path))
    return 1


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    if not isinstance(error, click.UsageError):
        return message
    command = error.ctx.command_path if error.ctx else "warmstart"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} Try '{command} --help' for help."


def _message(error: BaseException) -> str:
    if isinstance(error, InvalidTemplate):
        return str(error)  # one line per problem
    if not isinstance(error, OSError) or not error.strerror:
        return " ".join(str(error).splitlines())
    return f"{error.filename!r}: {error.strerror}" if error.filename else error.strerror


def _unexpected(error: BaseException, path: Path | None) -> str:
    if isinstance(error, MemoryError):
        what = "not enough memory"
    else:
        what = " ".join(f"unexpected {type(error).__name__}: {error}"[:_MAX_MESSAGE].split())
    where = f"; {str(path)!r} has the details" if path else ""
    return f"{what}{where}; --debug shows the traceback"


def _say(message: str) -> None:
    with suppress(OSError):  # standard error is closed
        click.echo(f"warmstart: {printable(message)}", err=True)
    _discard_lost_output(sys.stdout)
    _discard_lost_output(sys.stderr)


def _discard_lost_output(stream: TextIO) -> None:
    """Drop output that the stream no longer accepts; Python would complain at exit."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), raw(stream).fileno())


def _log(error: BaseException, words: list[str]) -> Path | None:
    """Log an error under the name of its command, without the arguments, which may be private."""
    try:
        from warmstart.config import home_directory, load_settings
        from warmstart.log import log_error
        from warmstart.redact.redactor import Redactor, configured_redactor

        redactor = Redactor()
        with suppress(Exception):  # the settings may be what is wrong
            redactor = configured_redactor(load_settings(os.environ))
        event = next((word for word in words if word in COMMANDS), "warmstart")
        return log_error(home_directory(os.environ), event, error, redact=redactor.clean)
    except Exception:  # a failing log must not hide the message
        return None
