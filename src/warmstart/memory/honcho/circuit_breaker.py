"""A circuit breaker that all processes share: after a failure, reads skip Honcho for a while."""

from __future__ import annotations

import time

from warmstart.errors import StoreError
from warmstart.memory.local import LocalBackend

_MAX_PAUSE = 30.0  # seconds that reads skip a server that failed


class CircuitBreaker:
    """Its state is in the file of the mirror."""

    def __init__(self, mirror: LocalBackend) -> None:
        self._mirror = mirror
        self._not_before = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether Honcho answered when it was last asked."""
        return not self._open_until()

    def allows(self) -> bool:
        """Whether a read should ask Honcho. After each pause one read tries again."""
        now, until = time.time(), self._open_until()
        if not until:
            return True
        return until <= now and self._update(
            "UPDATE circuit_breaker SET until = ? + step WHERE until = ?", (now, until)
        )

    def failed(self) -> None:
        """Skip Honcho for a while, longer each time."""
        now = time.time()
        self._not_before = now + 1  # in case the update fails
        self._update(
            "INSERT INTO circuit_breaker (one, until, step) VALUES (1, :now + 1, 1) ON CONFLICT (one) DO UPDATE "
            "SET step = min(max(step * 2, 1), :most), until = :now + min(max(step * 2, 1), :most)",
            {"now": now, "most": _MAX_PAUSE},
        )

    def answered(self) -> None:
        """Ask Honcho again."""
        self._not_before = 0.0
        if self._open_until():
            self._update("UPDATE circuit_breaker SET until = 0, step = 0", ())

    def _open_until(self) -> float:
        rows = self._mirror.fetch("SELECT until FROM circuit_breaker")
        return max(rows[0][0] if rows else 0.0, self._not_before)

    def _update(self, statement: str, values: object) -> bool:
        """Write unless the file is locked; returns whether a row changed."""
        try:
            with self._mirror.quickly(), self._mirror.writing() as connection:
                return connection.execute(statement, values).rowcount > 0
        except StoreError:
            return False
