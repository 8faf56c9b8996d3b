"""What a backend offers whose memories are on a server, with a queue here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

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


@runtime_checkable
class Retries(Protocol):
    """Can send again what its server refused."""

    def retry(self) -> int:
        """Have it sent once more; how much that is."""


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
