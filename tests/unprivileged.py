"""Running something as a user who may not do everything, also when the tests run as root."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

NOBODY = 65534


def message_of(call: Callable[[], object], expected: type[Exception]) -> str:
    """What `expected` says when `call` raises it in a process without root's rights; empty if it is not raised."""
    context = multiprocessing.get_context("fork")
    outcome = context.SimpleQueue()

    def run() -> None:
        if os.geteuid() == 0:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        try:
            call()
        except expected as error:
            outcome.put(str(error))
        else:
            outcome.put("")

    process = context.Process(target=run)
    process.start()
    process.join()
    return str(outcome.get())


def let_in(path: Path) -> None:
    """Open the folders that lead to `path`, which pytest makes for their owner alone."""
    for folder in (path, *path.parents[:4]):
        if folder.stat().st_uid == os.geteuid() and folder.is_dir():
            folder.chmod(folder.stat().st_mode | 0o055)
