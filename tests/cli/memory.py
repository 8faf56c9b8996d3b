from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def done(run: Callable[..., Any], *arguments: object) -> Any:
    """Run `warmstart memory`, which must succeed."""
    ran = run("memory", *arguments)
    assert ran.code == 0, ran.err
    return ran


def data(run: Callable[..., Any], *arguments: object) -> Any:
    """The JSON it printed."""
    return json.loads(done(run, *arguments, "--json").out)
