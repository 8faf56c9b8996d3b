"""Which errors were got over, what was changed, and which stayed dead ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pytest

from tests.profile.talks import bash, did, talk
from warmstart.profile.profiler import Profiler
from warmstart.profile.recoveries import describe_recovery, usual_fix
from warmstart.profile.values import Change, DeadEnd, Profile, Recovery
from warmstart.sessions.values import Message, Session

SESSION = Session(agent="claude-code", native_id="s")


def profile(*parts: Iterable[Message]) -> Profile:
    return Profiler().profile(SESSION, talk(*parts))


def changes(tool: str, before: object, after: object) -> tuple[Change, ...]:
    (recovery,) = profile(did(tool, before, "error", "boom"), did(tool, after)).recoveries
    return recovery.changes


def shell_changes(before: str, after: str) -> tuple[Change, ...]:
    return changes("Bash", {"command": before}, {"command": after})


# -- what counts


def test_the_next_success_of_the_same_tool_is_the_recovery() -> None:
    made = profile(bash("a", "error", "boom"), bash("a"))
    assert made.recoveries == (Recovery(0, 1, 1),)
    assert made.markers.recovery_rate == 1.0


def test_a_success_counts_within_the_tools_next_three_calls(subtests: pytest.Subtests) -> None:
    for failures, recovered in [(1, [1]), (2, [2, 1]), (3, [3, 2, 1]), (4, [3, 2, 1])]:
        with subtests.test(failures=failures, recovered=recovered):
            made = profile(*(bash("a", "error", "boom") for _ in range(failures)), bash("a"))
            assert [recovery.tries for recovery in made.recoveries] == recovered
            assert made.markers.recovery_rate == len(recovered) / failures


def test_calls_of_other_tools_do_not_count_as_tries() -> None:
    others = [did("Read", {"file_path": str(number)}) for number in range(9)]
    (recovery,) = profile(bash("a", "error", "boom"), *others, bash("a")).recoveries
    assert (recovery.failed, recovery.succeeded, recovery.tries) == (0, 10, 1)


def test_another_tools_success_is_no_recovery() -> None:
    assert profile(bash("a", "error", "boom"), did("Read", {"file_path": "a"})).recoveries == ()


def test_a_call_that_did_not_work_is_a_try_but_no_success(subtests: pytest.Subtests) -> None:
    for outcome in ["rejected", "unknown", None]:
        with subtests.test(outcome=outcome):
            between = bash("b", outcome)  # type: ignore[arg-type]
            (recovery,) = profile(bash("a", "error", "boom"), between, bash("a")).recoveries
            assert (recovery.failed, recovery.succeeded, recovery.tries) == (0, 2, 2)
            assert profile(bash("a", "error", "boom"), between, between, between, bash("a")).recoveries == ()


def test_only_an_error_is_recovered_from(subtests: pytest.Subtests) -> None:
    for outcome in ["rejected", "unknown", None]:
        with subtests.test(outcome=outcome):
            made = profile(bash("a", outcome), bash("a"))  # type: ignore[arg-type]
            assert made.recoveries == made.dead_ends == ()
            assert made.markers.recovery_rate is None


def test_every_failing_call_of_a_tool_has_its_own_recovery() -> None:
    made = profile(
        bash("a", "error", "boom"),
        did("Read", {"file_path": "x"}, "error", "File does not exist"),
        bash("a"),
        bash("b", "error", "boom"),
        did("Read", {"file_path": "y"}),
        bash("c"),
    )
    assert [(r.failed, r.succeeded) for r in sorted(made.recoveries)] == [(0, 2), (1, 4), (3, 5)]


# -- tools in between


def test_the_tools_that_worked_in_between_are_named_once_in_order() -> None:
    (recovery,) = profile(
        did("Edit", {"file_path": "a"}, "error", "boom"),
        did("Grep", {"pattern": "x"}),
        did("Read", {"file_path": "a"}),
        did("Grep", {"pattern": "y"}),
        did("Glob", {"pattern": "z"}, "error", "boom"),
        did("WebFetch", {"url": "u"}, "rejected"),
        did("Edit", {"file_path": "a"}),
    ).recoveries
    assert recovery.between == ("Grep", "Read")


def test_few_tools_in_between_are_kept() -> None:
    many = [did(f"tool{number}") for number in range(9)]
    (recovery,) = profile(bash("a", "error", "boom"), *many, bash("a")).recoveries
    assert recovery.between == ("tool0", "tool1", "tool2", "tool3")


# -- what was changed


def test_arguments_added_removed_and_changed() -> None:
    before = {"file_path": "a.py", "old_string": "secret one", "limit": 3}
    after = {"file_path": "a.py", "old_string": "secret two", "replace_all": True}
    found = changes("Edit", before, after)
    assert set(found) == {
        Change("old_string", "changed"),
        Change("limit", "removed"),
        Change("replace_all", "added"),
    }


def test_no_value_is_kept() -> None:
    made = profile(
        did("Edit", {"file_path": "hunter1", "old_string": "hunter2"}, "error", "boom"),
        did("Edit", {"file_path": "hunter3", "old_string": {"hunter4": ["hunter5"]}, "new": "hunter6"}),
        bash("mysql -phunter7 --token=hunter8 -u hunter9", "error", "boom"),
        bash("mysql -phunter10 --password=hunter11 'hunter12'; \"hunter 13 as a program\" --x"),
    )
    assert len(made.recoveries) == 2
    assert "hunter" not in repr(made.recoveries)
    assert Change("mysql --token", "removed") in made.recoveries[1].changes


def test_the_same_arguments_written_otherwise_are_no_change() -> None:
    assert changes("Read", '{"a": 1, "b": 2}', '{"b":2,"a":1}') == ()
    assert changes("Read", '{"a": 1}', '{"a": 1}') == ()


def test_free_text_is_just_changed() -> None:
    assert changes("apply_patch", "*** Begin Patch one", "*** Begin Patch two") == (Change("input", "changed"),)
    assert changes("apply_patch", "[1]", "[2]") == (Change("input", "changed"),)


def test_few_changes_with_short_names_are_kept() -> None:
    found = changes("Edit", {}, {f"{number}{'n' * 1000}": 1 for number in range(50)})
    assert len(found) == 6
    assert all(len(change.what) <= 40 for change in found)


HOW_A_COMMAND_WAS_CHANGED = [
    ("pytest", "make test", [("another command", "changed")]),
    ("pytest a.py", "pytest b.py", [("command", "changed")]),
    ("git diff", "git diff --stat", [("git --stat", "added")]),
    ("git diff --stat=80", "git diff", [("git --stat", "removed")]),
    ("pytest", "pytest | tail", [("tail", "added")]),
    ("cd a && pytest", "cd b && pytest", [("command", "changed")]),
    ("pytest -x", "uv run pytest -q", [("pytest -x", "removed"), ("pytest -q", "added")]),
    ("mysql -pone -e x", "mysql -ptwo -e x", [("command", "changed")]),
]


def test_how_a_command_was_changed(subtests: pytest.Subtests) -> None:
    for before, after, expected in HOW_A_COMMAND_WAS_CHANGED:
        with subtests.test(before=before, after=after, expected=expected):
            assert list(shell_changes(before, after)) == [Change(*each) for each in expected]  # type: ignore[arg-type]


def test_the_same_command_with_other_settings_is_no_other_command() -> None:
    before = {"command": "make", "description": "Build"}
    assert changes("Bash", before, {"command": "make", "description": "Build again"}) == ()
    assert changes("Bash", before, {"command": "make", "timeout": 600}) == (Change("timeout", "added"),)
    escalated = {"cmd": "npm ci", "sandbox_permissions": "require_escalated", "justification": "network"}
    assert changes("exec_command", {"cmd": "npm ci"}, escalated) == (Change("sandbox_permissions", "added"),)


# -- dead ends


def test_an_error_that_came_back_and_stayed_is_a_dead_end() -> None:
    made = profile(*(did("Read", {"file_path": str(n)}, "error", "File does not exist.") for n in range(3)))
    assert made.dead_ends == (DeadEnd("Read", made.calls[0].signature, 3),)


def test_an_error_that_came_once_is_no_dead_end() -> None:
    assert profile(bash("a", "error", "boom")).dead_ends == ()


def test_what_was_resolved_in_the_end_is_no_dead_end() -> None:
    failing = did("Read", {"file_path": "a"}, "error", "File does not exist.")
    assert profile(failing, failing, did("Read", {"file_path": "b"})).dead_ends == ()


def test_what_came_back_after_a_recovery_is_a_dead_end() -> None:
    def failing() -> list[Message]:
        return did("Read", {"file_path": "a"}, "error", "File does not exist.")

    made = profile(failing(), did("Read", {"file_path": "b"}), failing())
    assert [end.times for end in made.dead_ends] == [2]
    rejected = did("Read", {"file_path": "b"}, "rejected")
    assert [end.times for end in profile(failing(), failing(), rejected).dead_ends] == [2]


def test_the_same_error_of_two_tools_is_two_errors() -> None:
    made = profile(did("Read", {}, "error", "File does not exist."), did("Grep", {}, "error", "File does not exist."))
    assert made.dead_ends == ()


# -- in words


def test_a_recovery_in_words() -> None:
    def told(*pairs: tuple[str, str], between: tuple[str, ...] = ()) -> str:
        return describe_recovery(Recovery(0, 1, 1, tuple(Change(*pair) for pair in pairs), between))  # type: ignore[arg-type]

    assert told() == "the same call again"
    assert told(between=("Read",)) == "Read, then the same call again"
    assert told(between=("Glob", "Read", "Grep")) == "Glob and Read, then the same call again"
    assert told(("replace_all", "added")) == "with replace_all"
    assert told(("a", "added"), ("b", "removed"), ("c", "changed")) == "with a, without b, another c"
    assert told(("a", "changed"), ("b", "changed")) == "another a and b"
    assert told(("another command", "changed")) == "another command"
    assert told(("command", "changed"), between=("Edit",)) == "Edit, then the same program with other arguments"
    assert told(*((name, "changed") for name in "abcd")) == "a and 3 others changed"


def test_a_fix_is_what_helped_twice() -> None:
    one, other = Recovery(0, 1, 1, between=("Read",)), Recovery(2, 5, 2)
    assert usual_fix([], 5) is None
    assert usual_fix([one, other], 5) is None
    assert usual_fix([one, other, one], 5) == "Read, then the same call again (2 of 5)"


# -- many calls


def test_the_time_for_ten_thousand_calls_is_proportional() -> None:
    def seconds(calls: int) -> float:
        messages = talk(
            *(
                did(
                    f"tool{number % 50}",
                    json.dumps({"file_path": f"{number}.py", "x": number}),
                    "error" if number % 3 else "ok",
                    f"error {number}: no such thing",
                )
                for number in range(calls)
            )
        )
        began = time.process_time()
        made = Profiler().profile(SESSION, messages)
        assert len(made.calls) == calls
        return time.process_time() - began

    seconds(100)
    assert seconds(10_000) < max(2.0, 30 * seconds(1_000))
