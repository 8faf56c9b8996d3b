from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

COLUMNS = ["agent", "sessions", "messages", "tool calls", "errors", "seconds"]
# A shell that starts the tests in the background may have told them to ignore Ctrl-C; the watcher must not.
WATCHER = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from warmstart.cli import main; main()"
)


def said(text: str) -> str:
    return json.dumps({"role": "user", "content": text}) + "\n"


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def tallies(run, *arguments) -> dict[str, dict[str, int]]:
    ran = run("sync", "--json", *arguments)
    assert ran.code == 0, ran.err
    return {tally["agent"]: tally for tally in json.loads(ran.out)["agents"]}


# -- where histories are


def test_logs_are_found_in_default_locations(run, histories):
    found = tallies(run)
    assert {agent: tally["sessions"] for agent, tally in found.items()} == {
        "claude-code": 5,
        "codex": 1,
        "gemini-cli": 1,
    }
    assert (histories / ".warmstart" / "warmstart.db").is_file()


def test_the_agents_files_are_never_written_to(run, histories):
    before = contents(histories / ".claude") | contents(histories / ".codex") | contents(histories / ".gemini")
    run("sync")
    run("sync")
    assert contents(histories / ".claude") | contents(histories / ".codex") | contents(histories / ".gemini") == before


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("CLAUDE_CONFIG_DIR", "claude-code"), ("CODEX_HOME", "codex"), ("GEMINI_CLI_HOME", "gemini-cli")],
)
def test_an_agents_own_variable_moves_its_history(run, samples, monkeypatch, variable, folder):
    monkeypatch.setenv(variable, str(samples / folder))
    assert set(tallies(run)) == {folder}


def test_every_agents_variable_is_followed(run, tmp_path, subtests):
    cases = [
        ("CLAUDE_CONFIG_DIR", "claude-code"),
        ("CODEX_HOME", "codex"),
        ("GEMINI_CLI_HOME", "gemini-cli"),
        ("XDG_DATA_HOME", "opencode"),
        ("OPENCODE_DB", "opencode"),
        ("COPILOT_HOME", "copilot-cli"),
        ("HERMES_HOME", "hermes"),
    ]
    for variable, agent in cases:
        with subtests.test(variable=variable, agent=agent), pytest.MonkeyPatch.context() as patched:
            patched.setenv(variable, str(tmp_path / "elsewhere"))
            checks = {check["subject"]: check["finding"] for check in json.loads(run("doctor", "--json").out)}
            assert str(tmp_path / "elsewhere") in checks[agent]


def test_missing_logs_are_reported(run):
    ran = run("sync")
    assert (ran.code, ran.err) == (0, "")
    assert "No agent logs found" in ran.out
    assert "warmstart doctor" in ran.out


def test_agent_selects_agents(run, histories):
    assert set(tallies(run, "--agent", "codex")) == {"codex"}
    assert set(tallies(run, "--agent", "codex", "--agent", "gemini-cli")) == {"codex", "gemini-cli"}
    assert "claude-code" in run("sync", "--agent", "nobody").err


# -- what is shown


def test_the_table_has_a_row_for_each_agent(run, samples):
    ran = run("sync", "--path", samples)
    head, *rows, last = ran.out.splitlines()
    assert re.split(r" {2,}", head) == COLUMNS
    table = {row.split()[0]: row.split()[1:] for row in rows}
    assert list(table) == ["claude-code", "codex", "gemini-cli", "openai"]
    assert [int(rows[0]) for rows in table.values()] == [5, 1, 1, 1]
    assert table["codex"][:4] == ["1", "33", "13", "3"]
    assert last.startswith("8 logs read, 0 unchanged, in ")
    assert ran.err == ""


def test_a_second_sync_finds_nothing_new(run, synced):
    run("sync", "--path", synced)
    listed = run("sessions", "list", "--json").out
    again = tallies(run, "--path", synced)
    assert {tally["messages"] + tally["sessions"] for tally in again.values()} == {0}
    assert sum(tally["unchanged"] for tally in again.values()) == sum(tally["files"] for tally in again.values()) == 8
    (line,) = run("sync", "--path", synced).out.splitlines()  # and no table
    assert line.startswith("0 logs read, 8 unchanged")
    assert run("sessions", "list", "--json").out == listed


def test_json_has_everything_in_the_table_and_more(run, samples):
    ran = run("sync", "--path", samples, "--json")
    report = json.loads(ran.out)
    assert set(report) == {"agents", "problems", "foreign", "seconds"}
    assert (report["problems"], report["foreign"]) == ([], [])
    for tally in report["agents"]:
        assert {"agent", "sessions", "messages", "tool_calls", "errors", "skipped", "seconds"} <= set(tally)
        assert sum(tally["skipped_kinds"].values()) == tally["skipped"]
        assert list(tally["skipped_reasons"]) == list(tally["skipped_kinds"])
        assert all(tally["skipped_reasons"].values())


def test_verbose_explains_what_is_skipped(run, samples, tmp_path):
    shutil.copytree(samples / "claude-code", tmp_path / "logs")
    (tmp_path / "logs" / "package.json").write_text('{"name": "tidewatch"}')
    log = next((tmp_path / "logs").rglob("3f0c1d52*.jsonl"))
    log.write_text('{"type": "hologram"}\n' * 7 + log.read_text())
    plain = run("sync", "--path", tmp_path / "logs")
    assert "skipped" not in plain.out + plain.err
    run("sessions", "delete", "3f0c1d52", "--yes")
    log.write_text(log.read_text() + '{"type": "hologram"}\n')
    ran = run("sync", "-v", "--path", tmp_path / "logs")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"^claude-code +hologram +8 +not a known kind of message", ran.out, re.MULTILINE)
    assert re.search(r"^claude-code +deleted +\d+ +the session was deleted", ran.out, re.MULTILINE)
    assert str(tmp_path / "logs" / "package.json") in ran.out
    assert "Nothing was skipped" in run("sync", "--verbose", "--path", samples / "openai").out


def test_a_terminal_gets_a_progress_bar_and_a_pipe_gets_none(terminal, program, samples, home):
    code, screen = terminal("sync", "--path", samples)
    assert code == 0
    assert "Reading" in screen
    assert "━" in screen
    assert "claude-code" in screen.rsplit("Reading", 1)[1]
    shutil.rmtree(home / ".warmstart")
    piped = subprocess.run([*program, "sync", "--path", samples], capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    assert "Reading" not in piped.stdout
    assert "\x1b" not in piped.stdout


def test_the_progress_bar_fits_80_columns(terminal, samples):
    _, screen = terminal("sync", "--path", samples, columns=80)
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).split("Reading")
    assert len(drawn) > 1
    for bar in drawn[1:-1]:
        assert "\n" not in bar
        assert len("Reading" + bar.rstrip("\r")) <= 80


def test_a_name_that_looks_like_markup_does_not_upset_the_progress_bar(terminal, samples, tmp_path):
    shutil.copy(samples / "openai" / "tidebot-2026-09-14.json", tmp_path / "[red]x[not-closed].json")
    (tmp_path / "[").mkdir()
    shutil.copy(samples / "openai" / "tidebot-2026-09-14.json", tmp_path / "[" / "odd [blink].json")
    code, screen = terminal("sync", "--path", tmp_path)
    assert code == 0
    assert "Traceback" not in screen


# -- --path and --format


def test_several_paths_of_files_and_folders(run, samples):
    one = samples / "openai" / "tidebot-2026-09-14.json"
    assert set(tallies(run, "--path", one, "--path", samples / "codex")) == {"openai", "codex"}


def test_a_relative_path_is_the_same_log_from_anywhere(run, samples, tmp_path, monkeypatch):
    log = shutil.copy(samples / "openai" / "tidebot-2026-09-14.json", tmp_path / "run.json")
    monkeypatch.chdir(tmp_path)
    assert tallies(run, "--path", "run.json")["openai"]["sessions"] == 1
    monkeypatch.chdir(tmp_path.parent)
    assert tallies(run, "--path", log)["openai"]["unchanged"] == 1
    [session] = json.loads(run("sessions", "list", "--json").out)
    assert json.loads(run("sessions", "show", session["session_id"], "--json").out)["source"] == str(log)


def test_a_missing_path(run, tmp_path):
    ran = run("sync", "--path", tmp_path / "nothing")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"warmstart: {str(tmp_path / 'nothing')!r} does not exist; check the path\n"


def test_a_file_that_is_not_what_the_format_claims(run, tmp_path, fresh, subtests):
    (tmp_path / "note.txt").write_text("Dear diary,\nno JSON today.\n")
    for claimed in ["openai", "codex", "claude-code", "hermes", "opencode", "gemini-cli"]:
        with subtests.test(claimed), fresh():
            for _ in range(2):
                ran = run("sync", "--path", tmp_path / "note.txt", "--format", claimed)
                assert (ran.code, ran.out) == (1, "")
                assert re.fullmatch(
                    rf"warmstart: nothing at '.*note.txt' can be read as {claimed}.*leave out --format.*\n", ran.err
                )
            assert json.loads(run("sessions", "list", "--json").out) == []


def test_a_log_of_another_agent_than_the_format_claims(run, samples):
    ran = run("sync", "--path", samples / "codex", "--format", "openai")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert "can be read as openai" in ran.err
    assert tallies(run, "--path", samples / "codex", "--format", "codex")["codex"]["sessions"] == 1


def test_the_right_format_also_works_the_second_time(run, samples, tmp_path):
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps([{"role": "user", "content": "hello", "uuid": "not recognised by its content"}]))
    assert run("sync", "--path", odd).code == 1
    for _ in range(2):
        assert run("sync", "--path", odd, "--format", "openai").code == 0
        assert run("sync", "--path", samples / "openai", "--format", "openai").code == 0
    assert len(json.loads(run("sessions", "list", "--json").out)) == 2


def test_a_file_that_is_not_a_log(run, tmp_path):
    (tmp_path / "note.txt").write_text("Dear diary")
    ran = run("sync", "--path", tmp_path / "note.txt")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert "no log in a supported format at" in ran.err
    assert "--format" in ran.err
    told = run("sync", "--path", tmp_path / "note.txt", "--json")
    assert (told.code, json.loads(told.out)["foreign"]) == (1, [str(tmp_path / "note.txt")])


def test_qwen_code_logs_are_not_taken_for_claude_codes(run, tmp_path):
    common = {"sessionId": "q", "timestamp": "2026-11-16T16:55:57Z", "cwd": "/nowhere/app", "version": "0.24.4"}
    said = [("user", {"role": "user", "parts": [{"text": "go"}]}), ("assistant", {"parts": [{"text": "ok"}]})]
    asked, answered = (
        {"uuid": kind, "parentUuid": None, **common, "type": kind, "message": message} for kind, message in said
    )
    chats = tmp_path / ".qwen" / "projects" / "-nowhere-app" / "chats"
    chats.mkdir(parents=True)
    (chats / "q.jsonl").write_text(f"{json.dumps(asked)}\n{json.dumps(answered)}\n")
    assert run("sync", "--path", tmp_path / ".qwen", "--format", "claude-code").code == 1
    assert run("sessions", "list", "--json").out.strip() == "[]"
    assert run("sync", "--path", tmp_path / ".qwen").code == 0
    (found,) = json.loads(run("sessions", "list", "--json").out)
    assert (found["agent"], found["native_id"]) == ("qwen-code", "q")


def test_files_that_are_not_logs_are_counted_separately(run, samples, tmp_path):
    shutil.copytree(samples / "openai", tmp_path / "logs")
    (tmp_path / "logs" / "package.json").write_text('{"name": "tidewatch"}')
    ran = run("sync", "--path", tmp_path / "logs")
    assert ran.code == 0
    assert ran.err == "Skipped 1 file in unsupported formats.\n"


def test_format_without_path_is_wrong_usage(run):
    ran = run("sync", "--format", "openai")
    assert ran.code == 2
    assert "--format needs --path" in ran.err


def test_a_malformed_line_is_reported_by_number_and_stops_nothing(run, samples, tmp_path):
    [log] = (samples / "codex").rglob("*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    broken = tmp_path / log.name
    broken.write_bytes(b"".join([*lines[:20], b'{"half": \n', *lines[20:]]))
    ran = run("sync", "--path", broken)
    assert ran.code == 0
    assert ran.err.startswith(f"{broken}:21: ")
    assert len(ran.err.splitlines()) == 1
    assert json.loads(run("sessions", "list", "--json").out)[0]["messages"] == 33


# -- --watch


class Watcher:
    """A `warmstart sync --watch` in its own process, read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, pattern: str) -> list[str]:
        """The output up to a line that matches `pattern`."""
        read: list[str] = []
        while not (read and re.search(pattern, read[-1])):
            line = self.process.stdout.readline()  # type: ignore[union-attr]
            assert line, f"ended with {self.process.wait()} before {pattern!r}: {read}"
            read.append(line)
        return read

    def interrupt(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate()
        return self.process.returncode, out, err


@pytest.fixture
def watch() -> Callable[..., contextmanager[Watcher]]:
    @contextmanager
    def watch(*arguments: object) -> Iterator[Watcher]:
        command = [sys.executable, "-c", WATCHER, "sync", "--watch", "--interval", "0.1", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            limit = Timer(60, process.kill)
            limit.start()
            try:
                yield Watcher(process)
            finally:
                limit.cancel()
                process.kill()

    return watch


def test_watch_imports_what_is_appended_and_ends_cleanly(run, watch, tmp_path):
    log = tmp_path / "chat.jsonl"
    log.write_text(said("good morning"))
    with watch("--path", log) as watcher:
        watcher.until("1 log read")
        with log.open("a") as file:
            file.write(said("the gauge is silent") + said("and the harbour asks"))
        assert re.match(r"openai +0 +2 ", watcher.until("1 log read")[1])
        code, _, err = watcher.interrupt()
    assert code == 130
    assert err.strip() == ""
    [session] = json.loads(run("sessions", "list", "--json").out)
    assert session["messages"] == 3
    assert json.loads(run("doctor", "--json").out)[2]["status"] == "ok"


def test_watch_picks_up_a_new_log_in_a_default_place(watch, home, samples):
    with watch() as watcher:
        watcher.until("No agent logs found")
        shutil.copytree(samples / "codex", home / ".codex")
        assert re.match(r"codex +1 +33 ", watcher.until("1 log read")[1])
        assert watcher.interrupt()[0] == 130


def test_watch_reports_a_problem_once(watch, tmp_path):
    log = tmp_path / "chat.jsonl"
    log.write_text(said("good morning"))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with watch("--path", tmp_path) as watcher:
        watcher.until("1 log read")
        for _ in range(3):
            with log.open("a") as file:
                file.write(said("more"))
            watcher.until("1 log read")
        _, _, err = watcher.interrupt()
    assert err.count("gone.jsonl") == 1


def test_watch_waits_for_a_server_that_restarts(run, watch, postgres, postgres_url, monkeypatch, tmp_path):
    monkeypatch.setenv("WARMSTART_STORE", postgres_url)
    log = tmp_path / "chat.jsonl"
    log.write_text(said("good morning"))
    with watch("--path", log) as watcher:
        watcher.until("1 log read")
        with postgres.stopped():
            assert "Waiting for the server" in watcher.process.stderr.readline()
            with log.open("a") as file:
                file.write(said("the gauge is silent"))
        assert re.match(r"openai +0 +1 ", watcher.until("1 log read")[1])
        code, _, err = watcher.interrupt()
    assert (code, err.strip()) == (130, "")
    assert json.loads(run("sessions", "list", "--json").out)[0]["messages"] == 2
