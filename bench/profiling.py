"""The time to profile a store, relative to importing it: the same sessions, in the same run.

Run with `make bench`. Figures are ratios, because machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"
SAMPLES = Path(__file__).resolve().parents[1] / "src" / "warmstart" / "samples"


def once(data: Path, database: Path) -> None:
    """Import, profile, profile again and report, and print the seconds as JSON. Runs in its own process."""
    from warmstart.profile.profiler import Profiler, profiled, update
    from warmstart.profile.store import SQLProfileStore
    from warmstart.sessions.sql_store import SQLiteSessionStore
    from warmstart.sessions.sync import path_sources, sync

    times = {}
    began = time.perf_counter()
    store = SQLiteSessionStore(database)
    sync(store, path_sources([data]))
    times["import"] = time.perf_counter() - began
    for name in ("profile", "again"):
        began = time.perf_counter()
        kept, profiler = SQLProfileStore(store), Profiler()
        number = update(store, kept, profiler)
        times[name] = time.perf_counter() - began
        assert (number > 0) == (name == "profile")
    began = time.perf_counter()
    from warmstart.profile.corpus import summarize

    times["load"] = time.perf_counter() - began
    began = time.perf_counter()
    sessions = list(profiled(store))
    times["read"] = time.perf_counter() - began
    began = time.perf_counter()
    summarize(sessions)
    times["report"] = time.perf_counter() - began
    store.close()
    print(json.dumps({**times, "sessions": len(sessions), "calls": sum(len(each.profile.calls) for each in sessions)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=DATA if DATA.is_dir() else SAMPLES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.data, options.once)
        return
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, str(options.data), "--once", str(Path(folder) / "store.db")]
            rounds.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    middle = {name: median(each[name] for each in rounds) for name in rounds[0]}
    print(f"profile: {middle['sessions']} sessions, {middle['calls']} calls, median of {options.rounds} rounds\n")
    print(f"{'':<28}{'seconds':>9}{'ratio':>9}  of")
    for label, name, base, limit in (
        ("import (the baseline)", "import", "import", ""),
        ("profile all of it", "profile", "import", "limit 0.5"),
        ("again, nothing new", "again", "profile", "limit 0.02"),
        ("load numpy and the report", "load", "import", ""),
        ("read the stored profiles", "read", "import", ""),
        ("report with intervals", "report", "import", ""),
    ):
        part = median(each[name] / each[base] for each in rounds)
        print(f"{label:<28}{middle[name]:>9.3f}{part:>9.3f}  {base}{limit and f' ({limit})'}")


if __name__ == "__main__":
    main()
