"""What a backend offers whose memories are on a server, with a queue here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from warmstart.errors import StoreError
from warmstart.memory.backend import MemoryBackend

if TYPE_CHECKING:
    from warmstart.memory.honcho.outbox import Forgetting


@dataclass(frozen=True, slots=True)
class Status:
    """How it stands: writes on their way, those that the server refused, the last trouble, and what was sent."""

    base_url: str
    waiting: int
    refused: tuple[tuple[str, str, str], ...]  # user, key, reason
    error: str
    calls: int  # from this machine, ever
    bytes: int  # of these calls
    denied: bool = False  # whether the server does not accept the key


@runtime_checkable
class Retries(Protocol):
    """Can send again what its server refused."""

    def retry(self) -> int:
        """Have it sent once more; how much that is."""


@runtime_checkable
class Withholds(Protocol):
    """Does not send every entry to its server."""

    def stays_here(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an entry with this metadata is kept here and never sent."""


@runtime_checkable
class Remote(Protocol):
    """Keeps memories on a server."""

    def is_reachable(self) -> bool:
        """Whether the server answers now; takes no longer than a read may wait."""

    def sync(self, user_id: str | None, seconds: float) -> bool:
        """Read all that is new of a user, or of everyone; whether that was done within this time."""

    def flush(self, seconds: float) -> bool:
        """Send what waits; whether all of it has arrived within this time."""

    def forgotten(self, user_id: str) -> Sequence[Forgetting]:
        """What became on the server of what was deleted, the newest first."""

    def status(self) -> Status:
        """How it stands."""


class Delivery:
    """Sends what is written from now on, where the backend is on a server, and says what became of it."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._remote = backend if isinstance(backend, Remote) and backend.is_available() else None
        self._refused = len(self._remote.status().refused) if self._remote else 0

    def finish(self, seconds: float) -> str:
        """Send what waits, for this long at most; a line that says that writes still wait, and why.

        Raises `StoreError` where waiting does not help: the server refused a write, or does not accept the key.
        """
        if self._remote is None:
            return ""
        if self._remote.status().waiting and self._remote.is_reachable():
            self._remote.flush(seconds)
        status = self._remote.status()
        for _, key, reason in status.refused[self._refused :]:
            raise StoreError(
                f"{status.base_url} refused {key!r} ({_line(reason)}), which is on this machine alone; change it, or "
                "send it again with `warmstart memory info --retry`"
            )
        if not status.waiting:
            return ""
        waits = f"{status.waiting} writes wait" if status.waiting != 1 else "1 write waits"
        if status.denied:
            raise StoreError(
                f"{status.base_url} does not accept the key; check HONCHO_API_KEY; {waits} here until then"
            )
        why = f" ({_line(status.error)})" if status.error else ""
        return f"{waits} here for {status.base_url}{why}; the next command that reaches it delivers."


def _line(text: str) -> str:
    return " ".join(text.split())[:120]
