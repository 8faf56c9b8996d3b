"""Whether Honcho's SDK is installed, without loading it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

MISSING = "memory at Honcho needs its SDK: pip install 'warmstart[honcho]'"


def is_installed() -> bool:
    """Whether the SDK is there; another package on PyPI, which starts processes, has the same module name."""
    try:
        spec = find_spec("honcho")
    except ValueError:  # something else has put a module of that name into the process
        return False
    return bool(spec and spec.origin and Path(spec.origin).with_name("conclusions.py").is_file())
