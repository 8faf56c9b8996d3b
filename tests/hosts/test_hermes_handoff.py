"""Our context engine in the real Hermes: compaction, packets, and fresh sessions, bounded."""

from __future__ import annotations

import os
import pty
import re
import select
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.clients import MARKS, SECONDS, Hermes, Turn
from warmstart.handoff.packet import verify
from warmstart.sessions.values import Usage, session_id
from warmstart.testing.model import Reply

pytestmark = MARKS

RULE = "Never touch the files under vendor/."
FULL, SMALL = Usage(input=120_000, output=20), Usage(input=30_000, output=20)


def configure(hermes: Hermes, *, in_place: bool, **settings: Any) -> None:
    hermes.configure(
        context={"engine": "warmstart"},
        compression={"in_place": in_place},
        agent={"auto_handoff_on_compression": {"enabled": True, **settings}},
    )
    hermes.install()


def compress(hermes: Hermes, times: int, name: str, *options: str) -> Turn:
    """One turn in which the context is full so many times."""
    for number in range(times):
        calls = [Reply(calls=[hermes.shell(f"seq {number} 900 # {name}{turn}")], usage=SMALL) for turn in range(4)]
        full = Reply(calls=[hermes.shell(f"echo {name}{number} > {name}{number}.txt")], usage=FULL)
        hermes.model.add(*calls, full)
    hermes.model.add(Reply(text=f"Finished {name}.", usage=SMALL))
    return hermes.ask(f"Count the tides of {name}. {RULE}", *options)


def sessions(hermes: Hermes) -> list[tuple[str, str | None, str | None]]:
    """Hermes' own sessions: id, parent and how it ended."""
    with closing(sqlite3.connect(f"file:{hermes.folder / 'state.db'}?mode=ro", uri=True)) as db:
        return db.execute(
            "SELECT id, parent_session_id, end_reason FROM sessions ORDER BY started_at, rowid"
        ).fetchall()


def packets(hermes: Hermes) -> list[Path]:
    return sorted((hermes.folder / "handoffs").glob("*.md"))


def test_three_compressions_give_a_packet_in_mode_prompt_user(hermes: Hermes) -> None:
    configure(hermes, in_place=True, mode="prompt_user")
    turn = compress(hermes, 2, "a")
    assert packets(hermes) == []
    last = turn.requests[-1].text
    assert RULE in last
    assert "left out here" in last
    turn = compress(hermes, 1, "b", "--resume", turn.session_id)
    (path,) = packets(hermes)
    assert f"Packet {verify(path.read_text())} has what it needs" in turn.errors
    assert RULE in path.read_text()
    assert "created a1.txt" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [(parent, reason) for _, parent, reason in sessions(hermes)] == [(None, None)]  # as ever
    with hermes.open() as ws:
        (only,) = ws.store.list()
        calls = [call.id for message in ws.store.messages(only.id) for call in message.tool_calls]
        results = [result for message in ws.store.messages(only.id) for result in message.tool_results]
        assert sorted(calls) == sorted(result.call_id for result in results)
        assert len(set(calls)) == len(calls) == 15
        assert not any("left out here" in result.text or not result.text for result in results)


def test_three_compressions_give_a_linked_child_in_mode_fresh_session(hermes: Hermes) -> None:
    configure(hermes, in_place=False, mode="fresh_session", after_compressions=3, max_auto_handoffs=1)
    turn = compress(hermes, 3, "a")
    (path,) = packets(hermes)
    text = path.read_text()
    packet = verify(text)
    ids = [name for name, _, _ in sessions(hermes)]
    assert sessions(hermes) == [
        (ids[0], None, "compression"),
        (ids[1], ids[0], "compression"),
        (ids[2], ids[1], "compression"),
        (ids[3], ids[2], None),
    ]
    first = turn.requests[-1].body["messages"]
    assert first[1]["content"].startswith(text.strip())
    assert f"Count the tides of a. {RULE}" in [str(one["content"]).split("\n\n[warm")[0] for one in first]
    assert f"continues in {session_id('hermes', ids[3])} with packet {packet}" in turn.errors
    with hermes.open() as ws:
        chain = ws.handoffs.chain(session_id("hermes", ids[3]))
        assert [one["end_reason"] for one in chain] == ["compression", "compression", "handoff", ""]
        assert [one["packet"] for one in chain] == ["", "", packet, ""]
        assert ws.store.get(session_id("hermes", ids[3])).parent_kind == "handoff"
    compress(hermes, 4, "b", "--resume", ids[3])
    assert packets(hermes) == [path]  # and no more than one
    hermes.warmstart("sync")
    with hermes.open() as ws:
        assert ws.store.get(session_id("hermes", ids[3])).parent_kind == "handoff"
        assert len(ws.handoffs.automatic(session_id("hermes", sessions(hermes)[-1][0]))) == 1


def test_a_session_that_keeps_its_id_is_compressed_as_ever_in_mode_fresh_session(hermes: Hermes) -> None:
    configure(hermes, in_place=True, mode="fresh_session", after_compressions=1)
    turn = compress(hermes, 2, "a")
    assert "left out here" in turn.requests[-1].text
    assert packets(hermes) == []
    assert "acket" not in turn.errors
    assert len(sessions(hermes)) == 1
    with hermes.open() as ws:
        (only,) = ws.store.list()
        assert ws.handoffs.packets() == []
        assert ws.handoffs.compressions(only.session.id).prompts == 0
        assert "- context: compressed 2 times, last at 20" in ws.handoffs.packet(only.session.id).text


def test_without_warmstart_the_engine_compresses_as_hermes_does(hermes: Hermes) -> None:
    configure(hermes, in_place=True)
    plugin = hermes.folder / "plugins" / "warmstart" / "__init__.py"
    plugin.write_text(plugin.read_text().replace(hermes.python, "/gone/python"))
    turn = compress(hermes, 1, "a")
    assert "CONTEXT COMPACTION" in turn.requests[-1].text
    assert "Finished a." in turn.text


@contextmanager
def terminal(hermes: Hermes) -> Iterator[tuple[int, list[str]]]:
    """Hermes in an interactive terminal: where to write, and what it has shown so far."""
    ours, theirs = pty.openpty()
    environment = {**hermes.environment, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
    process = subprocess.Popen(
        [hermes.program, "chat"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=hermes.work,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield ours, []
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def wait_for(pattern: str, ours: int, shown: list[str]) -> re.Match[str]:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            shown.append(os.read(ours, 65_536).decode(errors="replace"))
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", "".join(shown))
        if found := re.search(pattern, text):
            return found
    raise AssertionError("".join(shown)[-3000:])


def test_the_command_writes_a_packet_and_the_session_goes_on(hermes: Hermes) -> None:
    hermes.install()
    hermes.model.add(Reply(text="There are three gauges.", repeat=True))
    with terminal(hermes) as (ours, shown):
        wait_for("❯|>", ours, shown)
        os.write(ours, f"How many gauges are there? {RULE}\r".encode())
        wait_for("There are three gauges", ours, shown)
        os.write(ours, b"/handoff-packet the tests come next\r")
        found = wait_for(r"Packet (\w{12}) \([\d,]+ tokens\)", ours, shown)
        os.write(ours, b"And how many boats?\r")
        wait_for(r"And how many boats\?[\s\S]*There are three gauges", ours, shown)
    (path,) = packets(hermes)
    text = path.read_text()
    assert verify(text) == found[1]
    assert RULE in text
    assert "> the tests come next" in text
    assert len(sessions(hermes)) == 1


def test_a_terminal_shows_where_the_packet_is(hermes: Hermes) -> None:
    configure(hermes, in_place=True, mode="prompt_user", after_compressions=1)
    calls = [Reply(calls=[hermes.shell(f"seq {number} 900")], usage=SMALL) for number in range(4)]
    hermes.model.add(*calls, Reply(calls=[hermes.shell("seq 5 900")], usage=FULL), Reply(text="Counted.", usage=SMALL))
    with terminal(hermes) as (ours, shown):
        wait_for("❯|>", ours, shown)
        os.write(ours, b"Count the tides.\r")
        found = wait_for(r"Packet\s+(\w{12})\s+has\s+what\s+it\s+needs", ours, shown)
    assert [verify(path.read_text()) for path in packets(hermes)] == [found[1]]
