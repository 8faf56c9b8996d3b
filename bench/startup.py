"""How long `warmstart --help` and `warmstart mcp` take to start, compared with importing the library they build on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

WARMSTART = str(Path(sys.executable).with_name("warmstart"))
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def seconds_to_answer() -> float:
    """The time until the MCP server has answered the client's first request."""
    began = time.perf_counter()
    with subprocess.Popen([WARMSTART, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        took = time.perf_counter() - began
        server.stdin.close()
    assert answer["result"]["serverInfo"]["name"] == "warmstart"
    return took


def compare(baseline: str, ours: str, measure: Callable[[], float], limit: float, times: int) -> None:
    command = [sys.executable, "-c", baseline]
    pairs = [(seconds(command), measure()) for _ in range(times)]
    plain, took = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    print(f"{f'python -c {baseline!r}':26}  {plain * 1000:>6.0f}  {1:>6.2f}")
    print(f"{ours:26}  {took * 1000:>6.0f}  {took / plain:>6.2f}  (at most {limit})")


def main() -> None:
    print(f"{'':26}  {'ms':>6}  {'ratio':>6}")
    compare("import click", "warmstart --help", lambda: seconds([WARMSTART, "--help"]), 2.5, 20)
    compare("import mcp", "warmstart mcp, first answer", seconds_to_answer, 1.3, 10)


if __name__ == "__main__":
    main()
