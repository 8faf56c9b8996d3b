"""How much time a search has left."""

from __future__ import annotations

import time

from warmstart.recall.engine import Interrupted


class Deadline:
    """A moment by which something must be done, if there is one."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def share(self, share: float) -> Deadline:
        """An earlier one, which leaves time for something else."""
        return Deadline(None if self._end is None else (self._end - time.monotonic()) * share)

    def check(self) -> None:
        """Raise `Interrupted` when it has passed."""
        if self.passed:
            raise Interrupted
