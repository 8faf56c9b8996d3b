"""Users that exist only while a backend is evaluated, and nothing of whom is left afterwards."""

from __future__ import annotations

import uuid
from types import TracebackType

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.hooks import Hooks


class Visitors:
    """Makes users nobody else can have, and removes them at the end, whatever happened in between."""

    def __init__(self, backend: MemoryBackend, hooks: Hooks, prefix: str) -> None:
        self._backend = backend
        self._hooks = hooks
        self._run = f"{prefix}-{uuid.uuid4().hex[:12]}"
        self._written: dict[str, set[str]] = {}
        self.left_behind = 0  # entries that could not be removed
        self.trouble = ""  # and why
        self.leaves_marks = False  # whether the backend still tells that there was something

    def __enter__(self) -> Visitors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for user in list(self._written):
            self.forget(user)

    def new(self, name: str) -> str:
        """A user of this run."""
        user = f"{self._run}-{name}"
        self._written[user] = set()
        return user

    def wrote(self, user: str, key: str) -> None:
        """Remember that a key may be there, also where the backend does not list it."""
        self._written[user].add(key)

    def forget(self, user: str) -> None:
        """Remove all of a user."""
        written = self._written.pop(user, set())
        try:
            if self._hooks.forget_user is not None:
                self._hooks.forget_user(user)
            else:
                listed = self._backend.list_keys(user)
                for key in dict.fromkeys([*listed, *written]):
                    self._backend.delete(user, key)
                self.leaves_marks |= any(self._backend.history(user, key) for key in sorted(written)[:1])
            self.left_behind += len(self._backend.list_keys(user))
        except Exception as error:  # whatever another's backend raises: the other users still have to go
            self.left_behind += len(written)
            self.trouble = f"{type(error).__name__}: {error}"
