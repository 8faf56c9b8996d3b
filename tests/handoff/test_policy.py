from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warmstart
from tests.handoff.talk import SESSION, Talk
from warmstart import Warmstart
from warmstart.errors import ConfigError, HandoffRefused
from warmstart.handoff.policy import AutoHandoff, HandoffResult, artifact_directory
from warmstart.handoff.store import Handoffs
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session


def enable(ws: Warmstart, **changes: Any) -> AutoHandoff:
    options = {"handoff_enabled": True, "handoff_after": 2, "handoff_mode": "fresh_session", **changes}
    ws.settings = replace(ws.settings, **options)
    return AutoHandoff(ws.handoffs, ws.settings)


def record(ws: Warmstart, talk: Talk, session: Session = SESSION) -> Session:
    ws.store.append(session, talk.messages)
    return ws.store.get(session.id)


def start() -> Talk:
    talk = Talk().user("Add a storm table. Never touch the migrations.")
    return talk.call("Edit", {"file_path": "/home/mara/harbour/storms.py", "old_string": "1", "new_string": "2"})


def compress(
    policy: AutoHandoff, handoffs: Handoffs, session: str, times: int, child: str | None = "c1"
) -> HandoffResult:
    for _ in range(times):
        outcome = policy.after_compression(handoffs.ledger(session), child_id=child)
    return outcome


def test_disabled_by_default(opened: Warmstart) -> None:
    session = record(opened, start())
    policy = AutoHandoff(opened.handoffs, opened.settings)
    assert compress(policy, opened.handoffs, session.id, 5) == HandoffResult(reason="disabled")
    assert not list(opened.settings.home.glob("handoffs/*"))


def test_a_fresh_session_is_linked_has_its_context_and_is_bounded(opened: Warmstart) -> None:
    policy, handoffs = enable(opened), opened.handoffs
    session = record(opened, start())
    assert compress(policy, handoffs, session.id, 1).reason == "compression 1 of 2"
    done = compress(policy, handoffs, session.id, 1)
    child, packet = done.child, done.packet
    assert child
    assert packet
    assert (done.action, child.parent_id, child.parent_kind) == ("fresh_session", session.id, "handoff")
    assert [message.text for message in opened.store.messages(child.id)] == [packet.text]
    assert done.path
    assert done.path.read_text() == packet.text
    assert done.path.parent == opened.settings.home / "handoffs"
    assert done.path.stat().st_mode & 0o777 == 0o600
    assert [(link["session_id"], link["end_reason"]) for link in handoffs.chain(child.id)] == [
        (session.id, "handoff"),
        (child.id, ""),
    ]
    assert compress(policy, handoffs, child.id, 2, "c2").reason == "nothing has changed since the last handoff"
    opened.store.append(child, Talk("k").user("Only use SVG.").bash("make test").messages)
    ledger = handoffs.ledger(child.id)
    assert [one.text for one in ledger.constraints] == ["Never touch the migrations.", "Only use SVG."]
    second = compress(policy, handoffs, child.id, 1, "c2")
    assert second.child
    assert second.packet
    assert f"- Never touch the migrations. ({session.id}#1)" in second.packet.text
    assert "chain 2 of 3" in second.packet.text
    opened.store.append(second.child, Talk("l").bash("make build").messages)
    assert compress(policy, handoffs, second.child.id, 2, "c3").reason == "2 of 2 handoffs used"


def test_prompt_user_writes_the_packet_and_leaves_the_session(opened: Warmstart) -> None:
    policy = enable(opened, handoff_mode="prompt_user")
    session = record(opened, start())
    done = compress(policy, opened.handoffs, session.id, 2)
    assert (done.action, done.child) == ("prompt_user", None)
    assert "warmstart handoff resume" in done.message
    assert len(opened.store.list(Filter())) == 1
    assert compress(policy, opened.handoffs, session.id, 2).reason == "nothing has changed since the last handoff"


def test_without_a_fresh_session_the_compression_is_an_ordinary_one(opened: Warmstart) -> None:
    policy, handoffs = enable(opened, handoff_after=1), opened.handoffs
    session = record(opened, start())
    assert "cannot start a fresh session" in compress(policy, handoffs, session.id, 1, None).reason
    assert handoffs.chain(session.id)[0]["end_reason"] == ""
    assert len(opened.store.list(Filter())) == 1
    assert handoffs.packets() == []
    assert not list(opened.settings.home.glob("handoffs/*"))
    done = compress(policy, handoffs, session.id, 1)
    assert done.action == "fresh_session"  # nothing was used up


def test_a_session_is_handed_over_once(opened: Warmstart) -> None:
    handoffs = opened.handoffs
    session = record(opened, start())
    ledger = handoffs.ledger(session.id)
    packet = handoffs.packet_of(ledger)
    handoffs.hand_over(ledger, packet, replace(session, native_id="c1", stored_id=""))
    with pytest.raises(HandoffRefused, match="is already handed over"):
        handoffs.hand_over(ledger, packet, replace(session, native_id="c2", stored_id=""))
    assert len(opened.store.list(Filter())) == 2


class Failing:
    """A connection that fails after some statements."""

    def __init__(self, connection: Any, after: int, fail: Callable[[], None]) -> None:
        self._connection, self._left, self._fail = connection, after, fail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *words: Any) -> Any:
        done = self._connection.execute(*words)
        self._count(words[0])
        return done

    def executemany(self, *words: Any) -> Any:
        done = self._connection.executemany(*words)
        self._count(words[0])
        return done

    def _count(self, sql: str) -> None:
        if not sql.startswith(("ROLLBACK", "BEGIN")):
            self._left -= 1
            if self._left == 0:
                self._fail()


class Crash(OSError):
    pass


def check_state(ws: Warmstart, parent: str) -> int:
    """What must hold after any crash; returns the number of children."""
    children = [row for row in ws.store.list(Filter()) if row.session.parent_kind == "handoff"]
    handoff = ws.handoffs.handoff(parent)
    assert len(children) == (handoff is not None) <= 1
    for row in children:
        assert handoff
        assert handoff[0] == row.id
        assert [message.text[:11] for message in ws.store.messages(row.id)] == ["[warmstart]"]
    assert len(list(ws.store.messages(parent))) == len(start().messages)
    return len(children)


def test_a_failure_after_any_statement_leaves_a_whole_state(tmp_path: Path) -> None:
    def fail() -> None:
        raise Crash("no space left")

    seen = set()
    for after in range(1, 200):
        with warmstart.open(tmp_path / f"{after}.db", home=tmp_path / "warm") as ws:
            session = record(ws, start())
            policy = enable(ws, handoff_after=1)
            ledger, database = ws.handoffs.ledger(session.id), ws.store.database
            whole = database.connection
            database.connection = failing = Failing(whole, after, fail)  # type: ignore[assignment]
            outcome = policy.after_compression(ledger, child_id="c1")
            database.connection = whole
            seen.add(check_state(ws, session.id))
            assert outcome.action == "none" or check_state(ws, session.id) == 1
            if failing._left > 0:
                break
            again = policy.after_compression(ledger, child_id="c1")
            assert again.child or check_state(ws, session.id) == 1
    assert after > 10
    assert seen == {0, 1}


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[4])
import warmstart
from tests.handoff.test_policy import Failing, enable
with warmstart.open(sys.argv[1], home=sys.argv[2]) as ws:
    policy = enable(ws, handoff_after=1)
    ledger = ws.handoffs.ledger(sys.argv[5])
    database = ws.store.database
    database.connection = Failing(database.connection, int(sys.argv[3]), lambda: os.kill(os.getpid(), signal.SIGKILL))
    policy.after_compression(ledger, child_id="c1")
    database.connection = database.connection._connection
"""


def kill_after(tmp_path: Path, after: int) -> bool:
    """Kill a process that hands over, after so many statements; returns whether it lived that long."""
    store, home = str(tmp_path / f"{after}.db"), str(tmp_path / "warm")
    with warmstart.open(store, home=home) as ws:
        session = record(ws, start())
    line = [sys.executable, "-c", KILLED, store, home, str(after), str(Path(__file__).parents[2]), session.id]
    ended = subprocess.run(line, env=os.environ, check=False)
    assert ended.returncode in (0, -signal.SIGKILL)
    with warmstart.open(store, home=home) as ws:
        check_state(ws, session.id)
    return ended.returncode != 0


def test_a_killed_process_leaves_a_whole_state(tmp_path: Path) -> None:
    assert [kill_after(tmp_path, after) for after in (3, 14, 30, 200)] == [True, True, True, False]


@pytest.mark.slow
def test_a_process_may_be_killed_after_any_statement(tmp_path: Path) -> None:
    assert next(after for after in range(1, 200) if not kill_after(tmp_path, after)) > 30


AT_ONCE = """
import sys, time
sys.path.insert(0, sys.argv[4])
import warmstart
from tests.handoff.test_policy import enable
with warmstart.open(sys.argv[1], home=sys.argv[2]) as ws:
    policy = enable(ws, handoff_after=1)
    ledger = ws.handoffs.ledger(sys.argv[5])
    print("ready", flush=True)
    input()
    print(policy.after_compression(ledger, child_id=sys.argv[3]).action)
"""


def test_of_several_processes_one_hands_over(tmp_path: Path) -> None:
    store, home = str(tmp_path / "store.db"), str(tmp_path / "warm")
    with warmstart.open(store, home=home) as ws:
        session = record(ws, start())
    words = (sys.executable, "-c", AT_ONCE, store, home)
    rest = (str(Path(__file__).parents[2]), session.id)
    processes = [
        subprocess.Popen((*words, f"c{number}", *rest), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    ends = sorted(process.communicate(timeout=180)[0].strip() for process in processes)
    assert ends == ["fresh_session", "none", "none"]
    with warmstart.open(store, home=home) as ws:
        assert check_state(ws, session.id) == 1


def test_the_folder_for_packets_cannot_lead_out_of_the_home(tmp_path: Path, subtests: Any) -> None:
    home = tmp_path / "warm"
    home.mkdir()
    (home / "out").symlink_to(tmp_path)
    (home / "inside").symlink_to(home)
    for name in ("/tmp/x", "../x", "a/../../x", "~/x", "", "out", "out/deeper"):
        with subtests.test(name), pytest.raises(ConfigError, match="handoff_artifact_dir"):
            artifact_directory(home, name)
    assert artifact_directory(home, "inside/packets") == home / "inside" / "packets"


def test_a_run_fits_its_messages_and_hands_over(tmp_path: Path) -> None:
    with warmstart.open(tmp_path / "store.db", home=tmp_path / "warm") as ws:
        enable(ws)
        with ws.begin("s1", project=str(tmp_path)) as run:
            chat: list[Any] = [{"role": "system", "content": "Be brief."}]

            def work(turn: int) -> None:
                call = {"id": f"c{turn}", "function": {"name": "Bash", "arguments": f'{{"command": "make t{turn}"}}'}}
                for message in (
                    {"role": "user", "content": f"Never push. Run {turn}."},
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": f"c{turn}", "content": "gauge 17 is dry\n" * 400},
                ):
                    chat.append(message)
                    run.record(message)

            work(1)
            assert run.fit(chat, budget_tokens=50_000) == chat
            for turn in range(2, 9):
                work(turn)
            first = run.fit(chat, budget_tokens=9_000)
            assert run.session_id == "s1"
            assert len(first) == len(chat)
            second = run.fit(chat, budget_tokens=9_000)
            assert run.session_id == "s1+1"
            assert second[0] == chat[0]
            assert "- Never push. (#1)" in second[1]["content"]
            assert second[2:] == chat[-3:]  # what there is to answer
            run.record({"role": "assistant", "content": "I go on."})
            child = ws.store.get("s1+1")
            assert child.parent_kind == "handoff"
            assert [one.role for one in ws.store.messages(child.id)] == ["user", "assistant"]
            (packet,) = ws.handoffs.automatic(child.id)
            assert "- context: compressed 2 times, last at 20" in ws.handoffs.find(packet.packet).text
            assert "- context: compressed" not in ws.handoffs.packet(child.id).text  # it is a fresh one
