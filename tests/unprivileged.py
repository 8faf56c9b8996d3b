"""Run something as an unprivileged user, even if the tests run as root."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NOBODY = 65534


def as_nobody(call: Callable[[], T]) -> T:
    """The result of `call`, or its exception, in an unprivileged process; it must be picklable."""
    context = multiprocessing.get_context("fork")
    outcome = context.SimpleQueue()

    def run() -> None:
        if os.geteuid() == 0:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        try:
            outcome.put((call(), None))
        except Exception as error:
            outcome.put((None, error))

    process = context.Process(target=run)
    process.start()
    process.join()
    value, error = outcome.get()
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def let_in(path: Path) -> None:
    """Open the parent folders of `path` to other users; pytest creates them private."""
    for folder in (path, *path.parents[:4]):
        if folder.stat().st_uid == os.geteuid() and folder.is_dir():
            folder.chmod(folder.stat().st_mode | 0o055)
