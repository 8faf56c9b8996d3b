"""The command line: parse, call one library function, print. `main` is the entry point and handles every error.

Importing this module imports almost nothing, so that Ctrl-C is handled as early as possible.
"""

import _signal  # type: ignore[import-not-found]  # built in: unlike `signal`, loads no file
import os
import sys

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line; exit with 1 for an error, 2 for wrong usage, 130 when interrupted.

    Without `--debug` every error, bugs included, becomes one line; the log has the details.
    """
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    end = command_line.index("--") if "--" in command_line else len(command_line)  # no options after it
    words = [word for word in command_line[:end] if word != "--debug"] + command_line[end:]
    code = _run(words, debug=len(words) < len(command_line))
    if arguments is None:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # during shutdown Python would print a traceback for Ctrl-C
    if code:
        sys.exit(code)


def _run(words: list[str], *, debug: bool) -> int:
    try:
        _open_closed_streams()
        from warmstart.cli.shortcuts import answer

        if answer(words):
            return 0
        from warmstart.cli.terminal import screened_output

        with screened_output():
            try:
                from warmstart.cli.commands import run

                return run(words)
            except BaseException as error:
                from warmstart.cli.commands import explain

                return explain(error, words, debug=debug)
    except BaseException as error:
        if debug:
            raise
        if isinstance(error, KeyboardInterrupt):
            return 130
        # Out of memory, or a damaged installation.
        try:
            what = " ".join(f"{type(error).__name__}: {error}"[:200].split())
            os.write(2, f"warmstart: {what}; --debug shows where\n".encode(errors="backslashreplace"))
        except (OSError, MemoryError):
            return 1
        return 1


def _open_closed_streams() -> None:
    """Reopen standard streams that the caller closed (`<&-`, `>&-`); the next file would take their descriptor."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR if number else os.O_WRONLY)  # reading a closed stdin stays an error
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - until the process ends
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A character that the terminal cannot show must not raise.
            stream.reconfigure(errors="backslashreplace")
