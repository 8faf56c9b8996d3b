"""How logs that are files are found below a folder."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path


def files_below(root: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The files below `root` whose names are `wanted`, folder by folder in the order of names; `root` if it is a file.

    Links to folders are followed, after the folders themselves, so that a log is found under its own path where it has
    one there; no folder is entered twice. A folder that cannot be listed is given itself: opening it tells why.
    """
    if root.is_file():
        yield root
        return
    entered: set[tuple[int, int]] = set()
    waiting = deque([root])
    while waiting:
        yield from _files(waiting.popleft(), wanted, entered, waiting)


def _files(
    top: Path, wanted: Callable[[str], bool], entered: set[tuple[int, int]], links: deque[Path]
) -> Iterator[Path]:
    """The files of a folder and of those inside; links to other folders are added to `links`."""
    refused: list[Path] = []

    def refuse(error: OSError) -> None:
        # What is gone by now is no loss; `filename` is the folder.
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            refused.append(Path(os.fsdecode(error.filename)) if error.filename else top)

    for name, inside, names in os.walk(top, onerror=refuse):
        folder = Path(name)
        if not _enter(folder, entered):
            inside.clear()
            continue
        inside.sort()
        links.extend(link for each in inside if (link := folder / each).is_symlink())
        yield from (folder / each for each in sorted(names) if wanted(each))
    yield from refused


def _enter(folder: Path, entered: set[tuple[int, int]]) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return True  # without an identity it cannot be known again; what is inside tells what is wrong
    identity = found.st_dev, found.st_ino
    if identity in entered:
        return False
    entered.add(identity)
    return True
