"""The project of a session. A project is a repository: its worktrees and subfolders belong to it.

Git's own files tell which repository a folder belongs to, as long as the folder exists: the `.git` file of a worktree
leads to the directory that it shares with the main working tree. A submodule is a repository of its own. A repository
in the home directory (dotfiles) does not include the folders below it; otherwise they would all be one project. Links
are followed. Where git does not help, the path does: `/x/repo/.worktrees/a` belongs to `/x/repo`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_DRIVE = re.compile(r"([A-Za-z]):[/\\](.*)", re.DOTALL)
# Where agents and editors put worktrees: `repo/.worktrees/a`, `repo/.claude/worktrees/a`, `repo.worktrees/a` beside it.
_WORKTREES = re.compile(r"(.*?[^/])(?:/?\.worktrees|/\.claude/worktrees|__worktrees)/.", re.DOTALL)
_PATH = re.compile(r"/|~|\.\.?(?:/|$)|[A-Za-z]:[/\\]")
_HOME = re.compile(r"(?:/[a-z])?/(?:root|(?:home|Users)/[^/]+)")


@lru_cache(maxsize=4096)
def project_of(directory: str) -> str:
    """The working tree around a folder of this machine, or the folder itself."""
    if not directory or "\0" in directory:
        return ""
    directory = _normalize(directory)
    if Path(directory).is_absolute():
        home = _home()
        path = Path(os.path.normpath(directory))
        for folder in (path, *path.parents):
            if folder != path and folder in (home, home.resolve()):
                break
            if os.path.lexists(folder / ".git"):
                return str(folder)
    return directory


@lru_cache(maxsize=4096)
def repository_of(directory: str) -> str:
    """The project that a folder of this machine belongs to, or the folder itself."""
    directory = project_of(directory)
    if Path(directory).is_absolute():
        try:
            directory = project_of(os.path.realpath(directory))
            main = _repository(Path(directory))
            if main.is_dir():
                return str(main)
        except (OSError, ValueError):
            pass  # git's files cannot be read, or no file can have this name
    return project_by_name(directory)


def resolve_project(given: str) -> str:
    """A project as it is stored: the repository of a path. A plain name, the end of a path, is returned as it is."""
    path = Path(os.path.expanduser(given))  # noqa: PTH111 - `Path` raises for an unknown user
    if not given or not (path.is_dir() or _PATH.match(given)):
        return given
    return repository_of(given if _DRIVE.match(given) else str(path.absolute()))


def project_by_name(directory: str) -> str:
    """The project of a folder by its path alone: for one that is deleted, or on another machine."""
    directory = _normalize(directory)
    found = _WORKTREES.match(directory)
    if not found or _HOME.fullmatch(found[1]) or found[1] == str(_home()):
        return directory
    return found[1]


def short_names(projects: Iterable[str]) -> dict[str, str]:
    """A short name for each project: the last part of its path, or as many parts as make it unique."""
    paths = {project: [part for part in re.split(r"[/\\]", project) if part] for project in projects}
    ends = {project: ["/".join(parts[-n:]) for n in range(1, len(parts) + 1)] for project, parts in paths.items()}
    uses = Counter(end for each in ends.values() for end in each)
    return {project: next((end for end in each if uses[end] == 1), project) for project, each in ends.items()}


def _repository(tree: Path) -> Path:
    """The main folder of the repository that has this working tree."""
    git = Path(os.path.realpath(tree / ".git"))
    if not git.is_file():
        return _main_folder(git) if git.is_dir() else Path(project_by_name(str(tree)))
    own = Path(os.path.realpath(tree / git.read_text(errors="surrogateescape").removeprefix("gitdir:").strip()))
    try:
        shared = (own / "commondir").read_text(errors="surrogateescape").strip()
    except OSError:
        if own.parent.name != "worktrees":
            return _submodule(tree) if "modules" in own.parts else tree
        shared = "../.."
    return _main_folder(Path(os.path.realpath(own / shared)))


def _main_folder(git: Path) -> Path:
    if git.name in (".git", ".bare"):
        return git.parent
    # The repository of a submodule says where its working tree is.
    tree = re.search(r"^\s*worktree = (.+)", (git / "config").read_text(errors="surrogateescape"), re.MULTILINE)
    return Path(os.path.realpath(git / tree[1])) if tree else git


def _submodule(tree: Path) -> Path:
    """The place of a submodule in the main working tree of the repository around it."""
    around = project_of(str(tree.parent))
    return Path(repository_of(around)) / tree.relative_to(around)


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - where nobody knows the home directory, `Path.home` raises


def _normalize(path: str) -> str:
    r"""A path without slashes at its end; `D:\x` and `D:/x` as Git Bash spells them, `/d/x`."""
    if drive := _DRIVE.match(path):
        path = f"/{drive[1].lower()}/{drive[2]}".replace("\\", "/")
    return path.rstrip("/") or path[:1]
