"""Users that exist only while a backend is evaluated, and nothing of whom is left afterwards.

Their names are made for one run and are nobody's: the name given is only how they begin, so that whoever really is
called that is not touched. What an evaluation could not remove, because it was killed or its backend went away, the
next one removes a day later; it knows such users by their names.
"""

from __future__ import annotations

import re
import time
import uuid
from types import TracebackType

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.hooks import Hooks, hooks_of

_DAY = 86_400.0


class Visitors:
    """Makes users nobody else can have, and removes them at the end, whatever happened in between."""

    def __init__(self, backend: MemoryBackend, hooks: Hooks, prefix: str) -> None:
        self._backend = backend
        self._hooks = hooks
        self._prefix = prefix
        self._run = f"{prefix}-{int(time.time()):x}-{uuid.uuid4().hex[:12]}"
        self._written: dict[str, set[str]] = {}
        self.left_behind = 0  # entries that could not be removed
        self.trouble = ""  # and why
        self.leaves_marks = False  # whether the backend still tells that there was something

    @property
    def name(self) -> str:
        """How the names of all users of this run begin."""
        return self._run

    def __enter__(self) -> Visitors:
        try:
            for user in self._abandoned():
                self._written[user] = set()
                self.forget(user)
        except Exception as error:  # whatever another's backend raises: this run can do without
            self.trouble = _said(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted: KeyboardInterrupt | None = None
        while self._written:
            user = next(iter(self._written))
            try:
                self.forget(user)
            except KeyboardInterrupt as again:
                if interrupted is not None:
                    raise  # whoever insists does not want to wait
                interrupted = again
        if interrupted is not None:
            raise interrupted

    def new(self, name: str) -> str:
        """A user of this run."""
        user = f"{self._run}-{name}"
        self._written[user] = set()
        return user

    def wrote(self, user: str, key: str) -> None:
        """Remember that a key may be there, also where the backend does not list it."""
        self._written[user].add(key)

    def forget(self, user: str) -> None:
        """Remove all of a user; by way of a fresh backend where this one does not answer any more."""
        written = self._written.get(user, set())
        try:
            try:
                self._remove(self._backend, self._hooks, user, written)
            except Exception:
                if self._hooks.reopen is None:
                    raise
                fresh = self._hooks.reopen()
                try:
                    self._remove(fresh, hooks_of(fresh), user, written)
                finally:
                    fresh.close()
        except Exception as error:  # whatever another's backend raises: the other users still have to go
            self.left_behind += len(written)
            self.trouble = _said(error)
        self._written.pop(user, None)

    def _remove(self, backend: MemoryBackend, hooks: Hooks, user: str, written: set[str]) -> None:
        if hooks.forget_user is not None:
            hooks.forget_user(user)
        else:
            for key in dict.fromkeys([*backend.list_keys(user), *written]):
                backend.delete(user, key)
        self.left_behind += len(backend.list_keys(user))
        self.leaves_marks |= any(backend.history(user, key) for key in sorted(written)[:3])

    def _abandoned(self) -> list[str]:
        """Users of runs that began more than a day ago and should long be over."""
        name = re.compile(rf"{re.escape(self._prefix)}-([0-9a-f]{{8}})-[0-9a-f]{{12}}-[a-z-]+")
        found = ((user, name.fullmatch(user)) for user in self._backend.users())
        return [user for user, made in found if made and int(made[1], 16) < time.time() - _DAY]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
