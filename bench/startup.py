"""How long `warmstart --help` takes, against the minimum for any program built on click."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

WARMSTART = Path(sys.executable).with_name("warmstart")


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    click = [sys.executable, "-c", "import click"]
    ours = [str(WARMSTART), "--help"]
    pairs = [(seconds(click), seconds(ours)) for _ in range(20)]
    plain, helped = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    print(f"{'':24}  {'ms':>6}  {'ratio':>6}")
    print(f"{'python -c import click':24}  {plain * 1000:>6.0f}  {1:>6.2f}")
    print(f"{'warmstart --help':24}  {helped * 1000:>6.0f}  {helped / plain:>6.2f}  (at most 2.5)")


if __name__ == "__main__":
    main()
