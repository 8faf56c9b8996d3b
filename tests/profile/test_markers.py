"""The markers, each with a value worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest

from tests.profile.talks import asked, bash, did, orphan, talk
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Markers
from warmstart.sessions.values import Message, Session, Usage
from warmstart.testing.stores import at

SESSION = Session(agent="claude-code", native_id="s")


def markers(*parts: Iterable[Message], session: Session = SESSION) -> Markers:
    return Profiler().profile(session, talk(*parts)).markers


def test_a_session_of_nothing() -> None:
    assert markers() == Markers()


def test_counts_by_hand() -> None:
    found = markers(
        asked("Add the gauge"),
        bash("pytest", "error", "1 failed"),
        bash("pytest"),
        bash("rm -rf build", "rejected", "The user doesn't want to proceed"),
        bash("sleep 100", "unknown"),
        bash("make", None),
        asked("And now the page"),
        did("Read", {"file_path": "a.py"}),
    )
    assert (found.messages, found.turns) == (13, 2)
    assert (found.calls, found.results) == (6, 5)
    assert (found.errors, found.rejected, found.unknown) == (1, 1, 2)
    assert found.error_rate == 1 / 6


def test_what_is_no_turn() -> None:
    found = markers(
        asked("A request"),
        asked("<hook> text", injected=True),
        asked("This session is being continued from", compaction_summary=True),
        asked(""),
        asked("A sentence of the assistant", role="assistant"),
        asked("A system prompt", role="system"),
        asked("Another request"),
    )
    assert (found.messages, found.turns, found.compactions) == (7, 2, 1)


def test_a_result_without_its_call_counts_as_a_call_without_a_name() -> None:
    made = Profiler().profile(SESSION, talk(orphan("error", "boom"), orphan(), bash("a")))
    assert [(call.tool, call.outcome, call.kind) for call in made.calls] == [
        ("", "error", "other"),
        ("", "ok", "other"),
        ("Bash", "ok", "code"),
    ]
    assert (made.markers.calls, made.markers.results, made.markers.errors) == (3, 3, 1)
    assert made.calls[0].signature


def test_a_call_without_a_result_is_unknown() -> None:
    made = Profiler().profile(SESSION, talk(bash("a", None)))
    assert [call.outcome for call in made.calls] == ["unknown"]
    assert (made.markers.calls, made.markers.results, made.markers.unknown) == (1, 0, 1)


def test_the_early_rate_is_that_of_the_first_thirty_turns() -> None:
    turns = [part for number in range(1, 41) for part in (asked(f"{number}"), bash(f"{number}", "ok"))]
    late = [asked("late"), *(bash(f"late {number}", "error", "boom") for number in range(10))]
    found = markers(bash("before any turn", "error", "boom"), *turns[:60], *late)
    assert found.turns == 31
    assert found.error_rate == 11 / 41
    assert found.early_error_rate == 1 / 31
    assert markers(*late).early_error_rate == 1.0
    assert markers(asked("nothing done")).early_error_rate is None


def test_the_thirtieth_turn_is_early_and_the_next_is_not() -> None:
    asking = [asked(f"{number}") for number in range(29)]
    thirtieth, next_one = bash("a", "error", "boom"), bash("b")
    assert markers(*asking, asked("30"), thirtieth, asked("31"), next_one).early_error_rate == 1.0
    assert markers(*asking, asked("30"), asked("31"), thirtieth, next_one).early_error_rate is None


# -- the first success


def test_the_first_success_in_calls_and_seconds() -> None:
    found = markers(
        asked("Go", 0),
        bash("a", "error", "boom", minutes=1, took=5),
        bash("b", "rejected", minutes=2),
        bash("c", "ok", minutes=3, took=12),
        bash("d", "ok", minutes=9),
    )
    assert (found.calls_to_success, found.seconds_to_success) == (3, 192.0)


def test_no_success_is_none() -> None:
    found = markers(asked("Go", 0), bash("a", "error", "boom", minutes=1), bash("b", "unknown", minutes=2))
    assert (found.calls_to_success, found.seconds_to_success) == (None, None)


def test_without_times_the_calls_are_counted_all_the_same() -> None:
    found = markers(asked("Go"), bash("a", "error", "boom"), bash("b"))
    assert (found.calls_to_success, found.seconds_to_success, found.seconds) == (2, None, None)


def test_times_that_run_backwards_give_no_negative_number() -> None:
    made = Profiler().profile(SESSION, talk(asked("Go", 10), bash("a", minutes=3, took=-60), bash("b", minutes=30)))
    assert made.calls[0].at == 0.0
    assert made.calls[0].seconds == 0.0
    assert made.markers.seconds_to_success == 0.0
    assert made.markers.seconds == 28 * 60  # from minute 2, when the first result came, to minute 30


def test_the_length_of_a_session_in_seconds() -> None:
    assert markers(asked("Go", 0), asked("Bye", 2.5)).seconds == 150.0
    assert markers(asked("Go", 7)).seconds == 0.0


# -- diversity


def test_ten_calls_are_as_diverse_as_their_tools() -> None:
    assert markers(*(did(f"tool{number % 3}") for number in range(10))).diversity == pytest.approx(3)
    assert markers(*(did("tool") for _ in range(50))).diversity == pytest.approx(1)


def test_below_ten_calls_there_is_no_diversity() -> None:
    assert markers(*(did(f"tool{number}") for number in range(9))).diversity is None


DIVERSITY_IS_THE_MEAN_OVER_EVERY_DRAW_OF_TEN = ["aaaaaabbbccd", "abcdefghijklm", "aaaaaaaaaaaab", "aabbccddeeff"]


def test_diversity_is_the_mean_over_every_draw_of_ten(subtests: pytest.Subtests) -> None:
    for tools in DIVERSITY_IS_THE_MEAN_OVER_EVERY_DRAW_OF_TEN:
        with subtests.test(tools=tools):
            draws = [len(set(draw)) for draw in combinations(tools, 10)]
            found = markers(*(did(tool) for tool in tools)).diversity
            assert found == pytest.approx(sum(draws) / len(draws), abs=1e-12)


def test_length_alone_does_not_raise_diversity() -> None:
    short = markers(*(did(tool) for tool in "aaaaabbbbb")).diversity
    long = markers(*(did(tool) for tool in "aaaaabbbbb" * 100)).diversity
    assert short is not None
    assert long == pytest.approx(short, abs=0.01)


# -- repetition


def test_identical_calls_are_counted_from_the_second() -> None:
    found = markers(
        bash("make"), bash("make"), bash("make -j"), bash("make"), did("Shell", {"command": "make"}), bash("make -j")
    )
    assert found.repeated_calls == 3


def test_calls_that_are_not_in_the_log_do_not_count_as_identical() -> None:
    assert markers(orphan(), orphan(), orphan()).repeated_calls == 0


def test_a_file_read_again() -> None:
    found = markers(
        did("Read", {"file_path": "a.py"}),
        did("Read", {"file_path": "b.py"}),
        did("Read", {"file_path": "a.py"}),
        did("Read", {"file_path": "a.py", "offset": 100, "limit": 50}),
        did("Read", {"file_path": "a.py", "offset": 200, "limit": 50}),
        did("Read", {"file_path": "a.py", "offset": 100, "limit": 50}),
        did("Edit", {"file_path": "a.py"}),
        did("Read", {"file_path": "b.py"}, "error", "boom"),
    )
    assert found.rereads == 2


ANOTHER_RANGE_IS_NO_REREAD = [
    ("Read", {"file_path": "a.pdf"}, {"file_path": "a.pdf", "pages": "3-4"}),
    ("read_file", {"path": "a", "start_line": 1, "end_line": 9}, {"path": "a", "start_line": 10, "end_line": 19}),
    ("view", {"path": "a"}, {"path": "a", "view_range": [1, 50]}),
    ("read", {"filePath": "a"}, {"filePath": "a", "offset": 5}),
]


def test_another_range_is_no_reread(subtests: pytest.Subtests) -> None:
    for tool, first, other in ANOTHER_RANGE_IS_NO_REREAD:
        with subtests.test(tool=tool, first=first, other=other):
            assert markers(did(tool, first), did(tool, other)).rereads == 0
            assert markers(did(tool, first), did(tool, first)).rereads == 1
            assert markers(did(tool, other), did(tool, first), did(tool, other)).rereads == 1


def test_files_read_in_the_shell() -> None:
    assert markers(bash("cat a.py"), bash("cd src && cat a.py")).rereads == 1
    assert markers(bash("sed -n 1,50p a.py"), bash("sed -n 51,99p a.py")).rereads == 0
    assert markers(bash("head -5 a.py"), bash("tail -5 a.py")).rereads == 0
    assert markers(bash("make"), bash("make")).rereads == 0


# -- the person, the context, tokens


def test_corrections_are_counted_after_the_first_request() -> None:
    found = markers(asked("No, that is wrong"), bash("a"), asked("No, that's wrong, undo it"), asked("Now the page"))
    assert found.corrections == 1


def test_compactions_are_placed_before_the_next_call() -> None:
    summary = asked("This session is being continued from", compaction_summary=True)
    made = Profiler().profile(SESSION, talk(bash("a"), bash("b"), summary, bash("c"), summary))
    assert made.compactions == (2, 3)
    assert made.markers.compactions == 2


def test_tokens_add_up_and_the_largest_prompt_is_the_share() -> None:
    def answer(number: int, model: str = "claude-opus-4-5", **usage: int) -> list[Message]:
        return [
            Message(
                native_id=f"m{number}", role="assistant", text="x", model=model, timestamp=at(0), usage=Usage(**usage)
            )
        ]

    found = markers(
        answer(1, input=10, output=20, cache_read=30, cache_write=40, reasoning=5),
        answer(2, input=1000, output=2, cache_read=89_000, cache_write=10_000),
        answer(3, input=3, output=4),
        answer(4, model="somebody's own", input=500_000),
    )
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (501_013, 26, 99_070)
    assert found.context_share == 0.5
    assert markers(answer(1, model="somebody's own", input=500_000)).context_share is None
    assert markers(answer(1)).context_share is None
    assert markers(asked("x")).context_share is None
