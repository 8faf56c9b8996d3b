"""Keys that make fingerprints and hashes the user's own: without the key nobody can check a guess against them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from warmstart.config import HOME_VARIABLE
from warmstart.errors import ConfigError


def kept_key(path: Path) -> bytes:
    """The key in this file, made on first use and readable by its owner alone.

    Raises `ConfigError` where there is none and none can be made.
    """
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes().strip()[:64]
    except OSError as error:
        raise ConfigError(
            f"no key at {str(path)!r} ({error.strerror}); check the permissions there, or set {HOME_VARIABLE}"
        ) from error
    if not key:
        raise ConfigError(f"the key {str(path)!r} is empty; delete it, and a new one is made")
    return key


def _make(path: Path) -> None:
    """Write a key aside and link it to its place: of two processes one makes it, and both read the same whole key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.touch(0o600)
        draft.write_bytes(secrets.token_hex(32).encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
