from __future__ import annotations

from warmstart.preflight.gate import classify

FAST = (
    "yes", "ok, go ahead", "Do it.", "1", "option 2 please", "lgtm", "thanks!", "commit and push", "run the tests",
    "please rebase on main", "git status", "",
)  # fmt: skip
POINTS = (
    "as we did last time with the tide tables",
    "yesterday you found the cause, what was it?",
    "I thought we removed the cache",
    "how did we fix the flaky gauge test?",
    "didn't we have a rule for that?",
    "continue where we left off",
)
FIRST_ONLY = (
    "review the changes in this branch",
    "I got this feedback on the storm table",
    "can you check the gauges again",
)
NEITHER = (
    "add a storm table to the report",
    "why does the gauge return None for harbours without a tide station?",
    "rename the column `height` to `level` in surge.py",
)


def test_messages_are_told_apart(subtests) -> None:
    rows = [
        *((text, 0, "fast path") for text in FAST),
        *((text, 3, "fast path") for text in FAST),
        *((text, number, "points to earlier work") for text in POINTS for number in (0, 1, 5)),
        *((text, 0, "points to earlier work") for text in FIRST_ONLY),
        *((text, 4, "later message") for text in FIRST_ONLY),
        *((text, 0, "first message") for text in NEITHER),
        *((text, number, "later message") for text in NEITHER for number in (1, 2)),
    ]
    for text, number, verdict in rows:
        with subtests.test(text, number=number):
            assert classify(text, number) == verdict


def test_a_long_message_takes_no_time() -> None:
    assert classify("the changes " * 200_000 + "yes", 0) == "first message"
