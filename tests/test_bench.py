from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from typing import Any

import pytest

from warmstart import Message, Session, ToolCall, ToolResult
from warmstart.templates import SessionItems

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.append(str(BENCH))  # the benchmarks are scripts and import each other by name

import examples  # noqa: E402
import foresight  # noqa: E402
import trace_line  # noqa: E402
import turns  # noqa: E402
from activity import Activity, invocations, read_activity, read_projects  # noqa: E402
from builders import History, build_reference  # noqa: E402
from call_form import Form, forms, is_look_around, paths  # noqa: E402


def bash(command: str, *, error: str = "") -> tuple[str, dict[str, str], str]:
    return "Bash", {"command": command}, error


def edit(path: str) -> tuple[str, dict[str, str], str]:
    return "Edit", {"file_path": f"/home/mara/app/{path}"}, ""


def read(path: str) -> tuple[str, dict[str, str], str]:
    return "Read", {"file_path": f"/home/mara/app/{path}"}, ""


def activity(name: str, *calls: tuple[str, dict[str, str], str]) -> Activity:
    messages = [Message(native_id=f"{name}-0", role="user", text="Please go on with the exporter.")]
    for number, (tool, arguments, error) in enumerate(calls):
        call = ToolCall(id=f"c{number}", name=tool, arguments=json.dumps(arguments))
        outcome: Any = "error" if error else "ok"
        result = ToolResult(call_id=call.id, outcome=outcome, text=error, exit_code=1 if error else 0)
        messages.append(Message(native_id=f"{name}-{number}a", role="assistant", tool_calls=(call,)))
        messages.append(Message(native_id=f"{name}-{number}b", role="tool", tool_results=(result,)))
    session = Session(agent="claude-code", native_id=name, project="/home/mara/app")
    return read_activity(session, messages, ("/home/mara/app",), "app")


EARLIER = activity("earlier", bash("make lint"), edit("src/a.py"))
SESSION = activity("now", read("src/a.py"), bash("make lint"), edit("src/a.py"), edit("src/b.py"), bash("make build"))


def score(text: str, session: Activity = SESSION, earlier: Sequence[Activity] = (EARLIER,)) -> foresight.Score:
    return foresight.score(session, foresight.parse(text), foresight.Known(earlier), foresight.parse(""))


def test_shares_count_predicted_knowable_and_total() -> None:
    found = score("- `make lint`\n- src/: a.py, z.py")

    second, fifth = 1 / log2(3), 1 / log2(6)  # a command weighs less the later it is first used
    assert found.shares["commands"] == pytest.approx((second, second, second + fifth))
    assert found.shares["changed"] == (1, 1, 2)
    assert found.shares["read first"] == (1, 1, 1)
    assert found.shares["calls"] == (0, 0, 1)
    assert found.shares["traps"] == (0, 0, 0)
    assert (found.items, found.used) == (3, 2)


def test_foresight_weighs_only_what_was_knowable(subtests: pytest.Subtests) -> None:
    cases = {"": 0.0, "- `make lint`": 0.3 / 0.6, "- src/a.py": 0.3 / 0.6, "- `make lint`\n- src/a.py": 1.0}
    for text, expected in cases.items():
        with subtests.test(text):
            assert foresight.foresight([score(text)]) == pytest.approx(expected)


def test_skill_is_0_for_the_placebo_and_1_at_the_ceiling() -> None:
    assert [foresight.skill(value, 0.25) for value in (0.25, 0.5, 1.0)] == pytest.approx([0, 1 / 3, 1])


def test_a_trap_counts_only_with_mistake_and_fix() -> None:
    calls = (bash("rtk bun run test", error="error: unrecognized subcommand 'bun'"), bash("bun run test"))
    earlier, session = activity("earlier", *calls), activity("now", *calls)
    store: Any = None
    start = build_reference(History([earlier], "/home/mara/app", "", store), "Go on", 400)

    assert score(start, session, [earlier]).shares["traps"] == (1, 1, 1)
    assert score("Run the tests with `bun run test`.", session, [earlier]).shares["traps"] == (0, 1, 1)
    assert score(start, session, []).shares["traps"] == (1, 1, 1)
    assert score("", session, []).shares["traps"] == (0, 0, 1)


def test_invocations_ignore_what_changes_from_run_to_run(subtests: pytest.Subtests) -> None:
    cases = {
        "cd web && npm run test -- --reporter=dot src/a.test.ts 2>&1 | tail -5": ["npm run test"],
        "go test ./... -run TestOne -count=1": ["go test ./..."],
        "FOO=1 timeout 60 uv run --with x pytest -q tests/test_a.py": ["uv run pytest"],
        "ls -la; git status": [],
        "cat > x <<'EOF'\nmake test\nEOF\nmake build": ["make build"],
    }
    for text, expected in cases.items():
        with subtests.test(text):
            assert [one.text for one in invocations(text)] == expected


def test_a_file_is_mentioned_by_its_name_in_the_right_folder(subtests: pytest.Subtests) -> None:
    cases = {
        ("see src/cli/hooks.go", "src/cli/hooks.go"): True,
        ("see hooks.go:12", "src/cli/hooks.go"): True,
        ("see lib/hooks.go", "src/cli/hooks.go"): False,
        ("see my_hooks.go", "src/cli/hooks.go"): False,
        ("see hooks.go.bak", "src/cli/hooks.go"): False,
        ("see index.ts", "web/index.ts"): False,
        ("see web/index.ts", "web/index.ts"): True,
    }
    for (text, path), expected in cases.items():
        with subtests.test(text):
            assert turns.mentions(text, path) is expected


def test_the_form_of_a_call_is_what_it_runs_without_values(subtests: pytest.Subtests) -> None:
    cases = {
        ("Bash", "cd web && npm run test -- --reporter=dot a.ts | tail -5"): [("npm", "run test", "-- --reporter")],
        ("Bash", "git status --short; FOO=1 uv run pytest -q a.py"): [
            ("git", "status", "--short"),
            ("pytest", "", "-q"),
        ],
        ("Bash", "sed -n 1,20p src/a.py"): [("sed", "", "-n")],
        ("exec", 'await tools.exec_command({cmd:"rg -n \\"a b\\" src"})'): [("rg", "", "-n")],
        ("Read", '{"file_path":"a.py","limit":40}'): [("Read", "", "file_path limit")],
    }
    for call, expected in cases.items():
        with subtests.test(call[1]):
            assert forms(*call) == {Form(tool, sub, frozenset(names.split())) for tool, sub, names in expected}


def test_paths_are_those_of_the_project(subtests: pytest.Subtests) -> None:
    cases = {
        ("Read", '{"file_path":"/home/mara/app/src/a.py"}'): {"src/a.py"},
        ("Bash", "rg -n 'src/x.py' ./src/a.py web/ --config=web/b.toml /etc/hosts *.ts {{path}}"): {
            *("src/x.py", "src/a.py", "web/b.toml")
        },
        ("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n+x/y.py"): {"src/a.py"},
        ("Grep", '{"pattern":"a/b.py","path":"/home/mara/app"}'): set(),
    }
    for call, expected in cases.items():
        with subtests.test(call[1]):
            assert paths(*call, ("/home/mara/app",)) == expected


def test_a_look_around_has_no_telling_option(subtests: pytest.Subtests) -> None:
    cases = {
        ("Bash", "ls -la src"): True,
        ("Bash", "cd web && git status --short && cat a.py | head -20"): True,
        ("Bash", "sed -n 1,20p a.py"): True,
        ("Read", '{"file_path":"a.py"}'): True,
        ("Read", '{"file_path":"a.py","limit":40}'): False,
        ("Bash", "git log --oneline"): False,
        ("Bash", "cat > a.py"): False,
        ("Bash", "ls --color=never"): False,
        ("Bash", "ls && make test"): False,
    }
    for call, expected in cases.items():
        with subtests.test(call[1]):
            assert is_look_around(*call) is expected


def past(name: str, began: int, *calls: tuple[str, str]) -> examples.Past:
    session = Session(
        agent="claude-code",
        native_id=name,
        started_at=datetime.fromtimestamp(began, UTC),
        ended_at=datetime.fromtimestamp(began + 15, UTC),
    )
    made = [examples.to_call(tool, arguments, ()) for tool, arguments in calls]
    return examples.Past(session, made, made, list(calls), SessionItems(session_id=session.id))


def test_examples_come_from_sessions_that_had_ended() -> None:
    own = [past(f"own{began}", began, ("Bash", f"make target{began}")) for began in range(0, 60, 10)]
    others = [past(f"other{began}", began, ("Bash", "ls -R")) for began in (0, 1, 2)]
    bench = examples.Bench(
        [examples.Project("a@mara", "projects", (), own), examples.Project("b@mara", "projects", (), others)]
    )
    used: list[list[str]] = []

    def build(sessions: Sequence[examples.Past]) -> list[tuple[str, str]]:
        used.append([one.session.native_id for one in sessions])
        return [text for one in sessions for text in one.texts]

    scores = bench.score("projects", examples.Setting(build, 2, None, looks=True))

    assert used == [["other1", "other2"], ["own10", "own20"], ["own20", "own30"]]
    assert [score.own for score in scores] == [(1, 0, 0), (1, 0, 0)]  # the same tool, another target
    assert [score.random for score in scores] == [score.own for score in scores]


@pytest.mark.parametrize("script", ["examples.py", "foresight.py", "turns.py"])
def test_missing_data_is_one_line_and_exit_code_1(script: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / script), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"No benchmark data in {tmp_path / 'sessions'}; give its folder with --data\n"


@pytest.mark.corpus
def test_the_start_of_another_project_predicts_nothing(corpus: Path, tmp_path: Path) -> None:
    with closing(foresight.open_corpus(corpus, "history", tmp_path)) as store:
        (other,) = read_projects(store)
    start = foresight.parse(build_reference(History(other.sessions, "", "", store), "Go on", 400))
    with closing(foresight.open_corpus(corpus, "sessions", tmp_path)) as store:
        project = next(one for one in read_projects(store) if one.name == "entire_cli@alex")
    scores = [
        foresight.score(session, start, foresight.Known(earlier), foresight.parse(""))
        for session, earlier in foresight.cases(project)
    ]

    assert len(scores) > 20
    assert foresight.foresight(scores) < 0.01


def test_the_walk_through_the_architecture_names_functions_that_run(subtests) -> None:
    functions = trace_line.trace()
    ran = {part for _, name in functions for part in (name, name.rpartition(".")[2])}
    page = (BENCH.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[A-Z]\w+|_\w+)\.\w+|_?[a-z]+(?:_[a-z]+)+)`", page.split("## Import")[1])
    assert len(named) > 30
    for name in named:
        with subtests.test(name):
            assert name in ran
    counted = re.search(r"(\d+)\s+functions in (\d+) files", page)
    assert counted
    assert len(functions) <= int(counted[1]) <= 134  # a few run only while caches are empty
    assert len({file for file, _ in functions}) <= int(counted[2]) <= 31
