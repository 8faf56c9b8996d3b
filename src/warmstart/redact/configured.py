"""The redactor of a user: the shipped rules, the user's own, and a key that makes the fingerprints theirs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.redact.keys import kept_key
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
    """The key in this file, or none: secrets are replaced also where no key can be kept."""
    try:
        return kept_key(path)
    except ConfigError:
        return b""
