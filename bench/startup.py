"""The CPU time of commands that a user or an agent waits for, in units of `python -c pass`: the median of 20 runs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import warmstart
from cpu import python_start
from warmstart.hosts.hook import CODE

RUNS = 20
WARMSTART = str(Path(sys.executable).with_name("warmstart"))
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
TOOLS = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]

# The command, what it does, what it reads, what it shows, and the limit in units.
ROWS = (
    ("--help", "", "", "recall", 4),
    ("--version", "", "", "warmstart", 4),
    ("mcp", "until tools/list", "".join(json.dumps(message) + "\n" for message in TOOLS), "recall", 6),
)

# The start of a session: how agents name the event and its fields.
STARTS = (
    ("claude-code", "SessionStart", "session_id"),
    ("codex", "SessionStart", "session_id"),
    ("gemini-cli", "SessionStart", "session_id"),
    ("copilot-cli", "sessionStart", "sessionId"),
    ("opencode", "start", "session_id"),
)
START_LIMIT = 5
SESSIONS = 80
COMMAND = "make tides"
SAMPLE = next(Path(warmstart.__file__).with_name("samples").glob("claude-code/**/*.jsonl"))


def seconds(command: list[str], text: str, shown: str) -> float:
    """The CPU time of a command that reads this text, and shows that one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown in done.stdout, done.stdout
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(home: Path, project: Path) -> None:
    """Make a store with sessions of one project."""
    (project / ".git").mkdir(parents=True)
    with warmstart.open(home=home) as ws:
        for number in range(SESSIONS):
            run = ws.begin(f"past-{number}", project=str(project))
            call = {"id": f"{number}", "function": {"name": "bash", "arguments": json.dumps({"command": COMMAND})}}
            run.record({"role": "user", "content": f"Run `{COMMAND}` and fix harbour {number}."})
            run.record({"role": "assistant", "content": "", "tool_calls": [call]})
            run.record({"role": "tool", "tool_call_id": call["id"], "content": "1 passed"})
        ws.update()


def starts(project: Path) -> Iterator[tuple[str, list[str], str]]:
    for host, event, name in STARTS:
        command = [sys.executable, "-EPc", CODE, "hook", host, event]
        yield f"{host} {event}", command, json.dumps({name: f"bench-{host}", "cwd": str(project)})


def repeated(user: Path, project: Path) -> Iterator[tuple[str, list[str], str, int]]:
    """Commands that have nothing new to do. The logs are older than a first sync has to suspect."""
    folder = user / ".claude" / "projects" / "-tides"
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        (folder / f"{number}.jsonl").write_bytes(SAMPLE.read_bytes())
    for path in (folder.parent, folder):
        os.utime(path, (1, 1))
    subprocess.run([WARMSTART, "sync"], stdout=subprocess.DEVNULL, check=True)
    log = str(folder / "0.jsonl")
    yield "warmstart sync, nothing new", [WARMSTART, "sync"], f"0 logs read, {SESSIONS} unchanged", 5
    background = [sys.executable, "-EPc", CODE, "sync", "--format", "claude-code", "--path", log]
    yield "sync of a hook, nothing new", background, "0 logs read, 1 unchanged", 5
    brief = [WARMSTART, "brief", "--project", str(project)]
    subprocess.run(brief, stdout=subprocess.DEVNULL, check=True)
    yield "warmstart brief", brief, COMMAND, 8


def measure(label: str, command: list[str], text: str, shown: str, limit: int) -> None:
    seconds(command, text, shown)  # Python caches the byte code
    pairs = [(python_start(), seconds(command, text, shown)) for _ in range(RUNS)]
    unit, took = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    print(f"{label:34}{took * 1000:>6.0f}{took / unit:>7.2f}{limit:>7}")


def main() -> None:
    print(f"{'':34}{'ms':>6}{'units':>7}{'limit':>7}")
    for command, what, text, shown, limit in ROWS:
        measure(f"warmstart {command} {what}", [WARMSTART, command], text, shown, limit)
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        os.environ |= {"WARMSTART_HOME": str(home), "HOME": str(Path(folder, "user"))}
        fill(home, project)
        for label, command, shown, limit in repeated(Path(folder, "user"), project):
            measure(label, command, "", shown, limit)
        for label, command, text in starts(project):
            measure(label, command, text, COMMAND, START_LIMIT)


if __name__ == "__main__":
    main()
