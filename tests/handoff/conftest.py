from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import warmstart
from warmstart import Warmstart


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warmstart]:
    store: str | Path = tmp_path / "store.db"
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_url")
    with warmstart.open(store, home=tmp_path / "warm") as ws:
        yield ws
