"""The project of a session. A project is a repository: its worktrees and subfolders belong to it.

As long as a folder exists, git's own files show which repository it belongs to: the `.git` file of a worktree points to
the directory that it shares with the main working tree. A submodule is a separate repository. A repository in the home
directory (dotfiles) does not include the folders below it; otherwise they would all be one project. Links are followed.
Without git's files the path decides: `/x/repo/.worktrees/a` belongs to `/x/repo`.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from os.path import dirname, exists, expanduser, isabs, isdir, isfile, join, lexists, normpath, realpath, relpath

TYPE_CHECKING = False  # `typing` and `pathlib` take milliseconds to load, and hooks need neither
if TYPE_CHECKING:
    from collections.abc import Iterable

_DRIVE = re.compile(r"([A-Za-z]):[/\\](.*)", re.DOTALL)
# Where agents and editors put worktrees: `repo/.worktrees/a`, `repo/.claude/worktrees/a`, `repo.worktrees/a` beside it.
_WORKTREES = re.compile(r"(.*?[^/])(?:/?\.worktrees|/\.claude/worktrees|__worktrees)/.", re.DOTALL)
_PATH = re.compile(r"/|~|\.\.?(?:/|$)|[A-Za-z]:[/\\]")
_HOME = re.compile(r"(?:/[a-z])?/(?:root|(?:home|Users)/[^/]+)")


@lru_cache(maxsize=4096)
def project_of(directory: str) -> str:
    """The working tree that contains a folder on this machine, or the folder itself."""
    if not directory or "\0" in directory:
        return ""
    directory = _normalize(directory)
    if isabs(directory):
        homes = (_home(), realpath(_home()))
        path = folder = normpath(directory)
        while folder == path or folder not in homes:
            if lexists(join(folder, ".git")):
                return folder
            if folder == dirname(folder):
                break
            folder = dirname(folder)
    return directory


@lru_cache(maxsize=4096)
def repository_of(directory: str) -> str:
    """The project that a folder on this machine belongs to, or the folder itself."""
    directory = project_of(directory)
    if isabs(directory):
        try:
            directory = project_of(realpath(directory))
            main = _repository(directory)
            if isdir(main):
                return main
        except (OSError, ValueError):
            pass  # git's files cannot be read, or the name is invalid
    return project_by_name(directory)


def resolve_project(name: str) -> str:
    """A project as it is stored: the repository of a path. A plain name, the end of a path, is returned unchanged."""
    path = expanduser(name)
    if not name or not (isdir(path) or _PATH.match(name)):
        return name
    return repository_of(name if _DRIVE.match(name) else join(os.getcwd(), path))


def branch_of(directory: str) -> str:
    """The branch that is checked out in a folder; empty if there is none, or the folder is not on this machine."""
    if not directory or not isdir(expanduser(directory)):
        return ""
    tree = project_of(realpath(expanduser(directory)))
    git = join(tree, ".git")
    try:
        own = git if isdir(git) else join(tree, _read(git).removeprefix("gitdir:").strip())
        kind, _, branch = _read(join(own, "HEAD")).strip().partition("refs/heads/")
    except (OSError, ValueError):
        return ""
    return branch if kind == "ref: " else ""


def project_by_name(directory: str) -> str:
    """The project of a folder by its path alone: for a folder that was deleted or is on another machine."""
    directory = _normalize(directory)
    found = _WORKTREES.match(directory)
    if not found or _HOME.fullmatch(found[1]) or found[1] == _home():
        return directory
    return found[1]


def project_of_log(directory: str, log: str) -> str:
    """The project of the folder in the log at this path; empty if only the machine that has the log can tell."""
    if exists(log):
        return repository_of(directory)
    project = project_by_name(directory)
    return "" if project == directory else project


def short_names(projects: Iterable[str]) -> dict[str, str]:
    """A short name for each project: the last part of its path, or as many parts as make it unique."""
    paths = {project: [part for part in re.split(r"[/\\]", project) if part] for project in projects}
    ends = {project: ["/".join(parts[-n:]) for n in range(1, len(parts) + 1)] for project, parts in paths.items()}
    uses = [end for each in ends.values() for end in each]
    return {project: next((end for end in each if uses.count(end) == 1), project) for project, each in ends.items()}


def _repository(tree: str) -> str:
    """The main folder of the repository that this working tree belongs to."""
    git = realpath(join(tree, ".git"))
    if not isfile(git):
        return _main_folder(git) if isdir(git) else project_by_name(tree)
    own = realpath(join(tree, _read(git).removeprefix("gitdir:").strip()))
    try:
        shared = _read(join(own, "commondir")).strip()
    except OSError:
        if dirname(own).rpartition("/")[2] != "worktrees":
            return _submodule(tree) if "modules" in own.split("/") else tree
        shared = "../.."
    return _main_folder(realpath(join(own, shared)))


def _main_folder(git: str) -> str:
    if git.rpartition("/")[2] in (".git", ".bare"):
        return dirname(git)
    # The repository of a submodule says where its working tree is.
    tree = re.search(r"^\s*worktree = (.+)", _read(join(git, "config")), re.MULTILINE)
    return realpath(join(git, tree[1])) if tree else git


def _submodule(tree: str) -> str:
    """The path of a submodule in the main working tree of its superproject."""
    outer = project_of(dirname(tree))
    return join(repository_of(outer), relpath(tree, outer))


def _read(path: str) -> str:
    with open(path, errors="surrogateescape") as file:
        return file.read()


def _home() -> str:
    return normpath(expanduser("~"))


def _normalize(path: str) -> str:
    r"""The path without trailing slashes; `D:\x` and `D:/x` become `/d/x`, as in Git Bash."""
    if drive := _DRIVE.match(path):
        path = f"/{drive[1].lower()}/{drive[2]}".replace("\\", "/")
    return path.rstrip("/") or path[:1]
