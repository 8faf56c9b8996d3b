"""Which sessions a command is about: what its options accept, as a store understands it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from warmstart.sessions.projects import project_of

_AGO = re.compile(r"(\d+)([hdw])")


class Since(click.ParamType[datetime]):
    """A date, a time, or how long ago: `2026-09-01`, `2026-09-01T12:00`, `7d`, `12h`, `2w`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if ago := _AGO.fullmatch(value):
            unit = {"h": "hours", "d": "days", "w": "weeks"}[ago.group(2)]
            try:
                return datetime.now(UTC) - timedelta(**{unit: int(ago.group(1))})
            except OverflowError:
                self.fail(f"{value!r} is too long ago", param, ctx)
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a date; write 2026-09-01, or 7d for the last seven days", param, ctx)


def stored_project(given: str) -> str:
    """A project as the store has it: a folder's git root, or a bare name that is no folder here."""
    if not given or ("/" not in given and not Path(given).is_dir()):
        return given
    return project_of(str(Path(given).expanduser().resolve()))
