"""`warmstart templates`: suggest, why, stats and auto."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from warmstart import load_settings
from warmstart.sessions.sql_store import open_store
from warmstart.templates import SQLTemplateStore, start_warm

TASK = "warn when the level runs above the prediction, and keep it in the database"
PROJECT = "/home/mara/tidewatch"


@pytest.fixture
def made(run, synced) -> str:
    """The id of a template from the successful sample session."""
    return str(json.loads(run("templates", "extract", "58e3c7d9", "--name", "surges", "--json").out)["template_id"])


def started(session: str, task: str = TASK, **options: object):
    with open_store(load_settings({})) as store:
        return start_warm(
            SQLTemplateStore(store),
            session,
            [{"role": "user", "content": task}],
            project=PROJECT,
            **options,
        )


def test_suggest_shows_template_confidence_and_reason(run, made):
    ran = run("templates", "suggest", TASK, "--project", PROJECT, "--seed", 1)
    assert ran.code == 0
    assert made in ran.out
    told = json.loads(run("templates", "suggest", TASK, "--project", PROJECT, "--seed", 1, "--json").out)
    assert told == json.loads(run("templates", "suggest", TASK, "--project", PROJECT, "--seed", 1, "--json").out)
    assert made in json.dumps(told)
    assert run("templates", "suggest", TASK, "--all-projects").code == 0


def test_every_process_draws_and_says_the_same(program, made):
    command = [*program, "templates", "suggest", TASK, "--project", PROJECT, "--seed", "7", "--json"]
    said = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_nothing_is_suggested_if_nothing_fits(run, made):
    ran = run("templates", "suggest", "write a poem about marmalade", "--project", PROJECT)
    assert ran.code == 0
    assert ran.out.startswith("Start cold: no template ")
    elsewhere = run("templates", "suggest", TASK, "--project", "/home/mara/other")
    assert (elsewhere.code, made in elsewhere.out) == (0, False)
    assert "--all-projects" in elsewhere.err
    told = json.loads(run("templates", "suggest", TASK, "--project", "/home/mara/other", "--json").out)
    assert (told["abstain"], told["suggestions"]) == (True, [])


def test_why_shows_what_a_session_started_with(run, made):
    for number in range(30):
        if started(f"session-{number}").choice.arm == "warm":
            break
    ran = run("templates", "why", f"session-{number}")
    assert ran.code == 0
    assert made in ran.out
    assert "\n  command: test: make check\n" in ran.out
    (use,) = json.loads(run("templates", "why", f"session-{number}", "--json").out)
    assert (use["template_id"], use["version"]) == (made, 1)
    assert 0 < use["propensity"] <= 1
    assert use["tokens"] > 0
    assert use["items"]
    assert listed_uses(run) >= 1


def test_why_explains_cold_starts_and_outcomes(run, made, synced):
    held = started("held-out", holdout=1.0)
    assert held.choice.arm == "holdout"
    assert f"started cold, in the control group of {made}" in run("templates", "why", "held-out").out
    assert started("other", "write a poem about marmalade").choice.arm == "abstained"
    assert "started cold\n" in run("templates", "why", "other").out
    # The sample session itself, as if it had started from the template: its profile says how it ended.
    assert started("58e3c7d9-4a06-4f92-87bd-e91f0c2d6b34", holdout=0.0).choice.arm == "warm"
    told = run("templates", "why", "58e3c7d9").out
    assert "success" in told
    assert "errors  0 of 19 calls" in told
    assert json.loads(run("templates", "list", "--json").out)[0]["usage"] == "1 time, 100% success"


def listed_uses(run) -> int:
    return int(json.loads(run("templates", "list", "--json").out)[0]["used"])


def test_why_of_a_session_that_did_not_start_here(run, made):
    ran = run("templates", "why", "58e3c7d9")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err
    assert json.loads(run("templates", "why", "58e3c7d9", "--json").out) == []


def test_stats_show_known_and_unknown_effects(run, made):
    ran = run("templates", "stats")
    assert ran.code == 0
    assert "not yet known" in ran.out
    assert json.loads(run("templates", "stats", "--json").out)


def test_auto_without_sessions_prints_no_table(run):
    ran = run("templates", "auto")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No sessions (all projects; `warmstart sync` imports them from your agents).\n"


def test_auto_makes_candidates_of_sessions_that_went_well(run, synced):
    options = ("--min-calls", 5, "--max-error-rate", 0.3)
    dry = json.loads(run("templates", "auto", *options, "--dry-run", "--json").out)
    assert json.loads(run("templates", "list", "--json").out) == []
    ran = run("templates", "auto", *options, "--json")
    assert ran.code == 0, ran.err
    made = json.loads(run("templates", "list", "--json").out)
    assert bool(made) == bool(dry)
    assert {each["origin"] for each in made} <= {"auto"}
    again = run("templates", "auto", *options)
    assert again.code == 0
    assert "Skipped 3 groups of sessions; --json says why." in again.err
    assert again.out == ""
    assert len(json.loads(run("templates", "list", "--json").out)) == len(made)
