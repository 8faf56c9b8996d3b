"""CPU time in units of `python -c pass`: ratios can be compared between machines.

Other load slows down everything for a while, so the unit is measured before and after, or in between.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

STARTS = 8  # before, and as many after


class Percentiles(NamedTuple):
    """Of a series of CPU times, in units."""

    p50: float
    p95: float
    unit: float  # in seconds

    @classmethod
    def of(cls, seconds: Sequence[float], starts: Sequence[float]) -> Percentiles:
        """`starts` are the CPU times of a Python that does nothing."""
        unit = median(starts)
        return cls(median(seconds) / unit, quantiles(seconds, n=20)[-1] / unit, unit)

    @property
    def spread(self) -> float:
        return self.p95 / self.p50


def seconds_of_child(command: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """The CPU time of a child process with its own children."""
    before = _seconds_of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    return _seconds_of_children() - before


def seconds_with_children() -> float:
    """The CPU time that this process and its finished children have used so far."""
    return time.process_time() + _seconds_of_children()


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def python_start() -> float:
    """The CPU time of a Python that does nothing."""
    return seconds_of_child([sys.executable, "-c", "pass"])


def python_starts() -> list[float]:
    return [python_start() for _ in range(STARTS)]


def seconds_of_process(pid: int) -> float:
    """The CPU time that another process has used so far, for Linux."""
    nanoseconds = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]
    return int(nanoseconds) / 1e9
