"""The database behind a backend, and what keeps secrets out of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock

from warmstart.config import Settings
from warmstart.memory.owners import Owners
from warmstart.redact.redactor import Redactor, configured_redactor
from warmstart.storage.database import Database

# What keeps secrets out: the shipped rules, none, a redactor, or what makes one when it is first needed.
Redacting = bool | Redactor | Callable[[], Redactor]


def redactor_of(settings: Settings) -> Redacting:
    """What keeps secrets out by a user's settings."""
    return partial(configured_redactor, settings) if settings.memory_redact else False


class Held:
    """The database behind a backend and all its views: opened when it is first needed."""

    def __init__(self, opening: Callable[[], Database], redact: Redacting) -> None:
        self.lock = RLock()
        self.owners = Owners()
        self.fresh = 0  # entries written here since the index was last brought up to date
        self.traces = False  # whether something was forgotten of which older pages may still lie about
        self._opening = opening
        self._redact = redact
        self._database: Database | None = None
        self._redactor: Redactor | None = None

    def anew(self) -> Held:
        return Held(self._opening, self._redact)

    @property
    def database(self) -> Database:
        if self._database is not None and self._database.is_lost:
            self.close()  # a server that was started again is another one
        if self._database is None:
            self._database = self._opening()
        return self._database

    @property
    def is_open(self) -> bool:
        return self._database is not None

    @property
    def redactor(self) -> Redactor | None:
        if self._redactor is None and self._redact is not False:
            given = self._redact
            self._redactor = given if isinstance(given, Redactor) else Redactor() if given is True else given()
        return self._redactor

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
