"""What a hook starts and does not wait for: with low priority, one at a time, outliving the agent.

A hook names its own log. What was missed (a hook that could not run, a store that was lost) is found by a sync of
everything, once a day and after anything went wrong. The lock file holds when that last happened; it is empty while a
sync runs, so it stays empty if that fails or is killed.
"""

from __future__ import annotations

import fcntl
import os
import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DAY = 86_400  # seconds
_MAX_WAIT = 30  # seconds for a log to appear: Copilot CLI writes it after the turn


def start(home: str, work: Callable[[], None]) -> None:
    """Do some work in another process."""
    if child := os.fork():
        os.waitpid(child, 0)  # an agent may kill the process group of a hook
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.nice(10)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.makedirs(f"{home}/hosts", mode=0o700, exist_ok=True)  # missing without `install`
        work()
    finally:
        os._exit(0)


def build_brief(home: str, command: Sequence[str]) -> None:
    """Build a brief with `command`, unless one is being built."""
    _lock(f"{home}/hosts/brief.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.execv(command[0], list(command))


def import_logs(home: str, command: Sequence[str], host: str, logs: Sequence[str], store: str) -> None:
    """Import the logs of a host. `command` is that of a sync; `store` is the path of the store, if it is a file."""
    deadline = time.monotonic() + _MAX_WAIT
    while not os.path.exists(logs[0]) and time.monotonic() < deadline:
        time.sleep(0.1)
    waiting = os.open(logs[0], os.O_RDONLY)
    fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if another process waits to import this log
    lock = _lock(f"{home}/hosts/sync.lock", fcntl.LOCK_EX)
    os.close(waiting)
    text = os.read(lock, 20)
    last = int(text) if text.isdigit() else 0
    if store and not os.path.exists(store):
        last = 0
    os.ftruncate(lock, 0)
    own = [word for log in logs for word in ("--path", log)]
    code = os.spawnv(os.P_WAIT, command[0], [*command, "--format", host, *own])
    if not 0 <= time.time() - last < _DAY:
        last, code = int(time.time()), os.spawnv(os.P_WAIT, command[0], list(command))
    if code == 0:
        os.pwrite(lock, str(last).encode(), 0)


def _lock(path: str, mode: int) -> int:
    """Lock a file until the command ends that this process runs."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, mode)
    return lock
