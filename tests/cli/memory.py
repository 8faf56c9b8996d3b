from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def done(run: Callable[..., Any], *arguments: object) -> Any:
    """What `warmstart memory` did, which must have gone well."""
    ran = run("memory", *arguments)
    assert ran.code == 0, ran.err
    return ran


def data(run: Callable[..., Any], *arguments: object) -> Any:
    """What it printed as JSON."""
    return json.loads(done(run, *arguments, "--json").out)
