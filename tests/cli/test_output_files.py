"""Files that commands write are private, all or nothing, and never written through a link."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import click
import pytest
from tests.commands import SHELL, tree

from warmstart.cli.commands import root

WRITING = {
    "sessions export": ["sessions", "export", "58e3c7d9", "-o"],
    "sessions export markdown": ["sessions", "export", "58e3c7d9", "--format", "markdown", "-o"],
    "handoff packet": ["handoff", "packet", "58e3c7d9", "--out"],
    "memory export": ["memory", "export", "-o"],
    "profile --html": ["profile", "--html"],
    "templates export": ["templates", "export", "surges", "--overwrite"],
    "dataset export": ["dataset", "export"],
}
FILES = {name: line for name, line in WRITING.items() if name != "dataset export"}


@pytest.fixture(autouse=True)
def _open_to_all(run, synced) -> Iterator[None]:
    run("templates", "extract", "58e3c7d9", "--name", "surges")
    run("memory", "set", "editor", "Helix")
    before = os.umask(0)
    yield
    os.umask(before)


def test_every_command_that_writes_a_file_is_tested_here():
    def writes(parameter: click.Parameter) -> bool:
        return isinstance(parameter.type, click.Path) and not parameter.type.exists and parameter.name != "paths"

    found = {name for name, command in tree(root) if any(map(writes, command.params))}
    # The commands of experiments need an experiment, and are tested with theirs.
    found = {name for name in found if not name.startswith("experiment ")}
    assert {name.split(" --")[0].removesuffix(" markdown") for name in WRITING} == found


def written(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.iterdir())


def test_only_the_owner_reads_what_was_written(run, home, subtests):
    for name, line in WRITING.items():
        with subtests.test(name):
            target = Path(mkdtemp(dir=home)) / "file"
            for _ in range(2):
                ran = run(*line, target)
                assert ran.code == 0, ran.err
                assert written(target)
                for path in written(target):
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
                    path.chmod(0o644)
            assert list(target.parent.iterdir()) == [target]


def test_no_link_is_followed(run, home, subtests):
    for dangling, (name, line) in product([False, True], WRITING.items()):
        with subtests.test(name, dangling=dangling):
            folder = Path(mkdtemp(dir=home))
            target, link = folder / "theirs", folder / "link"
            if not dangling and name == "dataset export":
                target.mkdir()
            elif not dangling:
                target.write_text("mine")
            link.symlink_to(target)
            before = None if dangling else target.stat()
            ran = run(*line, link)
            assert (ran.code, ran.out) == (1, "")
            assert ran.err.count("\n") == 1
            assert "symbolic link" in ran.err
            assert link.is_symlink()
            assert target.exists() is not dangling
            if target.is_file():
                assert target.read_text() == "mine"
                assert before is not None
                assert target.stat().st_mode == before.st_mode


def test_no_link_inside_a_dataset_is_followed(run, home):
    assert run("dataset", "export", home / "markers").code == 0
    (home / "theirs").write_text("mine")
    (home / "markers" / "calls.jsonl").unlink()
    (home / "markers" / "calls.jsonl").symlink_to(home / "theirs")
    run("dataset", "export", home / "markers")
    assert (home / "theirs").read_text() == "mine"


def test_an_unwritable_target_is_one_line(run, home, subtests):
    (home / "folder").mkdir()
    for name, line in FILES.items():
        with subtests.test(name):
            for target in (home / "nowhere" / "x", home / "folder"):
                ran = run(*line, target)
                assert ran.code in (1, 2)
                assert str(target) in ran.err
                assert "Traceback" not in ran.err
            assert list((home / "folder").iterdir()) == []


def test_pipes_are_written_to(run, home, subtests):
    for name, line in FILES.items():
        with subtests.test(name):
            pipe = Path(mkdtemp(dir=home)) / "pipe"
            os.mkfifo(pipe)
            with ThreadPoolExecutor(1) as pool:
                reader = pool.submit(pipe.read_bytes)
                ran = run(*line, pipe)
                if ran.code:  # nothing was written: let the reader end
                    pipe.write_bytes(b"")
                got = reader.result(60)
            assert ran.code == 0, ran.err
            assert len(got) > 100 or name == "memory export"
            assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_by_its_path_is_written_to(home, subtests):
    for redirect in ["", " > {}/file"]:
        with subtests.test(redirect=redirect):
            line = f"warmstart sessions export 58e3c7d9 -o /dev/stdout{redirect.format(home)}"
            ran = subprocess.run(["sh", "-c", SHELL + line], capture_output=True, text=True, check=True)
            text = (home / "file").read_text() if redirect else ran.stdout
            assert all(json.loads(each) for each in text.splitlines())
            assert text.count("\n") > 10


def test_a_write_that_fails_leaves_what_was_there(run, home):
    target = home / "session.md"
    target.write_text("before")
    assert run("sessions", "export", "nope", "-o", target).code == 1
    assert target.read_text() == "before"
