"""How much time a search has left."""

from __future__ import annotations

import time

from warmstart.recall.engine import Interrupted


class Deadline:
    """A moment by which a search must be done, if there is one."""

    def __init__(self, milliseconds: float | None) -> None:
        self._end = None if milliseconds is None else time.monotonic() + milliseconds / 1000

    def left(self, share: float = 1.0) -> float | None:
        """Seconds, or a share of them."""
        return None if self._end is None else max(0.0, self._end - time.monotonic()) * share

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def check(self) -> None:
        """Raise `Interrupted` when it has passed."""
        if self.passed:
            raise Interrupted
