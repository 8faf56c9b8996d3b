"""What a hook that hangs costs: an agent waits for starts and prompts, and hardly for anything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warmstart.hosts import claude_code, codex, copilot_cli, gemini_cli
from warmstart.hosts.install import Place, host_module

STARTS = {"SessionStart", "sessionStart"}
BEFORE_COMPACTION = {"PreCompact"}  # reads the whole log; the compaction takes longer


@pytest.mark.parametrize(
    ("host", "second"), [(claude_code, 1), (codex, 1), (copilot_cli, 1), (gemini_cli, 1000)], ids=lambda host: str(host)
)
def test_only_starts_and_prompts_may_take_two_seconds(host, second: int) -> None:
    for event, timeout in host.EVENTS.items():
        assert timeout == (2 * second if event in STARTS | BEFORE_COMPACTION | {host.PROMPT} else second), event


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_agent_waits_only_for_what_must_not_be_lost(host: str, tmp_path: Path) -> None:
    file = host_module(host).files(Place(tmp_path, {}))[0]
    background = {str(entry.keys[1]) for entry in file.entries for hook in entry.value["hooks"] if hook.get("async")}
    assert (
        background
        == {"claude-code": {"PostToolUseFailure", "PostToolBatch", "PostCompact"}, "codex": {"PostToolUse"}}[host]
    )


def test_the_plugin_of_opencode_waits_no_longer() -> None:
    text = Path(claude_code.__file__).with_name("opencode_files").joinpath("plugin.js").read_text("utf-8")
    assert sorted({int(number.replace("_", "")) for number in re.findall(r"\d_\d{3}", text)}) == [1000, 2000]
