"""Skipping a bad session: one never stops a batch."""

from __future__ import annotations

from warmstart.errors import StoreCorrupt, WarmstartError

# What the content of a session can make our code raise. Errors of the database or the disk are not among them.
CONTENT_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    StoreCorrupt,
)


def log_skip(session: str, error: Exception) -> None:
    """Log that a session was skipped, and why."""
    import logging  # deferred: takes milliseconds to load

    kind = "" if isinstance(error, WarmstartError) else f"unexpected {type(error).__name__}: "
    reason = f"{kind}{' '.join(str(error).split())[:200]}"
    logging.getLogger("warmstart").warning("skipped session %s: %s", session, reason)
