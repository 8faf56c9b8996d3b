from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import closing
from pathlib import Path

from tests.profile.talks import asked, bash, did, orphan, talk
from tests.unprivileged import as_nobody, let_in

from warmstart import Message, Session, ToolCall, ToolResult
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.storage.sqlite import SQLiteDatabase
from warmstart.testing.stores import at, session

KEYS = [
    "sessions",
    "calls",
    "results",
    "errors",
    "rejected",
    "rate",
    "low",
    "high",
    "by_length",
    "by_tool",
    "by_task_type",
    "by_agent",
    "by_model",
    "by_project",
    "by_week",
    "signatures",
    "recovery",
    "diagnostics",
    "outcomes",
    "instructions",
]
RATE = ["key", "sessions", "calls", "errors", "rate", "low", "high"]
READINGS = {"selection", "learning", "both", "neither", "not enough data"}
FIRST = "3f0c1d52"

# Clears the screen, colours, rings, sets the title of the window, colours in eight bits, and breaks the line.
CODES = "\x1b[2J\x1b[31m\a\x1b]0;title\a\x9b31m\x1bc\b\n\r"


def keep(home: Path, kept: Session, *parts: list[Message]) -> Session:
    """Store a session."""
    with closing(SQLiteSessionStore(home / ".warmstart" / "warmstart.db")) as store:
        store.append(kept, talk(*parts))
    return kept


def said(run, *arguments) -> dict:
    """The output of `warmstart profile --json`; its numbers must be valid JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    ran = run("profile", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out, parse_constant=refuse)


def plain(screen: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "\n").splitlines()


# -- all sessions


def test_the_report_in_json_has_exactly_these_keys(run, synced):
    found = said(run)
    assert list(found) == KEYS
    for name in KEYS:
        if name.startswith("by_"):
            assert found[name], name
            assert all(list(rate) == RATE for rate in found[name]), name
    assert [rate["key"] for rate in found["by_length"]] == ["0-50", "51-100", "101+"]
    assert found["signatures"]
    assert all(list(each) == ["signature", "tool", "count", "sessions", "fix"] for each in found["signatures"])
    assert all(isinstance(found["recovery"][name], float) for name in ("next_call", "within_three"))
    diagnostics = found["diagnostics"]
    for name in ("early_error_by_length", "within_session_slope", "hazard_after_error", "around_compaction"):
        assert list(diagnostics[name])[:3] == ["estimate", "low", "high"]
    assert diagnostics["reading"] in READINGS
    assert all(isinstance(sentence, str) for sentence in diagnostics["explanation"])


def test_the_report_agrees_with_the_list_of_sessions(run, synced):
    found = said(run)
    listed = json.loads(run("sessions", "list", "--limit", 0, "--json").out)
    assert found["sessions"] == len(listed) == 8
    for name, column in (("calls", "tool_calls"), ("errors", "errors"), ("rejected", "rejected")):
        assert found[name] == sum(row[column] for row in listed), name
    assert {rate["key"] for rate in found["by_agent"]} == {row["agent"] for row in listed if row["tool_calls"]}
    assert sum(found["outcomes"].values()) == 8


def test_options_choose_the_sessions(run, synced, subtests):
    cases = [
        ("--agent", "claude-code"),
        ("--project", "tidewatch"),
        ("--since", "2026-09-10"),
        ("--agent", "claude-code", "--since", "2026-09-20"),
    ]
    for option in cases:
        with subtests.test(option=option):
            chosen = json.loads(run("sessions", "list", "--limit", 0, "--json", *option).out)
            found = said(run, *option)
            assert 0 < found["sessions"] == len(chosen) < 8
            assert found["errors"] == sum(row["errors"] for row in chosen)


def test_the_report_begins_with_the_numbers_and_the_conclusion(run, synced):
    ran = run("profile", "--agent", "claude-code")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    found = said(run, "--agent", "claude-code")
    begin = f"{found['sessions']} sessions (all projects, agent claude-code), {found['calls']} calls, "
    assert lines[0].startswith(begin + f"{found['errors']} errors, ")
    reading = found["diagnostics"]["reading"].capitalize()
    assert f"Do sessions learn, or do the bad ones just end early? {reading}." in lines[:4]
    for heading in ("messages", "tool", "task type", "week"):
        assert any(line.startswith(f"{heading}  ") for line in lines), heading
    assert "Recovery" in lines
    assert found["signatures"][0]["signature"] in ran.out
    assert max(map(len, lines)) < 200


def test_a_pipe_gets_no_bar_and_no_codes(synced, program):
    ran = subprocess.run([*program, "profile"], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert "Profiling" not in ran.stdout


def test_a_terminal_shows_a_bar_and_then_the_report(terminal, synced):
    code, screen = terminal("profile", columns=120)
    assert code == 0
    assert "Profiling" in screen
    assert "Do sessions learn, or do the bad ones just end early?" in screen


def test_nothing_overflows_a_narrow_terminal(terminal, synced, home):
    long = "mcp__a_server_with_a_rather_long_name__a_tool_with_an_even_longer_name_that_never_ends"
    parts = [
        *(did(long, {"x": number}, "error", "The thing was not found. " * 9) for number in range(3)),
        *(did(long, {"x": number}) for number in range(3)),
    ]
    kept = session("wide", project="/home/mara/" + "deep/" * 20, model="model-" * 20, title="A long title " * 20)
    keep(home, kept, asked("Always write long instructions that go on and on. " * 3, 0), *parts)
    keep(home, session("also wide", project="/x"), asked("Always write long instructions. " * 3, 9), *parts[:2])
    for arguments in ((), (kept.id,), (FIRST,)):
        code, screen = terminal("profile", *arguments, columns=80)
        assert code == 0
        assert [line for line in plain(screen) if len(line) > 80] == []


def test_too_few_sessions_are_not_read_as_numbers(run, synced):
    found = said(run)["diagnostics"]
    assert found["reading"] == "not enough data"
    too_few, caution = found["explanation"]
    assert too_few == "There are too few sessions or errors to tell learning from selection."
    assert caution.startswith("Rates by length alone mislead: ")


def test_running_it_twice_prints_the_same(run, synced):
    assert said(run) == said(run)


def test_an_empty_store_says_what_to_do(run):
    ran = run("profile")
    assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
    assert "warmstart sync" in ran.err
    found = said(run)
    assert list(found) == KEYS
    assert [found[name] for name in KEYS[:5]] == [0] * 5
    assert [rate["calls"] for rate in found["by_length"]] == [0, 0, 0]
    assert found["diagnostics"]["reading"] == "not enough data"


def test_a_filter_without_matches(run, synced):
    ran = run("profile", "--agent", "nobody")
    assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
    assert said(run, "--agent", "nobody")["sessions"] == 0


def test_sparse_sessions_work(run, fresh, subtests):
    cases = {
        "no call": [asked("hello", 0)],
        "no time": [asked("hello")],
        "rejected": [bash("a", "rejected"), bash("b", "rejected")],
        "no result": [bash("a", None)],
        "undated": [bash("a", "error", "boom"), bash("a")],
        "no calls in the log": [orphan("error", "boom"), orphan()],
        "nothing": [did("", "", "error", "")],
        "dead end": [bash("a", "error", "boom"), bash("a", "error", "boom")],
    }
    for name, parts in cases.items():
        with subtests.test(name), fresh() as home:
            kept = keep(home, session("odd"), *parts)
            for arguments in ((), ("--html", home / "p.html"), (kept.id,)):
                ran = run("profile", *arguments)
                assert ran.code == 0, ran.err
            assert said(run)["sessions"] == 1
            assert said(run, kept.id)["session_id"] == kept.id


def test_a_count_of_one_is_singular(run, home):
    kept = keep(home, session("one", title="A title"), asked("Go", 0), bash("cat a", "error", "boom"), bash("cat a"))
    assert run("profile").out.startswith("1 session (all projects), 2 calls, 1 error, 50.0%, 0 rejected\n")
    out = run("profile", kept.id).out
    assert "5 messages, 1 turn, 2 calls" in out
    assert "1 identical call, 0 files reread" in out
    assert not re.search(r"\b1 (?:sessions|calls|errors|messages|turns|files|corrections)\b", out)


def test_odd_numbers_stay_json(run, home):
    call = ToolCall(id="c", name="Bash", arguments='{"command": "ls"}')
    for number, duration in enumerate((float("inf"), 1e300, -1.0)):
        result = ToolResult(call_id="c", outcome="ok", duration=duration)
        kept = keep(
            home,
            session(f"odd{number}"),
            [Message(native_id=f"a{number}", role="assistant", tool_calls=(call,), timestamp=at(0))],
            [Message(native_id=f"r{number}", role="tool", tool_results=(result,), timestamp=at(1))],
        )
        assert said(run, kept.id)["markers"]["calls"] == 1
        assert run("profile", kept.id).code == 0
    assert said(run)["calls"] == 3


def test_hostile_names_do_not_reach_the_terminal(run, terminal, home):
    name = f"evil{CODES}tool"
    parts = [
        *(did(name, {f"x{CODES}": number}, "error", f"bad {CODES} thing {CODES}") for number in range(3)),
        did(name, {f"y{CODES}": 1}),
        *(did(name, {"x": number}, "error", f"bad {CODES} thing") for number in range(2)),
    ]
    kept = session(f"nat{CODES}ive", title=f"ti{CODES}tle", project=f"/w/pro{CODES}ject", model=f"mo{CODES}del")
    keep(home, kept, asked(f"Always do {CODES} this. Never {CODES} that.", 0), *parts)
    for arguments in (("profile",), ("profile", kept.id)):
        code, screen = terminal(*arguments, columns=200)
        assert code == 0
        assert "evil" in screen
        assert not re.search(r"\x1b\[2J|\x1b\[31m|\x1b\]0|\x1bc|\a|\x9b|\x08", screen)
        ran = run(*arguments)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out)
    for arguments in ((), (kept.id,)):
        ran = run("profile", *arguments, "--json")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out)
        json.loads(ran.out)


def test_secrets_in_signatures_are_not_shown(run, home):
    secret = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
    keep(home, session("s"), *(did("Read", {}, "error", f"cannot use {secret} here") for _ in range(2)))
    ran = run("profile", "--json")
    assert json.loads(ran.out)["signatures"][0]["count"] == 2
    assert secret not in ran.out + run("profile").out


# -- the page


def test_a_page_is_written_and_reported(run, synced, tmp_path):
    path = tmp_path / "report.html"
    ran = run("profile", "--html", path)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"Report on 8 sessions written to {path}.\n"
    assert path.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    both = run("profile", "--html", path, "--json", "--agent", "codex")
    assert json.loads(both.out)["sessions"] == 1
    assert both.err == f"Report on 1 session written to {path}.\n"


def test_a_page_without_data(run, tmp_path):
    ran = run("profile", "--html", tmp_path / "p.html")
    assert (ran.code, ran.out) == (0, "")
    assert (tmp_path / "p.html").exists()


def test_a_page_in_a_missing_folder_is_one_line(run, synced, tmp_path):
    path = tmp_path / "missing" / "report.html"
    ran = run("profile", "--html", path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert str(path) in ran.err
    assert not path.parent.exists()


def test_a_page_in_a_closed_folder_is_one_line(run, synced, tmp_path, home):
    folder = tmp_path / "closed"
    folder.mkdir()
    store = home / ".warmstart"
    let_in(tmp_path)
    let_in(store)
    for path in (store, *store.iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    folder.chmod(0o555)
    code, out, err = as_nobody(lambda: tuple(run("profile", "--html", folder / "p.html")))
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert str(folder / "p.html") in err
    assert list(folder.iterdir()) == []


def test_a_page_in_place_of_a_folder_is_wrong_usage(run, synced, tmp_path):
    ran = run("profile", "--html", tmp_path)
    assert ran.code == 2
    assert "--html" in ran.err


def test_a_non_utf8_argument_does_not_break_the_page(synced, program, tmp_path):
    ran = subprocess.run(
        [*map(os.fsencode, program), b"profile", b"--agent", b"\xff", b"--html", os.fsencode(tmp_path / "p.html")],
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "p.html").stat().st_size > 1000


# -- one session


def test_one_session_in_json(run, synced):
    found = said(run, FIRST)
    assert list(found) == [
        "session_id",
        "agent",
        "native_id",
        "project",
        "title",
        "started_at",
        "task_type",
        "markers",
        "outcome",
        "style",
        "calls",
        "recoveries",
        "dead_ends",
        "compactions",
    ]
    assert (found["agent"], found["native_id"][:8]) == ("claude-code", FIRST)
    assert found["started_at"].startswith("2026-09-03T08:12:")
    assert (found["markers"]["messages"], found["markers"]["calls"], found["markers"]["errors"]) == (42, 18, 6)
    assert len(found["calls"]) == 18
    assert list(found["calls"][0]) == ["tool", "outcome", "kind", "turn", "at", "seconds", "model", "signature"]
    assert list(found["outcome"]) == ["value", "evidence", "source"]
    assert sum(call["outcome"] == "error" for call in found["calls"]) == 6


def test_one_session_in_text(run, synced):
    ran = run("profile", FIRST)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert "add the Port Ellery gauge" in lines[0]
    assert any(line.startswith("     size  42 messages, ") for line in lines)
    assert any(line.startswith("   errors  6 (33.3%; in the first 30 turns 33.3%), ") for line in lines)
    head = next(number for number, line in enumerate(lines) if line.startswith("call  tool"))
    assert len([line for line in lines[head + 1 :] if re.match(r" +\d+  ", line)]) == 6


def test_the_users_outcome_shows_at_once(run, synced):
    assert "failure" not in said(run)["outcomes"]
    assert run("sessions", "outcome", FIRST, "failure", "--because", "it crashes").code == 0
    assert said(run, FIRST)["outcome"] == {"value": "failure", "evidence": "it crashes", "source": "user"}
    assert said(run)["outcomes"]["failure"] == 1


def test_an_unknown_session_is_one_line(run, synced, subtests):
    for arguments in [(), ("--json",)]:
        with subtests.test(arguments=arguments):
            ran = run("profile", "nothing", *arguments)
            assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
            assert "'nothing'" in ran.err


def test_one_session_and_a_choice_of_many_is_wrong_usage(run, synced, tmp_path, monkeypatch, subtests):
    for option in [("--agent", "codex"), ("--since", "7d"), ("--project", "tidewatch"), ("--html", "p.html")]:
        with subtests.test(option=option):
            monkeypatch.chdir(tmp_path)
            ran = run("profile", FIRST, *option)
            assert (ran.code, ran.out) == (2, "")
            assert "SESSION" in ran.err
            assert not (tmp_path / "p.html").exists()


# -- settings and the store


def test_the_users_table_of_tools_is_used(run, synced, home):
    before = said(run, FIRST)
    (home / ".warmstart" / "config.toml").write_text('[profile.tools]\n"*" = "research"\n')
    assert before["task_type"] != "research"
    assert said(run, FIRST)["task_type"] == "research"
    assert [rate["key"] for rate in said(run)["by_task_type"]] == ["research"]
    (home / ".warmstart" / "config.toml").unlink()
    assert said(run, FIRST) == before


def test_a_wrong_table_is_one_line(run, synced, home, subtests):
    for config in ['Bash = "coding"', "Bash = 3", 'Bash = ["code"]']:
        (home / ".warmstart" / "config.toml").write_text(f"[profile.tools]\n{config}\n")
        for arguments in [(), (FIRST,)]:
            with subtests.test(config=config, arguments=arguments):
                ran = run("profile", *arguments)
                assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
                assert "profile.tools" in ran.err


def test_a_locked_store_is_one_line(run, synced, home, monkeypatch):
    monkeypatch.setitem(SQLiteDatabase.__init__.__kwdefaults__, "timeout", 0.05)
    run("sessions", "outcome", "58e3c7d9", "success")
    with closing(SQLiteSessionStore(home / ".warmstart" / "warmstart.db")) as other:
        with other.transaction():
            ran = run("profile")
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "another process" in ran.err
        assert run("profile").code == 0
        with other.transaction():
            assert run("profile").code == 0  # nothing is to be written


def test_a_store_that_cannot_be_written_is_one_line(run, synced, home, tmp_path):
    store = home / ".warmstart"
    let_in(tmp_path)
    let_in(store)
    for path in store.iterdir():
        path.chmod(0o644)
    store.chmod(0o555)
    code, out, err = as_nobody(lambda: tuple(run("profile")))
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert "cannot write the store" in err


def test_a_file_that_is_not_a_store_is_one_line(run, home):
    (home / ".warmstart").mkdir()
    (home / ".warmstart" / "warmstart.db").write_text("not a database, but long enough to be looked at as one" * 99)
    ran = run("profile")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
