"""The CPU time of commands that a user or an agent waits for, in units of `python -c pass`: the median of 20 runs."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

from cpu import python_start

RUNS = 20
WARMSTART = str(Path(sys.executable).with_name("warmstart"))
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
TOOLS = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]

# The command, what it does, what it reads, and the limit in units.
ROWS = (
    ("--help", "", "", 4),
    ("mcp", "until tools/list", "".join(json.dumps(message) + "\n" for message in TOOLS), 6),
)


def seconds(command: str, text: str) -> float:
    """The CPU time of a command that reads this text."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([WARMSTART, command], input=text, stdout=subprocess.PIPE, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "recall" in done.stdout
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    print(f"{'':34}{'ms':>6}{'units':>7}{'limit':>7}")
    for command, what, text, limit in ROWS:
        seconds(command, text)  # Python caches the byte code
        pairs = [(python_start(), seconds(command, text)) for _ in range(RUNS)]
        unit, took = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
        print(f"{f'warmstart {command} {what}':34}{took * 1000:>6.0f}{took / unit:>7.2f}{limit:>7}")


if __name__ == "__main__":
    main()
