"""The sample sessions, checked as plain JSON: they contain what the demo shows."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import warmstart

SAMPLES = Path(warmstart.__file__).parent / "samples"
CLAUDE = SAMPLES / "claude-code" / "projects" / "-home-mara-tidewatch"
FIRST = CLAUDE / "3f0c1d52-7b8e-4e0a-9c41-5d2ab6f0e917.jsonl"
LATE = CLAUDE / "a94be6f3-20d5-4c7e-8f1b-63c07d9e2a48.jsonl"
RESUMED = CLAUDE / "d17f5a80-9e64-4b2c-b0c3-4f8e21a7c659.jsonl"
BEST = CLAUDE / "58e3c7d9-4a06-4f92-87bd-e91f0c2d6b34.jsonl"
LOGS = sorted(path for path in SAMPLES.rglob("*") if path.suffix in (".json", ".jsonl"))


def records(path):
    if path.suffix == ".json":
        return json.loads(path.read_text())["messages"]
    return [json.loads(line) for line in path.read_text().splitlines()]


def blocks(path, kind):
    for record in records(path):
        content = record.get("message", {}).get("content")
        for block in content if isinstance(content, list) else []:
            if block["type"] == kind:
                yield block


def commands(path):
    return [block["input"]["command"] for block in blocks(path, "tool_use") if block["name"] == "Bash"]


def errors(path):
    return [block["content"] for block in blocks(path, "tool_result") if block.get("is_error")]


def test_there_are_seven_sessions_and_a_subagent_in_four_formats():
    found = Counter(path.relative_to(SAMPLES).parts[0] for path in LOGS)
    assert found == {"claude-code": 5, "codex": 1, "gemini-cli": 1, "openai": 1}
    assert sum("subagents" in path.parts for path in LOGS) == 1
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 300_000


def test_every_sample_is_whole_and_from_september(subtests):
    for path in LOGS:
        with subtests.test(path.stem[:18]):
            assert path.read_text().endswith("\n")
            times = [datetime.fromisoformat(record["timestamp"]) for record in records(path) if "timestamp" in record]
            assert times == sorted(times)
            assert datetime(2026, 9, 1, tzinfo=UTC) < times[0] < times[-1] < datetime(2026, 10, 1, tzinfo=UTC)


def test_every_claude_code_call_has_its_result_and_every_parent_exists(subtests):
    for path in sorted(CLAUDE.rglob("*.jsonl")):
        with subtests.test(path.stem[:18]):
            calls = [block["id"] for block in blocks(path, "tool_use")]
            results = [block["tool_use_id"] for block in blocks(path, "tool_result")]
            known = {record["uuid"] for record in records(path) if "uuid" in record}
            parents = [record.get("parentUuid") for record in records(path)]
            opens_with_copies = path == RESUMED
            assert sorted(calls) == sorted(results)
            assert len(set(calls)) == len(calls)
            assert sum(parent is not None and parent not in known for parent in parents) == opens_with_copies
    # One message of the API spans several lines.
    ids = Counter(record["message"]["id"] for record in records(FIRST) if record["type"] == "assistant")
    assert max(ids.values()) > 1


def test_people_places_and_the_one_secret_are_invented():
    text = "".join(path.read_text() for path in LOGS)
    assert set(re.findall(r"/home/(\w+)", text)) == {"mara"}
    assert set(re.findall(r"https://([\w.]+)", text)) <= {"git.example.com"}
    assert "@gmail" not in text
    # One secret is planted, and it opens nothing.
    found = [(path, line) for path in LOGS for line in path.read_text().splitlines() if "AKIA" in line]
    assert [path for path, _ in found] == [LATE]
    assert set(re.findall(r"AKIA\w+", found[0][1])) == {"AKIAT1DEWATCHSAMPLE0"}


def test_the_first_session_makes_the_mistakes_and_hears_the_rules():
    failed = "\n".join(errors(FIRST))
    said = [r["message"]["content"] for r in records(FIRST) if isinstance(r.get("message", {}).get("content"), str)]
    for mistake in ("has not been read yet", "String to replace not found", "externally-managed", "ECONNREFUSED"):
        assert mistake in failed
    assert any("use uv, not pip" in text for text in said)
    assert any("always run make check before you commit" in text for text in said)


def test_codex_has_a_rejection_and_a_recovery_from_a_wrong_flag():
    [rollout] = (SAMPLES / "codex" / "sessions" / "2026" / "09").rglob("rollout-*.jsonl")
    payloads = [record["payload"] for record in records(rollout)]
    outputs = [payload["output"] for payload in payloads if payload.get("type", "").endswith("_output")]
    codes = Counter(re.findall(r"exited with code (\d+)", "\n".join(outputs)))
    assert sum("rejected by user" in output for output in outputs) == 1
    assert any("unrecognized arguments: --auto" in output for output in outputs)
    assert codes["1"] == 1
    assert codes["2"] == 1
    assert any("never touch migrations by hand" in str(payload.get("message", "")) for payload in payloads)


def test_one_session_has_a_compaction_a_rejection_and_a_subagent_and_is_resumed():
    boundary = [record for record in records(LATE) if record.get("subtype") == "compact_boundary"]
    summaries = [record for record in records(LATE) if record.get("isCompactSummary")]
    [subagent] = (LATE.with_suffix("") / "subagents").iterdir()
    assert len(boundary) == len(summaries) == 1
    assert sum("doesn't want to proceed" in text for text in errors(LATE)) == 1
    assert sum(block["name"] == "Task" for block in blocks(LATE, "tool_use")) == 1
    assert all(record["isSidechain"] and record["sessionId"] == LATE.stem for record in records(subagent))
    # The resumed session opens with copies that keep their ids.
    before = {record["uuid"]: record for record in records(LATE) if "uuid" in record}
    copies = [record for record in records(RESUMED) if record.get("uuid") in before]
    assert len(copies) > 10
    assert all(record == before[record["uuid"]] for record in copies)
    assert {record["sessionId"] for record in records(RESUMED) if "sessionId" in record} == {LATE.stem, RESUMED.stem}


def test_gemini_and_the_duty_assistant_are_denied_once_each():
    [gemini] = (SAMPLES / "gemini-cli").rglob("session-*.json")
    states = Counter(call["status"] for message in records(gemini) for call in message.get("toolCalls", []))
    duty = [message["content"] for message in records(SAMPLES / "openai" / "tidebot-2026-09-14.json")]
    assert states["cancelled"] == 1
    assert states["error"] == 1
    assert sum(str(text).startswith("User denied") for text in duty) == 1


def test_the_last_session_keeps_every_rule_fails_nothing_and_reads_before_it_edits():
    ran = commands(BEST)
    names = [block["name"] for block in blocks(BEST, "tool_use")]
    last_edit = max(place for place, name in enumerate(names) if name in ("Edit", "Write"))
    bash_after = ran[names[: last_edit + 1].count("Bash") :]
    check, commit = bash_after.index("make check"), next(i for i, c in enumerate(bash_after) if "git commit" in c)
    assert errors(BEST) == []
    assert check < commit
    assert any(command.startswith("make db") for command in ran[:1])
    assert any("alembic revision --autogenerate" in command for command in ran)
    assert not any("pip " in command.replace("uv pip", "") or "--no-verify" in command for command in ran)
    outputs = "\n".join(str(block["content"]) for block in blocks(BEST, "tool_result"))
    assert "40 passed" in outputs
    # It reads each file before it edits it.
    seen = set()
    for block in blocks(BEST, "tool_use"):
        if block["name"] in ("Read", "Write"):
            seen.add(block["input"]["file_path"])
        if block["name"] == "Edit":
            assert block["input"]["file_path"] in seen
            assert "/migrations/" not in block["input"]["file_path"]
