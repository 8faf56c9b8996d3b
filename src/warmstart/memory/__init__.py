"""What is known: preferences and facts that outlive sessions, in any backend."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmstart.memory.backend import MemoryBackend
    from warmstart.memory.null import NullBackend
    from warmstart.memory.selection import get_memory_backend, reset_backend
    from warmstart.memory.values import MemoryEntry

__all__ = ["MemoryBackend", "MemoryEntry", "NullBackend", "get_memory_backend", "reset_backend"]

_HOMES = {
    "backend": ("MemoryBackend",),
    "null": ("NullBackend",),
    "selection": ("get_memory_backend", "reset_backend"),
    "values": ("MemoryEntry",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"warmstart.memory.{module}"), name)
    raise AttributeError(f"module 'warmstart.memory' has no attribute {name!r}")
