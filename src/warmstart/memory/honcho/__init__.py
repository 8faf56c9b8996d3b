"""Memory at Honcho, with an index here that answers when Honcho does not."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmstart.memory.honcho.backend import HonchoBackend
    from warmstart.memory.honcho.outbox import Forgetting

__all__ = ["Forgetting", "HonchoBackend"]

_HOMES = {"Forgetting": "outbox", "HonchoBackend": "backend"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"warmstart.memory.honcho.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'warmstart.memory.honcho' has no attribute {name!r}")
