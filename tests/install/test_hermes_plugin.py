"""The plugin inside Hermes, on the few modules of Hermes that it imports. `tests/hosts` has the real Hermes."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

import pytest

from warmstart.hosts.hermes_plugin import Plugin

MODULES = {
    "hermes_cli/__init__.py": "",
    "hermes_cli/config.py": "def load_config():\n    return {}\n",
    "hermes_constants.py": "def get_hermes_home():\n    return '/nowhere'\n",
    "agent/__init__.py": "",
    "agent/runtime_cwd.py": "def resolve_agent_cwd():\n    return '/nowhere'\n",
}
SUMMARY = {"role": "user", "content": "[CONTEXT COMPACTION] what happened so far"}


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """A plugin whose process notes the event that it is asked about."""
    for name, code in MODULES.items():
        path = tmp_path / "hermes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py").removesuffix("/__init__").replace("/", "."), False)
    monkeypatch.syspath_prepend(tmp_path / "hermes")
    code = f"import sys; open({str(tmp_path / 'events')!r}, 'a').write(sys.argv[3] + '\\n'); print('{{}}')"
    return Plugin([sys.executable, "-c", code], "")


def events(tmp_path: Path) -> list[str]:
    path = tmp_path / "events"
    return path.read_text().split() if path.exists() else []


def test_a_compaction_is_noticed_once(plugin: Plugin, tmp_path: Path) -> None:
    for history in ([], [SUMMARY], [SUMMARY]):
        plugin.after_turn(session_id="s1", conversation_history=history)
    assert events(tmp_path) == ["compacted"]


def test_a_review_in_the_background_is_no_compaction(plugin: Plugin, tmp_path: Path) -> None:
    plugin.after_turn(session_id="s1", conversation_history=[SUMMARY])
    review = Thread(target=plugin.after_turn, kwargs={"session_id": "s1"}, name="bg-review")
    review.start()
    review.join()
    plugin.after_turn(session_id="s1", conversation_history=[SUMMARY])
    assert events(tmp_path) == []


def test_a_session_that_ended_takes_no_memory(plugin: Plugin, tmp_path: Path) -> None:
    plugin.subagents.add("s1")
    plugin.after_turn(session_id="s2", conversation_history=[SUMMARY])
    for session in ("s1", "s2"):
        plugin.end(session_id=session)
    assert (plugin.subagents, plugin.summaries) == (set(), {})
    assert events(tmp_path) == ["end", "end"]
