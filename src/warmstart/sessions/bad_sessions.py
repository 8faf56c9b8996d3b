"""One bad session never stops a batch: it is logged and skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import MsgspecError

from warmstart.errors import StoreCorrupt, WarmstartError

# What the content of a session can make our code raise. Errors of the database or the disk are not among them.
BAD_SESSION = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MsgspecError,
    RuntimeError,
    StoreCorrupt,
    TypeError,
    ValueError,
)

Skip = Callable[[str, Exception], None]


def log_skip(session: str, error: Exception) -> None:
    """Log that a session was skipped, and why."""
    kind = "" if isinstance(error, WarmstartError) else f"unexpected {type(error).__name__}: "
    reason = f"{kind}{' '.join(str(error).split())[:200]}"
    logging.getLogger("warmstart").warning("skipped session %s: %s", session, reason)
