"""The state of a repository, read with git; nothing of the repository is run or changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from warmstart.handoff.packet import GitState

_SECONDS = 3.0
_SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def read_git(directory: str) -> GitState | None:
    """The branch, head and uncommitted files of a working tree; `None` if it is not one, or git does not answer."""
    if not directory or not Path(directory).is_dir():
        return None
    branch, head = _git(directory, "branch", "--show-current"), _git(directory, "rev-parse", "--short=12", "HEAD")
    status = _git(directory, "status", "--porcelain", "--untracked-files=normal")
    if branch is None or status is None:
        return None
    return GitState(branch.strip(), (head or "").strip(), tuple(line[3:] for line in status.splitlines()))


def _git(directory: str, *words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's git, in a folder that they work in
            ("git", *_SAFE, "-C", directory, *words),  # noqa: S607
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout
