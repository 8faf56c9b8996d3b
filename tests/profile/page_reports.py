"""Reports to make pages of: one as a year of work gives it, an empty one, a hostile one, a huge one."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

from warmstart.profile.corpus import RecoveryRates, Report, SignatureCount
from warmstart.profile.diagnostics import Compaction, Diagnostics, EarlyErrors, Hazard, Rate, Slope

MADE = datetime(2026, 3, 2, 14, 5, tzinfo=UTC)
HOSTILE = (
    "<script>alert('x')</script>\"' onload=\"x\" </title></style></svg>& \x00\x1b[31m\u202e\u2066\u061c\u200f ]]>-->"
)
LONG = "mcp__some-long-server-name__some_rather_long_tool_name"
HEADINGS = (
    "Error rate by session length",
    "Early errors by final length",
    "Inside a session",
    "After an error, after a compaction",
    "Tools",
    "Task types",
    "Agents",
    "Models",
    "Projects",
    "Recovery",
    "How sessions ended",
    "Week by week",
    "Error signatures",
)
QUESTION = "Do sessions learn, or do the bad ones just end early?"


def headings(report: Report) -> tuple[str, ...]:
    """The headings of a report's page."""
    return (QUESTION, *HEADINGS, *("What the numbers say" for _ in report.diagnostics.explanation[1:2]))


def rate(key: str, sessions: int, calls: int, share: float) -> Rate:
    """A rate with an interval about as wide as the number of sessions makes it."""
    errors = round(calls * share)
    if sessions < 2 or not calls:
        return Rate(key, sessions, calls, errors, errors / calls if calls else None, None, None)
    spread = 2.6 * math.sqrt(max(share * (1 - share), 0.0002) / calls) + 0.05 / sessions
    return Rate(key, sessions, calls, errors, errors / calls, max(0.0, share - spread), min(1.0, share + spread))


def weeks(count: int, *, last: date = date(2026, 2, 23)) -> tuple[Rate, ...]:
    """A rate for each of the last weeks, with a gap and a week of one session when there are enough."""
    made = []
    for place in range(count):
        monday = last - timedelta(weeks=count - 1 - place)
        year, week, _ = monday.isocalendar()
        sessions = 1 if place == 3 else 9 + (place * 7) % 23
        share = 0.082 - 0.018 * place / count + 0.016 * math.sin(place * 1.7)
        if place not in {9, 10}:
            made.append(rate(f"{year}-W{week:02d}", sessions, sessions * 43 + place * 11, share))
    return tuple(made)


TOOLS = (
    rate("Bash", 771, 18_204, 0.094),
    rate("Read", 802, 11_930, 0.021),
    rate("Edit", 640, 8_411, 0.067),
    rate("Grep", 512, 3_377, 0.012),
    rate("Write", 433, 2_180, 0.034),
    rate(LONG, 61, 1_402, 0.182),
    rate("TodoWrite", 390, 1_120, 0.0),
    rate("WebFetch", 148, 655, 0.143),
    rate("apply_patch", 44, 402, 0.117),
    rate("NotebookEdit", 12, 96, 0.24),
    rate("exec_command", 9, 41, 0.122),
    rate("mcp__tickets__find", 4, 11, 0.364),
    rate("KillShell", 1, 3, 1 / 3),
    rate("Glob", 1, 2, 0.0),
)
SIGNATURES = (
    SignatureCount(
        "String to replace not found in file.\nString: <text>", "Edit", 318, 201, "old_string changed, after Read"
    ),
    SignatureCount("Exit code <n>\n<path>: No such file or directory", "Bash", 287, 190, "program changed"),
    SignatureCount("File has not been read yet. Read it first before writing to it.", "Edit", 141, 120, "Read first"),
    SignatureCount("Exit code <n>\nModuleNotFoundError: No module named <name>", "Bash", 96, 71, None),
    SignatureCount("Request failed with status code <n>", "WebFetch", 54, 40, "url changed"),
    SignatureCount("MCP error <n>: unknown field <name> in filter", LONG, 37, 12, "filter removed"),
)


def report(**changes: object) -> Report:
    """What a year with three agents may look like."""
    values: dict[str, object] = {
        "sessions": 847,
        "calls": 47_834,
        "results": 47_102,
        "errors": 3_321,
        "rejected": 214,
        "rate": 3_321 / 47_834,
        "low": 0.0651,
        "high": 0.0742,
        "by_length": (
            rate("0-50", 531, 11_027, 0.0913),
            rate("51-100", 197, 13_904, 0.0711),
            rate("101+", 119, 22_903, 0.0588),
        ),
        "by_tool": TOOLS,
        "by_task_type": (
            rate("code", 402, 29_118, 0.0778),
            rate("file", 118, 6_014, 0.0602),
            rate("research", 96, 4_011, 0.0489),
            rate("mixed", 231, 8_691, 0.0561),
        ),
        "by_agent": (
            rate("claude-code", 611, 38_020, 0.0672),
            rate("codex", 201, 8_822, 0.0741),
            rate("gemini-cli", 35, 992, 0.1133),
        ),
        "by_model": (
            rate("claude-sonnet-4-5-20250929", 420, 25_730, 0.0699),
            rate("claude-opus-4-1", 191, 12_290, 0.0618),
            rate("gpt-5-codex", 201, 8_822, 0.0741),
            rate("gemini-2.5-pro", 35, 992, 0.1133),
        ),
        "by_project": (
            rate("/home/ada/src/weather-station", 212, 14_006, 0.0712),
            rate("/home/ada/src/ledger", 160, 9_120, 0.0555),
            rate("/home/ada/projects/a-project-with-quite-a-long-name", 88, 4_430, 0.0804),
            rate("C:\\Users\\ada\\notes\\", 21, 812, 0.0333),
            rate("", 1, 40, 0.05),
        ),
        "by_week": weeks(40),
        "signatures": SIGNATURES,
        "recovery": RecoveryRates(
            errors=3_321,
            next_call=0.713,
            next_call_low=0.691,
            next_call_high=0.735,
            within_three=0.886,
            within_three_low=0.871,
            within_three_high=0.9,
        ),
        "diagnostics": diagnostics(),
        "outcomes": {"unknown": 402, "success": 371, "failure": 74},
        "instructions": (("always run the tests", 4),),
    }
    return Report(**{**values, **changes})  # type: ignore[arg-type]


def diagnostics() -> Diagnostics:
    """Sessions that go badly end early; inside a session nothing changes."""
    lengths = ("0-50", "51-100", "101+")
    tenths = (0.0731, 0.0702, 0.0688, 0.0715, 0.0664, 0.0692, 0.0701, 0.0659, 0.0673, 0.0681)
    return Diagnostics(
        early_error_by_length=EarlyErrors(
            estimate=0.0312,
            low=0.0189,
            high=0.0437,
            first_10=tuple(map(rate, lengths, (531, 197, 119), (4_911, 1_970, 1_190), (0.0977, 0.0701, 0.0622))),
            first_30=tuple(map(rate, lengths, (531, 197, 119), (9_240, 5_910, 3_570), (0.0931, 0.0715, 0.0601))),
        ),
        within_session_slope=Slope(
            estimate=-0.0011,
            low=-0.0049,
            high=0.0027,
            sessions=508,
            calls=42_311,
            first_half=0.07,
            second_half=0.0681,
            by_position=tuple(rate(str(tenth + 1), 508, 4_231, share) for tenth, share in enumerate(tenths)),
        ),
        hazard_after_error=Hazard(
            estimate=1.83, low=1.41, high=2.37, after_error=0.031, after_success=0.0169, errors=3_321, sessions=847
        ),
        around_compaction=Compaction(
            estimate=0.0213, low=-0.0042, high=0.0466, before=0.0581, after=0.0794, compactions=61, sessions=48
        ),
        reading="selection",
        explanation=(
            "Sessions that ended within 50 calls failed more often from the start: 3.1 percentage points more over "
            "their first ten calls.",
            "Inside a session the error rate does not change in a way that the data could tell from none.",
            "So the lower rate of long sessions says which sessions become long, not that the agent learns in them.",
        ),
    )


def empty() -> Report:
    """No session at all."""
    none = {"estimate": None, "low": None, "high": None}
    nothing = tuple(rate(key, 0, 0, 0.0) for key in ("0-50", "51-100", "101+"))
    found = Diagnostics(
        early_error_by_length=EarlyErrors(**none, first_10=nothing, first_30=nothing),
        within_session_slope=Slope(**none, sessions=0, calls=0, first_half=None, second_half=None, by_position=()),
        hazard_after_error=Hazard(**none, after_error=None, after_success=None, errors=0, sessions=0),
        around_compaction=Compaction(**none, before=None, after=None, compactions=0, sessions=0),
        reading="not enough data",
        explanation=("There are no sessions to say anything about.",),
    )
    groups = ("by_tool", "by_task_type", "by_agent", "by_model", "by_project", "by_week", "signatures")
    counts = ("sessions", "calls", "results", "errors", "rejected")
    recovery = RecoveryRates(
        errors=0,
        next_call=None,
        next_call_low=None,
        next_call_high=None,
        within_three=None,
        within_three_low=None,
        within_three_high=None,
    )
    return report(
        **dict.fromkeys(counts, 0),
        **dict.fromkeys(groups, ()),
        rate=None,
        low=None,
        high=None,
        by_length=nothing,
        recovery=recovery,
        diagnostics=found,
        outcomes={},
    )


def single() -> Report:
    """One session: rates, but no interval anywhere."""
    base = report()
    groups = ("by_length", "by_tool", "by_task_type", "by_agent", "by_model", "by_project", "by_week")
    found = base.diagnostics
    return report(
        **{name: tuple(alone(one) for one in getattr(base, name)) for name in groups},
        low=None,
        high=None,
        diagnostics=Diagnostics(
            early_error_by_length=EarlyErrors(
                estimate=0.03,
                low=None,
                high=None,
                first_10=tuple(map(alone, found.early_error_by_length.first_10)),
                first_30=tuple(map(alone, found.early_error_by_length.first_30)),
            ),
            within_session_slope=Slope(
                estimate=0.01,
                low=None,
                high=None,
                sessions=1,
                calls=40,
                first_half=0.05,
                second_half=None,
                by_position=(*map(alone, found.within_session_slope.by_position[:9]), rate("10", 0, 0, 0)),
            ),
            hazard_after_error=Hazard(
                estimate=2.0, low=None, high=None, after_error=0.1, after_success=0.05, errors=3, sessions=1
            ),
            around_compaction=Compaction(
                estimate=0.0, low=None, high=None, before=0.1, after=0.1, compactions=1, sessions=1
            ),
            reading="not enough data",
            explanation=(),
        ),
    )


def alone(given: Rate) -> Rate:
    return given._replace(sessions=1, low=None, high=None)


def hostile() -> Report:
    """Every text is one that wants to be markup."""
    bad = rate(HOSTILE, 5, 100, 0.2)
    base = diagnostics()
    return report(
        **dict.fromkeys(
            ("by_length", "by_tool", "by_task_type", "by_agent", "by_model", "by_project", "by_week"), (bad,)
        ),
        signatures=(SignatureCount(HOSTILE, HOSTILE, 3, 2, HOSTILE),),
        outcomes={HOSTILE: 3},
        diagnostics=Diagnostics(
            early_error_by_length=EarlyErrors(estimate=0.1, low=0.0, high=0.2, first_10=(bad,), first_30=(bad,)),
            within_session_slope=Slope(
                estimate=0.1,
                low=0.05,
                high=0.2,
                sessions=2,
                calls=100,
                first_half=0.1,
                second_half=0.2,
                by_position=(bad,),
            ),
            hazard_after_error=base.hazard_after_error,
            around_compaction=base.around_compaction,
            reading="both",
            explanation=(HOSTILE,),
        ),
    )


def huge() -> Report:
    """More of everything than a page can show, with wide names and wide numbers."""

    def many(count: int, name: str) -> tuple[Rate, ...]:
        return tuple(
            rate(f"{name}{place}", 2 + place % 40, 9 * (count - place) ** 3, 0.01 + 0.9 * (place % 9) / 9)
            for place in range(count)
        )

    return report(
        sessions=1_234_567,
        calls=123_456_789,
        by_tool=many(60, "mcp__WWWWWWWW-MMMMMMMM-server__工具工具工具工具_"),
        by_agent=many(30, "agent"),
        by_model=many(40, "provider/a-model-with-a-name-"),
        by_project=many(500, "/srv/家/projects/WHOLLY-UPPERCASE-PROJECT-NAME-"),
        by_week=weeks(200),
        signatures=tuple(
            SignatureCount(f"error {place}: " + "x" * 5_000, "tool" * 100, 900 - place, 9, "fix " * 500)
            for place in range(300)
        ),
        outcomes={"success": 1, "failure": 1_234_565, "unknown": 1},
    )
