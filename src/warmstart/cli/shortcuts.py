"""The answers that need neither click nor a command's module, because people and hooks ask for them all the time."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH = 80  # of `help.txt`, which `make docs` writes


def answer(words: Sequence[str]) -> bool:
    """Answer a command line; `False` if the command itself has to."""
    text = ""
    if words in (["--help"], ["-h"]) and _columns() >= _WIDTH:
        with open(f"{os.path.dirname(__file__)}/help.txt", encoding="utf-8") as file:
            text = file.read()
    elif words == ["--version"]:
        from warmstart import __version__

        text = f"warmstart {__version__}\n"
    elif words == ["sync"] or words[:2] == ["sync", "--format"]:
        text = _sync(words[1:])
    elif words == ["brief"] or (words[:2] == ["brief", "--project"] and len(words) == 3):
        text = _brief("".join(words[2:]) or ".")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False  # the command reports it
    return bool(text)


def _columns() -> int:
    if "COLUMNS" in os.environ:
        return 0
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return _WIDTH  # not a terminal


def _sync(words: Sequence[str]) -> str:
    """The answer to a sync of everything, or of the logs at `--format HOST --path LOG --path LOG`, with nothing new."""
    from warmstart.sessions.snapshot import count_unchanged

    host, paths = "".join(words[1:2]), words[3::2]
    if any(word != "--path" for word in words[2::2]) or len(words) % 2 or (words and not paths):
        return ""
    home = os.path.abspath(os.path.expanduser(os.environ.get("WARMSTART_HOME") or "~/.warmstart"))
    count = count_unchanged(home, os.environ, [os.path.abspath(path) for path in paths], host)
    return f"0 logs read, {count:,} unchanged, in 0.0 s.\n" if count else ""


def _brief(project: str) -> str:
    """The stored brief of a project, if nothing has changed since it was built."""
    from warmstart.cli.terminal import printable
    from warmstart.hosts.hook import Hook

    try:
        text = Hook("").current_brief(project)
    except Exception:  # the command builds a brief, or reports what is wrong
        return ""
    return f"{printable(text)}\n" if text else ""
