"""Which backend keeps the memories: what was set, Honcho where there is a key for it, or what fits the use.

No other takes its place when it cannot be used: a write that it does not take is an error where it is made, and is not
kept where nobody looks for it.

Other packages add theirs by an entry point in the group `warmstart.memory`: its name is the backend's, and what it
names is called with the `Settings` and gives a `MemoryBackend`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from warmstart.config import Settings, ambient_settings
from warmstart.errors import ConfigError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.honcho.sdk import MISSING, is_installed
from warmstart.memory.null import NullBackend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "warmstart.memory"

Factory = Callable[[Settings], MemoryBackend]


@dataclass(slots=True)
class _Chosen:
    settings: Settings
    host: bool
    backend: MemoryBackend


_chosen: list[_Chosen] = []
_choosing = threading.RLock()


def get_memory_backend(settings: Settings | None = None, *, host: bool = False) -> MemoryBackend:
    """The backend to use, the same each time until `reset_backend`.

    `host` says that this is an agent's host or a command, which means to remember: then `local` is used where nothing
    was set, and otherwise `null`. Without `settings` it is the backend that was chosen before, a host's before others',
    and for the first who asks the one of the environment's settings. It is given whether it is available or not. What
    was given is never closed here.
    """
    with _choosing:
        chosen = _before(settings)
        if chosen is None:
            wanted = settings or ambient_settings()
            chosen = _Chosen(wanted, host, select_backend(wanted, host=host))
            _chosen.append(chosen)
        elif host and not chosen.host:
            if isinstance(chosen.backend, NullBackend):  # which others took who do not mean to remember
                chosen.backend = select_backend(chosen.settings, host=True)
            chosen.host = True
        return chosen.backend


def reset_backend() -> None:
    """Close the backends that `get_memory_backend` gave; the next call chooses anew."""
    with _choosing:
        while _chosen:
            _chosen.pop().backend.close()


def _before(settings: Settings | None) -> _Chosen | None:
    """What was chosen before for these settings; without any, for a host, or else for whoever was first."""
    if settings is None:
        return next((each for each in _chosen if each.host), _chosen[0] if _chosen else None)
    return next((each for each in _chosen if each.settings == settings), None)


def open_backend(name: str, settings: Settings) -> MemoryBackend:
    """The backend of this name, available or not. Raises `ConfigError` where there is none."""
    factory = _BUILT_IN.get(name) or _installed(name)
    if factory is None:
        known = ", ".join(backend_names())
        raise ConfigError(f"there is no memory backend {name!r}; set memory.backend to one of: {known}")
    return factory(settings)


def why_not(backend: MemoryBackend) -> str:
    """Why a backend is not available, as far as it says: what it gives as its problem, or raises when it is asked."""
    if problem := getattr(backend, "problem", ""):
        return str(problem)
    try:
        backend.list_keys("")
    except WarmstartError as error:
        return str(error)
    return "it is not available here and now"


def backend_names() -> list[str]:
    """The names of all backends, those of other packages last."""
    from importlib.metadata import entry_points  # takes longer to load than all else here

    return list(dict.fromkeys([*_BUILT_IN, *sorted(entry_points(group=GROUP).names)]))


def select_backend(settings: Settings, *, host: bool = True) -> MemoryBackend:
    name = settings.memory_backend
    if not name:
        name = "honcho" if settings.honcho_key and is_installed() else "local" if host else "null"
    return open_backend(name, settings)


def _null(settings: Settings) -> MemoryBackend:
    return NullBackend()


def _local(settings: Settings) -> MemoryBackend:
    from warmstart.memory.local import LocalBackend

    return LocalBackend.configured(settings)


def _postgres(settings: Settings) -> MemoryBackend:
    from warmstart.memory.postgres import PostgresBackend

    return PostgresBackend.configured(settings)


def _honcho(settings: Settings) -> MemoryBackend:
    if not is_installed():
        raise ConfigError(MISSING)
    backend: MemoryBackend = import_module("warmstart.memory.honcho.backend").HonchoBackend.configured(settings)
    return backend


def _installed(name: str) -> Factory | None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return partial(_of_others, point)
    return None


def _of_others(point: EntryPoint, settings: Settings) -> MemoryBackend:
    """The backend of another package, whatever that does instead of giving one."""
    package = f" of {point.dist.name!r}" if point.dist else ""
    try:
        backend = point.load()(settings)
    except WarmstartError:
        raise
    except Exception as error:  # it is somebody else's code, which must not take ours down
        raise ConfigError(
            f"the memory backend {point.name!r}{package} cannot be loaded ({type(error).__name__}: {error}); "
            "fix or remove that package, or set memory.backend to another"
        ) from error
    if not isinstance(backend, MemoryBackend):
        raise ConfigError(
            f"the memory backend {point.name!r}{package} gives a {type(backend).__name__}, which is no MemoryBackend; "
            "fix or remove that package, or set memory.backend to another"
        )
    return backend


_BUILT_IN: dict[str, Factory] = {"null": _null, "local": _local, "postgres": _postgres, "honcho": _honcho}
