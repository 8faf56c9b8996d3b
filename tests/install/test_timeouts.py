"""What a hook that hangs costs: an agent waits for starts and prompts, and hardly for anything else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from warmstart.hosts import claude_code, codex, copilot_cli, gemini_cli
from warmstart.hosts.install import Place

STARTS = {"SessionStart", "sessionStart"}
BEFORE_COMPACTION = {"PreCompact"}  # reads the whole log; the compaction takes longer


@pytest.mark.parametrize(
    ("host", "second"), [(claude_code, 1), (codex, 1), (copilot_cli, 1), (gemini_cli, 1000)], ids=lambda host: str(host)
)
def test_only_starts_and_prompts_may_take_two_seconds(host, second: int) -> None:
    for event, timeout in host.EVENTS.items():
        assert timeout == (2 * second if event in STARTS | BEFORE_COMPACTION | {host.PROMPT} else second), event


@pytest.mark.parametrize(
    ("version", "background"),
    [("2.1.327", {"PostToolUseFailure", "PostToolBatch", "PostCompact"}), ("2.1.0", {"PostCompact"})],
)
def test_claude_code_waits_for_no_command_whose_text_comes_otherwise(version, background, tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n", encoding="utf-8")
    program.chmod(0o755)
    (file, *_) = claude_code.files(Place(tmp_path, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}))
    hooks = [(entry.keys[1], hook) for entry in file.entries for hook in entry.value["hooks"]]
    assert {event for event, hook in hooks if hook.get("async")} == background


def test_the_plugin_of_opencode_waits_no_longer() -> None:
    text = Path(claude_code.__file__).with_name("opencode_files").joinpath("plugin.js").read_text("utf-8")
    assert sorted({int(number.replace("_", "")) for number in re.findall(r"\d_\d{3}", text)}) == [1000, 2000]
