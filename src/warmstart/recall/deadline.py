"""How much time a search has left."""

from __future__ import annotations

import time

from warmstart.storage.database import Interrupted


class Deadline:
    """The time by which a search must answer, if there is one."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds; None without a deadline."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def share(self, share: float) -> Deadline:
        """An earlier deadline, which leaves time for what follows."""
        return Deadline(None if self._end is None else (self._end - time.monotonic()) * share)

    def check(self) -> None:
        """Raise `Interrupted` when it has passed."""
        if self.passed:
            raise Interrupted
