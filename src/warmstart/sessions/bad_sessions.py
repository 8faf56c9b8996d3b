"""One bad session never stops a batch: it is named and skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import MsgspecError

from warmstart.errors import StoreCorrupt

# What the content of a session can make our code raise. An error of the database or the disk is none of them.
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
    """Name a session that was skipped, and why, in the log."""
    logging.getLogger("warmstart").warning("%s", describe_skip(session, error))


def describe_skip(session: str, error: Exception) -> str:
    """A session that was skipped, and why, in a line."""
    return f"skipped session {session}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
