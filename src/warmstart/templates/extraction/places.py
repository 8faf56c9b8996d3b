"""What every rule of extraction asks of the placeholders: texts and arguments as they may be carried."""

from __future__ import annotations

from typing import Protocol


class Places(Protocol):
    """Replaces secrets, and what is particular to the old task."""

    def text(self, text: str, /) -> str:
        """The text as it may be carried."""
        ...

    def arguments(self, tool: str, arguments: str, /) -> str:
        """The arguments of a call as they may be carried: what was JSON stays JSON."""
        ...
