"""The commands and the tools that our plugin adds to the real Hermes."""

from __future__ import annotations

import json
import re

from tests.hosts.clients import MARKS, Hermes
from tests.hosts.scenario import RULE, work_once
from warmstart.testing.model import Reply

pytestmark = MARKS


def test_templates_are_extracted_listed_tested_started_and_deleted(hermes: Hermes) -> None:
    hermes.install()
    session = work_once(hermes)
    described = ("--name", "tides", "--description", "Work on the tide gauge")
    extracted = hermes.run("warm", "extract", session, *described)
    assert "tides" in extracted.stdout
    assert "`hermes warm test warm_" in extracted.stderr
    (template,) = json.loads(warm(hermes, "list", "--json"))
    assert warm(hermes, "list").splitlines() == [
        "=== Warm Session Templates ===",
        "",
        f"ID: {template['template_id']}",
        "Name: tides",
        "Description: Work on the tide gauge",
        "Usage: not used yet",
    ]
    message = "Add a storm table to the tide gauge."
    tested = warm(hermes, "test", template["template_id"], message)
    assert "make test" in tested
    assert RULE in tested
    started = warm(hermes, "start", message, "--template", template["template_id"])
    command = next(line for line in started.splitlines() if "--resume" in line)
    turn = hermes.ask(message, "--resume", command.split("--resume")[1].split()[0].strip("`'\""))
    assert turn.requests[0].text.count("`make test`") >= 1
    assert RULE in turn.requests[0].text
    assert "Usage: 1 time, outcome unknown" in warm(hermes, "list")
    warm(hermes, "delete", template["template_id"], "--yes")
    assert json.loads(warm(hermes, "list", "--json")) == []


def test_names_are_optional_and_messages_name_hermes_own_command(hermes: Hermes) -> None:
    hermes.install()
    session = work_once(hermes)
    (name,) = re.findall(r"\w+_\w+_\d{8}_\d{6}", warm(hermes, "create", session))
    assert f"_{session[:8]}_" in name
    assert name in warm(hermes, "list")
    for words in (("test", "nothing", "Hello."), ("start", "Hello.", "--template", "nothing")):
        failed = hermes.run("warm", *words, check=False)
        assert failed.returncode == 1
        assert "`hermes warm list` shows them" in failed.stderr
    assert warm(hermes, "extract", "--help").startswith("Usage: hermes warm extract ")
    compressed = hermes.run("warm", "compress", session, "--name", "small")
    assert "Compressed 1 session from" in compressed.stderr
    warm(hermes, "delete", name, "--yes")
    assert name not in warm(hermes, "list")


def warm(hermes: Hermes, *arguments: str) -> str:
    return hermes.run("warm", *arguments).stdout


def test_the_model_remembers_with_a_tool(hermes: Hermes) -> None:
    hermes.install()
    with (hermes.home / ".warmstart" / "config.toml").open("a") as file:
        file.write('memory.backend = "local"\n')
    fact = "The user edits with Helix."
    calls = [
        {"action": "store", "key": "pref_editor", "value": fact},
        {"action": "retrieve", "key": "pref_editor"},
        {"action": "query", "query_text": "helix"},
        {"action": "list"},
        {"action": "delete", "key": "pref_editor"},
        {"action": "info"},
        {"action": "retrieve", "key": "pref_editor"},
    ]
    hermes.model.add(*(Reply(calls=[("memory_backend", call)]) for call in calls), Reply(text="Done."))
    turn = hermes.ask("Remember my editor.")
    assert {"memory_backend", "recall"} <= set(turn.requests[0].tools)
    messages = turn.requests[-1].body["messages"]
    results = [json.loads(message["content"]) for message in messages if message["role"] == "tool"]
    expected: list[set[str]] = [
        {"success", "key"},
        {"success", "key", "value", "metadata", "updated_at"},
        {"success", "results", "count"},
        {"success", "keys", "count"},
        {"success", "key"},
        {"success", "backend", "available", "is_cloud"},
        {"success", "error"},
    ]
    for keys, result in zip(expected, results, strict=True):
        assert keys <= set(result), result
    assert results[1]["value"] == fact
    assert [entry["key"] for entry in results[2]["results"]] == ["pref_editor"]
    assert results[3]["keys"] == ["pref_editor"]
    assert [result["success"] for result in results] == [True] * 6 + [False]


def test_the_model_recalls_with_a_tool(hermes: Hermes) -> None:
    hermes.install()
    work_once(hermes)
    hermes.model.add(Reply(calls=[("recall", {"query": "tide gauge database port"})]), Reply(text="Done."))
    turn = hermes.ask("Hello.")
    result = next(message for message in turn.requests[-1].body["messages"] if message["role"] == "tool")
    assert "5433" in result["content"]
