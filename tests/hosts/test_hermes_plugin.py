"""Our plugin in the real Hermes: where its text is on the wire, who gets it, and what it leaves behind."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import warmstart
from tests.hosts.clients import MARKS, Hermes
from tests.hosts.scenario import FIRST, PORT, QUESTION, stored, work_once
from tests.waiting import wait_until
from warmstart.preflight.prompt import block
from warmstart.sessions.values import Usage
from warmstart.testing.model import Reply, Request

pytestmark = MARKS

BLOCK = block("short")


def messages(request: Request, role: str) -> list[str]:
    return [str(each["content"]) for each in request.body["messages"] if each["role"] == role]


def test_the_block_comes_with_the_first_message_and_never_again(hermes: Hermes) -> None:
    hermes.install()
    turn = hermes.ask("What now?")
    (said,) = messages(turn.requests[0], "user")
    assert said == f"What now?\n\n{BLOCK}"
    (again,) = hermes.ask("And then?", "--resume", turn.session_id).requests
    assert messages(again, "user") == [said, "And then?"]
    assert messages(again, "system") == messages(turn.requests[0], "system")
    assert BLOCK not in messages(again, "system")[0]


def test_with_the_setting_of_hermes_the_block_follows_the_identity(hermes: Hermes) -> None:
    hermes.configure(agent={"context_preflight": True})
    hermes.install()
    (hermes.folder / "SOUL.md").write_text("You are the keeper of the tide gauge.")
    hermes.model.add(Reply(calls=[hermes.shell("true")]), Reply(text="Fine."))
    turn = hermes.ask("Is all well?")
    requests = [*turn.requests, *hermes.ask("And now?", "--resume", turn.session_id).requests]
    systems = {messages(request, "system")[0] for request in requests}
    assert len(requests) == 3
    (system,) = systems
    assert system.startswith(f"You are the keeper of the tide gauge.\n\n{BLOCK}\n\nYou run on Hermes Agent")
    assert not any(BLOCK in text for request in requests for text in messages(request, "user"))


def test_with_the_setting_of_hermes_the_block_can_be_long_or_off(hermes: Hermes) -> None:
    hermes.configure(agent={"context_preflight": "full"})
    hermes.install()
    assert block("full") in messages(hermes.ask("Is all well?").requests[0], "system")[0]
    hermes.configure(agent={"context_preflight": False}, plugins={"enabled": ["warmstart"]})
    assert "[warmstart]" not in hermes.ask("Translate the imprint.").requests[0].text


def test_subagents_get_nothing(hermes: Hermes) -> None:
    """The subagent runs in the background: its parent waits for the file that it writes."""
    hermes.configure(agent={"context_preflight": True})
    hermes.install()
    work_once(hermes)
    hermes.model.add(
        Reply(when="send somebody", calls=[("delegate_task", {"goal": "Look around."})]),
        Reply(when="send somebody", calls=[hermes.shell("until [ -e seen ]; do sleep 0.1; done")]),
        Reply(when="Look around.", calls=[hermes.shell("yarn test")]),
        Reply(when="Look around.", calls=[hermes.shell(f"touch {hermes.work / 'seen'}")]),
        Reply(when="send somebody", text="Sent."),
    )
    requests = hermes.ask("send somebody").requests
    children = [request for request in requests if "Look around." in request.last_user_text]
    assert len(children) >= 2
    assert not any("[warmstart]" in request.text for request in children)
    assert "`yarn test` fails" in requests[0].text


def test_what_a_compaction_took_away_may_be_added_again(hermes: Hermes) -> None:
    hermes.configure(compression={"protect_first_n": 0, "protect_last_n": 2})
    hermes.install()
    work_once(hermes)
    turn = hermes.ask(QUESTION)
    assert PORT in messages(turn.requests[0], "user")[0]
    full = Usage(input=120_000, output=20)
    calls = [Reply(calls=[hermes.shell(f"seq {number} 300")], usage=full) for number in range(5)]
    hermes.model.add(*calls, Reply(text="Counted."))
    counted = hermes.ask("Count.", "--resume", turn.session_id)
    assert PORT not in counted.requests[-1].text
    last = hermes.ask(QUESTION, "--resume", turn.session_id).requests[0]
    assert PORT in messages(last, "user")[-1]


def test_a_session_that_was_started_warm_is_imported_without_what_it_started_with(hermes: Hermes) -> None:
    hermes.install()
    session = work_once(hermes)
    hermes.run("warm", "extract", session, "--name", "tides")
    program, *words = shlex.split(hermes.run("warm", "start", "run the tide tests again", "--template", "tides").stdout)
    assert program == "hermes"
    before = len(hermes.model.requests)
    hermes.run(*words, "-Q")
    sent = hermes.model.requests[before].body["messages"]
    assert [each["role"] for each in sent[:2]] == ["system", "user"]
    assert sent[1]["content"].startswith(f"{BLOCK}\n\n[warmstart] From earlier sessions")
    assert '[warmstart] Template "tides"' in sent[1]["content"]
    assert sent[-2]["role"] == "assistant"
    assert sent[-1]["content"].startswith("run the tide tests again")
    said = sorted(message.text for message in stored(hermes) if message.role == "user")
    assert said == [FIRST, "run the tide tests again"]
    assert "used 1 time" in hermes.run("warm", "list").stdout
    (use,) = json.loads(hermes.run("warm", "why", words[2], "--json").stdout)
    assert (use["arm"], use["why"]) == ("warm", "the user named it")


def test_a_start_without_anything_to_start_from_is_an_error(hermes: Hermes) -> None:
    hermes.install()
    for words, complaint in ((["task"], "nothing to start from"), (["task", "--template", "x"], "'x'")):
        done = hermes.run("warm", "start", *words, check=False)
        assert done.returncode == 1
        assert complaint in done.stderr
        assert done.stdout == ""


def test_a_profile_may_have_a_store_of_its_own(hermes: Hermes) -> None:
    hermes.warmstart("install", "hermes", "--own-store", "--yes")
    hermes.ask(FIRST)
    store = hermes.folder / "warmstart" / "warmstart.db"
    wait_until(lambda: store.exists() and FIRST in texts(store), every=0.2)
    assert not (hermes.home / ".warmstart" / "warmstart.db").exists()
    assert "No templates" in hermes.run("warm", "list").stderr


def texts(store: Path) -> list[str]:
    with warmstart.open(store) as ws:
        return [message.text for one in ws.store.list() for message in ws.store.messages(one.session.id)]


def test_uninstalling_from_a_config_that_hermes_rewrote_removes_our_lines(hermes: Hermes) -> None:
    hermes.install()
    hermes.run("config", "set", "agent.max_turns", "40")
    config = hermes.folder / "config.yaml"
    rewritten = config.read_text().splitlines()
    hermes.warmstart("uninstall", "hermes", "--yes")
    ours = ["plugins:", "  enabled:", "    - warmstart"]
    assert [line for line in rewritten if line not in ours] == config.read_text().splitlines()
    assert not (hermes.folder / "plugins" / "warmstart").exists()
