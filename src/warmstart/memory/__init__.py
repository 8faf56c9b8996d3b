"""What is known: preferences and facts that outlive sessions, in any backend."""

from importlib import import_module

TYPE_CHECKING = False  # hooks load this package, and `typing` takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.memory.backend import MemoryBackend, NullBackend
    from warmstart.memory.local import LocalBackend
    from warmstart.memory.selection import get_memory_backend, reset_backend
    from warmstart.memory.values import MemoryEntry

__all__ = ["LocalBackend", "MemoryBackend", "MemoryEntry", "NullBackend", "get_memory_backend", "reset_backend"]

_MODULES = {
    "LocalBackend": "local",
    "MemoryBackend": "backend",
    "MemoryEntry": "values",
    "NullBackend": "backend",
    "get_memory_backend": "selection",
    "reset_backend": "selection",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"warmstart.memory.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'warmstart.memory' has no attribute {name!r}")
