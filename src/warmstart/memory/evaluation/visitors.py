"""Users that exist only while a backend is evaluated, and nothing of whom is left afterwards.

Their names are made for one run and are nobody's: the name given is only how they begin, so that whoever really is
called that is not touched. They say which process made them: what an evaluation could not remove, because it was killed
or its backend went away, the next one on the same machine removes, and one elsewhere a day later.
"""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import TracebackType

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.hooks import Hooks, hooks_of
from warmstart.memory.remote import Remote

_DAY = 86_400.0


class Visitors:
    """Makes users nobody else can have, and removes them at the end, whatever happened in between."""

    def __init__(self, backend: MemoryBackend, hooks: Hooks, prefix: str) -> None:
        self._backend = backend
        self._hooks = hooks
        self._prefix = prefix
        self._run = f"{prefix}-{int(time.time()):x}-{_here()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self.users: list[str] = []  # of this run, those that are gone included
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
        interrupted: KeyboardInterrupt | SystemExit | None = None
        while self._written:
            user = next(iter(self._written))
            try:
                self.forget(user)
            except (KeyboardInterrupt, SystemExit) as again:
                if interrupted is not None:
                    raise  # whoever insists does not want to wait
                interrupted = again
        if interrupted is not None:
            raise interrupted

    def new(self, name: str) -> str:
        """A user of this run."""
        user = f"{self._run}-{name}"
        self.users.append(user)
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
        """Users of runs whose process is no more, or that began more than a day ago and should long be over."""
        name = re.compile(
            rf"{re.escape(self._prefix)}-([0-9a-f]{{8}})(?:-([0-9a-f]{{8}})-(\d{{1,10}}))?-[0-9a-f]{{12}}-[a-z-]+"
        )
        found = ((user, name.fullmatch(user)) for user in self._backend.users())
        return [
            user
            for user, made in found
            if made
            and (int(made[1], 16) < time.time() - _DAY or (made[2] == _here() and not _is_running(int(made[3]))))
        ]


def left_there(backend: Remote, users: Iterable[str], seconds: float) -> list[str]:
    """What is still on its way to a server, and what stays there of these users, one line each."""
    notes = []
    if not backend.flush(seconds):
        notes.append(
            f"{backend.status().waiting} writes of the evaluation still wait for its server, removals among them"
        )
    told = [each for user in users for each in backend.forgotten(user)]
    if texts := sum(each.messages for each in told):
        notes.append(f"its server keeps the text of {texts} messages of the evaluation")
    if peers := sum(each.key is None and each.done for each in told):
        notes.append(
            f"its server deletes the messages of {peers} users of the evaluation when it comes to it, and keeps that "
            "there were such peers"
        )
    return notes


@cache
def _here() -> str:
    """Where the numbers of processes mean the same: on one machine, and there in one container."""
    try:
        numbers = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not a Linux
        numbers = ""
    return blake2b(f"{socket.gethostname()} {uuid.getnode()} {numbers}".encode(), digest_size=4).hexdigest()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
