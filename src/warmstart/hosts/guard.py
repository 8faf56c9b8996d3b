"""Whether a hook may run: not while the user has paused Warmstart, and not while earlier runs hang.

Each run leaves a marker in `$WARMSTART_HOME/hosts/running` and removes it at its end, so the marker of a run that the
agent killed stays. After two of these, hooks do nothing for ten minutes; then they are tried again. A run that ends
removes the old markers of its event, and `warmstart doctor` removes all.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_SECONDS = 10  # no agent waits longer for a hook; what is older was killed
MAX_HUNG = 2
RETRY_SECONDS = 600

_PAUSES = "paused.json"  # in the home directory: until when (null: forever) by project, "" for all
_TOLD = "told"  # among the markers: the user knows


class Guard:
    """The marker of one hook run, and what it knows of earlier runs."""

    def __init__(self, home: str, event: str) -> None:
        self.folder, self._event = f"{home}/hosts/running", event
        self._own = f"{self.folder}/{event}.{os.getpid()}" if event.isalnum() else ""
        self._hung = {path: started for path, started in markers(home) if time.time() - started > MAX_SECONDS}

    def enter(self) -> bool:
        """Leave the marker; `False` if the run should end at once."""
        if len(self._hung) >= MAX_HUNG and time.time() - max(self._hung.values()) < RETRY_SECONDS:
            return False
        try:
            if self._own:
                os.close(os.open(self._own, os.O_WRONLY | os.O_CREAT, 0o600))
        except FileNotFoundError:
            self._make_folder()
        except OSError:
            pass  # not writable; the run goes on
        return True

    def _make_folder(self) -> None:
        try:
            os.mkdir(self.folder, 0o700)
            os.close(os.open(self._own, os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            self._own = ""  # not installed

    def leave(self) -> None:
        """Remove the marker, and the old ones of the same event, because this run has ended."""
        old = [path for path in self._hung if path.startswith(f"{self.folder}/{self._event}.")]
        for path in filter(None, (self._own, *old)):
            _remove(path)
        if old:
            _remove(f"{self.folder}/{_TOLD}")

    def tell(self) -> str:
        """What to tell the user; nothing the second time."""
        try:
            os.close(os.open(f"{self.folder}/{_TOLD}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return ""
        return "Warmstart has paused itself, because its hooks took too long; `warmstart doctor` shows why"


def markers(home: str) -> Iterator[tuple[str, float]]:
    """The markers of runs that have not ended, with the time of their start."""
    try:
        for entry in os.scandir(f"{home}/hosts/running"):
            if entry.name != _TOLD:
                yield entry.path, entry.stat().st_mtime
    except OSError:
        return  # there are none, or one was just removed


def clear_markers(home: str) -> int:
    """Remove the markers of runs that were killed; returns how many there were."""
    old = [path for path, started in markers(home) if time.time() - started > MAX_SECONDS]
    for path in (*old, f"{home}/hosts/running/{_TOLD}"):
        _remove(path)
    return len(old)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def read_pauses(home: str) -> Mapping[str, float | None]:
    """The pauses that have not ended: until when (`None`: until the user ends it), by project; "" for all of them."""
    try:
        with open(f"{home}/{_PAUSES}", "rb") as file:
            text = file.read()
    except OSError:
        return {}
    from json import loads

    try:
        pauses = loads(text).items()
        return {project: until for project, until in pauses if until is None or until > time.time()}
    except (ValueError, TypeError, AttributeError):
        return {"": None}  # damaged: the user wanted a pause


def write_pauses(home: str, pauses: Mapping[str, float | None]) -> None:
    """Replace the pauses. Raises `OSError`."""
    from json import dumps
    from pathlib import Path

    from warmstart.storage.files import write_private

    path = Path(home, _PAUSES)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if pauses:
        write_private(path, [dumps(dict(pauses))])
    else:
        path.unlink(missing_ok=True)


def is_paused(home: str, folder: str) -> bool:
    """Whether the user has paused Warmstart in a folder."""
    pauses = read_pauses(home)
    if not pauses or "" in pauses:
        return bool(pauses)
    from warmstart.sessions.projects import repository_of

    return repository_of(folder) in pauses
