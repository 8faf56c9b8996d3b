from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from tests.sessions.logs import name as log_name
from tests.sessions.logs import turns, write

import warmstart
from warmstart import Message, Session, ToolCall, ToolResult
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.testing.stores import at, said, session

KEYS = [
    "session_id",
    "agent",
    "native_id",
    "project",
    "model",
    "title",
    "started_at",
    "ended_at",
    "messages",
    "tool_calls",
    "errors",
    "rejected",
    "outcome",
    "parent_id",
]
FIRST, CODEX, BEST = "3f0c1d52", "019f90a4", "58e3c7d9"

# Clears the screen, colours, rings, sets the title of the window, rings again, colours in eight bits, changes letters.
CODES = "\x1b[2J\x1b[31m\a\x1b]0;title\a\x1b]8;;http://example.com\x1b\\\x9b31m\x1b(B\x1bc\b"


def listed(run, *arguments) -> list[dict[str, object]]:
    ran = run("sessions", "list", "--json", *arguments)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def natives(run, *arguments) -> list[str]:
    return [str(row["native_id"])[:8] for row in listed(run, *arguments)]


def shown(run, id: object) -> dict:
    ran = run("sessions", "show", id, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def keep(home: Path, kept: Session, *messages: Message) -> Session:
    """Store a session."""
    store = SQLiteSessionStore(home / ".warmstart" / "warmstart.db")
    try:
        store.append(kept, messages)
    finally:
        store.close()
    return kept


# -- list


def test_a_row_in_json_has_exactly_these_keys(run, synced):
    rows = listed(run)
    assert len(rows) == 8
    assert all(list(row) == KEYS for row in rows)
    first = rows[-1]
    assert (first["agent"], first["project"], first["errors"]) == ("claude-code", "/home/mara/tidewatch", 6)
    assert re.fullmatch(r"2026-09-03T08:12:[\d.]+Z", str(first["started_at"]))


def test_rows_are_newest_first_and_limited(run, synced):
    dates = [row["started_at"] for row in listed(run)]
    assert dates == sorted(dates, reverse=True)
    assert len(listed(run, "--limit", 3)) == 3
    assert len(listed(run, "--limit", 0)) == 8


def test_filters(run, synced):
    assert len(listed(run, "--agent", "claude-code")) == 5
    assert natives(run, "--agent", "codex") == [CODEX]
    assert len(listed(run, "--project", "tidewatch")) == 6
    assert len(listed(run, "--project", "/home/mara/tidewatch")) == 6
    assert listed(run, "--project", "tidewatc") == []
    assert natives(run, "--since", "2026-09-20") == [BEST]
    assert natives(run, "--since", "2026-09-21T06:00:00Z") == [BEST]
    assert len(listed(run, "--since", "9000w")) == 8
    assert len(listed(run, "--agent", "claude-code", "--since", "2026-09-20", "--outcome", "success")) == 1
    assert listed(run, "--outcome", "failure") == []


def test_a_project_is_found_by_its_folder_and_any_path_inside_it(run, home, tmp_path, monkeypatch):
    project = tmp_path / "work" / "tidewatch"
    (project / ".git").mkdir(parents=True)
    (project / "src" / "deep").mkdir(parents=True)
    keep(home, session("here", project=str(project.resolve())), said("m1", "hello"))
    keep(home, session("there", project="/elsewhere"), said("m2", "hello"))
    assert natives(run, "--project", project) == ["here"]
    assert natives(run, "--project", project / "src" / "deep") == ["here"]
    monkeypatch.chdir(project / "src")
    assert natives(run, "--project", ".") == natives(run, "--project", "..") == ["here"]


def test_a_worktree_is_its_repository_and_names_are_as_long_as_needed(run, home, tmp_path, monkeypatch):
    repository = tmp_path / "work" / "tides"
    (repository / ".git" / "worktrees" / "a").mkdir(parents=True)
    (repository / ".git" / "worktrees" / "a" / "commondir").write_text("../..\n")
    worktree = tmp_path / "work" / "tides-a"
    (worktree / "src").mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {repository}/.git/worktrees/a\n")
    for name, cwd in {
        "one": repository,
        "two": worktree / "src",
        "other": "/srv/gone/tides",
        "win": r"D:\x\moon",
    }.items():
        write(tmp_path / "logs", name, [{**line, "cwd": str(cwd)} for line in turns(name, range(1))])
    assert run("sync", "--path", tmp_path / "logs").code == 0
    both = {log_name("one")[:8], log_name("two")[:8]}
    for given in (repository, worktree, worktree / "src", f"{worktree}/", "work/tides"):
        assert set(natives(run, "--project", given)) == both, given
    monkeypatch.chdir(worktree / "src")
    assert set(natives(run, "--project", ".")) == both
    assert len(natives(run, "--project", "tides")) == 3
    for given in (r"d:\x\moon", "D:/x/moon", "/d/x/moon", "moon"):
        assert natives(run, "--project", given) == [log_name("win")[:8]]
    assert run("sessions", "list").err == "2 sessions (project work/tides; --all-projects shows all).\n"
    table = run("sessions", "list", "--all-projects").out
    assert {row.split()[4] for row in table.splitlines()[1:]} == {"work/tides", "gone/tides", "moon"}
    page = tmp_path / "page.html"
    run("profile", "--html", page)
    assert "work/tides" in page.read_text()
    assert str(tmp_path) not in page.read_text()


def test_an_invalid_date_is_wrong_usage(run, subtests):
    for when in ["yesterday", "0001-01-01", "99999999d", "2026-13-01", ""]:
        with subtests.test(when=when):
            ran = run("sessions", "list", "--since", when)
            assert ran.code == 2
            assert "--since" in ran.err


def test_an_empty_list_says_what_to_do(run):
    ran = run("sessions", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "warmstart sync" in ran.err
    assert listed(run) == []


def test_a_pipe_gets_whole_cells_in_columns(run, synced):
    head, *rows = run("sessions", "list").out.splitlines()
    assert head.split() == ["id", "started", "agent", "project", "msgs", "calls", "errors", "outcome", "title"]
    assert len(rows) == 8
    place = head.index("agent")
    assert {row[place:].split()[0] for row in rows} == {"claude-code", "codex", "gemini-cli", "openai"}


def test_a_narrow_terminal_still_shows_ids_that_can_be_copied(run, terminal, synced, subtests):
    for columns in [80, 100, 200]:
        with subtests.test(columns=columns):
            ids = [str(row["session_id"])[:10] for row in listed(run)]
            code, screen = terminal("sessions", "list", columns=columns)
            plain = re.sub(r"\x1b\[[0-9;]*m", "", screen).replace("\r", "").splitlines()
            assert code == 0
            assert [line.split()[0] for line in plain[1 : len(ids) + 1]] == ids
            assert all(len(line) <= columns for line in plain)
            assert ("calls" in plain[0]) == (columns == 200)
            assert columns - plain[0].index("title") >= 24


def test_a_project_that_is_cut_keeps_its_end(terminal, home):
    with warmstart.open() as ws:
        for number, folder in enumerate(("department-of-harbours-and-tides", "office")):
            session = Session(agent="codex", native_id=f"s{number}", project=f"/home/mara/{folder}/tidewatch")
            ws.store.append(session, [Message(native_id=f"m{number}", role="user", text="fix the tide table " * 5)])
    code, screen = terminal("sessions", "list", "--all-projects", columns=80)
    assert code == 0
    assert re.search(r" …[\w-]*/tidewatch ", screen)
    assert "tidewatch…" not in screen


# -- show


def test_show_prints_messages_and_call_outcomes(run, synced):
    out = run("sessions", "show", FIRST).out
    assert "add the Port Ellery gauge" in out.splitlines()[0]
    assert "42 messages, 18 calls, 6 errors" in out
    assert out.count("[error") == 6
    assert "use uv, not pip" in out
    assert "more lines" in out


def test_tools_shows_calls_only_and_full_cuts_nothing(run, synced):
    tools = run("sessions", "show", FIRST, "--tools").out
    assert tools.count("  → ") == 18
    assert "use uv, not pip" not in tools
    full = run("sessions", "show", FIRST, "--full").out
    assert "more lines" not in full
    for call in shown(run, FIRST)["tool_calls"]:
        assert call["arguments"] in full


def test_calls_fit_a_narrow_terminal(terminal, synced):
    code, screen = terminal("sessions", "show", FIRST, "--tools", columns=80)
    calls = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in screen.splitlines() if "  → " in line]
    assert (code, len(calls)) == (0, 18)
    assert [call for call in calls if len(call) > 80] == []


def test_show_as_json_has_everything(run, synced):
    whole = shown(run, CODEX)
    assert set(KEYS) - {"messages", "errors", "rejected"} <= set(whole)
    assert (len(whole["messages"]), len(whole["tool_calls"])) == (33, 13)
    outcomes = [call["outcome"] for call in whole["tool_calls"]]
    assert (outcomes.count("error"), outcomes.count("rejected"), outcomes.count("unknown")) == (3, 1, 0)
    assert {"id", "name", "arguments", "outcome", "seconds", "exit_code", "result"} == set(whole["tool_calls"][0])
    tools = json.loads(run("sessions", "show", CODEX, "--tools", "--json").out)
    assert "messages" not in tools
    assert tools["tool_calls"] == whole["tool_calls"]


def test_a_parent_is_shown(run, synced):
    parents = {row["native_id"]: row["parent_id"] for row in listed(run)}
    resumed = next(native for native in parents if str(native).startswith("d17f5a80"))
    assert f"{parents[resumed]} (resume)" in run("sessions", "show", resumed).out


# -- ids


def test_an_id_may_be_shortened_and_the_agents_own_works(run, synced):
    whole = next(row for row in listed(run) if str(row["native_id"]).startswith(BEST))
    for name in (whole["session_id"], str(whole["session_id"])[:6], whole["native_id"], BEST, BEST[:3]):
        assert shown(run, name)["session_id"] == whole["session_id"]


def test_an_ambiguous_or_unknown_id_is_one_clear_line(run, synced, subtests):
    commands = [
        ["show", "ID"],
        ["show", "ID", "--json"],
        ["outcome", "ID", "success"],
        ["export", "ID"],
        ["delete", "ID", "--yes"],
        ["delete", BEST, "ID", "--yes"],
    ]
    complaints = [("25", "matches several sessions"), ("feed", "no session has the id")]
    for (wrong, complaint), command in product(complaints, commands):
        with subtests.test(wrong=wrong, command=command):
            before = listed(run)
            ran = run("sessions", *[wrong if word == "ID" else word for word in command])
            assert (ran.code, ran.out) == (1, "")
            assert re.fullmatch(f"warmstart: .*{complaint}.*\n", ran.err)
            assert repr(wrong) in ran.err
            assert listed(run) == before


# -- outcome


def test_your_outcome_survives_the_next_sync(run, synced):
    ran = run("sessions", "outcome", BEST, "failure", "--because", "taken back a week later")
    assert (ran.code, ran.err) == (0, "")
    run("sync", "--path", synced)
    assert natives(run, "--outcome", "failure") == [BEST]
    assert (shown(run, BEST)["outcome"], shown(run, BEST)["evidence"]) == ("failure", "taken back a week later")
    assert "failure: taken back a week later" in run("sessions", "show", BEST).out
    run("sessions", "outcome", BEST, "unknown")
    assert natives(run, "--outcome", "failure") == []


def test_every_command_shows_the_same_outcome(run, synced, home):
    def agreed() -> dict[str, object]:
        rows = listed(run, "--limit", 0)
        for row in rows:
            verdict = json.loads(run("profile", row["session_id"], "--json").out)["outcome"]
            assert [row["outcome"], shown(run, row["session_id"])["evidence"]] == [
                verdict["value"],
                verdict["evidence"],
            ]
            assert row["session_id"] in [each["session_id"] for each in listed(run, "--outcome", row["outcome"])]
        counts = json.loads(run("profile", "--json").out)["outcomes"]
        assert counts == Counter(row["outcome"] for row in rows)
        return {str(row["native_id"])[:8]: row["outcome"] for row in rows}

    assert agreed()[BEST] == "success"
    run("sessions", "outcome", CODEX, "failure")
    assert agreed()[CODEX] == "failure"
    # The session goes on: what was found before does not count any more.
    store = SQLiteSessionStore(home / ".warmstart" / "warmstart.db")
    with closing(store):
        best = store.get(BEST)
        store.append(best, [said("later", "no, that is wrong. undo it", 10**6)])
        assert (store.get(best.id).outcome, store.get(best.id).evidence) == ("unknown", "")
    assert natives(run, "--limit", 1) == [BEST]
    assert listed(run, "--limit", 1)[0]["outcome"] != "success"
    agreed()


def test_a_filter_that_matches_nothing_says_so(run, synced):
    for chosen in (
        ("--outcome", "failure"),
        ("--agent", "nobody"),
        ("--project", "/nowhere"),
        ("--since", "2030-01-01"),
    ):
        ran = run("sessions", "list", *chosen)
        assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
        assert ran.err.startswith("No sessions (")
        assert "sync" not in ran.err
        ran = run("sessions", "list", "--json", *chosen)
        assert (ran.code, json.loads(ran.out), ran.err.count("\n")) == (0, [], 1)


def test_an_unknown_outcome_is_wrong_usage(run, synced):
    assert run("sessions", "outcome", BEST, "splendid").code == 2


# -- delete


def test_a_deleted_session_is_gone_and_stays_gone(run, synced):
    ran = run("sessions", "delete", BEST, CODEX, "--yes")
    assert ran.code == 0
    assert ran.out.count("Deleted ") == 2
    run("sync", "--path", synced)
    assert len(listed(run)) == 6
    assert run("sessions", "show", BEST).code == 1


def test_secure_leaves_no_trace_in_the_file(run, home, synced):
    store = home / ".warmstart"

    def bytes_held() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(store.iterdir()))

    assert b"storm season" in bytes_held()
    assert run("sessions", "delete", BEST, "--yes", "--secure").code == 0
    assert b"storm season" not in bytes_held()
    assert len(listed(run)) == 7


@pytest.mark.parametrize(("typed", "left", "word"), [("n\n", 8, "Kept"), ("\n", 8, "Kept"), ("y\n", 7, "Deleted")])
def test_a_terminal_is_asked_before_anything_is_deleted(run, terminal, synced, typed, left, word):
    code, screen = terminal("sessions", "delete", BEST, typed=typed)
    assert code == 0
    assert "Delete 437a14bdf0e4e434 (claude-code, storm season" in screen
    assert word in screen
    assert len(listed(run)) == left


def test_yes_asks_nothing(run, terminal, synced):
    code, screen = terminal("sessions", "delete", BEST, "--yes")
    assert code == 0
    assert "?" not in screen
    assert len(listed(run)) == 7


# -- export


def there_and_back(id: str, run, folder: Path) -> tuple[dict, dict]:
    """A session, and the same after an export as chat messages and an import into another store."""
    row = next(row for row in listed(run) if str(row["native_id"]).startswith(id))
    before = shown(run, row["session_id"])
    exported = folder / "exported.json"
    assert (
        run("sessions", "export", before["session_id"], "--format", "openai", "--keep-personal", "-o", exported).code
        == 0
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WARMSTART_HOME", str(folder / "other"))
        assert run("sync", "--path", exported, "--format", "openai").code == 0
        [row] = listed(run)
        return before, shown(run, row["session_id"])


def test_an_export_to_openai_keeps_messages_and_calls(run, synced, tmp_path, subtests):
    def spoken(whole: dict) -> list[tuple[str, str]]:
        return [(message["role"], message["text"]) for message in whole["messages"] if message["role"] != "tool"]

    def called(whole: dict) -> list[tuple[str, ...]]:
        return [(call["id"], call["name"], call["arguments"], call["result"]) for call in whole["tool_calls"]]

    for native in [FIRST, CODEX, BEST, "a94be6f3", "d17f5a80", "6e2b90c4", "conv_tidebot"]:
        with subtests.test(native):
            (tmp_path / native).mkdir()
            before, after = there_and_back(native, run, tmp_path / native)
            assert spoken(after) == spoken(before)
            assert called(after) == called(before)


def test_jsonl_has_everything_and_is_the_default(run, synced):
    session, *messages = map(json.loads, run("sessions", "export", CODEX, "--keep-personal").out.splitlines())
    assert (session["type"], session["agent"], session["native_id"][:8]) == ("session", "codex", CODEX)
    assert len(messages) == 33
    assert [message["text"] for message in messages] == [m["text"] for m in shown(run, CODEX)["messages"]]


def test_json_has_no_internal_fields(run, synced):
    exported = run("sessions", "export", CODEX, "--format", "jsonl").out
    assert "stored_" not in exported + json.dumps(shown(run, CODEX))


def test_markdown_is_a_document_to_read(run, synced):
    out = run("sessions", "export", CODEX, "--format", "markdown").out
    assert out.startswith("# predictions should record which datum")
    assert out.count("(rejected)") >= 1
    assert "never touch migrations by hand" in out


def test_export_to_a_file_prints_no_data(run, synced, tmp_path):
    printed = run("sessions", "export", BEST, "--format", "markdown").out
    ran = run("sessions", "export", BEST, "--format", "markdown", "-o", tmp_path / "best.md")
    assert ran.out == ""
    assert "best.md" in ran.err
    assert (tmp_path / "best.md").read_text(encoding="utf-8") == printed


def test_export_to_an_unwritable_path(run, synced, tmp_path):
    ran = run("sessions", "export", BEST, "-o", tmp_path / "nowhere" / "best.md")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"warmstart: {str(tmp_path / 'nowhere' / 'best.md')!r}: No such file or directory\n"


# -- what logs may do to a terminal


@pytest.fixture
def hostile(home: Path) -> Session:
    call = ToolCall(id="c1", name=f"ba{CODES}sh", arguments=json.dumps({f"com{CODES}mand": f"l{CODES}s"}))
    raw = ToolCall(id="c2", name="free", arguments=f"free{CODES}form")
    results = (
        ToolResult(call_id="c1", outcome="error", text=f"out{CODES}\rput"),
        ToolResult(call_id="c2", outcome="ok", text=f"{CODES}\nlast line"),
    )
    return keep(
        home,
        session(
            f"native{CODES}",
            project=f"/srv/{CODES}pro\nject",
            branch=f"ma{CODES}in",
            model=f"model{CODES}",
            title=f"a {CODES}title\nof two lines",
            version=CODES,
            evidence=f"be{CODES}cause",
            outcome="success",
            judge="log",
        ),
        said("m1", f"please\r{CODES} help"),
        said("m2", f"sure{CODES}", 1, role="assistant", tool_calls=(call, raw)),
        said("m3", "", 2, role="tool", tool_results=results),
    )


def test_codes_in_logs_never_reach_the_terminal(terminal, hostile, subtests):
    cases = [
        ["list"],
        ["list", "--json"],
        ["show"],
        ["show", "--full"],
        ["show", "--tools"],
        ["show", "--json"],
        ["export"],
    ]
    for command in cases:
        with subtests.test(command=command):
            which = [hostile.id] if command[0] != "list" else []
            code, screen = terminal("sessions", *command, *which, columns=200)
            assert code == 0
            assert (
                set(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f][^\x1b]?", re.sub(r"\x1b\[[0-9;]*m|\r\n", "", screen)))
                == set()
            )
            assert "\x1b[31m" not in re.sub(r"\x1b\[31merror\x1b\[0m", "", screen)


def test_markdown_on_a_terminal_has_no_codes_either(run, terminal, hostile):
    assert "\x1b" not in terminal("sessions", "export", hostile.id, "--format", "markdown")[1]


def test_text_around_control_codes_stays_readable(run, hostile):
    out = run("sessions", "show", hostile.id).out
    for text in ("a title of two lines", "/srv/pro ject", "main", "because", "please help", "bash", "command=ls"):
        assert text in out
    assert "last line" in out
    [row] = run("sessions", "list").out.splitlines()[1:]
    assert "pro ject" in row


def test_json_has_the_text_unchanged(run, hostile):
    whole = shown(run, hostile.id)
    assert whole["messages"][0]["text"] == f"please\r{CODES} help"
    assert whole["project"] == hostile.project


def test_output_in_latin_1(program, synced):
    for arguments in (["list"], ["list", "--json"], ["show", BEST], ["show", BEST, "--json"], ["export", BEST]):
        ran = subprocess.run(
            [*program, "sessions", *arguments],
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=True,
        )
        text = ran.stdout.decode("latin-1")
        if "--json" in arguments:
            json.loads(text)


def test_times_round_trip(run, home):
    keep(home, session("timed"), said("m1", "x", 0), said("m2", "y", 90))
    [row] = listed(run)
    assert (row["started_at"], row["ended_at"]) == (
        at(0).isoformat().replace("+00:00", "Z"),
        at(90).isoformat().replace("+00:00", "Z"),
    )


def test_a_copy_of_the_samples_elsewhere_adds_nothing(run, synced, tmp_path):
    before = listed(run, "--agent", "claude-code")
    shutil.copytree(synced / "claude-code", tmp_path / "backup")
    assert run("sync", "--path", tmp_path / "backup").code == 0
    assert listed(run, "--agent", "claude-code") == before


# -- forget


def test_a_running_session_is_forgotten(run, samples, home, monkeypatch):
    shutil.copytree(samples / "claude-code", home / ".claude")
    log = max((home / ".claude").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", log.stem)
    assert "Forgot " in run("sessions", "forget", "--yes").out
    log.write_bytes(whole)
    assert run("sync").code == 0
    ids = [row["native_id"] for row in json.loads(run("sessions", "list", "--all-projects", "--json").out)]
    assert log.stem not in ids
    assert ids


def test_a_session_is_forgotten_only_after_a_question(run, synced):
    first, *_ = json.loads(run("sessions", "list", "--all-projects", "--json").out)
    assert run("sessions", "forget", first["session_id"]).code != 0
    assert run("sessions", "show", first["session_id"]).code == 0
    assert run("sessions", "forget", "no-such-session", "--yes").code == 1
