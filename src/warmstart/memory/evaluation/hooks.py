"""What a backend may offer besides the contract so that more of it can be measured. None of it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from warmstart.memory.backend import MemoryBackend


class Sent(NamedTuple):
    """What has left the machine since the backend was opened."""

    calls: int
    bytes: int


@runtime_checkable
class CountsSent(Protocol):
    """Counts what it sends away."""

    def sent(self) -> Sent:
        """The calls made so far, and the bytes of their bodies and addresses."""


@runtime_checkable
class Delivers(Protocol):
    """Queues what it is given, and can be told to deliver it now."""

    def flush(self, seconds: float) -> bool:
        """Whether everything was delivered within this time."""


@runtime_checkable
class Reopens(Protocol):
    """Can be opened anew on the same data, as another process would."""

    def reopen(self) -> MemoryBackend:
        """A backend of its own on the same data; the caller closes it."""


@runtime_checkable
class ForgetsUsers(Protocol):
    """Can remove a user as if they had never been."""

    def forget_user(self, user_id: str) -> int:
        """Remove all entries of a user with their history, in all scopes; how many there were."""


@runtime_checkable
class KeepsFiles(Protocol):
    """Keeps what it is given in files on this machine."""

    def files(self) -> Iterable[Path]:
        """All files in which an entry may stand, those that come and go included."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """How to take a backend apart. `outage` makes its server go away for as long as the context lasts."""

    sent: Callable[[], Sent] | None = None
    flush: Callable[[float], bool] | None = None
    reopen: Callable[[], MemoryBackend] | None = None
    forget_user: Callable[[str], int] | None = None
    files: Callable[[], Iterable[Path]] | None = None
    outage: Callable[[], AbstractContextManager[None]] | None = None


def hooks_of(backend: MemoryBackend) -> Hooks:
    """What this backend offers by itself. Nobody's server is taken down without being told to."""
    return Hooks(
        sent=backend.sent if isinstance(backend, CountsSent) else None,
        flush=backend.flush if isinstance(backend, Delivers) else None,
        reopen=backend.reopen if isinstance(backend, Reopens) else None,
        forget_user=backend.forget_user if isinstance(backend, ForgetsUsers) else None,
        files=backend.files if isinstance(backend, KeepsFiles) else None,
    )
