"""What `make hook-changes` reports, on a program that describes its hooks as Claude Code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts import hook_changes
from warmstart.hosts.install import host_module

STOP = 'x=c({hook_event_name:T("Stop"),active:O().describe("a, b: c"),calls:C({tool:r()}).optional()});'
START = 'y=c({hookEventName:T("SessionStart"),additionalContext:r()});'


def test_new_and_removed_hooks_and_fields_are_shown(tmp_path: Path, monkeypatch, capsys) -> None:
    program = tmp_path / "claude-2" / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64" / "claude"
    program.parent.mkdir(parents=True)
    monkeypatch.setattr(hook_changes, "KNOWN", tmp_path / "hooks.txt")
    program.write_bytes(b"\0\xff" + STOP.encode() + b"\0")
    hook_changes.main(tmp_path, write=True)
    assert (tmp_path / "hooks.txt").read_text() == "claude-code Stop in: active calls hook_event_name\n"
    capsys.readouterr()
    assert hook_changes.main(tmp_path, write=False) == 0
    assert "No hook has changed." in capsys.readouterr().out
    program.write_text(STOP.replace("active:", "is_active:") + START)
    assert hook_changes.main(tmp_path, write=False) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "-claude-code Stop in: active calls hook_event_name",
        "+claude-code SessionStart out: additionalContext hookEventName",
        "+claude-code Stop in: calls hook_event_name is_active",
    ]


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini-cli"])
def test_the_hooks_that_we_install_exist(host: str) -> None:
    known = hook_changes.KNOWN.read_text().replace("-", "").lower()
    for event in host_module(host).EVENTS:
        assert f"{host} {event}".replace("-", "").lower() in known
