"""The report on sessions made by hand: sums, rates, bins, keys, signatures, recoveries, texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.profile.talks import asked, talk
from warmstart.profile.corpus import MAX_SIGNATURES, Instruction, Report, summarize, week
from warmstart.profile.diagnostics import Rate
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Call, Change, Markers, Outcome, Profile, Profiled, Recovery, WritingStyle
from warmstart.sessions.values import CallOutcome, Session

LETTERS: dict[str, CallOutcome] = {".": "ok", "x": "error", "r": "rejected", "?": "unknown"}


def made(
    name: str,
    calls: str | Sequence[Call] = "",
    *,
    messages: int = 10,
    task_type: Any = "code",
    profile: dict[str, Any] | None = None,
    **session: Any,
) -> Profiled:
    """A session with these calls: `.` went well, `x` failed, `r` was rejected, `?` is not known."""
    if isinstance(calls, str):
        calls = [Call("Bash", LETTERS[letter], "code", signature="boom" if letter == "x" else "") for letter in calls]
    count = {outcome: sum(call.outcome == outcome for call in calls) for outcome in LETTERS.values()}
    markers = Markers(
        messages=messages,
        calls=len(calls),
        results=len(calls) - count["unknown"],
        errors=count["error"],
        rejected=count["rejected"],
        unknown=count["unknown"],
    )
    fields = {"agent": "claude-code", "native_id": name, **session}
    return Profiled(
        Session(**fields),
        Profile(task_type=task_type, markers=markers, calls=tuple(calls), **(profile or {})),
    )


def numbers(rates: Sequence[Rate]) -> list[tuple[str, int, int, int]]:
    return [(each.key, each.sessions, each.calls, each.errors) for each in rates]


def test_no_sessions() -> None:
    found = summarize([])
    assert (found.sessions, found.calls, found.results, found.errors, found.rejected) == (0, 0, 0, 0, 0)
    assert (found.rate, found.low, found.high) == (None, None, None)
    assert [tuple(each) for each in found.by_length] == [
        (key, 0, 0, 0, None, None, None) for key in ("0-50", "51-100", "101+")
    ]
    assert found.by_tool == found.by_agent == found.by_week == found.signatures == found.instructions == ()
    assert (found.recovery.errors, found.recovery.next_call, found.recovery.within_three) == (0, None, None)
    assert found.diagnostics.reading == "not enough data"
    assert found.outcomes == {}


def test_sums_and_the_rate() -> None:
    found = summarize([made("a", "..x."), made("b", "xx"), made("c", ""), made("d", "..r?")])
    assert (found.sessions, found.calls, found.results, found.errors, found.rejected) == (4, 10, 9, 3, 1)
    assert found.rate == 3 / 10
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low < 0.3 < found.high <= 1


def test_a_rejected_call_is_a_call_and_no_error() -> None:
    found = summarize([made("a", "rrrr"), made("b", "x...")])
    assert numbers(found.by_tool) == [("Bash", 2, 8, 1)]
    assert (found.errors, found.rejected, found.rate) == (1, 4, 1 / 8)
    assert summarize([made("a", "rr")]).rate == 0.0


def test_every_rate_is_errors_by_calls() -> None:
    found = summarize([made("a", "..x.", project="/w/a"), made("b", "xxr", messages=70, project="/w/b")])
    for rates in (found.by_length, found.by_tool, found.by_task_type, found.by_agent, found.by_project):
        for each in rates:
            assert each.rate == (each.errors / each.calls if each.calls else None)


THE_BINS_GO_BY_MESSAGES = [(0, "0-50"), (50, "0-50"), (51, "51-100"), (100, "51-100"), (101, "101+"), (5000, "101+")]


def test_the_bins_go_by_messages(subtests: pytest.Subtests) -> None:
    for messages, expected in THE_BINS_GO_BY_MESSAGES:
        with subtests.test(messages=messages, expected=expected):
            found = summarize([made("a", ".x", messages=messages)])
            assert [each.key for each in found.by_length] == ["0-50", "51-100", "101+"]
            assert {each.key: each.calls for each in found.by_length if each.calls} == {expected: 2}


def test_subagents_are_in_no_bin() -> None:
    found = summarize([made("a", ".x"), made("b", "xx", parent_id="a", parent_kind="subagent")])
    assert (found.sessions, found.errors) == (2, 3)
    assert numbers(found.by_length)[0] == ("0-50", 1, 2, 1)


def test_a_session_without_a_call_is_in_no_bin() -> None:
    assert [each.sessions for each in summarize([made("a", "", messages=70)]).by_length] == [0, 0, 0]


def test_by_tool_counts_a_session_once_however_often_it_calls() -> None:
    calls = [
        Call("Bash", "error", "code"),
        Call("Read", "ok", "file"),
        Call("Bash", "ok", "code"),
        Call("", "ok", "other"),
    ]
    found = summarize([made("a", calls), made("b", [Call("Read", "error", "file"), Call("Read", "ok", "file")])])
    assert numbers(found.by_tool) == [("Read", 2, 3, 1), ("Bash", 1, 2, 1), ("(unknown)", 1, 1, 0)]


def test_by_task_type_and_agent() -> None:
    found = summarize(
        [
            made("a", "x.", task_type="file"),
            made("b", "...", task_type="mixed", agent="codex"),
            made("c", ".", task_type="file", agent="codex"),
            made("d", "", task_type="research", agent="hermes"),
        ]
    )
    assert numbers(found.by_task_type) == [("file", 2, 3, 1), ("mixed", 1, 3, 0)]
    assert numbers(found.by_agent) == [("codex", 2, 4, 0), ("claude-code", 1, 2, 1)]


def test_by_model_is_the_calls_or_else_the_sessions() -> None:
    calls = [
        Call("Bash", "error", "code", model="opus"),
        Call("Bash", "ok", "code", model="haiku"),
        Call("Bash", "ok", "code"),
    ]
    found = summarize([made("a", calls, model="sonnet"), made("b", ".", model="opus"), made("c", "xx")])
    assert numbers(found.by_model) == [("opus", 2, 2, 1), ("haiku", 1, 1, 0), ("sonnet", 1, 1, 0)]


def test_by_project_leaves_out_those_without() -> None:
    found = summarize([made("a", "x.", project="/w/tide"), made("b", "...", project="/w/moon"), made("c", "xxxx")])
    assert numbers(found.by_project) == [("/w/moon", 1, 3, 0), ("/w/tide", 1, 2, 1)]
    assert found.calls == 9


ISO_WEEKS_AROUND_NEW_YEAR = [
    ("2026-01-01", "2026-W01"),
    ("2025-12-29", "2026-W01"),
    ("2025-12-28", "2025-W52"),
    ("2027-01-01", "2026-W53"),
    ("2027-01-03", "2026-W53"),
    ("2027-01-04", "2027-W01"),
    ("2026-09-01", "2026-W36"),
]


def test_iso_weeks_around_new_year(subtests: pytest.Subtests) -> None:
    for day, expected in ISO_WEEKS_AROUND_NEW_YEAR:
        with subtests.test(day=day, expected=expected):
            started = datetime.fromisoformat(day).replace(tzinfo=UTC)
            assert week(made("a", started_at=started)) == expected
            assert numbers(summarize([made("a", ".", started_at=started)]).by_week) == [(expected, 1, 1, 0)]


def test_weeks_come_in_order_and_a_session_without_a_date_in_none() -> None:
    days = (datetime(2026, 12, 31, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), datetime(2027, 1, 4, tzinfo=UTC))
    some = [made(f"{day:%d}", "." * day.day, started_at=day) for day in days]
    found = summarize([*some, made("undated", "xx")])
    assert [each.key for each in found.by_week] == ["2026-W09", "2026-W53", "2027-W01"]
    assert found.calls == 31 + 1 + 4 + 2


# -- signatures


def error(signature: str, tool: str = "Bash") -> Call:
    return Call(tool, "error", "code", signature=signature)


def test_signatures_with_counts_and_sessions() -> None:
    found = summarize(
        [
            made("a", [error("boom"), error("boom"), error("bang")]),
            made("b", [error("boom"), error("boom", "Read"), Call("Bash", "ok", "code")]),
            made("c", [error("lost", "")]),
        ]
    )
    assert [(each.signature, each.tool, each.count, each.sessions, each.fix) for each in found.signatures] == [
        ("boom", "Bash", 3, 2, None),
        ("bang", "Bash", 1, 1, None),
        ("boom", "Read", 1, 1, None),
        ("lost", "(unknown)", 1, 1, None),
    ]


def test_the_fix_is_what_helped_at_least_twice() -> None:
    def recovered(name: str, *recoveries: Recovery) -> Profiled:
        return made(name, "x.x.x.", profile={"recoveries": recoveries})

    read = {"changes": (Change("file_path", "changed"),), "between": ("Glob",)}
    once = recovered("a", Recovery(0, 1, 1, **read), Recovery(2, 3, 1))  # type: ignore[arg-type]
    again = recovered("b", Recovery(0, 1, 1, **read))  # type: ignore[arg-type]
    assert summarize([once]).signatures[0].fix is None
    assert summarize([once, again]).signatures[0].fix == "Glob, then another file_path (2 of 6)"


def test_not_all_signatures_are_listed_but_the_largest_are() -> None:
    many = [made(f"{n:03}", [error(f"error {n:03}")] * (1 + (n == 99))) for n in range(100)]
    found = summarize(many)
    assert len(found.signatures) == MAX_SIGNATURES
    assert (found.signatures[0].signature, found.signatures[0].count) == ("error 099", 2)
    assert found.errors == 101


# -- recoveries


def test_recovery_rates() -> None:
    some = [
        made("a", "x.xx.", profile={"recoveries": (Recovery(0, 1, 1), Recovery(2, 4, 2), Recovery(3, 4, 1))}),
        made("b", "xxxx."),
        made("c", "...."),
        made("d", "xxx.", profile={"recoveries": (Recovery(0, 3, 3),)}),
    ]
    found = summarize(some).recovery
    assert (found.errors, found.next_call, found.within_three) == (10, 2 / 10, 4 / 10)
    assert found.next_call_low is not None
    assert found.next_call_high is not None
    assert 0 <= found.next_call_low <= 0.2 <= found.next_call_high <= 1
    assert summarize([made("c", "....")]).recovery.next_call is None


# -- texts and outcomes


def test_what_is_shown_is_redacted() -> None:
    def hide(text: str) -> str:
        return text.replace("hunter2", "[secret]")

    recoveries = (
        Recovery(0, 1, 1, (Change("--hunter2", "added"),)),
        Recovery(2, 3, 1, (Change("--hunter2", "added"),)),
    )
    calls = [error("no hunter2"), Call("Bash", "ok", "code"), error("no hunter2"), Call("Bash", "ok", "code")]
    told = WritingStyle(instructions=("Always say hunter2.",))
    some = [made(name, calls, profile={"recoveries": recoveries, "style": told}) for name in "ab"]
    found = summarize(some, redact=hide)
    assert "hunter2" not in repr(found)
    assert found.signatures[0].signature == "no [secret]"
    assert found.signatures[0].fix == "with --[secret] (4 of 4)"
    assert found.instructions == (Instruction("Always say [secret].", 2),)
    assert "hunter2" in repr(summarize(some))


def test_instructions_that_came_back() -> None:
    def told(name: str, *texts: str) -> Profiled:
        return made(name, ".", profile={"style": WritingStyle(instructions=texts)})

    found = summarize(
        [told("new", "Use uv, not pip!", "Never push."), told("old", "use uv, not pip"), told("c", "Once")]
    )
    assert found.instructions == (Instruction("Use uv, not pip!", 2),)
    assert summarize([told("a", "Use uv", "use uv!")]).instructions == ()


def test_outcomes_are_counted() -> None:
    some = [made(name, profile={"outcome": Outcome(outcome)}) for name, outcome in (("a", "success"), ("b", "unknown"))]
    some.append(made("c", profile={"outcome": Outcome("success", "committed", "commit")}))
    assert summarize(some).outcomes == {"success": 2, "unknown": 1}


# -- the whole


def corpus(count: int) -> list[Profiled]:
    return [
        made(f"s{n}", "".join("x" if (n * 7 + i) % 11 == 0 else "." for i in range(n % 40)), messages=n * 3)
        for n in range(count)
    ]


def test_the_same_sessions_give_the_same_report() -> None:
    assert summarize(corpus(60)) == summarize(iter(corpus(60)))


def test_sessions_that_say_little_do_not_matter() -> None:
    bare = Profiler().profile(Session(agent="codex", native_id="x"), talk(asked("hello")))
    odd = [
        Profiled(Session(agent="codex", native_id="x"), bare),
        made("rejected", "rrr"),
        made("unknown", "???"),
        made("undated", [replace_time(call) for call in made("z", "x.").profile.calls]),
    ]
    for some in ([odd[0]], [odd[1]], [odd[2]], odd):
        found: Report = summarize(some)
        assert found.sessions == len(some)
        assert found.errors == sum(each.profile.markers.errors for each in some)


def replace_time(call: Call) -> Call:
    return call._replace(at=None, seconds=None)


def test_a_report_cannot_be_changed() -> None:
    found = summarize([made("a", ".")])
    with pytest.raises(AttributeError):
        found.calls = 3  # type: ignore[misc]
    assert replace(found, calls=3).calls == 3
