"""How a session ended: the order of the evidence, what an edit makes void, and what is no evidence at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warmstart.profile.outcome import judge_session
from warmstart.profile.values import Outcome
from warmstart.sessions.values import CallOutcome, Message, Session, Step, ToolCall, ToolResult

SESSION = Session(agent="claude-code", native_id="s")
FAILED = "=== short test summary info ===\n===== 1 failed, 3 passed in 0.12s ====="
PASSED = "===== 4 passed in 0.12s ====="


def call(
    tool: str, arguments: dict[str, Any], text: str = "", outcome: CallOutcome = "ok", exit_code: int | None = None
) -> Step:
    result = ToolResult(call_id="c", outcome=outcome, text=text, exit_code=exit_code)
    return Step(ToolCall(id="c", name=tool, arguments=json.dumps(arguments)), result, None)


def bash(command: str, text: str = "", outcome: CallOutcome = "ok") -> Step:
    return call("Bash", {"command": command}, text, outcome)


def edit(path: str = "src/tides.py", outcome: CallOutcome = "ok") -> Step:
    return call("Edit", {"file_path": path}, outcome=outcome)


def ended(*calls: Step, words: tuple[str, ...] = (), project: str = "") -> Outcome:
    """The outcome of these calls, with the user's words after them."""
    messages = [
        Message(native_id=f"c{number}", role="assistant", tool_calls=(step.call,)) for number, step in enumerate(calls)
    ]
    messages += [Message(native_id=f"w{number}", role="user", text=text) for number, text in enumerate(words)]
    return judge_session(Session(agent="claude-code", native_id="s", project=project), messages, calls)


def test_the_users_verdict_overrides_everything_else() -> None:
    calls = [edit(), bash("pytest", PASSED)]
    for outcome in ("success", "failure", "unknown"):
        session = Session(agent="codex", native_id="s", outcome=outcome, evidence="asked", judge="user")
        assert judge_session(session, [], calls) == Outcome(outcome, "asked", "user")


def test_a_reward_in_the_log_goes_before_the_environment() -> None:
    session = Session(agent="openai", native_id="s", outcome="failure", evidence="reward 0.0", judge="log")
    assert judge_session(session, [], [edit(), bash("pytest", PASSED)]) == Outcome("failure", "reward 0.0", "reward")


def test_a_commit_after_the_last_edit_is_success() -> None:
    assert ended(edit(), bash("git add -A && git commit -m 'Add tides'"), bash("git status")) == Outcome(
        "success", "committed after the last edit (call 2 of 3)", "commit"
    )


WHAT_IS_NO_COMMIT_OF_THE_WORK = [
    ("git commit -m a", "nothing to commit, working tree clean", "ok"),
    ("git commit -m a", "hook failed", "error"),
    ("git commit -m a", "", "rejected"),
    ("git commit -m a", "", "unknown"),
    ("git commit -m a | tail -3", "", "ok"),
    ("git commit --dry-run", "", "ok"),
    ("cd /tmp/try && git init && git commit -m a", "[main 1a2b3c4] a", "ok"),
]


def test_what_is_no_commit_of_the_work(subtests: pytest.Subtests) -> None:
    for command, text, outcome in WHAT_IS_NO_COMMIT_OF_THE_WORK:
        with subtests.test(command=command, text=text, outcome=outcome):
            assert ended(edit(), bash(command, text, outcome)).value == "unknown"


def test_a_commit_shows_in_the_output_when_a_later_part_fails() -> None:
    pushed = bash("git commit -m a && git push", "[main 1a2b3c4] a\n 1 file changed\nerror: failed to push", "error")
    assert ended(edit(), pushed).source == "commit"
    assert ended(edit(), bash("git commit -m a; git status", "[main 1a2b3c4] a\nnothing to commit")).source == "commit"


def test_the_last_check_after_the_last_edit_decides() -> None:
    assert ended(edit(), bash("go test ./...")) == Outcome(
        "success", "`go test` passed after the last edit (call 2 of 2)", "check"
    )
    assert ended(edit(), bash("go test ./..."), bash("go test ./...", "FAIL", "error")) == Outcome(
        "failure", "`go test` failed after the last edit (call 3 of 3)", "check"
    )
    assert ended(edit(), bash("go test ./...", "FAIL", "error"), bash("go test ./...")).value == "success"


AN_EDIT_MAKES_ALL_BEFORE_IT_VOID = [
    edit(),
    call("Write", {"file_path": "a.py"}),
    call("apply_patch", {"patch": "*** Begin Patch"}),
    call("write_file", {"path": "a.py"}),
    call("replace", {"file_path": "a.py"}),
    call("mcp__files__edit_file", {"path": "a.py"}),
    call("str_replace_editor", {"command": "str_replace", "path": "a.py"}),
    bash("sed -i s/a/b/ a.py"),
    bash("python - <<'EOF'\nfrom pathlib import Path\nPath('a.py').write_text('a')\nEOF"),
    bash("git reset --hard HEAD~1"),
]


def test_an_edit_invalidates_everything_before_it(subtests: pytest.Subtests) -> None:
    for change in AN_EDIT_MAKES_ALL_BEFORE_IT_VOID:
        with subtests.test(change=change):
            assert ended(edit(), bash("pytest"), bash("git commit -m a"), change) == Outcome()
            assert ended(edit(), bash("pytest", FAILED, "error"), change) == Outcome()


WHAT_CHANGES_NOTHING_LEAVES_THE_VERDICT = [
    edit(outcome="error"),
    edit(outcome="rejected"),
    edit("/tmp/notes.md"),
    edit("/home/mara/.claude/plans/tides.md"),
    call("str_replace_editor", {"command": "view", "path": "a.py"}),
    call("Read", {"file_path": "a.py"}),
    bash("cat a.py"),
    bash("rm -rf /tmp/try"),
    bash("ruff check .", "error", "error"),
]


def test_what_changes_nothing_leaves_the_verdict(subtests: pytest.Subtests) -> None:
    for look in WHAT_CHANGES_NOTHING_LEAVES_THE_VERDICT:
        with subtests.test(look=look):
            assert ended(edit(), bash("pytest"), look).value == "success"


A_MASKED_EXIT_CODE_IS_READ_FROM_THE_SUMMARY = [
    ("pytest | tail -5", PASSED, "success"),
    ("pytest | tail -5", FAILED, "failure"),
    ("pytest | tail -5", "3 warnings", "unknown"),
    ("pytest || true", FAILED, "failure"),
    ("pytest; echo exit: $?", "exit: 0", "success"),
    ("pytest; echo exit: $?", "exit: 1", "failure"),
    ("pytest; ./deploy; echo exit: $?", "exit: 1", "unknown"),
    ("pytest -q | head -2", "....\n4 passed in 0.1s", "unknown"),
    ("pytest -q | head -20", "....\n4 passed in 0.1s", "success"),
    ("pytest | grep -c xyz", "12", "unknown"),
    ("go test ./... | tail", "ok  \texample.org/tides\t0.1s", "success"),
    ("go test ./... | tail", "ok  \texample.org/a\t0.1s\nFAIL\texample.org/b\t0.1s\nFAIL", "failure"),
    ("npx jest | tail", "Tests:       1 failed, 4 passed, 5 total", "failure"),
    ("npx jest | tail", "Tests:       5 passed, 5 total", "success"),
    ("npx vitest run | tail", " Test Files  1 failed | 2 passed (3)", "failure"),
    ("npx mocha | tail", "  3 passing (20ms)\n  2 failing", "failure"),
    ("npx mocha | tail", "  3 passing (20ms)", "success"),
    ("cargo test | tail", "test result: FAILED. 1 passed; 1 failed", "failure"),
    ("cargo test | tail", "test result: ok. 2 passed; 0 failed", "success"),
    ("python -m unittest | tail", "Ran 2 tests in 0.1s\n\nFAILED (failures=1)", "failure"),
    ("python -m unittest 2>&1 | tail", "Ran 2 tests in 0.1s\n\nOK", "success"),
    ("bundle exec rspec | tail", "12 examples, 1 failure", "failure"),
    ("bundle exec rspec | tail", "12 examples, 0 failures", "success"),
    ("dotnet test | tail", "Failed!  - Failed:     1, Passed:     4", "failure"),
    ("ctest | tail", "100% tests passed, 0 tests failed out of 4", "success"),
    ("mvn test | tail", "[INFO] BUILD FAILURE", "failure"),
    ("./gradlew build | tail", "BUILD SUCCESSFUL in 3s", "success"),
    ("npx tsc --noEmit | head", "src/a.ts(1,2): error TS2322: no", "failure"),
    ("npx tsc --noEmit 2>&1 | head", "", "success"),
    ("npx tsc --noEmit | grep a.ts", "", "unknown"),
    ("npm run build | tail", "npm ERR! code 1", "failure"),
    ("make 2>&1 | tail", "make: *** [Makefile:2: all] Error 1", "failure"),
    ("bun test | tail", " 3 pass\n 1 fail", "failure"),
    ("bun test | tail", " 4 pass\n 0 fail", "success"),
]


def test_a_masked_exit_code_is_read_from_the_summary(subtests: pytest.Subtests) -> None:
    for command, text, outcome in A_MASKED_EXIT_CODE_IS_READ_FROM_THE_SUMMARY:
        with subtests.test(command=command, text=text, outcome=outcome):
            assert ended(edit(), bash(command, text)).value == outcome


A_FAILING_CHAIN_IS_READ_TOO = [
    ("pytest", "nothing to be told from", "failure"),
    ("pytest && git push", f"{PASSED}\nerror: failed to push some refs", "success"),
    ("pytest && git push", FAILED, "failure"),
    ("pytest && git push", "no idea", "unknown"),
    ("ruff check . && pytest", "a.py:1:1: F401 unused\nFound 1 error.", "unknown"),
    ("ruff check . && pytest", FAILED, "failure"),
    ("pytest", "bash: pytest: command not found", "unknown"),
    ("pytest", "Command timed out after 2m", "unknown"),
]


def test_a_failing_chain_is_read_too(subtests: pytest.Subtests) -> None:
    for command, text, outcome in A_FAILING_CHAIN_IS_READ_TOO:
        with subtests.test(command=command, text=text, outcome=outcome):
            assert ended(edit(), bash(command, text, "error")).value == outcome


def test_a_check_without_a_result_is_no_evidence(subtests: pytest.Subtests) -> None:
    for outcome in ["rejected", "unknown"]:
        with subtests.test(outcome=outcome):
            assert ended(edit(), bash("pytest", PASSED, outcome)) == Outcome()
            assert (
                ended(edit(), Step(ToolCall(id="c", name="Bash", arguments='{"command": "pytest"}'), None, None))
                == Outcome()
            )


def test_a_failing_summary_outweighs_an_ok_without_a_flag_or_exit_code() -> None:
    assert ended(edit(), bash("pytest", FAILED)).value == "failure"
    assert ended(edit(), call("terminal", {"command": "pytest"}, FAILED, exit_code=0)).value == "success"


def test_the_name_of_a_check_holds_no_values() -> None:
    assert ended(edit(), bash("make TOKEN=abc123 test")).evidence.startswith("`make test` passed")
    assert ended(edit(), bash("npm --silent run test:unit -- --grep x")).evidence.startswith(
        "`npm --silent run test:unit`"
    )


def test_a_check_in_the_background_counts_when_its_end_is_seen() -> None:
    started = call("exec_command", {"cmd": "pytest"}, "Process running with session ID 7\nOutput:\n....")
    assert ended(edit(), started) == Outcome()
    waiting = call("write_stdin", {"session_id": 7, "chars": ""}, "Process running with session ID 7")
    assert ended(edit(), started, waiting) == Outcome()
    other = call("write_stdin", {"session_id": 8, "chars": ""}, "Process exited with code 0", exit_code=0)
    assert ended(edit(), started, other) == Outcome()
    good = call("write_stdin", {"session_id": 7, "chars": ""}, "Process exited with code 0", exit_code=0)
    assert ended(edit(), started, waiting, good).evidence == "`pytest` passed after the last edit (call 2 of 4)"
    bad = call("write_stdin", {"session_id": 7, "chars": ""}, "Process exited with code 1", exit_code=1)
    assert ended(edit(), started, bad).value == "failure"
    assert ended(edit(), started, edit(), good) == Outcome()


def test_claude_codes_background_runs_count_alike() -> None:
    started = call(
        "Bash", {"command": "pytest", "run_in_background": True}, "Command running in background with ID: b1f"
    )
    done = call(
        "TaskOutput", {"task_id": "b1f"}, "<status>completed</status>\n<exit_code>1</exit_code>\n<output>no</output>"
    )
    assert ended(edit(), started) == Outcome()
    assert ended(edit(), started, done).value == "failure"
    assert ended(edit(), call("terminal", {"command": "pytest", "background": True}, "started")) == Outcome()


def test_a_build_does_not_undo_a_failing_test() -> None:
    assert ended(edit(), bash("go test ./...", "FAIL", "error"), bash("go build ./...")).value == "failure"
    assert ended(edit(), bash("go build ./...")).value == "success"
    assert ended(edit(), bash("go test ./..."), bash("go build ./...", "a.go:1:1: no", "error")).value == "failure"


def test_a_linter_is_no_check() -> None:
    assert ended(edit(), bash("ruff check .")) == Outcome()


def test_a_check_of_another_state_is_no_evidence() -> None:
    assert ended(edit(), bash("git stash && pytest; git stash pop", FAILED)) == Outcome()
    assert ended(edit(), bash("cd /tmp/try && pytest")) == Outcome()


def test_a_commit_and_a_later_failing_check_disagree() -> None:
    found = ended(edit(), bash("git commit -m a"), bash("pytest", FAILED, "error"))
    assert found.value == "unknown"
    assert "committed" in found.evidence
    assert "`pytest` failed" in found.evidence
    wip = ended(edit(), bash("pytest", FAILED, "error"), bash("git commit -am wip"))
    assert wip == Outcome(
        "unknown",
        "committed after the last edit (call 3), but `pytest` failed after the last edit (call 2 of 3)",
        "check",
    )
    assert ended(edit(), bash("pytest", FAILED, "error"), bash("git commit -m a"), bash("pytest")).source == "commit"


A_FAILING_TEST_AND_A_COMMIT_IN_ONE_CALL_DISAGREE_2 = ["git commit -m x && pytest -q", "pytest -q; git commit -m x"]


def test_a_failing_test_and_a_commit_in_one_call_disagree(subtests: pytest.Subtests) -> None:
    for outcome in ["ok", "error"]:
        for command in A_FAILING_TEST_AND_A_COMMIT_IN_ONE_CALL_DISAGREE_2:
            with subtests.test(command=command, outcome=outcome):
                found = ended(edit(), bash(command, f"[main 1a2b3c4] x\n 1 file changed\n{FAILED}", outcome))
                assert found.value == "unknown"
                assert "committed" in found.evidence
                assert "`pytest` failed" in found.evidence


WHAT_IS_COMMITTED_ELSEWHERE_IS_NO_COMMIT_OF_THE_WORK = [
    ("git -C /srv/other commit -m a", "unknown"),
    ("cd /srv/other && git commit -m a", "unknown"),
    ("cd ~/other && git commit -m a", "unknown"),
    ("cd /srv/other && pytest", "unknown"),
    ("git -C /home/mara/tides commit -m a", "success"),
    ("cd /home/mara/tides/src && git commit -m a", "success"),
    ("cd ~/tides && git commit -m a", "success"),
    ("cd /home/mara && git commit -m a", "success"),
    ("cd src && git commit -m a", "success"),
    ("cd $ROOT && git commit -m a", "success"),
    ("git -C /home/mara/tides.worktrees/two commit -m a", "success"),
]


def test_what_is_committed_elsewhere_is_no_commit_of_the_work(subtests: pytest.Subtests) -> None:
    for command, outcome in WHAT_IS_COMMITTED_ELSEWHERE_IS_NO_COMMIT_OF_THE_WORK:
        with subtests.test(command=command, outcome=outcome):
            assert ended(edit(), bash(command), project="/home/mara/tides").value == outcome
            assert ended(edit(), bash(command)).value == "success"  # nobody knows where the work is
            assert (
                ended(edit("/srv/other/a.py"), bash("cd /srv/other && git commit -m a"), project="/x").value
                == "success"
            )


def test_without_an_edit_only_a_check_that_nothing_follows_counts() -> None:
    assert ended(bash("pytest")) == Outcome("success", "`pytest` passed (call 1 of 1)", "check")
    assert ended(bash("pytest"), call("TodoWrite", {})).value == "success"
    assert ended(bash("pytest"), call("Read", {"file_path": "a.py"})) == Outcome()


THE_USERS_CLOSING_WORDS = [
    ("works now, thanks", "success"),
    ("perfect, merge it", "success"),
    ("great", "success"),
    ("ok, works. great", "success"),
    ("LGTM", "success"),
    ("Danke, perfekt!", "success"),
    ("谢谢，完美", "success"),
    ("still broken", "failure"),
    ("that doesn't work", "failure"),
    ("no, revert that", "failure"),
    ("es funktioniert immer noch nicht", "failure"),
    ("great, but the title is missing", "unknown"),
    ("thanks, can you add a test?", "unknown"),
    ("Great, now do the same for the harbour", "unknown"),
    ("is it still broken?", "unknown"),
    ("thanks for nothing", "unknown"),
    ("great, another failure", "unknown"),
    ("thanks, it crashed", "unknown"),
    ("perfect, one more error", "unknown"),
    ("awesome, the build broke", "unknown"),
    ("thanks, nothing else", "success"),
    ("yes", "unknown"),
    ("add a table", "unknown"),
]


def test_the_users_closing_words(subtests: pytest.Subtests) -> None:
    for words, outcome in THE_USERS_CLOSING_WORDS:
        with subtests.test(words=words, outcome=outcome):
            found = ended(edit(), words=(words,))
            assert found.value == outcome
            assert found.source == ("words" if outcome != "unknown" else "")


def test_the_quoted_words_are_few() -> None:
    found = ended(words=("thanks\n" + "a lot " * 18,))
    assert found.evidence.startswith("the user's closing words: “thanks a lot")
    assert len(found.evidence) < 120


def test_only_words_that_close_the_session_count() -> None:
    assert ended(edit(), words=("perfect", "bye")).value == "success"
    assert ended(edit(), words=("perfect", "add one more table to the page")) == Outcome()
    before = Message(native_id="u", role="user", text="still broken")
    work = Message(native_id="a", role="assistant", tool_calls=(edit().call,))
    assert judge_session(SESSION, [before, work], [edit()]) == Outcome()
    happy = Message(native_id="u", role="user", text="perfect, thanks")
    assert judge_session(SESSION, [happy, work], [edit()]).source == "words"


def test_the_assistants_claim_and_injected_text_are_no_words() -> None:
    claims = [
        Message(native_id="1", role="assistant", text="Perfect, all tests pass now!"),
        Message(native_id="2", role="user", text="works now, thanks", injected=True),
        Message(native_id="3", role="user", text="works now, thanks", sidechain=True),
    ]
    assert judge_session(SESSION, claims, []) == Outcome()


def test_checks_and_commits_outweigh_words() -> None:
    assert ended(edit(), bash("pytest", FAILED, "error"), words=("great, thanks",)).source == "check"
    assert ended(edit(), bash("pytest"), words=("great, thanks",)).source == "check"


def test_a_complaint_after_a_passing_check_leaves_it_open() -> None:
    found = ended(edit(), bash("pytest"), words=("that doesn't work",))
    assert found.value == "unknown"
    assert "passed" in found.evidence
    assert "that doesn't work" in found.evidence


def test_an_empty_session_is_unknown() -> None:
    assert judge_session(SESSION, [], []) == Outcome()
