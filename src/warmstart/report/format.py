"""Format numbers and text for a page."""

from __future__ import annotations

import math
import re
import unicodedata

NONE = "–"  # shown if there is no number
FONT_SIZE = 11.5  # of the text in a chart, as the page sets it
_SPACE = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_TO = "\N{WORD JOINER}–\N{WORD JOINER}"  # no line break inside an interval
# Characters that XML forbids, and those that change the text direction.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    """The text without control characters and text direction marks."""
    return _UNPRINTABLE.sub("", text)


def one_line(text: str) -> str:
    """The text on one line; a dash if there is nothing to show."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split()) or NONE


def cut(text: str, length: int) -> str:
    """The text on one line of at most `length` characters."""
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def number(count: int) -> str:
    """`12,345`."""
    return f"{count:,}"


def short(count: int, *, limit: int = 1_000_000) -> str:
    """`12,345`, or `1.2M` from `limit` on."""
    return number(count) if count < limit else f"{count / 1_000_000:,.1f}M"


def counted(count: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number(count)}{_SPACE}{noun}{'' if count == 1 else 's'}"


def percent(share: float | None) -> str:
    """`12.3 %`."""
    return NONE if share is None else f"{share * 100:.1f}{_SPACE}%"


def percents(low: float | None, high: float | None) -> str:
    """The two ends of an interval, with the unit once."""
    return NONE if low is None or high is None else f"{low * 100:.1f}{_TO}{high * 100:.1f}{_SPACE}%"


def points(difference: float | None) -> str:
    """The difference of two shares in percentage points: `+2.1`."""
    if difference is None:
        return NONE
    text = f"{difference * 100:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text.replace("-", _MINUS)


def ratio(value: float | None) -> str:
    """`1.83`."""
    return NONE if value is None else f"{value:.2f}" if math.isfinite(value) else "∞"


def fit(text: str, width: float) -> str:
    """The text on one line, shortened in the middle if it is too wide, because both ends of a name matter."""
    line = one_line(text)
    if text_width(line) <= width:
        return line
    line = cut(line, 400)
    for length in range(min(len(line), int(width)), 1, -1):
        head = length - length * 2 // 5
        shown = f"{line[:head].rstrip()}…{line[len(line) - (length - head) :].lstrip()}"
        if text_width(shown) <= width:
            return shown
    return "…"


def text_width(text: str) -> float:
    """Estimate the width of a text in a chart. Fonts differ, so the estimate is generous."""
    return FONT_SIZE * sum(map(_em, text))


def _em(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "MWmw@%…—":
        return 1.0
    if letter in " .,:;'|!()[]/fijlrt-":
        return 0.46
    return 0.8 if letter.isupper() else 0.65
