"""What Claude Code's model is told after a compaction, computed from the transcript alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import warmstart
from tests.preflight.test_hook import context, run_hook
from tests.sessions.logs import turn, write
from warmstart.sessions.marks import END, MARK

SAMPLES = Path(warmstart.__file__).parent / "samples" / "claude-code"
SECRET = "ghp_" + "Zq7Lk2" * 6


def after_compaction(transcript: Path) -> str:
    event = {"session_id": "now", "cwd": "/nowhere", "source": "compact", "transcript_path": str(transcript)}
    return context(run_hook("SessionStart", event))


def edit(line: dict[str, Any], path: str) -> dict[str, Any]:
    """The line of a call, as one that writes a file."""
    text = json.dumps(line).replace('"Bash"', '"Write"')
    return dict(json.loads(text.replace('{"command": "echo', f'{{"file_path": "{path}", "content": "echo')))


def test_constraints_goal_and_files_come_back_without_a_store(home: Path) -> None:
    (log,) = SAMPLES.rglob("58e3c7d9*.jsonl")
    text = after_compaction(log)
    assert text.startswith(MARK)
    assert text.endswith(END)
    parts = [text.index(title) for title in ("## Constraints of the user", "## Goal", "## Files\n", "## Tests")]
    assert parts == sorted(parts)
    assert "src/tidewatch/store.py" in text[parts[2] :]
    assert not (home / ".warmstart" / "warmstart.db").exists()


def test_many_files_do_not_push_the_constraints_out(tmp_path: Path, home: Path) -> None:
    rule = "Never touch the files under vendor/."
    lines = turn("s", 0, text=f"Chart every harbour. {rule} The key is {SECRET}, never print it.")
    for number in range(1, 400):
        request, call, *rest = turn("s", number, text=f"Now harbour {number}.")
        lines += [request, edit(call, f"/home/mara/tidewatch/charts/{'deep/' * 8}harbour{number}.md"), *rest]
    text = after_compaction(write(tmp_path, "s", lines))
    assert 8_000 < len(text) < 9_000
    assert f"- {rule} (#1)" in text
    assert "Chart every harbour." in text
    assert "Now harbour 399." in text
    assert "harbour399.md" in text
    assert SECRET not in text


def test_constraints_come_before_a_long_goal_and_the_rest_is_counted(tmp_path: Path, home: Path, subtests) -> None:
    words = "the chart of the northern harbours that the almanac of the year before had left out"
    for amount in (20, 60, 90, 150):
        with subtests.test(amount):
            rules = [f"Never move buoy {number} in {words}." for number in range(amount)]
            pages = "\n".join(f"Page {number} tells of gauges and tides." for number in range(400))
            lines = [*turn("s", 0, text="\n".join(rules)), *turn("s", 1, text=f"Sort these pages.\n{pages}\nThanks.")]
            text = after_compaction(write(tmp_path / str(amount), "s", lines))
            assert len(text) < 9_000
            shown = sum(f"- {rule} (#1)" in text for rule in rules)
            assert shown == amount or f"({amount - shown} more: `warmstart handoff packet" in text
            assert shown >= min(amount, 60)
            assert "## Goal" in text


def test_a_conversation_without_words_of_the_user_gets_nothing(tmp_path: Path, home: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    for transcript in (empty, tmp_path / "missing.jsonl"):
        assert after_compaction(transcript) == ""
