"""The first line that `make test` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SELECTION = ["-m", "not slow and hypothesis", "tests/text/test_scanner.py", "tests/text/test_truncate.py"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_first_line_says_how_many_tests_there_are_and_how_long_they_take(tmp_path: Path, workers: str) -> None:
    lines = []
    for usual in ("a minute", "a minute", ""):
        command = [sys.executable, "-m", "pytest", "-n", workers, "-o", f"cache_dir={tmp_path}", *SELECTION]
        env = os.environ | {"TESTS_TAKE": usual}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        lines.append(done.stdout.splitlines())
    assert lines[0][0] == "3 tests; usual time: a minute"
    assert lines[1][0].startswith("3 tests; time of the last run: 0:")
    assert lines[2][0] == "3 tests"
    assert "3 passed" in lines[0][-1]
    assert lines[0][-1].endswith("=")
