"""What all readers lean on: fields, lines and folders as they should not be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.readers.logs import continued
from tests.unprivileged import as_nobody, let_in
from warmstart.sessions.readers.base import Pair, Reading, files_below
from warmstart.sessions.readers.fields import as_time
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.readers.registry import GROUP, readers
from warmstart.sessions.readers.transcript import Line, Transcript, split_objects

READERS = readers()
ID = "aaaaaaaa-0000-4000-8000-00000000000a"


class Named(msgspec.Struct):
    name: str


class NamedLog(Transcript[Named]):
    decoder = msgspec.json.Decoder(Named)

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.names: list[str] = []

    def take(self, record: Named, line: Line) -> list[Pair]:
        self.names.append(record.name)
        return []


# -- fields


def test_a_number_that_is_no_time_is_none(subtests: pytest.Subtests) -> None:
    for value in [10**400, -(10**400), float("inf"), float("-inf"), float("nan"), 0, -1, -(2**63)]:
        with subtests.test(value=value):
            assert as_time(value) is None


@given(st.integers() | st.integers(-(10**400), 10**400) | st.floats())
def test_no_number_is_too_much_for_a_time(value: float) -> None:
    assert as_time(value) is None or isinstance(value, int | float)


# -- lines


def test_a_line_of_many_values_is_split_in_no_time(subtests: pytest.Subtests) -> None:
    for word in ["1 ", '{"a": 1} ', "{}", "{} x", '"a" ']:
        with subtests.test(word=word):
            data = (word * (1_000_000 // len(word))).encode()
            began = time.process_time()
            parts = split_objects(data)
            assert time.process_time() - began < 10
            assert bool(parts) == ("{" in word and "x" not in word)


def test_what_is_not_made_of_objects_is_not_split(subtests: pytest.Subtests) -> None:
    for data in [b"1 2", b'{"a": 1} 2', b'[{"a": 1}] {"a": 2}', b'{"a": 1} "b"', b'{"a": 1} {', b""]:
        with subtests.test(data=data):
            assert split_objects(data) == []


def test_objects_on_one_line_are_split() -> None:
    assert split_objects('{"a": "é"}{"b": 2} \t {"c": 3}\n'.encode()) == [
        '{"a": "é"}'.encode(),
        b'{"b": 2} \t ',
        b'{"c": 3}\n',
    ]


def read(path: Path, reading: Reading) -> list[str]:
    """The names in a log, the place to go on from moved past every line that was understood."""
    log = NamedLog(path, reading)
    assert list(log.pairs()) == []
    return log.names


def test_a_line_with_many_faults_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"name": "a"}' + b"{}" * 1000 + b'{"name": "b"}\n{}\n')
    reading = Reading(path)
    assert read(path, reading) == ["a", "b"]
    assert [problem.line for problem in reading.problems] == [1, 2]
    assert reading.malformed == 2


def test_lines_are_counted_once_when_the_last_one_had_no_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"name": "a"}\n{"name": "b"}')
    reading = Reading(path)
    assert (read(path, reading), reading.line) == (["a", "b"], 2)
    with path.open("ab") as file:
        file.write(b'\n{"name": "c"}\n\n{"name": 4}\n{"name": "e"}\n')
    reading = continued(path, reading)
    assert (read(path, reading), reading.line) == (["c", "e"], 6)
    assert [problem.line for problem in reading.problems] == [5]


def test_lines_are_counted_on_where_the_last_one_had_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"name": "a"}\n')
    reading = Reading(path)
    read(path, reading)
    with path.open("ab") as file:
        file.write(b'{"name": "b"}\n')
    reading = continued(path, reading)
    assert (read(path, reading), reading.line) == (["b"], 2)


def test_a_malformed_last_line_is_reported_once_while_the_log_grows(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for end in [b"", b"\n"]:
        with subtests.test(end=end):
            path = tmp_path / "log.jsonl"
            path.write_bytes(b'{"name": "a"}\n{"name": 2}' + end)
            reading = Reading(path)
            read(path, reading)
            assert reading.malformed == 1
            path.write_bytes(b'{"name": "a"}\n{"name": 2}\n{"name": "c"}\n{}\n')
            reading = continued(path, reading)
            assert read(path, reading) == ["c"]
            assert [problem.line for problem in reading.problems] == [4]


def test_a_file_of_which_nothing_was_read_is_reported_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    reading = Reading(path)
    for _ in range(2):
        path.write_bytes(b"{}\n{}\n")
        read(path, reading)
        assert reading.malformed == 2
        reading = continued(path, reading)


# -- folders


def is_log(name: str) -> bool:
    return name.endswith(".log")


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody but root can list the folder."""
    let_in(folder.parent)
    mode = folder.stat().st_mode
    folder.chmod(0)
    yield
    folder.chmod(mode)


def test_files_are_found_in_the_order_of_their_names(tmp_path: Path) -> None:
    wanted = [tmp_path / "b.log", tmp_path / "a" / "d.log", tmp_path / "c" / "a.log", tmp_path / "c" / "a" / "b.log"]
    touch(*reversed(wanted), tmp_path / "c" / "other.txt")
    assert list(files_below(tmp_path, is_log)) == wanted
    assert list(files_below(wanted[0], str.isupper)) == [wanted[0]]
    assert list(files_below(tmp_path / "none", is_log)) == []


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    touch(root / "z" / "own.log", elsewhere / "deep" / "far.log")
    (root / "a").symlink_to(root / "z")  # what is there under its own name keeps it
    (root / "b").symlink_to(elsewhere)
    (root / "z" / "up").symlink_to(root)
    (elsewhere / "deep" / "self").symlink_to(elsewhere)
    (root / "gone").symlink_to(tmp_path / "none")
    assert list(files_below(root, is_log)) == [root / "z" / "own.log", root / "b" / "deep" / "far.log"]


def test_a_folder_that_cannot_be_listed_is_given_itself(tmp_path: Path) -> None:
    top = tmp_path / "top"
    touch(top / "a" / "one.log", top / "b" / "two.log")
    with locked(top / "a"):
        assert as_nobody(lambda: set(files_below(top, is_log))) == {top / "a", top / "b" / "two.log"}
    with locked(top):
        assert as_nobody(lambda: list(files_below(top, is_log))) == [top]


LOGS = {
    "claude-code": (".claude/projects", "app", f"{ID}.jsonl"),
    "codex": (".codex/sessions", "2026", f"rollout-{ID}.jsonl"),
    "gemini-cli": (".gemini/tmp", "app", "chats/session-1.json"),
    "copilot-cli": (".copilot/session-state", ID, "events.jsonl"),
    "opencode": ("exports", "app", "a.json"),
    "openai": ("chats", "app", "chat.json"),
}


@pytest.mark.parametrize("agent", LOGS)
def test_every_reader_follows_links_and_names_what_it_cannot_list(agent: str, tmp_path: Path) -> None:
    base, folder, name = LOGS[agent]
    root = tmp_path / base
    (root / folder).parent.mkdir(parents=True)
    touch(tmp_path / "far" / name)
    (root / folder).symlink_to(tmp_path / "far")
    assert list(READERS[agent].find(root)) == [root / folder / name]
    let_in((root / folder).parent)
    with locked(tmp_path / "far"):
        assert as_nobody(lambda: list(READERS[agent].find(root))) == [root / folder]


@pytest.mark.parametrize("agent", LOGS)
def test_every_reader_names_a_root_that_it_cannot_list(agent: str, tmp_path: Path) -> None:
    root = tmp_path / LOGS[agent][0]
    root.mkdir(parents=True)
    with locked(root):
        assert as_nobody(lambda: list(READERS[agent].find(root))) == [root]


# -- readers of other packages


class PelicanReader(OpenAIReader):
    agent = "pelican"


class PelicanRecord(msgspec.Struct):
    name: str = ""
    writer: str = ""
    text: str = ""


class PelicanLog(Transcript[PelicanRecord]):
    """Names sessions by its own rule, and the writer of a copy by a property or a keyword."""

    agent = "pelican"
    decoder = msgspec.json.Decoder(PelicanRecord)
    writer = ""

    @property
    def origin(self) -> str:  # type: ignore[override]
        return self.writer

    def take(self, record: PelicanRecord, line: Line) -> Iterator[Pair]:
        if "id" not in self.state:
            self.learn(id=record.name)
        self.native_id, self.writer = f"{self.state['id']}:{line.start}", record.writer
        yield self.pair(self.message("user", record.text))
        yield self.pair(self.message("assistant", record.text, origin="another"))


class BrokenReader:
    def __init__(self) -> None:
        raise RuntimeError("no")


def test_another_package_adds_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in ("BrokenReader", "PelicanReader")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == GROUP else [])
    found = readers.__wrapped__()
    assert set(found) == {*READERS, "pelican"} - {"pi"}  # which arrives through an entry point too
    assert list(found)[-1] == "openai"  # its format has the fewest marks
    assert isinstance(found["pelican"], PelicanReader)


def test_a_reader_names_sessions_and_writers_by_its_own_rules(tmp_path: Path) -> None:
    path = tmp_path / "flight.jsonl"
    path.write_text('{"name": "p-1", "text": "go", "writer": "p-0"}\n')
    (session, prompt), (_, answer) = PelicanLog(path, Reading(path)).pairs()
    assert session.native_id == "p-1"
    assert prompt
    assert answer
    assert (prompt.native_id, prompt.origin, answer.origin) == ("p-1:0", "p-0", "another")


def test_a_session_without_a_name_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / f"flight-{ID}.jsonl"
    assert PelicanLog(path, Reading(path)).session.native_id == ID
