"""Whether the whole is sound, in seconds: every package does its main work once, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warmstart

SAMPLES = Path(warmstart.__file__).parent / "samples"
PROJECT = "/home/mara/tidewatch"
STEPS = {
    "sync": (["sync", "--path", str(SAMPLES)], "8 logs read"),
    "brief": (["brief", "--project", PROJECT, "--task", "keep the storm warnings in the database"], "make check"),
    "recall": (["recall", "where are the constants of the Port Ellery gauge", "--all-projects"], "port-ellery.md"),
    "extract": (["templates", "extract", "58e3c7d9", "--name", "surges"], "surges"),
    "start": (["templates", "test", "surges", "keep the storm warnings in the database"], "make check"),
    "remember": (["memory", "set", "editor", "vim"], "editor"),
    "handoff": (["handoff", "packet", "a94be6f3"], "Handoff packet"),
    "hook": (["hook", "claude-code", "SessionStart"], "additionalContext"),
    "doctor": (["doctor"], "8 sessions"),
}


def test_the_essential_works(tmp_path: Path, subtests: pytest.Subtests) -> None:
    started = {"session_id": "now", "cwd": PROJECT, "source": "startup", "hook_event_name": "SessionStart"}
    for name, (arguments, expected) in STEPS.items():
        with subtests.test(name):
            done = subprocess.run(
                [sys.executable, "-m", "warmstart", *arguments],
                input=json.dumps(started),
                capture_output=True,
                text=True,
                env=os.environ | {"WARMSTART_HOME": str(tmp_path / "warm")},
            )
            assert done.returncode == 0, done.stderr
            assert expected in done.stdout + done.stderr
