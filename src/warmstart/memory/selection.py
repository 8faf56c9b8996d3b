"""Which backend keeps the memories: what was set, Honcho where there is a key for it, or what fits the use.

Other packages add theirs by an entry point in the group `warmstart.memory`: its name is the backend's, and what it
names is called with the `Settings` and gives a `MemoryBackend`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from warmstart.config import Settings, ambient_settings
from warmstart.errors import ConfigError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.null import NullBackend

GROUP = "warmstart.memory"
NO_FALLBACK = "none"

Factory = Callable[[Settings], MemoryBackend]

_LOG = logging.getLogger("warmstart.memory")


@dataclass(frozen=True, slots=True)
class _Cached:
    settings: Settings
    host: bool
    backend: MemoryBackend


_cached: _Cached | None = None


def get_memory_backend(settings: Settings | None = None, *, host: bool = False) -> MemoryBackend:
    """The backend to use, the same each time until `reset_backend`.

    `settings` are those of the environment by default. `host` says that this is an agent's host or a command, which
    means to remember: then `local` is used where nothing was set, and otherwise `null`. A backend that was set and is
    not available is replaced by the one that `memory.fallback` names, and that is logged once.
    """
    global _cached
    if _cached is not None and settings is None and _cached.host == host:
        return _cached.backend
    chosen = settings or ambient_settings()
    if _cached is None or (_cached.settings, _cached.host) != (chosen, host):
        backend = _selected(chosen, host=host)
        reset_backend()
        _cached = _Cached(chosen, host, backend)
    return _cached.backend


def reset_backend() -> None:
    """Close the backend that `get_memory_backend` gave; the next call chooses anew."""
    global _cached
    if _cached is not None:
        _cached.backend.close()
        _cached = None


def open_backend(name: str, settings: Settings) -> MemoryBackend:
    """The backend of this name, available or not. Raises `ConfigError` where there is none."""
    factory = _BUILT_IN.get(name) or _installed(name)
    if factory is None:
        known = ", ".join(backend_names())
        raise ConfigError(f"there is no memory backend {name!r}; set memory.backend to one of: {known}")
    return factory(settings)


def backend_names() -> list[str]:
    """The names of all backends, those of other packages last."""
    from importlib.metadata import entry_points  # takes longer to load than all else here

    return list(dict.fromkeys([*_BUILT_IN, *sorted(entry_points(group=GROUP).names)]))


def _selected(settings: Settings, *, host: bool) -> MemoryBackend:
    if name := settings.memory_backend:
        return _available(name, settings)
    if getattr(settings, "honcho_key", "") and _has_honcho():
        honcho = open_backend("honcho", settings)
        if honcho.is_available():
            return honcho
        honcho.close()
    return open_backend("local" if host else "null", settings)


def _available(name: str, settings: Settings) -> MemoryBackend:
    try:
        backend = open_backend(name, settings)
        if backend.is_available():
            return backend
        backend.close()
        reason = "it is not available here and now"
    except ConfigError:
        if name not in _BUILT_IN and name not in backend_names():
            raise
        if settings.memory_fallback == NO_FALLBACK:
            raise
        reason = "it is not set up"
    except WarmstartError as error:
        reason = str(error)
    if settings.memory_fallback in (NO_FALLBACK, name):
        raise ConfigError(
            f"the memory backend {name!r} cannot be used: {reason}; mend that, or set memory.backend or memory.fallback"
        )
    # Not asked whether it is available: if it is not, its writes fail where they are made, and are not lost in silence.
    fallback = open_backend(settings.memory_fallback, settings)
    _LOG.warning(
        "the memory backend %r cannot be used (%s); memories go to %r for now, as memory.fallback says",
        name,
        reason,
        fallback.backend_name,
    )
    return fallback


def _null(settings: Settings) -> MemoryBackend:
    return NullBackend()


def _local(settings: Settings) -> MemoryBackend:
    from warmstart.memory.local import LocalBackend

    return LocalBackend.configured(settings)


def _postgres(settings: Settings) -> MemoryBackend:
    from warmstart.memory.postgres import PostgresBackend

    return PostgresBackend.configured(settings)


def _honcho(settings: Settings) -> MemoryBackend:
    if not _has_honcho():
        raise ConfigError("memory in Honcho needs its SDK: pip install 'warmstart[honcho]'")
    backend: MemoryBackend = import_module("warmstart.memory.honcho").HonchoBackend.configured(settings)
    return backend


def _has_honcho() -> bool:
    return find_spec("honcho") is not None and find_spec("warmstart.memory.honcho") is not None


def _installed(name: str) -> Factory | None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        factory: Factory = point.load()
        return factory
    return None


_BUILT_IN: dict[str, Factory] = {"null": _null, "local": _local, "postgres": _postgres, "honcho": _honcho}
