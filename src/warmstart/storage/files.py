"""Files that a user asks for: exports, pages, datasets. They hold private data, so only their owner may read them."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_STREAMS = frozenset({"/dev", "/dev/fd", "/proc/self/fd"})  # /dev/stdout and the like are always links


def write_private(path: Path, pieces: Iterable[str], *, overwrite: bool = True) -> None:
    """Write a file that only its owner can read, all or nothing, and never through a symbolic link.

    Writes directly to a device, a pipe or /dev/stdout. Raises `FileExistsError` if the file exists and must not be
    overwritten, and `OSError` if it cannot be written.
    """
    is_stream = str(path.parent) in _STREAMS
    if path.is_symlink() and not is_stream:
        raise OSError(errno.ELOOP, "this is a symbolic link; give the path of the file itself", str(path))
    encoded = (piece.encode("utf-8", "backslashreplace") for piece in pieces)
    if is_stream or (path.exists() and not path.is_file() and not path.is_dir()):
        with path.open("wb") as stream:
            stream.writelines(encoded)
        return
    try:
        _replace(path, encoded, overwrite)
    except OSError as error:  # it may name the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, pieces: Iterable[bytes], overwrite: bool) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        if not overwrite:
            path.touch(0o600, exist_ok=False)  # claims the name, so that one of two writers fails
        Path(name).replace(path)
    finally:
        with suppress(OSError):
            Path(name).unlink()
