"""Which backend is used: the one in the settings, else Honcho if it is configured, else a default for the caller.

There is no fallback: if the chosen backend does not accept a write, that is an error.

Other packages add backends with an entry point in the group `warmstart.memory`: it is named like the backend, and its
value is called with the `Settings` and returns a `MemoryBackend`.
"""

from __future__ import annotations

import threading
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warmstart.config import Settings, ambient_settings
from warmstart.errors import ConfigError, WarmstartError
from warmstart.memory.backend import MemoryBackend, NullBackend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "warmstart.memory"
MISSING = "memory at Honcho needs its SDK: pip install 'warmstart[honcho]'"
_BUILT_IN = ("local", "postgres", "honcho")  # modules here


class _Chosen(NamedTuple):
    settings: Settings
    host: bool
    backend: MemoryBackend


_chosen: list[_Chosen] = []
_choosing = threading.RLock()


def get_memory_backend(settings: Settings | None = None, *, host: bool = False) -> MemoryBackend:
    """The backend to use, available or not; the same one each time until `reset_backend`.

    If nothing is configured, an agent's host or a command (`host`) gets `local`, and a library `null`. Without
    `settings`, returns the backend that was chosen before, a host's first, or else the one of the environment.
    """
    with _choosing:
        known = [each for each in _chosen if settings is None or each.settings == settings]
        for each in sorted(known, key=lambda each: not each.host):
            if not host or each.host or not isinstance(each.backend, NullBackend):
                return each.backend
        wanted = known[0].settings if known else settings or ambient_settings()
        _chosen.append(_Chosen(wanted, host, select_backend(wanted, host=host)))
        return _chosen[-1].backend


def reset_backend() -> None:
    """Close the backends that `get_memory_backend` returned; the next call chooses again."""
    with _choosing:
        while _chosen:
            _chosen.pop().backend.close()


def open_backend(name: str, settings: Settings) -> MemoryBackend:
    """The backend with this name, available or not. Raises `ConfigError` if there is none."""
    if name == "null":
        return NullBackend()
    if name in _BUILT_IN:
        if name == "honcho" and not is_installed():
            raise ConfigError(MISSING)
        module = import_module(f"warmstart.memory.{name}")
        backend: MemoryBackend = getattr(module, f"{name.capitalize()}Backend")(settings=settings)
        return backend
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return _load(point, settings)
    known = ", ".join(backend_names())
    raise ConfigError(f"there is no memory backend {name!r}; set memory.backend to one of: {known}")


def is_installed() -> bool:
    """Whether Honcho's SDK is installed; another package on PyPI has the same module name."""
    try:
        spec = find_spec("honcho")
    except ValueError:  # the process has another module of that name
        return False
    return bool(spec and spec.origin and Path(spec.origin).with_name("conclusions.py").is_file())


def why_not(backend: MemoryBackend) -> str:
    """Why a backend is not available, if that is known."""
    if problem := backend.problem:
        return problem
    try:
        backend.list_keys("")
    except WarmstartError as error:
        return str(error)
    return "it is not available now"


def backend_names() -> list[str]:
    """The names of all backends, those of other packages last."""
    from importlib.metadata import entry_points  # slower to load than the rest of this module

    return list(dict.fromkeys(["null", *_BUILT_IN, *sorted(entry_points(group=GROUP).names)]))


def select_backend(settings: Settings, *, host: bool = True) -> MemoryBackend:
    """A new backend, as configured."""
    usual = "honcho" if _has_honcho(settings) else "local" if host else "null"
    return open_backend(settings.memory_backend or usual, settings)


def memory_file(settings: Settings) -> str:
    """Where a turn can read memories: `store` for the store itself, a SQLite file, or empty for nowhere."""
    name = settings.memory_backend or ("honcho" if _has_honcho(settings) else "local")
    if name == "local":
        return str(settings.store_path) if settings.store_url else "store"
    if name == "postgres":
        return "store" if settings.store_url else ""
    if name != "honcho" or not is_installed():
        return ""
    with closing(open_backend(name, settings)) as backend:
        return "" if backend.problem else str(getattr(backend, "path", ""))


def _has_honcho(settings: Settings) -> bool:
    return bool(settings.honcho_key or settings.honcho_url) and is_installed()


def _load(point: EntryPoint, settings: Settings) -> MemoryBackend:
    """The backend of another package."""
    try:
        backend = point.load()(settings)
        if not isinstance(backend, MemoryBackend):
            raise TypeError(f"it returned a {type(backend).__name__}, which is not a MemoryBackend")
    except WarmstartError:
        raise
    except Exception as error:  # third-party code may raise anything
        package = f" of {point.dist.name!r}" if point.dist else ""
        raise ConfigError(
            f"the memory backend {point.name!r}{package} cannot be loaded ({type(error).__name__}: {error}); "
            "fix or remove that package, or set memory.backend to another"
        ) from error
    return backend
