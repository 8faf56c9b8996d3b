"""The redactor of a user: the shipped rules, the user's own, and a key that makes the fingerprints theirs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from warmstart.config import HOME_VARIABLE, Settings
from warmstart.errors import ConfigError
from warmstart.redact.redactor import Personal, Redactor


def configured_redactor(settings: Settings, *, personal: Collection[Personal] = ()) -> Redactor:
    """A redactor by the user's settings. Raises `ConfigError` for a bad pattern."""
    key = b""
    with suppress(ConfigError):  # secrets are replaced even where no key can be stored
        key = load_key(settings.home / "redact.key")
    return Redactor(key=key, personal=personal, patterns=settings.redact_patterns, allow=settings.redact_allow)


def load_key(path: Path) -> bytes:
    """The key in this file, created at the first use; or `ConfigError`. Fingerprints cannot be guessed without it."""
    try:
        if not path.exists():
            _create_key(path)
        key = path.read_bytes().strip()[:64]
    except OSError as error:
        advice = f"check the permissions there, or set {HOME_VARIABLE}"
        raise ConfigError(f"cannot read or create the key {str(path)!r} ({error.strerror}); {advice}") from error
    if not key:
        raise ConfigError(f"the key {str(path)!r} is empty; delete the file to get a new one")
    return key


def _create_key(path: Path) -> None:
    """Write a key aside and link it to its place: of two processes one creates it, and both read the same key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.touch(0o600)
        draft.write_bytes(secrets.token_hex(32).encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
