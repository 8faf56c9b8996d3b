"""Runs each failed test once more, alone, and fails only if it fails again: `pytest -p tests.second_try`.

There is no second try after an interruption, a crash of a worker or a module that cannot be imported, and none for so
many tests that it is no chance.
Every second try is printed, and appended to the file that SECOND_TRIES names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST = 20


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondTry(config))


class SecondTry:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failed: list[str] = []
        self.is_whole = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.is_whole = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        if error:
            self.is_whole = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        if session.shouldfail or session.shouldstop:
            self.is_whole = False
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or not self.is_whole:
            return
        if not 0 < len(self.failed) <= MOST:
            return
        results = [self.passes_alone(test) for test in self.failed]
        if all(results):
            session.exitstatus = pytest.ExitCode.OK

    def passes_alone(self, test: str) -> bool:
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:tests.second_try", "-p", "no:cacheprovider"]
        if profile := self.config.getoption("--hypothesis-profile", None):
            command += ["--hypothesis-profile", profile]
        done = subprocess.run(
            [*command, test],
            cwd=self.config.rootpath,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        passes = done.returncode == 0
        said = f"failed, then passed alone: {test}" if passes else f"failed twice: {test}"
        print("" if passes else done.stdout, said, sep="\n", flush=True)
        if path := os.environ.get("SECOND_TRIES"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(said + "\n")
        return passes
