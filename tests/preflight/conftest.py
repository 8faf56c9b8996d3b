from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import warmstart
from warmstart import Run, Warmstart

Session = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that agents work in."""
    folder = tmp_path / "harbour"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture(params=["sqlite", "postgres"])
def ws(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warmstart]:
    monkeypatch.setenv("WARMSTART_AUTO_INJECT", "smart")
    store: str | Path = tmp_path / "store.db"
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_url")
    with warmstart.open(store, home=tmp_path / "warm") as opened:
        opened.settings = replace(opened.settings, preflight_deadline_ms=60_000)  # a busy machine is no fault of ours
        yield opened


@pytest.fixture
def session(ws: Warmstart, project: Path) -> Session:
    """Record a session: a request, calls with their results, and a reply."""

    def record(
        name: str,
        asked: str,
        *calls: tuple[str, str, str],
        reply: str = "Done.",
        folder: Path | None = None,
    ) -> str:
        with ws.begin(name, project=str(folder or project)) as run:
            talk(run, asked, *calls, reply=reply)
        return next(row.id for row in ws.sessions.list(project=None) if row.session.native_id == name)

    return record


def talk(run: Run, asked: str, *calls: tuple[str, str, str], reply: str = "Done.") -> None:
    """One turn: a request, calls as (tool, arguments, result), and a reply."""
    run.record({"role": "user", "content": asked})
    for number, (tool, arguments, result) in enumerate(calls):
        call = {"id": f"{run.session_id}-{number}", "function": {"name": tool, "arguments": arguments}}
        run.record({"role": "assistant", "content": "", "tool_calls": [call]})
        run.record({"role": "tool", "tool_call_id": call["id"], "content": result})
    run.record({"role": "assistant", "content": reply})
