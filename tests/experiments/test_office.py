"""The tasks of the experiment with a real model: each can be solved, and the programme runs on a scripted one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

OFFICE = Path(__file__).parents[2] / "bench" / "warm_vs_cold"

SOLVE = """
import json, re, sys
sys.path.insert(0, sys.argv[1])
import tasks
from world import DOCUMENTS, ToolFailure

def solve(key, job):
    part, type_, number = key.split("-")
    world, data = job.world(), int(number)
    assert not job.verify(world), key
    if type_ == "research":
        fact = tasks.FACTS[part][data][1]
        assert any(re.search(rf"\\\\b{fact}\\\\b", text) for _, _, text in DOCUMENTS.values()), key
        world.call("return_answer", {"answer": f"It is {fact}."})
    elif type_ in ("code", "file"):
        path = next(iter(world.files))
        if type_ == "code":
            _, old, new, _ = tasks.BUGS[part][data]
        else:
            _, setting, *values = tasks.SETTINGS[part][data]
            old, new = (f"{setting} = {value}" for value in values)
        try:
            world.call("edit_file", {"path": path, "old": old, "new": new})
            raise AssertionError("edited without reading")
        except ToolFailure:
            pass
        world.call("read_file", {"path": path})
        world.call("edit_file", {"path": path, "old": old, "new": new})
        world.call("check_file", {"path": path, "level": "strict"})
        world.call("return_answer", {"answer": "done"})
    else:
        order, _, date, kind, euros, amount, status = tasks.ENTRIES[part][data]
        assert amount == round(float(euros) * 100), key
        world.call("add_entry", {"kind": kind, "order": f"ORD-{order:05}", "date": date, "amount": amount})
        world.call("update_order", {"id": f"ORD-{order:05}", "status": status})
        world.call("return_answer", {"answer": "done"})
    return job.verify(world)

found = {key: solve(key, job) for key, job in tasks.BY_ID.items()}
call = tasks.read_call('Sure:\\\\n```json\\\\n{"name": "get_order", "arguments": {"id": "ORD-00001"}}\\\\n```')
print(json.dumps({"solved": found, "requests": [job.request for job in tasks.BY_ID.values()], "call": call.function}))
"""


def test_every_task_can_be_solved_and_is_not_solved_by_doing_nothing():
    script = SOLVE.replace("\\\\", "\\")
    done = subprocess.run([sys.executable, "-c", script, str(OFFICE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found["solved"].values()), [key for key, value in found["solved"].items() if not value]
    evaluation = [key for key in found["solved"] if key.startswith("evaluation")]
    assert len(evaluation) >= 40
    assert len({key.split("-")[1] for key in evaluation}) == 4
    assert len(set(found["requests"])) == len(found["requests"])  # none is in the source too
    assert found["call"] == "get_order"


@pytest.mark.slow
def test_the_programme_runs_on_a_scripted_model(tmp_path):
    command = [sys.executable, str(OFFICE / "run.py"), "--folder", str(tmp_path), "--scripted", "--limit"]
    first = subprocess.run([*command, "12"], capture_output=True, text=True, check=False, timeout=500)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "4 source sessions succeeded" in first.stdout
    assert "| brief-template |" in first.stdout
    again = subprocess.run([*command, "3"], capture_output=True, text=True, check=False, timeout=500)
    assert "source source-" not in again.stdout  # what was run is not run again
    assert "3 of 3 sessions" in again.stdout
