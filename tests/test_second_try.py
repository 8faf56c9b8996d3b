"""Whether a test that fails by chance gets a second try, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHANCE = """
import pathlib, pytest

def fail_once(name):
    path = pathlib.Path(name)
    if not path.exists():
        path.touch()
        pytest.fail("the first time")

@pytest.fixture
def torn():
    yield
    fail_once("torn")

@pytest.mark.parametrize("name", ["a b", "x]::é"])
def test_fails_once(name):
    fail_once(name)

def test_is_torn_down_badly_once(torn):
    pass

def test_part_fails_once(subtests):
    with subtests.test("part"):
        fail_once("part")

@pytest.mark.parametrize("number", range(10))
def test_passes(number):
    pass
"""
LISTED = [
    "test_it.py::test_fails_once[a b]",
    "test_it.py::test_fails_once[x]::\\xe9]",
    "test_it.py::test_is_torn_down_badly_once",
    "test_it.py::test_part_fails_once",
]
BROKEN = CHANCE + "\ndef test_is_broken():\n    assert 1 == 2\n"
CRASHES = (
    CHANCE
    + """
def test_crashes_once():
    if not pathlib.Path("crash").exists():
        pathlib.Path("crash").touch()
        __import__("os")._exit(3)
"""
)


def run(folder: Path, code: str, workers: str, *options: str, other: str = "") -> tuple[int, list[str], str]:
    """The exit code, the second tries, and what was printed."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    (folder / "test_other.py").write_text(other)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.second_try", "-n", workers, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SECOND_TRIES": "tries"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    tries = folder / "tries"
    return done.returncode, sorted(tries.read_text().splitlines()) if tries.exists() else [], done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_chance_gets_a_second_try(tmp_path: Path, workers: str) -> None:
    code, tries, out = run(tmp_path / "chance", CHANCE, workers)
    assert (code, tries) == (0, [f"failed, then passed alone: {test}" for test in LISTED])
    assert all(line in out for line in tries)
    code, tries, out = run(tmp_path / "broken", BROKEN, workers)
    assert (code, len(tries)) == (1, 5)
    assert tries[0] == "failed twice: test_it.py::test_is_broken"
    assert "assert 1 == 2" in out.partition("short test summary")[2]


@pytest.mark.slow
def test_nothing_else_does(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_it(n):\n    assert 1 == 2\n"
    done = [
        run(tmp_path / "many", many, "2"),
        run(tmp_path / "module", CHANCE, "2", other="import nothing\n"),
        run(tmp_path / "stopped", CHANCE, "2", "-x"),
        run(tmp_path / "crash", CRASHES, "2"),
    ]
    for code, tries, _ in done:
        assert code != 0
        assert tries == []
