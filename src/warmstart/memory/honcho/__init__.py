"""Memory at Honcho, with an index here that answers when Honcho does not."""

from warmstart.memory.honcho.backend import HonchoBackend, Status
from warmstart.memory.honcho.index import Forgetting

__all__ = ["Forgetting", "HonchoBackend", "Status"]
