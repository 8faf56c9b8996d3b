"""The project of a session: the git root around its working directory, or the directory itself."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=4096)
def project_of(directory: str) -> str:
    """The nearest ancestor of `directory` that holds `.git`, if it is on this machine; otherwise `directory`."""
    if not directory or "\0" in directory:
        return ""
    path = Path(directory)
    if not path.is_absolute():
        return directory
    for candidate in (path, *path.parents):
        try:
            if (candidate / ".git").exists():
                return str(candidate)
        except OSError:
            break
    return directory.rstrip("/") or "/"
