"""`Run`: one live session, as a host or an agent of one's own holds it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

import warmstart
from warmstart import Message, Session, ToolCall, ToolResult, Warmstart
from warmstart.preflight.prompt import block
from warmstart.recall import create_semantic_index

SAMPLES = Path(warmstart.__file__).parent / "samples"
SYSTEM = {"role": "system", "content": "You watch the tide."}
BLOCK = {"role": "system", "content": block("full")}
CALL = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "make test"}'}}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Warmstart]:
    with warmstart.open(tmp_path / "store.db", home=tmp_path / "warm") as opened:
        opened.sync([SAMPLES])
        yield opened


@pytest.fixture
def tidewatch(ws: Warmstart) -> str:
    """The project of the samples."""
    return next(name for name in ws.store.projects() if name.endswith("tidewatch"))


def test_a_run_starts_with_the_brief_of_its_project(ws: Warmstart, tidewatch: str) -> None:
    run = ws.begin("s1", project=tidewatch, messages=[SYSTEM])
    assert run.messages[:2] == [SYSTEM, BLOCK]
    assert "Commands that work here" in str(run.messages[2]["content"])
    assert "Commands that work here" in run.start_text
    for other in ("/nowhere", ""):
        assert ws.begin("s2", project=other, messages=[SYSTEM]).messages == [SYSTEM, BLOCK]


def developer(message: dict[str, str]) -> dict[str, str]:
    return {**message, "role": "developer"}


def test_the_block_follows_what_the_program_says_about_itself(ws: Warmstart, tidewatch: str) -> None:
    user = {"role": "user", "content": "add a storm table"}
    cases = {
        "two system messages": ([SYSTEM, SYSTEM, user], [SYSTEM, SYSTEM, BLOCK]),
        "no system message": ([user], [BLOCK]),
        "a developer message": ([developer(SYSTEM), user], [developer(SYSTEM), developer(BLOCK)]),
    }
    for name, (messages, start) in cases.items():
        first, again = (ws.begin(name, project=tidewatch, messages=messages).messages for _ in range(2))
        assert first[: len(start)] == start
        assert first == again
        assert sum(message["content"] == block("full") for message in first) == 1
        assert first[-1] == user
    started = ws.begin("again", project=tidewatch, messages=first)
    assert sum(message["content"] == block("full") for message in started.messages) == 1


def test_a_memory_of_the_brief_is_in_no_overlay(ws: Warmstart, tidewatch: str) -> None:
    ws.settings = replace(ws.settings, preflight_deadline_ms=60_000)
    ws.memory.set("review", "Pull request 337 waits for review")
    run = ws.begin("s1", project=tidewatch, host="hermes")
    assert run.start_text.count("Pull request 337 waits for review") == 1
    assert "337" not in str(run.before_turn("is pull request 337 reviewed?"))
    ws.memory.set("draft", "Pull request 338 is a draft")
    for _ in range(2):  # an overlay is gone after its turn
        assert "Pull request 338 is a draft" in str(run.before_turn("is pull request 338 reviewed?"))
    run.after_compaction()
    assert "Pull request 337 waits for review" in str(run.before_turn("is pull request 337 reviewed?"))


def test_the_block_has_a_setting(ws: Warmstart, tidewatch: str) -> None:
    for mode in ("short", "off"):
        ws.settings = replace(ws.settings, preflight_mode=mode)
        run = ws.begin(mode, project=tidewatch, messages=[SYSTEM])
        said = [message["content"] for message in run.messages]
        assert said[0] == SYSTEM["content"]
        assert block("full") not in said
        assert (block("short") in said) == (mode == "short")
        assert run.start_text.count("Before you call a tool") == (mode == "short")


def test_anthropic_gets_its_system_text_apart(ws: Warmstart, tidewatch: str) -> None:
    hello = {"role": "user", "content": "hello"}
    blocks = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    for shape, messages in (("anthropic", [hello]), ("anthropic", [SYSTEM, hello]), (None, blocks)):
        run = ws.begin("s1", project=tidewatch, shape=shape, messages=messages)
        assert all(message["role"] in ("user", "assistant") for message in run.messages)
        assert "Commands that work here" in str(run.messages) + run.system
        own = f"{SYSTEM['content']}\n\n" if SYSTEM in messages else ""
        assert run.system.startswith(own + block("full"))
        assert block("full") not in str(run.messages)


def test_a_run_records_its_messages_and_their_outcome(ws: Warmstart, tmp_path: Path) -> None:
    with ws.begin("s1", project=str(tmp_path), model="m") as run:
        run.record({"role": "user", "content": "run the tests. Never push to main. The key is AKIAIOSFODNN7EXAMPLQ"})
        run.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        run.record({"role": "tool", "tool_call_id": "c1", "content": "12 passed"})
        run.record({"role": "assistant", "content": "All pass."})
        run.end("success")
    (row,) = ws.sessions.list(project=str(tmp_path))
    assert (row.messages, row.tool_calls, row.outcome) == (4, 1, "success")
    assert "AKIAIOSFODNN7EXAMPLQ" not in str(list(ws.sessions.messages(row.id)))
    assert [one.text for one in run.constraints] == ["Never push to main."]
    assert "Never push to main." in run.after_compaction()


def test_the_program_s_system_prompt_is_recorded_and_carried(ws: Warmstart, tmp_path: Path) -> None:
    prompt = {"role": "system", "content": "The database listens on 5433. Never drop a table."}
    for _ in range(2):  # resumed: the prompt is stored once
        with ws.begin("prompted", project=str(tmp_path), messages=[prompt]) as run:
            run.record({"role": "user", "content": "List the newest orders of the shop."})
            run.record({"role": "assistant", "content": "", "tool_calls": [CALL]})
            run.record({"role": "tool", "tool_call_id": "c1", "content": "3 passed"})
    stored = [message.text for message in ws.sessions.messages("prompted") if message.role == "system"]
    assert stored == [prompt["content"]]
    template = ws.templates.extract("prompted", name="orders")
    facts = [item.text for item in template.seed.system_context if item.kind == "context"]
    assert facts == ["The database listens on 5433.", "Never drop a table."]


def test_a_session_that_is_resumed_keeps_its_earlier_messages(ws: Warmstart, tmp_path: Path) -> None:
    for request in ("dredge the harbour", "now the quay", "and the pier"):
        with ws.begin("s1", project=str(tmp_path)) as run:
            run.record({"role": "user", "content": request})
    (row,) = ws.sessions.list(project=str(tmp_path))
    texts = [message.text for message in ws.sessions.messages(row.id)]
    assert texts == ["dredge the harbour", "now the quay", "and the pier"]


def test_blocks_of_anthropic_are_recorded_as_calls_and_results(ws: Warmstart, tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "make test"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}], "is_error": True}
    with ws.begin("s1", project=str(tmp_path), shape="anthropic") as run:
        run.record({"role": "user", "content": [{"type": "text", "text": "run the tests"}]})
        run.record({"role": "assistant", "content": [{"type": "text", "text": "Running."}, use]})
        run.record({"role": "user", "content": [result]})
    (row,) = ws.sessions.list(project=str(tmp_path))
    assert (row.tool_calls, row.errors) == (1, 1)


def test_a_session_that_said_nothing_leaves_no_trace(ws: Warmstart, tmp_path: Path) -> None:
    with ws.begin("s1", project=str(tmp_path)):
        pass
    assert ws.sessions.list(project=str(tmp_path)) == []


def test_a_run_goes_on_when_the_store_fails(ws: Warmstart, tidewatch: str) -> None:
    run = ws.begin("s1", project=tidewatch, host="test")
    ws.store.database.connection.close()
    assert run.before_turn("add a table of storm warnings") is None
    assert run.after_tool("bash", {"command": "make"}, "exit code 2") is None
    run.record({"role": "user", "content": "hello"})
    assert run.after_compaction() == ""
    run.end("success")
    assert ws.begin("s2", project=tidewatch, messages=[SYSTEM]).messages == [SYSTEM, BLOCK]
    assert ws.begin("s3", project=tidewatch, host="test").start_text == block("full", "test")
    log = (ws.settings.home / "warmstart.log").read_text(encoding="utf-8")
    assert "run before_turn" in log
    assert "storm warnings" not in log
    assert log.count("run begin") == 2
    assert "run start" not in log  # what failed once is not tried again


def test_a_run_goes_on_in_a_folder_that_is_gone(ws: Warmstart, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert ws.begin("s1", messages=[SYSTEM]).messages == [SYSTEM, BLOCK]


def test_threads_may_share_a_run(ws: Warmstart, tmp_path: Path) -> None:
    run = ws.begin("s1", project=str(tmp_path))
    threads = [
        Thread(target=run.record, args=({"role": "user", "content": f"request {number}"},)) for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.end()
    (row,) = ws.sessions.list(project=str(tmp_path))
    assert row.messages == 16


def test_threads_may_hold_runs_of_their_own(ws: Warmstart, tmp_path: Path) -> None:
    def work(name: str) -> None:
        with ws.begin(name, project=str(tmp_path)) as run:
            for number in range(8):
                run.before_turn(f"request {number}")
                run.record({"role": "user", "content": f"request {number} of {name}"})

    threads = [Thread(target=work, args=(f"s{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.messages for row in ws.sessions.list(project=str(tmp_path))] == [8] * 6


def test_a_turn_does_not_wait_for_another_thread(ws: Warmstart, tidewatch: str) -> None:
    run = ws.begin("s1", project=tidewatch, host="test")
    with ws.lock:
        answers: list[str | None] = []
        turn = Thread(target=lambda: answers.append(run.before_turn("add a table of storm warnings")))
        turn.start()
        turn.join(180)
        assert answers == [None]


def test_an_overlay_finds_by_meaning_what_shares_no_word(ws: Warmstart, tmp_path: Path) -> None:
    project = str(tmp_path / "kennel")
    edit = ToolCall(id="c", name="Edit", arguments=json.dumps({"file_path": f"{project}/src/couch.py"}))
    messages = [
        Message(native_id="m", role="user", text="my puppy chewed the couch"),
        Message(native_id="n", role="assistant", text="I mend it.", tool_calls=(edit,)),
        Message(native_id="o", role="tool", tool_results=(ToolResult(call_id="c", outcome="ok", text="done"),)),
    ]
    ws.store.append(Session(agent="tester", native_id="s", project=project), messages)
    ws.update()
    with create_semantic_index(ws.store, ws.settings, "wordllama") as semantic:
        semantic.update()
    ws.settings = replace(ws.settings, preflight_inject="smart", preflight_deadline_ms=60_000)
    assert "src/couch.py" in str(ws.begin("now", project=project).before_turn("the dog destroyed our furniture"))
