from __future__ import annotations

import json

import warmstart
from warmstart.preflight.prompt import TIERS

PROJECT = "/home/mara/tidewatch"


def test_preflight_names_the_turns_it_shows(run, synced):
    asked = ("preflight", "the surge is negative at low tide, how did we fix that last time?", "--project", PROJECT)
    found = json.loads(run(*asked, "--json").out)
    assert found["text"]
    assert found["evidence"]
    explained = run(*asked, "--explain")
    assert explained.code == 0
    for each in found["evidence"]:
        assert f"sessions show {each['session_id'][:10]} --message {each['message']}" in explained.err
        said = json.loads(run("sessions", "show", each["session_id"], "--message", each["message"], "--json").out)
        assert said["role"] == "user"


def test_preflight_says_why_it_shows_nothing(run, synced):
    shown = run("preflight", "hello", "--project", PROJECT)
    assert (shown.code, shown.out) == (0, "")
    assert "Nothing to show: " in shown.err


def test_preflight_says_that_hooks_are_paused(run, synced):
    assert "paused" not in run("preflight", "hello").err
    run("pause", "1h")
    assert "Hooks are paused here" in run("preflight", "hello").err


def test_a_report_has_every_measure(run, synced):
    with warmstart.open() as ws:
        ws.begin("now", project=PROJECT, host="test").before_turn("the surge is negative at low tide")
    shown = run("preflight", "report", "--project", PROJECT)
    assert shown.code == 0
    for line in (
        "1 message (",
        "Tool calls per turn: unknown with an overlay, unknown without",
        "Corrections by the user per turn: unknown with an overlay, unknown without",
        "Look-ups of what was known already: 0 calls, 0 tokens in 0 sessions",
        "Time in the first turn: p50 ",
        "Time in all turns: p50 ",
    ):
        assert line in shown.out
    data = json.loads(run("preflight", "report", "--project", PROJECT, "--json").out)
    assert data["turns"] == 1
    assert data["corrections_with"] == {"value": None, "turns": 0}
    assert data["first_turn_p95_ms"] == data["p95_ms"] > 0
    assert data["known_lookup_tokens"] == 0


def test_prompt_show_prints_the_tiers_of_a_project(run, tmp_path, monkeypatch):
    project = tmp_path / "tidewatch"
    (project / ".git").mkdir(parents=True)
    (project / "CLAUDE.md").write_text("Use tabs.\n")
    skill = project / ".claude" / "skills" / "tides" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text('---\nname: tides\ndescription: "Read tide tables"\n---\nUse the almanac.\n')
    shown = run("prompt", "show", "--project", str(project))
    assert shown.code == 0
    assert "== preflight (" in shown.out
    assert "# CLAUDE.md\n\nUse tabs." in shown.out
    assert "- tides: Read tide tables" in shown.out
    assert "almanac" not in shown.out
    assert "in the cached prefix" in shown.err

    monkeypatch.chdir(project)
    monkeypatch.setenv("WARMSTART_PREFLIGHT", "off")
    tiers = json.loads(run("prompt", "show", "--json").out)["tiers"]
    assert tuple(tier["tier"] for tier in tiers) == TIERS
    assert [tier["tokens"] > 0 for tier in tiers] == [False, False, False, True, True, True]
    assert [tier["cached"] for tier in tiers] == [True] * 5 + [False]


def test_prompt_show_of_a_folder_without_anything(run, tmp_path):
    shown = run("prompt", "show", "--project", str(tmp_path))
    assert shown.code == 0
    assert "== context (0 tokens, cached)" in shown.out
