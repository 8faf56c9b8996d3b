"""No text from a log controls the terminal: no cursor movement, no colours, no reversed text."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from warmstart import Message, ToolCall, ToolResult
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.testing.stores import said, session

TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
CODES = f"\x1b[2J\x1b[31m\x1b[8m\a\x1b]0;title\a\x9b31m\x1bc\x1b\b\r\x85{TURNS}"
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
KEY = f"key{CODES}end"


def hostile_session(home: Path, run) -> str:
    """The id of a session with control codes in every text, and a template and a memory with the same."""
    folder = Path.cwd()

    def call(number: int) -> ToolCall:
        arguments = json.dumps({f"com{CODES}mand": f"make{CODES} {number}"}, ensure_ascii=False)
        return ToolCall(id=f"c{number}", name=f"Ba{CODES}sh", arguments=arguments)

    def answer(number: int, outcome: str) -> Message:
        result = ToolResult(call_id=f"c{number}", outcome=outcome, text=f"Error: no{CODES} rule {CODES}\nlast")
        return said(f"r{number}", "", number, role="tool", tool_results=(result,))

    kept = session(
        f"native{CODES}",
        agent=f"agent{CODES}",
        project=str(folder),
        branch=f"ma{CODES}in",
        model=f"model{CODES}",
        title=f"a {CODES}title",
        version=CODES,
        evidence=f"be{CODES}cause",
        parent_id=f"par{CODES}ent",
        parent_kind="fork",
    )
    messages = [said("m1", f"Always use the{CODES} harbour gauge. Never{CODES} push.")]
    for number in range(2, 8):
        asked = said(f"m{number}", f"now{CODES} harbour", number, role="assistant", tool_calls=(call(number),))
        messages += [asked, answer(number, "error" if number < 4 else "ok")]
    store = SQLiteSessionStore(home / ".warmstart" / "warmstart.db")
    store.append(kept, messages)
    store.close()
    for number in range(2):
        assert run("memory", "set", KEY, f"val{CODES}ue {number}", "--source", f"from{CODES}").code == 0
    return kept.id


@pytest.fixture
def hostile(home: Path, run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Such a session, in its project's folder."""
    (home / "hostile").mkdir()
    monkeypatch.chdir(home / "hostile")
    return hostile_session(home, run)


SHOWING = [
    "sessions list",
    "sessions show ID",
    "sessions show ID --full",
    "sessions show ID --tools",
    "sessions export ID --format openai",
    "sessions export ID --format jsonl",
    "sessions outcome ID failure --because BAD",
    "profile",
    "profile --agent BAD",
    "profile ID",
    "recall harbour gauge --explain",
    "recall BAD --project BAD",
    "memory list",
    "memory list --user BAD",
    "memory search value",
    "memory history KEY",
    "memory import BAD.md --dry-run",
    "memory export --format hermes-user",
    "memory delete KEY BAD --yes",
    "memory info --user BAD",
    "memory set KEY other",
    "memory set KEY other --backend BAD",
    "templates extract ID --name BAD",
    "templates auto --min-calls 1 --max-error-rate 1",
    "templates suggest BAD",
    "templates why BAD",
    "templates revoke ID",
    "templates show BAD",
    "templates validate BAD",
    "templates import BAD.md",
    "templates stats",
    "sync --path BAD.md",
    "sync --agent BAD",
    "store copy --to BAD",
    "dataset export BAD",
    "doctor",
    "redact BAD.md --check",
    "sessions delete ID BAD --yes",
    "BAD",
]


def words(line: str, id: str) -> list[str]:
    bad = f"x{CODES}y".replace("\0", "")
    return [
        bad + word[3:] if word.startswith("BAD") else {"ID": id, "KEY": KEY}.get(word, word) for word in line.split()
    ]


def test_no_command_lets_codes_of_a_log_through(run, fresh, subtests):
    for line in SHOWING:
        with subtests.test(line), fresh() as home:
            hostile = hostile_session(home, run)
            Path(words("BAD.md", "")[0]).write_text(f"# no{CODES}tes\n\n- a li{CODES}ne\n")
            ran = run(*words(line, hostile))
            assert ran.code in (0, 1, 2)
            assert "unexpected" not in ran.err
            # Exports write data when they are not on a terminal.
            if not line.startswith(("sessions export", "memory export")):
                assert not HARMFUL.findall(ran.out)
            assert not HARMFUL.findall(ran.err)
            if "--json" in run(*line.split()[:2], "--help").out:
                ran = run(*words(line, hostile), "--json")
                assert not HARMFUL.findall(ran.out)
                if ran.out:
                    json.loads(ran.out)


def test_json_has_every_character(run, hostile):
    shown = json.loads(run("sessions", "show", hostile, "--json").out)
    assert shown["title"] == f"a {CODES}title"
    entries = json.loads(run("memory", "list", "--json").out)
    assert entries[0]["value"] == f"val{CODES}ue 1"


def test_a_pipe_gets_the_exact_value(program, hostile):
    ran = subprocess.run([*program, "memory", "get", KEY], capture_output=True, check=True)
    assert ran.stdout.decode() == f"val{CODES}ue 1\n"


# Colours of our own are welcome; of a log, none.
STYLES = re.compile(r"\x1b\[(?:[0-2]|1;36|3[1-6]|90)m")


def test_a_terminal_gets_no_codes_but_our_own(run, terminal, fresh, subtests):
    lines = ["sessions show ID", "memory get KEY", "profile ID", "redact BAD.md", "memory export", "memory delete KEY"]
    for line in lines:
        with subtests.test(line), fresh() as home:
            hostile = hostile_session(home, run)
            Path(words("BAD.md", "")[0]).write_text(f"no{CODES}tes\n")
            code, screen = terminal(*words(line, hostile), typed="n\n")
            assert code in (0, 1)
            shown = STYLES.sub("", screen.replace("\r\n", "\n"))
            assert not HARMFUL.findall(shown)
            assert "Traceback" not in screen


def test_colours_reach_a_terminal(terminal, home):
    assert "\x1b[3" in terminal("doctor")[1]


def test_ascii_output_is_filtered_too(program, hostile):
    ran = subprocess.run(
        [*program, "memory", "list"], capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert not HARMFUL.findall(ran.stdout.decode())
