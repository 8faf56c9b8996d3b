from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from tests.sessions.logs import encoded, name, turn, turns, write
from warmstart.errors import LogError
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.sync import Source, SyncReport, default_sources, path_sources, sync
from warmstart.sessions.values import session_id
from warmstart.testing.stores import find_texts

SAMPLES = Path(str(files("warmstart"))) / "samples"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh
        assert fresh.database.integrity() == []


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def run(store: SQLiteSessionStore, *paths: Path) -> SyncReport:
    return sync(store, path_sources(paths))


def content(store: SQLiteSessionStore) -> dict[str, tuple[object, ...]]:
    """The content of the store, in a comparable form."""
    return {row.session.native_id: (row, tuple(store.messages(row.session.id))) for row in store.list()}


def test_every_message_call_and_outcome_is_imported_and_counted(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "one", turns("one", range(10)))
    report = run(store, logs)
    tally = report.tallies["claude-code"]
    assert (tally.sessions, tally.messages, tally.tool_calls, tally.errors, tally.files) == (1, 40, 10, 2, 1)
    (row,) = store.list()
    assert (row.messages, row.tool_calls, row.errors) == (40, 10, 2)
    assert row.session.native_id == name("one")
    assert row.session.project == "/home/mara/tidewatch"
    assert find_texts(store, "output 7")


def test_what_a_reader_of_your_own_reads_is_counted(store: SQLiteSessionStore, logs: Path) -> None:
    class Own(ClaudeCodeReader):
        agent = "own"

    path = write(logs, "one", turns("one", range(2)))
    report = sync(store, [Source(path, Own()), Source(logs / "gone.jsonl", Own())])
    assert (report.tallies["own"].messages, report.tallies["own"].malformed) == (8, 1)


def test_a_second_sync_changes_nothing_and_opens_nothing(store: SQLiteSessionStore, logs: Path) -> None:
    paths = [write(logs, seed, turns(seed, range(5))) for seed in ("one", "two")]
    (logs / "notes.json").write_text('{"not": "a log"}')
    run(store, logs)
    before = content(store)
    accessed = []
    for path in [*paths, logs / "notes.json"]:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
        accessed.append(path.stat().st_atime_ns)
    report = run(store, logs)
    assert (report.tallies["claude-code"].unchanged, report.changed, len(report.foreign)) == (2, 0, 1)
    assert content(store) == before
    assert [path.stat().st_atime_ns for path in [*paths, logs / "notes.json"]] == accessed


def test_a_log_read_again_from_the_start_changes_nothing(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "one", turns("one", range(5)))
    run(store, logs)
    before = content(store)
    moved = path.rename(path.with_name(f"2026-09-01-{path.name}"))
    report = run(store, moved)
    assert report.changed == 0
    assert {key: (row[1:], messages) for key, (row, messages) in content(store).items()} == {
        key: (row[1:], messages) for key, (row, messages) in before.items()
    }


def test_a_log_that_grew_is_read_from_the_last_position(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "one", turns("one", range(3)))
    run(store, logs)
    position = store.positions()[str(path)]
    assert position.offset == path.stat().st_size
    with path.open("ab") as file:
        file.write(encoded(turn("one", 3)))
    report = run(store, logs)
    assert report.tallies["claude-code"].messages == 4
    assert [message.text for message in store.messages(session_id("claude-code", name("one")))][
        -4
    ] == "request 3 of one"


def test_a_log_cut_anywhere_and_completed_gives_the_same(tmp_path: Path, logs: Path) -> None:
    whole = encoded(turns("one", range(3)))
    path = write(logs, "one", [])
    with closing(SQLiteSessionStore(tmp_path / "at-once.db")) as at_once:
        path.write_bytes(whole)
        run(at_once, path)
        expected = content(at_once)
    for cut in range(0, len(whole), 97):
        with closing(SQLiteSessionStore(tmp_path / f"{cut}.db")) as store:
            path.write_bytes(whole[:cut])
            first = run(store, path)
            assert first.problems == []
            path.write_bytes(whole)
            run(store, path)
            assert content(store) == expected


def test_a_rewritten_log_is_read_from_the_start(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "one", turns("one", range(2)))
    run(store, logs)
    path.write_bytes(encoded(turn("one", 7) + turns("one", range(4))))
    run(store, logs)
    texts = {message.text for message in store.messages(session_id("claude-code", name("one")))}
    assert {f"request {number} of one" for number in (0, 1, 2, 3, 7)} <= texts


def test_a_malformed_line_is_reported_and_stops_nothing(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "one", turns("one", range(2)))
    path.write_bytes(path.read_bytes() + b'{"type": "user", broken\n[1, 2]\n' + encoded(turn("one", 2)))
    report = run(store, logs)
    assert report.tallies["claude-code"].malformed == 2
    assert [(problem.path, problem.line) for problem in report.problems] == [(str(path), 9), (str(path), 10)]
    assert report.tallies["claude-code"].messages == 12


def test_unknown_kinds_of_line_are_counted(store: SQLiteSessionStore, logs: Path) -> None:
    lines = [*turn("one", 0), {"type": "brand-new-thing", "sessionId": name("one")}]
    write(logs, "one", lines)
    assert run(store, logs).tallies["claude-code"].skipped == {"brand-new-thing": 1}


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
@pytest.mark.parametrize("renamed", [True, False])
def test_a_resumed_log_is_linked_without_duplicates(
    store: SQLiteSessionStore, logs: Path, order: tuple[str, str], renamed: bool
) -> None:
    copied = turns("old", range(3))
    if renamed:
        copied = [line | {"sessionId": name("new")} for line in copied]
    paths = {
        "old": write(logs, "old", turns("old", range(3))),
        "new": write(logs, "new", copied + turns("new", range(60, 62))),
    }
    for seed in order:
        run(store, paths[seed])
    rows = {row.session.native_id: row for row in store.list()}
    assert {key: row.messages for key, row in rows.items()} == {name("old"): 12, name("new"): 8}
    resumed = rows[name("new")].session
    assert (resumed.parent_id, resumed.parent_kind) == (session_id("claude-code", name("old")), "resume")
    assert resumed.title == "request 60 of new"


def test_a_resumed_log_seen_before_its_first_own_message_is_linked(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "old", turns("old", range(3)))
    path = write(logs, "new", turns("old", range(3)))
    run(store, logs)
    assert len(store.list()) == 1
    with path.open("ab") as file:
        file.write(encoded(turn("new", 60)))
    run(store, logs)
    (resumed,) = (row.session for row in store.list() if row.session.native_id == name("new"))
    assert resumed.parent_id == session_id("claude-code", name("old"))


def test_a_deleted_session_does_not_come_back(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "old", turns("old", range(2)))
    write(logs, "new", turns("old", range(2)) + turns("new", range(60, 61)))
    run(store, logs)
    store.delete(session_id("claude-code", name("old")))
    with path.open("ab") as file:
        file.write(encoded(turn("old", 3)))
    for log in logs.iterdir():
        os.utime(log)
    run(store, logs)
    assert [row.session.native_id for row in store.list()] == [name("new")]
    assert find_texts(store, "request 0 of old") == []


def test_files_that_are_not_logs_are_skipped(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "one", turn("one", 0))
    (logs / "index.jsonl").write_text('{"path": "a", "sha256": "b"}\n')
    (logs / "empty.jsonl").touch()
    (logs / "package.json").write_text('{"name": "tide", "version": "1"}')
    (logs / "image.json").write_bytes(bytes(range(256)))
    report = run(store, logs)
    assert sorted(Path(path).name for path in report.foreign) == [
        "empty.jsonl",
        "image.json",
        "index.jsonl",
        "package.json",
    ]
    assert report.problems == []
    assert len(store.list()) == 1


def test_a_file_with_the_wrong_format_is_reported(store: SQLiteSessionStore, logs: Path) -> None:
    (logs / "state.db").write_bytes(b"this is no database" * 100)
    (logs / "chat.json").write_bytes(b'[{"role": "user"')
    for agent in ("hermes", "openai"):
        report = sync(store, path_sources([logs], agent))
        assert len(report.problems) == 1, agent
        assert report.changed == 0


def test_a_path_that_does_not_exist_is_an_error(store: SQLiteSessionStore, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="nowhere"):
        run(store, tmp_path / "nowhere")


def test_a_log_that_vanishes_or_cannot_be_read_does_not_stop_the_others(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "one", turn("one", 0))
    (logs / "gone.jsonl").symlink_to(logs / "nothing")
    report = run(store, logs, logs / f"{name('one')}.jsonl")
    assert report.tallies["claude-code"].messages == 4
    assert len(report.problems) <= 1


class Surprised:
    """A reader with a bug."""

    agent = "claude-code"

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return []

    def find(self, root: Path) -> list[Path]:
        return [root]

    def claims(self, path: Path, head: bytes) -> bool:
        return True

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        yield from ()
        raise TypeError("did not think of that")


def test_a_broken_reader_does_not_stop_the_others(store: SQLiteSessionStore, logs: Path) -> None:
    paths = [write(logs, seed, turn(seed, 0)) for seed in ("one", "two")]
    report = sync(store, [Source(paths[0], Surprised()), Source(paths[1], None)])
    assert report.tallies["claude-code"].messages == 4
    (problem,) = report.problems
    assert (problem.path, problem.line) == (str(paths[0]), 0)
    assert "TypeError: did not think of that" in problem.reason


def test_a_pipe_among_the_logs_is_reported_and_not_waited_for(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "one", turn("one", 0))
    os.mkfifo(logs / "pipe.jsonl")
    report = run(store, logs)
    assert report.tallies["claude-code"].messages == 4
    assert [(problem.path, problem.reason) for problem in report.problems] == [
        (str(logs / "pipe.jsonl"), "not a regular file")
    ]


def test_a_path_that_is_not_text_is_read_like_any_other(store: SQLiteSessionStore, logs: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(logs) + b"/caf\xe9"))
    path = write(folder, "one", turns("one", range(2)))
    write(logs, "two", turn("two", 0))
    assert run(store, logs).tallies["claude-code"].messages == 12
    with path.open("ab") as file:
        file.write(encoded(turn("one", 2)))
    again = run(store, logs)
    assert (again.tallies["claude-code"].messages, again.tallies["claude-code"].unchanged) == (4, 1)


def test_a_session_deleted_while_it_is_read_does_not_come_back(store: SQLiteSessionStore, logs: Path) -> None:
    write(logs, "one", turns("one", range(2)))
    run(store, logs)
    write(logs, "one", turns("one", range(4)))
    gone = session_id("claude-code", name("one"))
    # The first word on progress comes when the logs to read have been chosen.
    sync(store, path_sources([logs]), progress=lambda done, total, file: store.delete(gone) and None)
    assert store.list() == []
    assert "request 1" not in repr(store.positions())


def test_a_format_given_by_mistake_does_not_stick(store: SQLiteSessionStore, logs: Path) -> None:
    path = write(logs, "one", turn("one", 0))
    sync(store, path_sources([path], "codex"))
    assert store.list() == []
    assert run(store, path).tallies["claude-code"].messages == 4


def test_a_secret_in_an_unfinished_message_is_not_remembered(store: SQLiteSessionStore, logs: Path) -> None:
    secret = "zX9#kQ2!mN7$wP"
    lines = turn("one", 0)
    lines[3]["message"]["content"] = [{"type": "text", "text": f'password:\t"{secret}"'}]
    write(logs, "one", lines)
    run(store, logs)
    assert secret not in repr([store.positions(), *store.messages(session_id("claude-code", name("one")))])
    ((path, position),) = store.positions().items()
    assert (position.state, position.offset) == ({}, 0)
    write(logs, "one", [*lines, *turn("one", 1)])
    assert run(store, logs).changed == 4
    assert secret not in repr([store.positions(), *store.messages(session_id("claude-code", name("one")))])
    assert store.positions()[path].offset > 0


def test_only_the_selected_agents_are_imported(store: SQLiteSessionStore) -> None:
    report = sync(store, path_sources([SAMPLES]), agents=("codex",))
    assert list(report.tallies) == ["codex"]
    everything = sync(store, path_sources([SAMPLES]))
    assert {"claude-code", "codex", "gemini-cli", "openai"} == set(everything.tallies)
    assert everything.tallies["codex"].unchanged == 1


def test_histories_are_found_in_the_agents_own_places(store: SQLiteSessionStore, tmp_path: Path) -> None:
    home = tmp_path / "person"
    shutil.copytree(SAMPLES / "claude-code" / "projects", home / ".claude" / "projects")
    shutil.copytree(SAMPLES / "codex" / "sessions", home / ".codex" / "sessions")
    report = sync(store, default_sources({}, home))
    assert {agent: tally.sessions for agent, tally in report.tallies.items()} == {"claude-code": 5, "codex": 1}
    moved = tmp_path / "elsewhere"
    env = {"CLAUDE_CONFIG_DIR": str(moved / "c"), "CODEX_HOME": str(SAMPLES / "codex")}
    assert {source.reader.agent for source in default_sources(env, home) if source.reader} == {"codex"}
    assert default_sources({}, tmp_path / "nobody") == []


def test_a_large_log_is_written_in_several_batches(store: SQLiteSessionStore, logs: Path) -> None:
    big = "x" * 1_000_000
    lines = [line for number in range(20) for line in turn("one", number, text=f"{number} {big}")]
    path = write(logs, "one", lines)
    seen: list[int] = []
    sync(store, path_sources([path]), progress=lambda done, total, file: seen.append(done))
    assert len(set(seen)) > 3
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert store.list()[0].messages == 80


def test_the_samples_tell_their_story(store: SQLiteSessionStore) -> None:
    report = run(store, SAMPLES)
    assert report.problems == []
    rows = store.list()
    assert {row.session.agent for row in rows} == {"claude-code", "codex", "gemini-cli", "openai"}
    assert sum(row.rejected for row in rows) >= 3
    kinds = {row.session.parent_kind for row in rows if row.session.parent_id}
    assert kinds == {"resume", "subagent"}
    best = rows[0]
    assert (best.errors, best.tool_calls > 15) == (0, True)
    assert max(row.errors for row in rows[1:]) >= 5


@pytest.mark.corpus
def test_real_sessions_are_complete(store: SQLiteSessionStore, corpus: Path) -> None:
    report = run(store, corpus / "sessions")
    totals: dict[str, tuple[int, ...]] = {}
    for row in store.list():
        agent = row.session.agent
        totals[agent] = tuple(map(sum, zip(totals.get(agent, (0,) * 5), (1, *row[1:]), strict=True)))
    assert totals["codex"][0] == 7
    assert totals["copilot-cli"][0] == 6
    assert totals["claude-code"][0] == 183 + 26
    assert report.tallies["claude-code"].malformed == 0
    for agent, tally in report.tallies.items():
        assert (tally.sessions, tally.messages, tally.tool_calls, tally.errors, tally.rejected) == totals[agent]
    assert [Path(path).name for path in sorted(report.foreign)] == ["INDEX.jsonl", "commit_to_session_queries.jsonl"]


@pytest.mark.corpus
def test_rewards_become_outcomes(store: SQLiteSessionStore, corpus: Path) -> None:
    run(store, corpus / "tau_bench", corpus / "tau2")
    assert len(store.list(Filter(outcome="success"))) + len(store.list(Filter(outcome="failure"))) == 220
