"""Whether writes reached the server of a backend, as a message for people."""

from __future__ import annotations

from collections import Counter

from warmstart.errors import StoreError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import Status
from warmstart.text.truncate import one_line


class Delivery:
    """Sends the writes made since it was created, if the backend has a server, and reports the result."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        status = backend.status()
        self._rejected = Counter(status.rejected if status else ())

    def finish(self, seconds: float) -> str:
        """Send queued writes; returns a line that says why some are still queued, if any are.

        Raises `StoreError` if the server rejected a write.
        """
        status = self._backend.status()
        if status and status.waiting:
            if self._backend.is_reachable():
                self._backend.flush(seconds)
            status = self._backend.status()  # after the attempt
        if status is None:
            return ""
        for _, key, reason in Counter(status.rejected) - self._rejected:
            raise StoreError(
                f"{status.address} rejected {key!r} ({one_line(reason, 160)}); it stays on this machine; change it, or "
                "resend it with `warmstart memory info --retry`"
            )
        if not status.waiting:
            return ""
        waits, them = (f"{status.waiting} writes wait", "them") if status.waiting != 1 else ("1 write waits", "it")
        return f"{waits} on this machine: {server_problem(status)}. The next command that reaches it sends {them}."


def server_problem(status: Status) -> str:
    """What is known to be wrong with a server; empty if nothing is."""
    if status.denied:
        return f"{status.address} does not accept the key (401 or 403); check HONCHO_API_KEY or memory.honcho.key"
    if status.error:
        return f"{status.address}: {one_line(status.error, 160)}"
    return f"{status.address} has not answered yet" if status.waiting else ""
