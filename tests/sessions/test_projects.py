"""A project is a repository, whichever worktree, subfolder or spelling a log names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sessions.logs import name, turns, write
from warmstart.sessions.projects import branch_of, project_by_name, project_of_log, repository_of, short_names
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.testing.stores import said, session


def git(folder: Path, *arguments: object) -> None:
    own = ("-c", "user.name=mara", "-c", "user.email=mara@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *own, *map(str, arguments)], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "work" / "tides"
    (folder / "src" / "deep").mkdir(parents=True)
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "begin")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as opened:
        yield opened


def log(folder: Path, seed: str, cwd: object, number: int = 1) -> Path:
    return write(folder, seed, [{**line, "cwd": str(cwd)} for line in turns(seed, range(number))])


def places(store: SQLSessionStore) -> dict[str, tuple[str, str]]:
    return {each.session.native_id: (each.session.project, each.session.directory) for each in store.list()}


# -- what git says


def test_a_worktree_belongs_to_its_repository(repository: Path, subtests: pytest.Subtests) -> None:
    for place in (".worktrees/a", ".claude/worktrees/b", "../tides-c", "../../elsewhere/d"):
        with subtests.test(place):
            git(repository, "worktree", "add", place, "-b", place[-1])
            worktree = (repository / place).resolve()
            (worktree / "src").mkdir()
            assert repository_of(str(worktree)) == repository_of(str(worktree / "src")) == str(repository)
    assert repository_of(str(repository / "src" / "deep")) == repository_of(f"{repository}/") == str(repository)


def test_a_pruned_worktree_still_belongs_to_its_repository(repository: Path) -> None:
    git(repository, "worktree", "add", "../tides-a", "-b", "a")
    shutil.rmtree(repository / ".git" / "worktrees")
    assert repository_of(str(repository.parent / "tides-a")) == str(repository)
    shutil.rmtree(repository)
    repository_of.cache_clear()
    assert repository_of(str(repository.parent / "tides-a")) == str(repository.parent / "tides-a")


def test_worktrees_of_a_bare_repository_are_one_project(
    home: Path, repository: Path, subtests: pytest.Subtests
) -> None:
    for bare, project in (("a/.bare", "a"), ("b/.git", "b"), ("c.git", "c.git")):
        with subtests.test(bare):
            away = home / "away"
            git(home, "clone", "--bare", repository, away / bare)
            trees = [away / "trees" / f"{bare[0]}{number}" for number in range(2)]
            for tree in trees:
                git(away / bare, "worktree", "add", tree, "-b", tree.name)
            found = {repository_of(str(tree)) for tree in trees}
            assert found == {repository_of(str(away / project))} == {str(away / project)}


def test_a_submodule_is_a_repository_of_its_own(home: Path, repository: Path) -> None:
    outer = home / "work" / "harbour"
    outer.mkdir()
    git(outer, "init")
    git(outer, "submodule", "add", repository, "lib/tides")
    git(outer, "commit", "-m", "add tides")
    inner = str(outer / "lib" / "tides")
    assert (repository_of(inner), repository_of(str(outer / "lib"))) == (inner, str(outer))
    git(outer, "worktree", "add", ".worktrees/a", "-b", "a")
    git(outer / ".worktrees" / "a", "submodule", "update", "--init")
    assert repository_of(f"{outer}/.worktrees/a/lib/tides") == inner
    git(Path(inner), "worktree", "add", home / "work" / "beside", "-b", "beside")
    assert repository_of(str(home / "work" / "beside")) == inner


def test_a_git_directory_kept_apart_changes_nothing(home: Path) -> None:
    folder = home / "work" / "apart"
    folder.mkdir(parents=True)
    (home / "store").mkdir()
    git(folder, "init", "--separate-git-dir", home / "store" / "apart.git")
    assert repository_of(str(folder)) == str(folder)


def test_an_invalid_git_file_leaves_the_folder_as_the_project(home: Path, subtests: pytest.Subtests) -> None:
    contents = ("", "gitdir:", "gitdir: /gone/.git/worktrees/a", "nonsense\n", "gitdir: a\0b")
    for number, content in enumerate(contents):
        with subtests.test(content):
            folder = home / "work" / f"tides{number}"
            (folder / "src").mkdir(parents=True)
            (folder / ".git").write_text(content)
            assert repository_of(str(folder / "src")) == str(folder)


def test_a_git_path_that_is_neither_file_nor_folder_does_no_harm(home: Path) -> None:
    folder = home / "work" / "tides"
    folder.mkdir(parents=True)
    os.mkfifo(folder / ".git")
    assert repository_of(str(folder)) == str(folder)


def test_dotfiles_in_the_home_directory_do_not_own_folders_below(home: Path, repository: Path) -> None:
    git(home, "init")
    (home / "notes").mkdir()
    assert repository_of(str(home)) == str(home)
    assert repository_of(str(home / "notes")) == str(home / "notes")
    assert repository_of(str(repository / "src")) == str(repository)


def test_links_are_followed(home: Path, repository: Path) -> None:
    (home / "short").symlink_to(repository)
    (home / "inside").symlink_to(repository / "src")
    assert repository_of(str(home / "short" / "src")) == repository_of(str(home / "inside")) == str(repository)


# -- what the path says


GONE = [
    ("/Users/mara/tides/.worktrees/2", "/Users/mara/tides"),
    ("/Users/mara/tides/.worktrees/mara/fix-gauge/src", "/Users/mara/tides"),
    ("/Users/mara/tides/.claude/worktrees/brave-otter", "/Users/mara/tides"),
    ("/home/mara/tides.worktrees/fix", "/home/mara/tides"),
    ("/home/mara/tides__worktrees/fix/sub", "/home/mara/tides"),
    (r"D:\work\tides\.claude\worktrees\a", "/d/work/tides"),
    ("/home/mara/.worktrees/tides", "/home/mara/.worktrees/tides"),
    ("/root/.claude/worktrees/a", "/root/.claude/worktrees/a"),
    ("/home/mara/worktrees/a", "/home/mara/worktrees/a"),
    ("/srv/tides/.worktrees", "/srv/tides/.worktrees"),
]


def test_a_missing_worktree_belongs_to_the_folder_above(subtests: pytest.Subtests) -> None:
    for folder, project in GONE:
        with subtests.test(folder):
            assert repository_of(folder) == project_by_name(folder) == project


def test_a_drive_is_spelled_in_one_way(subtests: pytest.Subtests) -> None:
    for spelling in (r"D:\work\tides", "D:/work/tides", "/d/work/tides", "d:\\work/tides\\", "/d/work/tides/"):
        with subtests.test(spelling):
            assert repository_of(spelling) == "/d/work/tides"


def test_odd_names_do_no_harm(subtests: pytest.Subtests) -> None:
    for odd in ("", "a\0b", "tides", "/odd/\ud800", "/" + "x" * 5000):
        with subtests.test(repr(odd)[:20]):
            assert repository_of(odd) in (odd, "")


def test_short_names_are_as_long_as_needed() -> None:
    projects = [
        "/home/mara/tides",
        "/home/mara/cli",
        "/home/jo/a/cli",
        "/srv/a/cli",
        "/d/x/harbour",
        "",
        "/a/z",
        "/b/a/z",
    ]
    assert short_names(projects) == {
        "/home/mara/tides": "tides",
        "/home/mara/cli": "mara/cli",
        "/home/jo/a/cli": "jo/a/cli",
        "/srv/a/cli": "srv/a/cli",
        "/d/x/harbour": "harbour",
        "": "",
        "/a/z": "/a/z",
        "/b/a/z": "b/a/z",
    }


# -- what is stored


def test_sync_stores_the_repository_and_the_working_tree(
    store: SQLSessionStore, tmp_path: Path, repository: Path
) -> None:
    git(repository, "worktree", "add", "../tides-a", "-b", "a")
    worktree = repository.parent / "tides-a"
    for seed, cwd in {"main": repository / "src", "tree": worktree, "gone": "/srv/tides/.worktrees/1"}.items():
        log(tmp_path / "logs", seed, cwd)
    sync(store, path_sources([tmp_path / "logs"]))
    expected = {
        name("main"): (str(repository), str(repository)),
        name("tree"): (str(repository), str(worktree)),
        name("gone"): ("/srv/tides", "/srv/tides/.worktrees/1"),
    }
    assert places(store) == expected
    assert store.projects() == sorted({str(repository), "/srv/tides"})
    # The worktree is removed, and its log read once more from the beginning.
    shutil.rmtree(worktree)
    repository_of.cache_clear()
    (tmp_path / "again").mkdir()
    log(tmp_path / "again", "tree", worktree, 2)
    sync(store, path_sources([tmp_path / "again"]))
    assert places(store) == expected


def test_sessions_imported_before_are_mapped_after_the_next_import(
    store: SQLSessionStore, tmp_path: Path, repository: Path
) -> None:
    git(repository, "worktree", "add", "../tides-a", "-b", "a")
    worktree = str(repository.parent / "tides-a")
    here = str(log(tmp_path / "logs", "here", worktree))
    there = "/nowhere/log.jsonl"
    for number, (project, source) in enumerate(
        [(worktree, here), (worktree, there), ("/srv/tides/.worktrees/1", there), (r"d:\x\tides", there), ("", here)]
    ):
        store.append(session(f"old{number}", project=project, source=source), [said(f"m{number}", "hello")])
    for _ in range(2):
        sync(store, path_sources([tmp_path / "logs"]))
        store.map_projects(project_of_log)
        found = places(store)
        assert [found[f"old{number}"] for number in range(5)] == [
            (str(repository), worktree),
            (worktree, ""),  # only the machine with its log can tell
            ("/srv/tides", "/srv/tides/.worktrees/1"),
            ("/d/x/tides", r"d:\x\tides"),
            ("", ""),
        ]


def test_the_branch_is_that_of_the_working_tree(repository: Path) -> None:
    git(repository, "switch", "-c", "tides/high")
    git(repository, "worktree", "add", "../tides-b", "-b", "b")
    assert branch_of(str(repository / "src" / "deep")) == "tides/high"
    assert branch_of(str(repository.parent / "tides-b")) == "b"
    git(repository, "switch", "--detach")
    assert branch_of(str(repository)) == ""
    assert branch_of("/nowhere/at/all") == branch_of("tides") == branch_of("") == ""
