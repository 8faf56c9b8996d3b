"""The tables of the index; their SQL is in `migrations`."""

from __future__ import annotations

from warmstart.storage.database import migrations_of

MIGRATIONS = migrations_of("honcho", __file__)
