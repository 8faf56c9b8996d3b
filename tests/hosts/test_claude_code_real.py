"""The real Claude Code against a scripted model: what it writes is what the reader expects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.hosts.clients import MARKS, SECONDS, ClaudeCode
from tests.waiting import wait_until
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, Usage, session_id, steps
from warmstart.testing.model import Reply, ScriptedModel

pytestmark = MARKS

READER = ClaudeCodeReader()
REFUSED = {
    "permissions": {"deny": ["Bash(echo secret:*)"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "! grep hooked || exit 2"}]}]
    },
}
ALLOWED = ("--allowedTools", "Bash(echo:*)", "Bash(exit:*)", "Bash(sleep:*)", "Read", "Task")
SUMMARY = Reply(when="create a detailed summary", text="<summary>They counted.</summary>", repeat=True)


@pytest.fixture
def work(home: Path) -> Path:
    """A project for the agent to work in."""
    work = home / "work"
    (work / ".git").mkdir(parents=True)
    return work


def command(home: Path, model: ScriptedModel, *options: str) -> dict[str, Any]:
    """How to start Claude Code."""
    claude = ClaudeCode(home, model)
    return {
        "args": [claude.program, "-p", *options, *ALLOWED],
        "env": claude.environment,
        "cwd": claude.work,
        "text": True,
    }


def ask(home: Path, model: ScriptedModel, prompt: str, *options: str) -> str:
    """One turn; returns the id of the session that it took place in."""
    return ClaudeCode(home, model).ask(prompt, *options, *ALLOWED).session_id


def talk(home: Path, model: ScriptedModel, first: str, react: Callable[[dict[str, Any]], str | None]) -> None:
    """A conversation in one process: `react` hears all that happens, and may say more; it ends with a result."""
    options = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    pipe = subprocess.PIPE
    with subprocess.Popen(**command(home, model, *options), stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        deadline = Timer(SECONDS, process.kill)
        deadline.start()
        said: str | None = first
        for event in _events(process.stdout):
            if said is not None:
                process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": said}}) + "\n")
                process.stdin.flush()
            if event.get("type") == "result":
                process.stdin.close()
            said = react(event)
        deadline.cancel()


def _events(stream: Any) -> Iterator[dict[str, Any]]:
    yield {}
    for line in stream:
        yield json.loads(line)


def bash(line: str, **more: object) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": line, "description": "run", **more}


def log_of(home: Path, native_id: str) -> Path:
    (path,) = (home / ".claude" / "projects").glob(f"*/{native_id}.jsonl")
    return path


def read(path: Path, reading: Reading | None = None) -> list[tuple[Session, Message]]:
    """The messages of a log, each of them told once."""
    assert READER.claims(path, path.read_bytes()[:65536])
    reading = reading or Reading(path)
    pairs = [(session, message) for session, message in READER.read(path, reading) if message]
    assert reading.malformed == 0
    assert reading.offset == path.stat().st_size
    assert len({message.native_id for _, message in pairs}) == len(pairs)
    return pairs


def words(pairs: list[tuple[Session, Message]]) -> list[str]:
    """What was really said: not by tools, nor by a machine in a person's name."""
    return [message.text for _, message in pairs if message.text and not message.injected]


def test_calls_have_their_outcomes(home: Path, work: Path) -> None:
    replies = [
        Reply(
            reasoning="Let me see.",
            text="Running.",
            calls=[bash("echo fine")],
            usage=Usage(input=1_000, output=20, cache_read=300, cache_write=40),
        ),
        Reply(calls=[bash("echo bad; exit 3")]),
        Reply(
            text="Three at once.",
            calls=[bash("echo one"), bash("echo two; exit 4"), ("Read", {"file_path": str(work / "missing")})],
        ),
        Reply(calls=[bash("touch denied")]),
        Reply(calls=[("Write", {"file_path": str(work / "denied"), "content": "x"})]),
        Reply(calls=[bash("curl http://127.0.0.1:9")]),
        Reply(calls=[bash("echo secret")]),
        Reply(calls=[bash("echo hooked")]),
        Reply(text="All done."),
    ]
    with ScriptedModel(replies) as model:
        native_id = ask(home, model, "please work", "--settings", json.dumps(REFUSED))
    pairs = read(log_of(home, native_id))
    results = [step.result for step in steps(message for _, message in pairs)]
    assert all(result and result.duration is not None and 0 <= result.duration < 60 for result in results)
    found = [
        (step.call.name, step.outcome, step.result and step.result.exit_code) for step in steps(m for _, m in pairs)
    ]
    assert found == [
        ("Bash", "ok", None),
        ("Bash", "error", 3),
        ("Bash", "ok", None),
        ("Bash", "error", 4),
        ("Read", "error", None),
        ("Bash", "rejected", None),
        ("Write", "rejected", None),
        ("Bash", "rejected", None),
        ("Bash", "rejected", None),
        ("Bash", "rejected", None),
    ]
    assert not (work / "denied").exists()
    answers = [message for _, message in pairs if message.role == "assistant"]
    assert len(answers) == len(replies)
    assert (answers[0].text, answers[0].reasoning) == ("Running.", "Let me see.")
    assert answers[0].usage == Usage(input=1_000, output=20, cache_read=300, cache_write=40)
    assert answers[0].model.startswith("claude-")
    assert [len(answer.tool_calls) for answer in answers] == [1, 1, 3, 1, 1, 1, 1, 1, 0]
    assert words(pairs) == ["please work", "Running.", "Three at once.", "All done."]
    session = pairs[-1][0]
    assert (session.native_id, session.project, session.parent_id) == (native_id, str(work), None)
    assert session.version == ClaudeCode(home, model).run("--version").stdout.split()[0]


def test_a_subagent_has_a_log_of_its_own_and_is_a_child(home: Path, work: Path) -> None:
    task = {"description": "look", "prompt": "Look around and report.", "subagent_type": "general-purpose"}
    replies = [
        Reply(calls=[("Task", {**task, "run_in_background": False})]),
        Reply(text="Looking.", calls=[bash("echo sub")]),
        Reply(text="Nothing here."),
        Reply(text="It found nothing."),
    ]
    with ScriptedModel(replies) as model:
        native_id = ask(home, model, "send somebody")
    main = log_of(home, native_id)
    (beside,) = main.with_suffix("").rglob("*.jsonl")
    assert beside.parent.name == "subagents"
    assert words(read(main)) == ["send somebody", "It found nothing."]
    pairs = read(beside)
    assert words(pairs) == ["Look around and report.", "Looking.", "Nothing here."]
    assert [message.role for _, message in pairs] == ["user", "assistant", "tool", "assistant"]
    assert all(message.sidechain for _, message in pairs)
    child = pairs[0][0]
    assert child.native_id == f"{native_id}/{beside.stem.removeprefix('agent-')}"
    assert (child.parent_id, child.parent_kind) == (session_id("claude-code", native_id), "subagent")
    with closing(SQLiteSessionStore(home / "store.db")) as store:
        report = sync(store, path_sources([main.parent]))
        assert report.tallies["claude-code"].sessions == 2
        assert store.get(child.id).parent_id == store.get(native_id).id


def test_a_resumed_session_goes_on_in_its_own_log(home: Path, work: Path) -> None:
    with ScriptedModel([Reply(text="One."), Reply(text="Two.")]) as model:
        native_id = ask(home, model, "first")
        reading = Reading(log_of(home, native_id))
        before = read(reading.path, reading)
        assert ask(home, model, "second", "--resume", native_id) == native_id
    assert words(before) == ["first", "One."]
    assert words(read(reading.path, reading)) == ["second", "Two."]
    assert words(read(reading.path)) == ["first", "One.", "second", "Two."]


@contextmanager
def waiting(home: Path, model: ScriptedModel, prompt: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Claude Code while it runs `cat pipe`."""
    pipe = home / "work" / "pipe"
    os.mkfifo(pipe)
    started = command(home, model, prompt, *options)
    with subprocess.Popen(**started, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        # Opening the pipe waits for the one who reads it, who may never come.
        deadline = Timer(SECONDS, lambda: os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        deadline.start()
        with pipe.open("w"):
            deadline.cancel()
            yield process
            process.wait(SECONDS)
    pipe.unlink()


def test_what_a_crash_or_an_interruption_left_open_is_closed_without_inventing_an_answer(
    home: Path, work: Path
) -> None:
    replies = [
        Reply(text="One.", calls=[bash("cat pipe")]),
        Reply(text="Two."),
        Reply(text="Three.", calls=[bash("cat pipe")]),
        Reply(text="Four."),
    ]
    logs = home / ".claude" / "projects"
    with ScriptedModel(replies) as model:
        with waiting(home, model, "first") as process:
            # It writes its log a moment after it runs the command.
            wait_until(lambda: any("cat pipe" in path.read_text() for path in logs.glob("*/*.jsonl")), every=0.1)
            process.kill()
        (path,) = logs.glob("*/*.jsonl")
        ask(home, model, "second", "--resume", path.stem)
        before = path.read_text().count("cat pipe")
        with waiting(home, model, "third", "--resume", path.stem) as process:
            wait_until(lambda: path.read_text().count("cat pipe") > before, every=0.1)
            process.send_signal(signal.SIGINT)
        ask(home, model, "fourth", "--resume", path.stem)
    assert "No response requested." in path.read_text()
    pairs = read(path)
    assert words(pairs) == ["first", "One.", "second", "Two.", "third", "Three.", "fourth", "Four."]
    outcomes = [result.outcome for _, message in pairs for result in message.tool_results]
    assert outcomes == ["unknown", "rejected"]


def test_a_fork_is_linked_to_its_origin_which_keeps_its_messages(home: Path, work: Path) -> None:
    replies = [
        Reply(text="One.", calls=[bash("echo one")]),
        Reply(text="Two."),
        Reply(text="Aside."),
        Reply(text="Three."),
    ]
    with ScriptedModel(replies) as model:
        native_id = ask(home, model, "first")
        fork = ask(home, model, "a question aside", "--resume", native_id, "--fork-session")
        # The fork ends before its origin does, which must not make it the elder of the two.
        ask(home, model, "go on", "--resume", native_id)
    copied = [message for _, message in read(log_of(home, fork)) if message.origin]
    assert [message.native_id for message in copied] == [
        message.native_id for _, message in read(log_of(home, native_id))
    ][:4]
    assert {message.origin for message in copied} == {native_id}
    logs = [log_of(home, native_id), log_of(home, fork)]
    for number, order in enumerate((logs, logs[::-1])):
        with closing(SQLiteSessionStore(home / f"store{number}.db")) as store:
            for path in order:
                sync(store, path_sources([path]))
            own, other = store.get(native_id), store.get(fork)
            assert (own.parent_id, other.parent_id, other.parent_kind) == (None, own.id, "branch")
            said = [message.text for message in store.messages(own.id) if message.text]
            assert said == ["first", "One.", "Two.", "go on", "Three."]
            assert [message.text for message in store.messages(other.id)] == ["a question aside", "Aside."]


def test_the_summary_of_a_compaction_is_flagged(home: Path, work: Path) -> None:
    replies = [SUMMARY, Reply(text="One."), Reply(text="Two."), Reply(text="Three.")]
    with ScriptedModel(replies) as model:
        native_id = ask(home, model, "first")
        ask(home, model, "second", "--resume", native_id)
        ask(home, model, "/compact keep the numbers", "--resume", native_id)
        ask(home, model, "third", "--resume", native_id)
    pairs = read(log_of(home, native_id))
    (summary,) = [message for _, message in pairs if message.compaction_summary]
    assert summary.role == "user"
    assert "They counted." in summary.text
    plain = [pair for pair in pairs if pair[1] is not summary]
    assert words(plain) == ["first", "One.", "second", "Two.", "third", "Three."]


def test_words_typed_while_it_works_are_the_persons_and_news_of_tasks_are_not(home: Path, work: Path) -> None:
    replies = [
        Reply(calls=[bash("echo task", run_in_background=True), bash("sleep 1; echo slow")]),
        Reply(calls=[bash("sleep 1; echo slow")]),
        Reply(text="All done."),
    ]
    heard: list[str] = []

    def react(event: dict[str, Any]) -> str | None:
        if event.get("type") == "assistant" and not heard:
            heard.append("it works")
            return "and the docs too"
        return None

    with ScriptedModel(replies) as model:
        talk(home, model, "please work", react)
    (path,) = (home / ".claude" / "projects").glob("*/*.jsonl")
    pairs = read(path)
    assert words(pairs) == ["please work", "and the docs too", "All done."]
    news = [message for _, message in pairs if "<task-notification>" in message.text]
    assert news
    assert all(message.injected for message in news)
