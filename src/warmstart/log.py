"""The log: `warmstart.log` in the home directory, one line per event, readable only by its owner.

A line has the time, the process, the command and what went wrong; never prompt text, command arguments or the
environment. Many processes can write at once: a line is one append to the file, and of the processes that find it full,
one rotates it. Logging never makes a command fail.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from warmstart.text.truncate import one_line

NAME = "warmstart.log"
MAX_BYTES = 1_000_000  # of each file
FILES = (NAME, f"{NAME}.1", f"{NAME}.2")  # the newest first

_MAX_MESSAGE = 300  # characters of an error's own message
_MAX_READ = 10_000  # characters of it that are redacted
_MAX_FRAMES = 12
_MAX_CAUSES = 3


def log_error(home: Path, event: str, error: BaseException, *, redact: Callable[[str], str]) -> Path | None:
    """Log an error and where it was raised. Returns the path of the log, or `None` if it could not be written."""
    path = home / NAME
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        line = f"{when} error {os.getpid()} {event}: {' from '.join(_causes(error, redact))}\n"
        _append(path, line.encode("utf-8", "backslashreplace"))
    except Exception:  # a failure to log must not hide the error itself
        return None
    return path


def last_error(home: Path) -> str | None:
    """The last error line in the log, or `None`. Raises `OSError` if the log cannot be read."""
    for name in FILES:
        with suppress(FileNotFoundError), os.fdopen(_open(home / name, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * MAX_BYTES))
            for line in reversed(file.read().decode("utf-8", "replace").splitlines()):
                if line.split(" ", 2)[1:2] == ["error"]:
                    return line
    return None


def _causes(error: BaseException, redact: Callable[[str], str]) -> Iterator[str]:
    """The error and its causes, each with its type, its message without secrets, and its frames."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield f"{type(cause).__name__}: {_message(cause, redact)} [{_frames(cause)}]"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _message(error: BaseException, redact: Callable[[str], str]) -> str:
    try:
        text = redact(str(error)[:_MAX_READ])
    except Exception:  # what cannot be redacted is not logged
        return "(no message)"
    return one_line("".join(char if char.isprintable() else " " for char in text), _MAX_MESSAGE)


def _frames(error: BaseException) -> str:
    """Where it was raised: `cli/sessions.py:60 show < cli/commands.py:91 run`, the innermost first."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    more = ["…"] if len(frames) > _MAX_FRAMES else []
    return " < ".join([*reversed(frames[-_MAX_FRAMES:]), *more])


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        if os.fstat(file).st_size + len(line) > MAX_BYTES and _rotate(path, file):
            os.close(file)
            file = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
    finally:
        os.close(file)


def _open(path: Path, flags: int) -> int:
    """Open a regular file with mode 0600. Follows no links and does not wait for pipes."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if mode & 0o077:
        with suppress(OSError):
            os.fchmod(file, 0o600)
    return file


def _rotate(path: Path, file: int) -> bool:
    """Rotate the full log. False if another process is rotating it right now."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.lstat()):  # otherwise another process has moved it
                newest, older, oldest = (path.with_name(name) for name in FILES)
                with suppress(FileNotFoundError):
                    older.replace(oldest)
                newest.replace(older)
        return True
    return False
