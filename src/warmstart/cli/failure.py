"""How a command fails: one line on standard error, an exit code, and an entry in the log where it helps."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from warmstart.cli.commands import COMMANDS
from warmstart.cli.terminal import printable, raw
from warmstart.errors import EmbedderError, InvalidTemplate, MemoryBackendError, ModelError, StoreError, WarmstartError

# Errors that are worth a log entry; typos and wrong names are not.
_LOGGED = (StoreError, MemoryBackendError, EmbedderError, ModelError, OSError)
_MAX_MESSAGE = 300  # characters of an unexpected error


def explain(error: BaseException, words: list[str], *, debug: bool) -> int:
    """Print what went wrong, log it, and return the exit code. With `debug`, raise it again."""
    if isinstance(error, click.ClickException):
        _say(_usage(error))
        return error.exit_code
    if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
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
        return str(error)  # has a line for each problem
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
        return _logged(error, next((word for word in words if word in COMMANDS), "warmstart"))
    except Exception:  # a failing log must not hide the message
        return None


def _logged(error: BaseException, event: str) -> Path | None:
    from warmstart.config import home_directory, load_settings
    from warmstart.log import log_error
    from warmstart.redact.configured import configured_redactor
    from warmstart.redact.redactor import Redactor

    try:
        redactor = configured_redactor(load_settings(os.environ))
    except Exception:  # the settings may be what is wrong
        redactor = Redactor()
    return log_error(home_directory(os.environ), event, error, redact=redactor.clean)
