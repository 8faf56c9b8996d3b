"""The diagnostics in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.profile.corpus.values import Compaction, EarlyErrors, Estimate, Hazard, Rate, Reading, Slope

_SUMMARY: dict[Reading, str] = {
    "selection": "The data support selection: sessions that go wrong end early, and the long ones are what is left. "
    "Nothing here shows that a session learns as it goes on.",
    "learning": "The data support learning: inside sessions the error rate falls, each tool compared with itself, and "
    "neither early errors nor abandonment explain it.",
    "both": "The data support both: inside sessions the error rate falls, and sessions that go wrong also end early.",
    "neither": "The data support neither: inside sessions the error rate is not seen to fall, and sessions that err "
    "are not seen to end sooner. An effect smaller than the intervals below would not be seen.",
    "not enough data": "There are not enough sessions or errors to tell learning from selection.",
}
_WORTH_SAYING = 0.1  # a difference between length bins, as a share of the first


def explain(
    reading: Reading,
    lengths: Sequence[Rate],
    early: EarlyErrors,
    slope: Slope,
    hazard: Hazard,
    compaction: Compaction,
) -> tuple[str, ...]:
    """What the diagnostics say, one sentence each, the reading first."""
    said = [_SUMMARY[reading], _bins(lengths, slope)]
    if early.estimate is not None:
        said.append(
            f"Sessions that ended with at most {early.split} messages erred {_points(early)} "
            f"{'more' if early.estimate >= 0 else 'less'} than the others in their first ten calls already."
        )
    if slope.estimate is not None:
        said.append(slope_in_words(slope))
    if hazard.estimate is not None:
        said.append(_ending(hazard))
    if compaction.estimate is not None:
        word = "higher" if compaction.estimate > 0 else "lower"
        number = f"{compaction.compactions} compaction{'' if compaction.compactions == 1 else 's'}"
        chance = "" if _excludes_none(compaction) else "; it may be chance"
        said.append(
            f"In the 20 calls after a compaction the rate is {_points(compaction)} {word} than in the 20 before "
            f"({number}{chance})."
        )
    return tuple(said)


def slope_in_words(slope: Slope) -> str:
    """How the error rate changes inside a session."""
    if slope.estimate is None:
        return "There are too few calls to say whether the error rate changes inside a session."
    doubling = slope.per_doubling
    chance = "" if _excludes_none(slope) or _excludes_none(doubling) else "; this may be chance"
    return (
        f"Inside a session, its end left out, the error rate {_change(slope)} over 100 calls and "
        f"{_change(doubling)} with every doubling of the call number{chance}."
    )


def _change(value: Slope | Estimate) -> str:
    return f"{'rises' if (value.estimate or 0.0) > 0 else 'falls'} by {_points(value)}"


def _ending(hazard: Hazard) -> str:
    if hazard.estimate == 0:
        first = "No session ended right after an error"
    else:
        first = (
            f"A session is {hazard.estimate:.1f} times as likely to end right after an error as after another call"
            f"{_range(hazard.low, hazard.high)}"
        )
    recent = hazard.recent
    if recent.estimate is None:
        return f"{first}."
    return (
        f"{first}; with an error among the last five calls it is {recent.estimate:.1f} times as likely to end"
        f"{_range(recent.low, recent.high)}."
    )


def _bins(lengths: Sequence[Rate], slope: Slope) -> str:
    """Why the length bins must not be read alone, with the numbers where they point the wrong way."""
    rates = [each.rate for each in lengths if each.rate is not None]
    apart = rates[-1] - rates[0] if len(rates) > 1 else 0.0
    if slope.estimate is None or apart * slope.estimate >= 0 or abs(apart) < _WORTH_SAYING * rates[0]:
        return (
            "Length bins alone mislead: they compare different sessions, and cannot tell a session that learns from "
            "one that was easy from the start."
        )
    between, within = ("fall", "rises") if rates[-1] < rates[0] else ("rise", "falls")
    return (
        f"Length bins alone mislead here: between sessions the rates {between} from {rates[0]:.1%} to {rates[-1]:.1%} "
        f"with length, while inside a session the rate {within}{'' if _excludes_none(slope) else ', if anything'}."
    )


def _points(value: EarlyErrors | Slope | Compaction | Estimate) -> str:
    """A difference of rates in percentage points, with its interval read in the same direction."""
    estimate = value.estimate or 0.0
    low, high = value.low, value.high
    if estimate < 0 and low is not None and high is not None:
        low, high = -high, -low
    return f"{abs(100 * estimate):.1f} points{_range(low, high, scale=100)}"


def _range(low: float | None, high: float | None, *, scale: float = 1) -> str:
    return "" if low is None or high is None else f" ({scale * low:.1f} to {scale * high:.1f})"


def _excludes_none(value: Slope | Compaction | Estimate) -> bool:
    return value.low is not None and value.high is not None and (value.low > 0 or value.high < 0)
