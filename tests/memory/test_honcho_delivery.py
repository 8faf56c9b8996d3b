"""Honcho slow, failing, gone, and back: writes arrive once each and in order, and reads do not wait."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.memory.honcho_server import running
from tests.ports import a_port_that_answers_nothing, connections, free_port, silent_port
from tests.waiting import is_quicker, seconds, wait_until
from warmstart.errors import MemoryBackendError
from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.honcho.link import Timeouts, ask

LIMIT = 0.3  # seconds, the default
SLACK = 100.0  # for a machine that does other things too; who waits for a request to end waits much longer
LONG = 600.0
IMPATIENT = {"timeouts": Timeouts(read=LIMIT, write=LONG, connect=LIMIT)}

# A process that writes `count` entries called PREFIX_0, PREFIX_1, …, and one that delivers what waits.
OPEN = """
import sys
from pathlib import Path
from warmstart.memory.honcho import HonchoBackend
url, path, *arguments = sys.argv[1:]
backend = HonchoBackend(base_url=url, path=Path(path), settle_seconds=0.0)
"""
WRITER = f"""{OPEN}
prefix, count = arguments
for number in range(int(count)):
    assert backend.store("u", f"{{prefix}}_{{number}}", f"value {{number}}")
print("written", flush=True)
"""
DELIVERER = f"{OPEN}print(backend.flush(180), flush=True)"


def process(script: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )


def numbers(entries: list[str], prefix: str) -> list[int]:
    """The numbers of the entries called so, in the order they arrived."""
    return [int(entry.split(":")[0].rpartition("_")[2]) for entry in entries if entry.startswith(f"{prefix}_")]


def retrieve(backend: HonchoBackend) -> None:
    with suppress(MemoryBackendError):  # it is not here, and nobody knows whether it is there
        backend.retrieve("u", "k")


def reads(backend: HonchoBackend) -> list[Callable[[], object]]:
    return [
        lambda: retrieve(backend),
        lambda: backend.query("u", "what is k"),
        lambda: backend.query("u", "what is k", dialectic=True),
        lambda: backend.query("u", ""),
        lambda: backend.list_keys("u"),
        lambda: backend.history("u", "k"),
        backend.users,
    ]


# -- how long a call takes


def test_a_server_that_says_nothing_costs_one_read_its_time_and_the_others_none(opened):
    with silent_port() as port:
        backend = opened(f"http://127.0.0.1:{port.getsockname()[1]}", **IMPATIENT)
        backend._link.load()
        assert seconds(lambda: backend.store("u", "k", "v")) < SLACK
        assert max(seconds(act) for act in reads(backend) * 10) < SLACK
        assert connections(port) < 15  # after 1, 2, 4… seconds somebody tries again; all would be 70
        assert backend.retrieve("u", "k").value == "v"
        assert seconds(backend.close) < SLACK


def test_a_server_that_is_gone_costs_nothing(opened):
    backend = opened(f"http://127.0.0.1:{free_port()}", timeouts=Timeouts(read=LONG, connect=LONG))
    backend._link.load()
    backend.store("u", "k", "v")
    assert max(seconds(act) for act in reads(backend)) < SLACK
    assert [entry.value for entry in backend.query("u", "k")] == ["v"]


def test_the_time_is_for_the_whole_call(server, opened):
    backend = opened(server.url, timeouts=Timeouts(read=0.35))
    backend.store("u", "k", "v")
    assert backend.flush()
    server.delay = lambda: time.sleep(0.3)
    for act in reads(backend):
        assert is_quicker(act, 0.6)  # which two requests one after the other take


def test_a_name_that_is_not_resolved_in_time_does_not_block(opened, monkeypatch):
    """What httpx has no timeout for."""
    backend = opened("http://honcho.example.com", **IMPATIENT)
    backend._link.load()
    asked, is_over = threading.Event(), threading.Event()

    def wait(*_, **__):
        asked.set()
        is_over.wait(LONG)
        raise OSError("no such name")

    monkeypatch.setattr("socket.getaddrinfo", wait)
    assert seconds(lambda: backend.query("u", "k")) < SLACK
    assert asked.is_set()
    is_over.set()


def test_a_server_that_hangs_holds_few_threads():
    is_over = threading.Event()
    ask([is_over.wait] * 100, 0.0)
    assert [thread.name for thread in threading.enumerate()].count("warmstart-honcho-ask") <= 16
    is_over.set()


def test_another_process_does_not_wait_again(opened):
    with a_port_that_answers_nothing() as url:
        first = opened(url, **IMPATIENT)
        first._link.load()
        assert seconds(lambda: first.list_keys("u")) > LIMIT * 0.9
        # For a second from then on; longer here, so that a busy machine begins in time.
        first._breaker._update("UPDATE circuit_breaker SET until = until + 600", ())
        assert seconds(lambda: opened(url, timeouts=Timeouts(read=LONG, connect=LONG)).list_keys("u")) < SLACK


def test_loading_the_sdk_is_not_waited_for_where_the_index_is_whole(server, tmp_path, opened):
    backend = opened(server.url)
    backend.store("u", "k", "v")
    assert backend.flush()
    assert backend.sync("u")
    backend.close()
    script = (
        "import sys, time; from pathlib import Path; from warmstart.memory.honcho import HonchoBackend;"
        "from warmstart.memory.honcho.link import Timeouts;"
        "given = {'fresh_seconds': 0.0, 'timeouts': Timeouts(read=5.0)};"
        "backend = HonchoBackend(base_url=sys.argv[1], path=Path(sys.argv[2]), **given);"
        "backend.is_available(); began = time.perf_counter(); found = backend.retrieve('u', 'k').value;"
        "read = time.perf_counter(); backend._link.load(); print(found, read - began, time.perf_counter() - read)"
    )
    found, read, loaded = process(script, server.url, tmp_path / "here").communicate()[0].split()
    assert found == "v"
    assert float(read) < float(loaded)


def test_reads_wait_again_when_the_server_is_back(server, opened):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("u", "k", "old")
    assert here.flush()
    assert there.sync("u")
    server.failing = 503
    assert there.retrieve("u", "k").value == "old"
    server.failing = 0
    here.store("u", "k", "new")
    assert here.flush()
    wait_until(lambda: there.retrieve("u", "k").value == "new")


# -- what arrives


def test_a_write_that_fails_arrives_once(fresh_honcho, subtests):
    """Whether the server refused it, kept it and said nothing, or kept it and failed then."""
    failures = [{"failures": [status, status]} for status in (429, 500, 502, 503)]
    for trouble in [*failures, {"dropped": 2}, {"late_failures": [500, 502]}]:
        with subtests.test(trouble), fresh_honcho() as (server, opened):
            vars(server).update(trouble)
            backend = opened(server.url)
            for number in range(150):
                backend.store("u", f"a_{number}", "v")
            assert backend.flush(180)
            assert numbers(server.entries(), "a") == list(range(150))


def test_retry_after_is_respected(server, opened):
    server.retry_after = "1"
    server.failures = [429]
    backend = opened(server.url)
    backend.store("u", "k", "v")
    wait_until(server.entries)  # nobody hurries
    assert len(server.entries()) == 1


def test_a_write_that_takes_effect_late_is_not_sent_twice(server, opened):
    """The client gave up on it, and the server kept it after that."""
    backend = opened(server.url, timeouts=Timeouts(read=5.0, write=0.2), settle_seconds=1.5)
    first = threading.Event()

    def slow_once():
        if server.requests[-1].path.endswith("/messages") and not first.is_set():
            first.set()
            wait_until(lambda: backend.status().error)

    server.delay = slow_once
    backend.store("u", "a_0", "v")
    assert backend.flush(180)
    assert numbers(server.entries(), "a") == [0]


def test_a_server_gone_in_the_middle(opened):
    """It dies and comes back again and again, and keeps what it had."""
    port = free_port()
    backend = opened(f"http://127.0.0.1:{port}", **IMPATIENT)
    kept: dict = {}
    random.seed(6)
    for life in range(5):
        with running(port) as server:
            server.workspaces = kept
            server.dropped = life % 2
            for number in range(life * 40, life * 40 + 40):
                backend.store("u", f"a_{number}", f"value {number}")
                if number == life * 40 + random.randrange(40):
                    break
            backend.flush(0.1)
        for number in range(3):
            assert seconds(lambda: backend.retrieve("u", "a_0")) < SLACK
            backend.store("u", f"away_{life * 3 + number}", "v")
    with running(port) as server:
        server.workspaces = kept
        assert backend.flush(180)
        arrived = numbers(server.entries(), "a")
        assert arrived == sorted(set(arrived))
        assert len(arrived) == sum(key.startswith("a_") for key in backend.list_keys("u"))
        assert numbers(server.entries(), "away") == list(range(15))


@pytest.mark.parametrize("count", [60, pytest.param(250, marks=pytest.mark.slow)])
def test_an_hour_of_writes_by_several_processes_while_honcho_is_gone(tmp_path, opened, count):
    """Up to 2,000 writes, over processes that begin and end; reads answer meanwhile; then all of them arrive."""
    at_once = 2 if count < 100 else 4
    port = free_port()
    url, path = f"http://127.0.0.1:{port}", tmp_path / "here"
    reader = opened(url, **IMPATIENT)
    reader._link.load()
    times: list[float] = []
    for turn in range(2):
        writers = [process(WRITER, url, path, f"w{turn}{number}", count) for number in range(at_once)]
        while any(writer.poll() is None for writer in writers):
            times += [seconds(act) for act in reads(reader)]
        for writer in writers:
            assert writer.communicate()[0].split() == ["written"]
    assert max(times) < SLACK
    assert len(reader.list_keys("u")) == 2 * at_once * count
    with running(port) as server:
        assert reader.flush(180)
        entries = server.entries()
        assert len(entries) == len(set(entries)) == 2 * at_once * count
        for turn in range(2):
            for number in range(at_once):
                assert numbers(entries, f"w{turn}{number}") == list(range(count))


def test_a_process_killed_between_sending_and_noting_it(server, tmp_path, opened):
    server.held.clear()
    writer = process(WRITER + "\nbackend.flush(180)\n", server.url, tmp_path / "here", "a", 20)
    assert server.kept.wait(180)
    writer.kill()
    writer.communicate()
    server.held.set()
    backend = opened(server.url)
    before = len(server.entries())
    assert before
    assert backend.flush(180)
    assert numbers(server.entries(), "a") == list(range(len(server.entries())))
    assert len(server.entries()) >= before
    assert sorted(backend.list_keys("u")) == sorted(entry.split(":")[0] for entry in server.entries())


def test_a_process_that_exits_during_a_request_does_not_crash(server, tmp_path):
    """Python ends daemon threads by unwinding their stacks, and pydantic's frames abort the process instead."""
    script = f"""{OPEN}
import atexit, time
class Slow:
    def __del__(self):
        time.sleep(1)  # while Python exits, so that the answer arrives then
slow = Slow()
backend.store("u", "k", "v")
sys.stdin.read()
atexit.register(print, "exiting", flush=True)
"""
    server.held.clear()
    command = [sys.executable, "-c", script, server.url, tmp_path / "here"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as exiting:
        assert server.kept.wait(180)
        exiting.stdin.close()
        assert exiting.stdout.readline() == b"exiting\n"
        server.held.set()
        assert exiting.wait(180) == 0


def test_two_processes_delivering_at_once(tmp_path, opened):
    port = free_port()
    url, path = f"http://127.0.0.1:{port}", tmp_path / "here"
    writer = process(WRITER, url, path, "a", 500)
    assert writer.communicate()[0].split() == ["written"]
    with running(port) as server:
        server.delay = lambda: time.sleep(0.02)
        deliverers = [process(DELIVERER, url, path) for _ in range(4)]
        backend = opened(url)
        assert backend.flush(180)
        assert [deliverer.communicate()[0].strip() for deliverer in deliverers] == ["True"] * 4
        assert numbers(server.entries(), "a") == list(range(500))


@pytest.mark.slow
def test_killed_at_any_moment(server, tmp_path, opened):
    """Writers die at random points while they send; others go on. Nothing is lost or doubled."""
    chance = random.Random(6)
    server.delay = lambda: time.sleep(0.005)
    for turn in range(25):
        seen = len(server.requests) + chance.randrange(8)
        writer = process(WRITER + "\nbackend.flush(180)\n", server.url, tmp_path / "here", f"r{turn}", 60)
        wait_until(lambda: len(server.requests) > seen or writer.poll() is not None)  # noqa: B023 - called at once
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    backend = opened(server.url)
    assert backend.flush(180)
    entries = server.entries()
    assert len(entries) == len(set(entries))
    assert sorted(backend.list_keys("u")) == sorted(entry.split(":")[0] for entry in entries)
    for turn in range(25):
        arrived = numbers(entries, f"r{turn}")
        assert arrived == list(range(len(arrived)))
