"""Running something as a user who may not do everything, also when the tests run as root."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NOBODY = 65534


def as_nobody(call: Callable[[], T]) -> T:
    """What `call` gives, or raises, in a process without root's rights; it must be something that can be sent back."""
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
    """Open the folders that lead to `path`, which pytest makes for their owner alone."""
    for folder in (path, *path.parents[:4]):
        if folder.stat().st_uid == os.geteuid() and folder.is_dir():
            folder.chmod(folder.stat().st_mode | 0o055)
