"""A time limit for the statements of a connection. Hooks load this module, so it imports next to nothing."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from typing import Any

_STEPS = 200  # instructions of SQLite's virtual machine between two checks of the clock
_NO_LIMIT = float("inf")


class Interrupted(Exception):
    """The statements took longer than `time_limit` allows. `is_cpu` if they took too much CPU time."""

    is_cpu = False


class time_limit:  # noqa: N801 - reads as a function; `contextlib` would be one more import for a hook
    """Interrupt statements that run past a deadline (`time.monotonic`), and wait no longer than that for a lock.

    On SQLite, `deadline` may be moved while it runs, and `cpu_deadline` (`time.thread_time`) counts too.
    """

    def __init__(self, connection: Any, dialect: str, deadline: float) -> None:
        self._connection = connection
        self._is_sqlite = dialect == "sqlite"
        self._inner: Any = None
        self.deadline = deadline
        self.cpu_deadline = _NO_LIMIT

    def __enter__(self) -> None:
        if self.deadline == _NO_LIMIT:
            return
        left = max(0.001, self.deadline - time.monotonic())
        if not self._is_sqlite:
            self._inner = self._connection.limited(left)
            self._inner.__enter__()
            return
        self._wait = self._connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self._connection.execute(f"PRAGMA busy_timeout = {int(left * 1000)}")
        self._connection.set_progress_handler(self._is_over, _STEPS)

    def _is_over(self) -> bool:
        return time.monotonic() > self.deadline or time.thread_time() > self.cpu_deadline

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, error, trace)
        elif self.deadline != _NO_LIMIT:
            self._connection.set_progress_handler(None, 0)
            self._connection.execute(f"PRAGMA busy_timeout = {self._wait}")
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            interrupted = Interrupted()
            interrupted.is_cpu = time.monotonic() <= self.deadline
            raise interrupted from None
