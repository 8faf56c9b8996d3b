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

BLOCK = block("full")
GUIDANCE = "You run on Hermes Agent"  # what follows the identity in Hermes' own prompt


def messages(request: Request, role: str) -> list[str]:
    return [str(each["content"]) for each in request.body["messages"] if each["role"] == role]


def system(request: Request) -> str:
    (prompt,) = messages(request, "system")
    return prompt


def stored_prompts(hermes: Hermes) -> list[str]:
    """The system prompts in Hermes' own export of its sessions."""
    lines = hermes.run("sessions", "export", "-").stdout.splitlines()
    return [json.loads(line)["system_prompt"] for line in lines if line.startswith("{")]


def test_the_block_is_in_the_system_prompt_between_identity_and_guidance(hermes: Hermes) -> None:
    hermes.install()
    (hermes.folder / "SOUL.md").write_text("You are the keeper of the tide gauge.")
    hermes.model.add(Reply(calls=[hermes.shell("true")]), Reply(text="Fine."))
    turn = hermes.ask("Is all well?")
    requests = [*turn.requests, *hermes.ask("And now?", "--resume", turn.session_id).requests]
    assert len(requests) == 3
    (prompt,) = {system(request) for request in requests}
    assert prompt.startswith(f"You are the keeper of the tide gauge.\n\n{BLOCK}\n\n{GUIDANCE}")
    assert messages(requests[-1], "user") == ["Is all well?", "And now?"]
    assert stored_prompts(hermes) == [prompt]


def test_a_session_keeps_the_block_that_it_started_with(hermes: Hermes) -> None:
    hermes.install()
    turn = hermes.ask("Is all well?")
    for value in ("short", False):
        hermes.configure(agent={"context_preflight": value}, plugins={"enabled": ["warmstart"]})
        (request,) = hermes.ask("And now?", "--resume", turn.session_id).requests
        assert system(request) == system(turn.requests[0])


def test_the_block_can_be_short_or_off(hermes: Hermes) -> None:
    for value, wanted in ((True, "full"), ("short", "short"), ("full", "full"), (False, "off")):
        hermes.configure(agent={"context_preflight": value})
        hermes.install()
        prompt = system(hermes.ask("Is all well?").requests[0])
        assert f"\n\n{block(wanted)}\n\n{GUIDANCE}".replace("\n\n\n\n", "\n\n") in prompt
        assert ("[warmstart]" in prompt) == (wanted != "off")


def test_hermes_own_dump_of_a_request_has_the_block(hermes: Hermes) -> None:
    hermes.install()
    hermes.variables["HERMES_DUMP_REQUESTS"] = "1"
    prompt = system(hermes.ask("Is all well?").requests[0])
    dumps = [json.loads(path.read_text()) for path in hermes.folder.rglob("request_dump_*.json")]
    assert [dump["request"]["body"]["messages"][0]["content"] for dump in dumps] == [prompt]


def test_the_overlay_of_a_turn_is_in_none_of_the_next(hermes: Hermes) -> None:
    hermes.install()
    work_once(hermes)
    hermes.model.add(Reply(calls=[hermes.shell("true")]), Reply(text="It listens on 5433."))
    turn = hermes.ask(QUESTION)
    first, second = (messages(request, "user")[-1] for request in turn.requests)
    assert first == second
    assert PORT in first
    assert first.startswith(f"{QUESTION}\n\n")
    (again,) = hermes.ask("Translate the imprint.", "--resume", turn.session_id).requests
    said = messages(again, "user")
    assert said[-1] == "Translate the imprint."
    assert PORT not in " ".join(said)
    assert first.startswith(said[0])  # the brief stays
    assert system(again) == system(turn.requests[0])


def test_a_tool_is_called_exactly_when_the_request_lacks_the_answer(hermes: Hermes) -> None:
    """The model looks for the answer in its request, and calls a tool if it is not there."""
    (hermes.work / "gauges.txt").write_text("There are 17 gauges.")
    answers = {
        "is pull request 337 reviewed?": "Pull request 337 waits for review",
        "is pull request 338 reviewed?": "Pull request 338 is a draft",
        "how many gauges are there?": "There are 17 gauges",
    }

    def answer(request: Request) -> Reply:
        asked = next((question for question in reversed(answers) if question in request.last_user_text), "")
        if answers.get(asked, "") in request.text:
            return Reply(text=answers.get(asked, "Done."))
        return Reply(calls=[hermes.shell("cat gauges.txt")])

    hermes.install()
    hermes.model.script = answer
    hermes.warmstart("memory", "set", "review", answers["is pull request 337 reviewed?"])
    first = hermes.ask("is pull request 337 reviewed?")
    (request,) = first.requests  # no call
    assert request.text.count(answers["is pull request 337 reviewed?"]) == 1
    hermes.warmstart("memory", "set", "draft", answers["is pull request 338 reviewed?"])
    (request,) = hermes.ask("is pull request 338 reviewed?", "--resume", first.session_id).requests
    said = messages(request, "user")[-1]
    assert said.count(answers["is pull request 338 reviewed?"]) == request.text.count("338 is a draft") == 1
    assert "Notes " in said
    call, result = hermes.ask("how many gauges are there?", "--resume", first.session_id).requests
    assert answers["how many gauges are there?"] in result.text
    last = hermes.ask("translate the imprint", "--resume", first.session_id).requests[0]
    for request in (call, result, last):
        assert not any("End of notes " in text for text in messages(request, "user"))
        assert "338 is a draft" not in " ".join(messages(request, "user"))


def test_the_user_is_told_what_was_noted(hermes: Hermes) -> None:
    hermes.install()
    turn = hermes.ask("Remember that releases go out on Tuesdays.")
    assert "warmstart memory promote" in turn.errors
    assert "warmstart memory promote" not in turn.text + turn.requests[0].text


def test_subagents_get_nothing(hermes: Hermes) -> None:
    """The subagent runs in the background: its parent waits for the file that it writes."""
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
    assert f"{BLOCK}\n\n{GUIDANCE}" in sent[0]["content"]
    assert sent[1]["content"].startswith("[warmstart] From earlier sessions")
    assert '[warmstart] Template "tides"' in sent[1]["content"]
    assert sent[-2]["role"] == "assistant"
    assert sent[-1]["content"].startswith("run the tide tests again")
    said = sorted(message.text for message in stored(hermes) if message.role == "user")
    assert said == [FIRST, "run the tide tests again"]
    assert "Usage: 1 time" in hermes.run("warm", "list").stdout
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
