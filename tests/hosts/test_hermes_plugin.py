"""Our plugin in the real Hermes Agent: what its model receives, what is in its database, and `hermes warm`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.clients import MARKS, Hermes, create_project
from warmstart.preflight.prompt import block
from warmstart.testing.model import Reply, Request, ScriptedModel

pytestmark = MARKS

BLOCK = block("short")
TRAP = [
    Reply(calls=[("terminal", {"command": "make tests"})]),
    Reply(calls=[("terminal", {"command": "make test"})]),
    Reply(text="The target is called test."),
]


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Hermes]:
    """Hermes with our plugin, in a project whose tests run with `make test`."""
    with ScriptedModel(errand="A title") as model:
        hermes = Hermes(tmp_path / "user", model)
        create_project(hermes.work)
        (hermes.work / "Makefile").write_text("test:\n\t@echo 12 tests passed\n")
        hermes.configure()
        hermes.warmstart("install", "hermes", "--yes")
        yield hermes


def script(hermes: Hermes, *replies: Reply) -> None:
    hermes.model._left.extend(replies)


def turns(hermes: Hermes) -> list[Request]:
    """The requests of the agent's own turns."""
    return [request for request in hermes.model.requests if request.tools]


def messages(request: Request, role: str) -> list[str]:
    return [str(each["content"]) for each in request.body["messages"] if each["role"] == role]


def test_a_model_calls_memory_backend_and_gets_the_specified_keys(hermes: Hermes) -> None:
    calls: list[dict[str, Any]] = [
        {"action": "store", "key": "editor", "value": "The user likes Helix."},
        {"action": "retrieve", "key": "editor"},
        {"action": "query", "query_text": "which editor"},
        {"action": "list"},
        {"action": "info"},
        {"action": "delete", "key": "editor"},
        {"action": "nonsense"},
    ]
    script(hermes, *(Reply(calls=[("memory_backend", call)]) for call in calls))
    hermes.ask("remember my editor")
    assert "memory_backend" in turns(hermes)[0].tools
    answers = [json.loads(text) for text in messages(turns(hermes)[-1], "tool")]
    assert [answer["success"] for answer in answers] == [True] * 6 + [False]
    stored, retrieved, found, listed, info, deleted, wrong = answers
    assert stored.keys() >= {"success", "action", "key", "backend"}
    assert retrieved["entry"].keys() == {"key", "value", "user_id", "created_at", "updated_at", "metadata"}
    assert found["count"] == 1
    assert found["entries"][0]["value"] == "The user likes Helix."
    assert listed["keys"] == ["editor"]
    assert info.keys() >= {"backend", "is_cloud", "is_available", "entries"}
    assert deleted["key"] == "editor"
    assert "nonsense" in wrong["error"]


def test_warm_commands_make_a_template_and_start_a_session_from_it(hermes: Hermes) -> None:
    script(hermes, *TRAP)
    session = hermes.ask("run the tests of the tide gauge").session_id
    made = hermes.run("warm", "extract", session, "--name", "tides", "--description", "Run the tide tests").stdout
    template = made.split()[0]
    listed = hermes.run("warm", "list").stdout
    for text in (template, "tides", "not used yet", "Run the tide tests"):
        assert text in listed
    assert "make test" in hermes.run("warm", "test", template, "run the tests").stdout
    line = hermes.run("warm", "start", "run the tide tests again", "--template", template).stdout
    program, *words = shlex.split(line)
    assert (program, words[0], words[1]) == ("hermes", "chat", "--resume")
    started = words[2]
    script(hermes, Reply(text="As before."))
    hermes.run(*words, "-Q")
    sent = turns(hermes)[-1].body["messages"]
    print(json.dumps(sent[1:], indent=1))
    print(hermes.run("warm", "list").stdout, hermes.run("warm", "why", started).stdout)
    assert hermes.run("warm", "delete", template, check=False).returncode == 1
    hermes.run("warm", "delete", template, "--yes")
    assert "tides" not in hermes.run("warm", "list").stdout
    print(hermes.run("warm", "--help").stdout)


def test_a_failing_call_carries_the_fix_that_worked_before(hermes: Hermes) -> None:
    script(hermes, *TRAP)
    hermes.ask("run the tests")
    hermes.warmstart("sync")
    script(hermes, *TRAP)
    session = hermes.ask("once more").session_id
    failing, working = messages(turns(hermes)[-1], "tool")
    assert failing.startswith('{"output": "make: *** No rule')
    assert "[warmstart]" in failing
    assert "make test" in failing.partition("[warmstart]")[2]
    assert "[warmstart]" not in working
    hermes.warmstart("sync")
    assert "[warmstart]" not in hermes.warmstart("sessions", "show", session)


def test_a_model_recalls_what_an_earlier_session_said(hermes: Hermes) -> None:
    script(hermes, Reply(text="The gauge in Cuxhaven reports every six minutes."))
    earlier = hermes.ask("how often does the gauge report?").session_id
    hermes.warmstart("sync")
    script(hermes, Reply(calls=[("recall", {"query": "how often does the gauge report"})]))
    hermes.ask("look it up")
    (found,) = messages(turns(hermes)[-1], "tool")
    assert found.startswith("[warmstart]")
    assert found.endswith("[/warmstart]")
    assert "every six minutes" in found
    assert json.loads(hermes.warmstart("sessions", "show", earlier, "--json"))["session_id"] in found


def test_the_start_and_the_block_come_with_the_first_message_once(hermes: Hermes) -> None:
    script(hermes, *TRAP)
    hermes.ask("run the tests")
    hermes.warmstart("sync")
    session = hermes.ask("what now?").session_id
    first = turns(hermes)[-1]
    (said,) = messages(first, "user")
    assert said.startswith("what now?\n\n[warmstart]")
    assert "make test" in said
    assert said.count(BLOCK) == 1
    assert BLOCK not in messages(first, "system")[0]
    hermes.ask("and then?", "--resume", session)
    again = turns(hermes)[-1]
    assert messages(again, "user") == [said, "and then?"]
    assert messages(again, "system") == messages(first, "system")


def test_with_the_setting_of_hermes_the_block_follows_the_identity(hermes: Hermes) -> None:
    hermes.configure(agent={"context_preflight": True}, plugins={"enabled": ["warmstart"]})
    (hermes.folder / "SOUL.md").write_text("You are the keeper of the tide gauge.")
    script(hermes, Reply(calls=[("terminal", {"command": "true"})]), Reply(text="Fine."))
    session = hermes.ask("is all well?").session_id
    hermes.ask("and now?", "--resume", session)
    systems = [messages(request, "system")[0] for request in turns(hermes)]
    assert len(systems) == 3
    assert len(set(systems)) == 1
    identity, block, rest = systems[0].split("\n\n", 2)
    assert identity == "You are the keeper of the tide gauge."
    assert block.startswith("[warmstart]")
    assert BLOCK in block
    assert rest.startswith("You run on Hermes Agent")
    assert not any(BLOCK in text for request in turns(hermes) for text in messages(request, "user"))


def test_with_the_setting_of_hermes_the_block_can_be_off(hermes: Hermes) -> None:
    hermes.configure(agent={"context_preflight": False}, plugins={"enabled": ["warmstart"]})
    hermes.ask("is all well?")
    assert BLOCK not in turns(hermes)[0].text


def test_subagents_get_nothing_of_ours(hermes: Hermes) -> None:
    """The subagent runs in the background: its parent waits for the file that it writes."""
    hermes.configure(agent={"context_preflight": True}, plugins={"enabled": ["warmstart"]})
    script(
        hermes,
        Reply(when="send somebody", calls=[("delegate_task", {"goal": "Look around."})]),
        Reply(when="send somebody", calls=[("terminal", {"command": "until [ -e seen ]; do sleep 0.1; done"})]),
        Reply(when="Look around.", calls=[("terminal", {"command": f"touch {hermes.work / 'seen'}; make tests"})]),
        Reply(when="send somebody", text="Sent."),
    )
    hermes.ask("send somebody")
    children = [request for request in turns(hermes) if "Look around." in request.last_user_text]
    assert len(children) >= 1
    assert not any("[warmstart]" in request.text for request in children)
    assert "[warmstart]" in turns(hermes)[0].text


def test_a_profile_may_have_a_store_of_its_own(hermes: Hermes) -> None:
    hermes.warmstart("uninstall", "hermes", "--yes")
    hermes.warmstart("install", "hermes", "--own-store", "--yes")
    script(hermes, Reply(calls=[("memory_backend", {"action": "store", "key": "editor", "value": "Helix"})]))
    hermes.ask("remember my editor")
    assert (hermes.folder / "warmstart" / "warmstart.db").exists()
    assert not (hermes.home / ".warmstart" / "warmstart.db").exists()


def test_installing_and_uninstalling_leaves_the_config_as_it_was(hermes: Hermes) -> None:
    hermes.warmstart("uninstall", "hermes", "--yes")
    config = hermes.folder / "config.yaml"
    before = config.read_bytes()
    assert b"warmstart" not in before
    hermes.warmstart("install", "hermes", "--yes")
    hermes.ask("is all well?")
    hermes.warmstart("uninstall", "hermes", "--yes")
    assert config.read_bytes() == before
    assert not (hermes.folder / "plugins" / "warmstart").exists()
    hermes.warmstart("install", "hermes", "--yes")
    hermes.run("config", "set", "agent.max_turns", "40")  # rewrites the file
    rewritten = config.read_text()
    hermes.warmstart("uninstall", "hermes", "--yes")
    lines = config.read_text().splitlines()
    assert [line for line in rewritten.splitlines() if line not in lines] == [
        "plugins:",
        "  enabled:",
        "    - warmstart",
    ]


def test_without_warmstart_a_turn_completes_and_nothing_is_printed(hermes: Hermes) -> None:
    plugin = hermes.folder / "plugins" / "warmstart" / "__init__.py"
    broken = {"python": (sys.executable, "/nowhere/python"), "package": ("hermes_plugin.py", "gone.py")}
    for good, bad in broken.values():
        code = plugin.read_text()
        plugin.write_text(code.replace(good, bad))
        script(hermes, *TRAP)
        turn = hermes.ask("run the tests")
        assert turn.text.strip() == "The target is called test."
        assert "warmstart" not in turn.errors
        assert "[warmstart]" not in turns(hermes)[-1].text
        listed = hermes.run("warm", "list", check=False)
        assert listed.returncode
        assert "Traceback" not in listed.stderr
        plugin.write_text(code)
