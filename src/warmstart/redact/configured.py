"""The redactor of a user: the shipped rules, the user's own, and a key that makes the fingerprints theirs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from warmstart.config import Settings
from warmstart.redact.redactor import Personal, Redactor


def configured_redactor(settings: Settings, *, personal: Collection[Personal] = ()) -> Redactor:
    """A redactor by the user's settings. Raises `ConfigError` for a pattern that cannot be used."""
    return Redactor(
        key=_key(settings.home / "redact.key"),
        personal=personal,
        patterns=settings.redact_patterns,
        allow=settings.redact_allow,
    )


def _key(path: Path) -> bytes:
    """The key in this file, made on first use; none where a key can be neither read nor written."""
    with suppress(OSError):
        if not path.exists():
            _make(path)
    try:
        return path.read_bytes().strip()[:64]
    except OSError:
        return b""


def _make(path: Path) -> None:
    """Write a key aside and link it to its place: of two processes one makes it, and both read the same whole key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(0o600)
    draft.write_bytes(secrets.token_hex(32).encode())
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
