"""Whether waiting for Honcho is worth it: yes while it answers, and after a failure rarely, in no process."""

from __future__ import annotations

import time

from warmstart.memory.honcho.connections import Connections

_LONGEST = 30.0  # seconds that reads do not wait for a server that failed


class Patience:
    """What all processes know of the last answers."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._not_before = 0.0

    def may_wait(self) -> bool:
        """Whether a read should wait for Honcho: yes while it answers; after a failure one read at a time, rarely."""
        now = time.time()
        until = self._until()
        if not until:
            return True
        if until > now:
            return False
        return self._connections.in_passing("UPDATE patience SET until = ? + step WHERE until = ?", (now, until))

    @property
    def is_lasting(self) -> bool:
        """Whether Honcho answered when it was last asked."""
        return not self._until()

    def failed(self) -> None:
        """Have reads not wait for a while, longer each time."""
        now = time.time()
        self._not_before = now + 1  # should somebody else be writing
        self._connections.in_passing(
            "INSERT INTO patience (one, until, step) VALUES (1, :now + 1, 1) ON CONFLICT (one) DO UPDATE"
            " SET step = min(max(step * 2, 1), :longest), until = :now + min(max(step * 2, 1), :longest)",
            {"now": now, "longest": _LONGEST},
        )

    def answered(self) -> None:
        """Have reads wait again."""
        self._not_before = 0.0
        if self._until():
            self._connections.in_passing("UPDATE patience SET until = 0, step = 0")

    def _until(self) -> float:
        """Until when reads do not wait; nothing where they do."""
        with self._connections.reading() as run:
            row = run.execute("SELECT until FROM patience").fetchone()
        return max(row[0] if row else 0.0, self._not_before)
