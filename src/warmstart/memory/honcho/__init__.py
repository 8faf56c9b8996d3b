"""Memory at Honcho, mirrored in a local file that answers when Honcho does not."""

from warmstart.memory.honcho.backend import HonchoBackend

__all__ = ["HonchoBackend"]
