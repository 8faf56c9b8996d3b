"""A log of hook runs: one line per run, in `$WARMSTART_HOME/hosts/HOST.jsonl`.

Every hook loads this module, so it imports almost nothing. The file and its predecessor hold the last few hundred runs.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

MAX_BYTES = 32_768  # of each of the two files
_MAX_ERROR = 200  # characters


def record(home: str, host: str, event: str, ms: float, error: str = "") -> None:
    """Record a hook run. `error` must not contain text of the session. Never raises."""
    path = f"{home}/hosts/{host}.jsonl"
    data: dict[str, Any] = {"at": round(time.time(), 3), "event": event[:40], "ms": round(ms, 1)}
    if error:
        data["error"] = " ".join(error.split())[:_MAX_ERROR]
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            os.write(file, json.dumps(data).encode() + b"\n")
            full = os.fstat(file).st_size > MAX_BYTES
        finally:
            os.close(file)
        if full:
            os.replace(path, f"{path}.1")  # noqa: PTH105 - pathlib is slow to load
    except OSError:
        return  # not writable, or not installed: the agent's turn goes on


def names(host: str) -> tuple[str, str]:
    """The names of the two files, the older one first."""
    return f"{host}.jsonl.1", f"{host}.jsonl"


def read(home: Path, host: str) -> list[dict[str, Any]]:
    """The last runs, oldest first: `at` (seconds since 1970), `event`, `ms`, and `error` if there was one."""
    runs: list[dict[str, Any]] = []
    for name in names(host):
        try:
            lines = (home / "hosts" / name).read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                run = json.loads(line)
                runs.append({**run, "at": float(run["at"]), "event": str(run["event"]), "ms": float(run["ms"])})
            except (ValueError, TypeError, KeyError):
                continue  # damaged
    return runs
