"""The example agent, against a scripted model."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import warmstart
from warmstart.sessions.marks import MARK, without_ours
from warmstart.testing.model import Reply, ScriptedModel

AGENT = Path(__file__).parents[1] / "examples" / "agent.py"
SAMPLE = "58e3c7d9-4a06-4f92-87bd-e91f0c2d6b34.jsonl"
TURNS = 50


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The example's `main`, in a project with history."""
    project = tmp_path / "tidewatch"
    project.mkdir()
    (project / "README.md").write_text("Tide tables for the harbour.\n")
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    samples = Path(warmstart.__file__).parent / "samples"
    log = tmp_path / SAMPLE
    log.write_text(next(samples.rglob(SAMPLE)).read_text().replace("/home/mara/tidewatch", str(project)))
    with warmstart.open() as ws:
        ws.sync([log])
    monkeypatch.chdir(project)
    monkeypatch.setenv("WARMSTART_AUTO_INJECT", "always")
    monkeypatch.setenv("WARMSTART_TEMPLATES_HOLDOUT", "0")
    main = runpy.run_path(str(AGENT))["main"]

    def run(model: ScriptedModel, *turns: str) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        main(list(turns))

    return run


def messages_of(model: ScriptedModel) -> list[list[dict[str, Any]]]:
    return [request.body["messages"] for request in model.requests]


def test_the_example_starts_warm_uses_tools_and_is_recorded(agent, capsys) -> None:
    script = [
        Reply(calls=[("read_file", {"input": "README.md"}), ("shell", {"input": "ls"})]),
        Reply(calls=[("shell", {"input": "rm -rf /"}), ("read_file", {"input": "/etc/passwd"})]),
        Reply(text="It holds tide tables."),
        Reply(text="You are welcome."),
    ]
    with ScriptedModel(script) as model:
        agent(model, "What is in the storm surge table? Never edit the README.", "thanks")
    first, second, third, last = messages_of(model)
    assert first[0]["content"].startswith("You are a careful engineer.")
    assert any(MARK in message["content"] for message in first[:-1])  # the brief
    assert [message["content"] for message in second[-2:]] == [
        "Tide tables for the harbour.\n",
        "README.md\n\nExit code: 0",
    ]
    assert all(message["content"].startswith("Error: not allowed.") for message in third[-2:])
    assert last[-1] == {"role": "user", "content": "thanks"}
    assert capsys.readouterr().out == "It holds tide tables.\nYou are welcome.\n"
    with warmstart.open() as ws:
        session = next(row for row in ws.sessions.list(project=".") if row.session.agent == "warmstart")
        texts = [message.text for message in ws.sessions.messages(session.session.id)]
    assert session.tool_calls == 4
    assert texts[0].startswith("You are a careful engineer.")
    assert texts[1] == "What is in the storm surge table? Never edit the README."
    assert not any(MARK in text for text in texts)


def test_fifty_turns_leave_the_cached_prefix_as_it_was(agent) -> None:
    script = [
        Reply(calls=[("shell", {"input": "ls"})], when="turn 7"),
        Reply(calls=[("shell", {"input": "pytest nothing_here"})], when="turn 30"),
        Reply(text="Noted.", repeat=True),
    ]
    said = (
        "the storm surge table",
        "how did we fix the failing tide test last time",
        "the harbour levels in src/levels.py",
    )
    turns = [f"turn {number}: {said[number % len(said)]}" for number in range(TURNS)]
    with ScriptedModel(script) as model:
        agent(model, *turns)
    requests = messages_of(model)
    assert len(requests) == TURNS + 2
    overlays = 0
    for earlier, later in pairwise(requests):
        # Whatever stands before the tail of its last user message, a provider has seen in the same bytes before.
        place = max(number for number, message in enumerate(earlier) if message["role"] == "user")
        assert json.dumps(earlier[:place]) == json.dumps(later[:place])
        own = without_ours(earlier[place]["content"]).rstrip()
        overlays += own != earlier[place]["content"]
        assert earlier[place]["content"].startswith(own)
        assert later[place]["content"] in (earlier[place]["content"], own)
        assert any(own == turn for turn in turns)
    assert overlays >= 2
