"""Do sessions learn, or is it selection?

Long sessions have fewer errors; that alone says nothing. Sessions in which errors pile up are abandoned and so end
short, which lowers the rate of those that remain. Four numbers tell the two apart:

- the error rate in the first calls, by how long the session became: a difference was there before anything could be
  learned;
- the slope inside sessions, each compared with itself only (session fixed effects): learning makes it fall;
- the hazard of a session ending after an error, compared call number by call number: abandonment raises it;
- the error rate before and after a compaction: what was learned may be lost there.

The end of a session says nothing about learning: whoever gives up after an error leaves it as the last call, and
whoever is done checks the state and commits, which seldom fails. The slope therefore leaves out the end of every
session, half of it and at most ten calls. Whether sessions learn is decided by the slope over the logarithm of the call
number (learning is steep at first, and a few very long sessions must not decide alone), and only if each tool compared
with itself agrees: otherwise a session that switches to safer tools would seem to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from warmstart.profile.corpus import Compaction, Diagnostics, EarlyErrors, Hazard, Rate, Reading, Slope, rate
from warmstart.profile.values import Profiled
from warmstart.stats import Estimate, cluster_bootstrap, cluster_ratio, ratio_error

BINS = (("0-50", 0, 50), ("51-100", 51, 100), ("101+", 101, None))
WINDOW = 20  # calls on either side of a compaction
MIN_SESSIONS = 30  # with at least two calls
MIN_ERRORS = 50

_SHORT = 50  # messages
_MIN_SHARE = 0.2  # of the sessions on either side of the split into short and long
_EARLY = 10
_EXACT = 200  # call numbers compared one by one; later ones in growing groups
_TREND = 20  # calls of a session whose halves and tenths are shown
# With two findings the chance that one is wrong is higher, so each is decided at 99 %.
_CERTAIN = NormalDist().inv_cdf(0.995)
_AGREES = NormalDist().inv_cdf(0.99)
_END = 10  # calls at the end of a session that the slope leaves out, at most
_RECENT = 5  # calls within which an error counts as recent

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _History:
    """What the diagnostics need of a session: the number of messages, which calls failed, and their tools."""

    messages: int
    failed: Floats
    tools: tuple[str, ...]


def length_bin(messages: int) -> str:
    """The bin of a session by its number of messages."""
    return next(name for name, _, last in BINS if last is None or messages <= last)


def diagnose(profiled: Sequence[Profiled]) -> Diagnostics:
    """The four diagnostics over these sessions, and the reading that they support.

    Subagents are left out: no person decides when they end.
    """
    histories = [_history(each) for each in profiled if each.session.parent_kind != "subagent" and each.profile.calls]
    early, early_z = _early(histories)
    slope, learned = _slope(histories)
    hazard, hazard_z = _hazard(histories)
    compaction = _around_compaction(profiled)
    errors = sum(float(history.failed.sum()) for history in histories)
    sessions = sum(history.failed.size > 1 for history in histories)
    enough = sessions >= MIN_SESSIONS and errors >= MIN_ERRORS
    reading = _reading(enough, max(early_z, hazard_z) > _CERTAIN, learned)
    return Diagnostics(
        early_error_by_length=early,
        within_session_slope=slope,
        hazard_after_error=hazard,
        around_compaction=compaction,
        reading=reading,
        explanation=_explain(reading, by_length(histories), early, slope, hazard, compaction),
    )


def _history(each: Profiled) -> _History:
    failed = np.array([call.outcome == "error" for call in each.profile.calls], float)
    return _History(each.profile.markers.messages, failed, tuple(call.tool for call in each.profile.calls))


def _reading(enough: bool, selected: bool, learned: bool) -> Reading:
    if not enough:
        return "not enough data"
    if selected and learned:
        return "both"
    return "selection" if selected else "learning" if learned else "neither"


# -- early errors by eventual length


def _early(histories: Sequence[_History]) -> tuple[EarlyErrors, float]:
    short, split = _split(histories)
    n = len(histories)
    inside, failed = np.zeros((n, _EARLY)), np.zeros((n, _EARLY))
    for row, history in enumerate(histories):
        first = history.failed[:_EARLY]
        inside[row, : first.size] = 1
        failed[row, : first.size] = first
    found, z = _compared(short[:, None] * failed, short[:, None] * inside, ~short[:, None] * failed, inside)
    return (
        EarlyErrors(
            **found._asdict(),
            split=split,
            first_10=by_length(histories, 10),
            first_30=by_length(histories, 30),
        ),
        z,
    )


def _split(histories: Sequence[_History]) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int]:
    """Which sessions count as short, and the split in messages: 50, or the median if hardly any session is longer."""
    lengths = np.array([history.messages for history in histories], float)
    split = _SHORT
    if lengths.size:
        share = float((lengths <= _SHORT).mean())
        if not _MIN_SHARE <= share <= 1 - _MIN_SHARE:
            split = int(np.median(lengths))
    return lengths <= split, split


def by_length(histories: Sequence[_History], calls: int | None = None) -> tuple[Rate, ...]:
    binned: dict[str, list[Floats]] = {name: [] for name, _, _ in BINS}
    for history in histories:
        binned[length_bin(history.messages)].append(history.failed[:calls])
    return tuple(
        rate(name, [float(some.sum()) for some in failed], [some.size for some in failed])
        for name, failed in binned.items()
    )


def _compared(events: Floats, exposed: Floats, other_events: Floats, inside: Floats) -> tuple[Estimate, float]:
    """The difference in risk between the exposed and the others within strata, and how many standard errors it is.

    Mantel and Haenszel's: rows are sessions, columns strata; `inside` counts both groups.
    """

    def difference(draws: Floats) -> Floats:
        a, n1, b, n = draws @ events, draws @ exposed, draws @ other_events, draws @ inside
        n0 = n - n1
        above, below = np.nan_to_num((a * n0 - b * n1) / n).sum(axis=1), np.nan_to_num(n1 * n0 / n).sum(axis=1)
        differences: Floats = above / below
        return differences

    found, error = cluster_bootstrap(difference, events.shape[0])
    return found, found.estimate / error if found.estimate is not None and error else 0.0


# -- the slope inside sessions


def _slope(histories: Sequence[_History]) -> tuple[Slope, bool]:
    kept = [_opened(history) for history in histories]
    kept = [history for history in kept if history.failed.size > 1]
    linear, _ = _trend([[history.failed] for history in kept], [[_numbers(history) / 100] for history in kept])
    numbers = [np.log2(_numbers(history)) for history in kept]
    doubling, distance = _trend([[history.failed] for history in kept], [[number] for number in numbers])
    groups = [_by_tool(history) for history in kept]
    within, within_distance = _trend(
        [[history.failed[places] for places in own] for history, own in zip(kept, groups, strict=True)],
        [[number[places] for places in own] for number, own in zip(numbers, groups, strict=True)],
    )
    long = [history.failed for history in histories if history.failed.size >= _TREND]
    halves = [np.array_split(failed, 2) for failed in long]
    first, second = (_pooled([half[part] for half in halves]) for part in (0, 1))
    return (
        Slope(
            **linear._asdict(),
            per_doubling=doubling,
            within_tool=within,
            sessions=len(kept),
            calls=sum(history.failed.size for history in kept),
            first_half=first,
            second_half=second,
            by_position=_tenths(long),
        ),
        distance < -_CERTAIN and within_distance < -_AGREES,
    )


def _opened(history: _History) -> _History:
    """The session without its end."""
    calls = history.failed.size
    kept = calls - max(1, min(_END, calls // 2))
    return _History(history.messages, history.failed[:kept], history.tools[:kept])


def _numbers(history: _History) -> Floats:
    return np.arange(1.0, history.failed.size + 1)


def _by_tool(history: _History) -> list[Places]:
    """The places of each tool's calls."""
    names = np.array(history.tools)
    return [np.flatnonzero(names == name) for name in dict.fromkeys(history.tools)]


def _trend(failed: Sequence[Sequence[Floats]], numbers: Sequence[Sequence[Floats]]) -> tuple[Estimate, float]:
    """The slope over the numbers with a fixed effect for every group of every session, also in standard errors."""
    products, squares = np.zeros(len(failed)), np.zeros(len(failed))
    for place, groups in enumerate(zip(failed, numbers, strict=True)):
        for outcomes, number in zip(*groups, strict=True):
            apart = number - number.mean()
            products[place] += apart @ outcomes
            squares[place] += apart @ apart
    found = cluster_ratio(products, squares)
    if found.estimate is None or found.low is None:
        return found, 0.0
    return found, found.estimate / ratio_error(products, squares)


def _pooled(parts: Sequence[Floats]) -> float | None:
    calls = sum(part.size for part in parts)
    return float(sum(part.sum() for part in parts)) / calls if calls else None


def _tenths(long: Sequence[Floats]) -> tuple[Rate, ...]:
    parts = [np.array_split(failed, 10) for failed in long]
    return tuple(
        rate(f"{tenth}0%", [float(each[tenth - 1].sum()) for each in parts], [each[tenth - 1].size for each in parts])
        for tenth in range(1, 11)
        if parts
    )


# -- the hazard of ending after an error


def _hazard(histories: Sequence[_History]) -> tuple[Hazard, float]:
    at_once, at_once_z = _ending([history.failed for history in histories])
    recent, recent_z = _ending([_recently(history.failed) for history in histories])
    failed = sum(float(history.failed.sum()) for history in histories)
    last = sum(float(history.failed[-1]) for history in histories)
    others = sum(history.failed.size for history in histories) - failed
    return (
        Hazard(
            **at_once._asdict(),
            recent=recent,
            after_error=last / failed if failed else None,
            after_success=(len(histories) - last) / others if others else None,
            errors=int(failed),
            sessions=len(histories),
        ),
        max(at_once_z, recent_z),
    )


def _recently(failed: Floats) -> Floats:
    """Whether one of the last five calls failed, this one among them."""
    return (np.convolve(failed, np.ones(_RECENT))[: failed.size] > 0).astype(float)


def _ending(exposed: Sequence[Floats]) -> tuple[Estimate, float]:
    """The risk of a session ending after an exposed call, divided by that after another; the difference in errors."""
    strata = _strata(max((each.size for each in exposed), default=0))
    shape = (len(exposed), int(strata[-1]) + 1 if strata.size else 0)
    inside, failed, ended, ended_failed = (np.zeros(shape) for _ in range(4))
    for row, each in enumerate(exposed):
        own = strata[: each.size]
        np.add.at(inside[row], own, 1)
        np.add.at(failed[row], own, each)
        ended[row, own[-1]] = 1 - each[-1]
        ended_failed[row, own[-1]] = each[-1]
    found = _risk_ratio(ended_failed, failed, ended, inside)
    if found.estimate == 0.0:
        # Nothing can be drawn from no event at all; the rule of three says how many there may be.
        found = Estimate(0.0, 0.0, float(3 / failed.sum() / (ended.sum() / (inside - failed).sum())))
    return found, _compared(ended_failed, failed, ended, inside)[1]


def _strata(calls: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The stratum of each call number: its own up to 200, then groups that grow by a tenth."""
    numbers = np.arange(calls)
    late = np.log(np.maximum(numbers, _EXACT) / _EXACT) / np.log(1.1)
    return np.where(numbers < _EXACT, numbers, _EXACT + late.astype(np.int64))


def _risk_ratio(events: Floats, exposed: Floats, other_events: Floats, inside: Floats) -> Estimate:
    """Mantel and Haenszel's risk ratio, with its interval over sessions."""

    def risk_ratio(draws: Floats) -> Floats:
        a, n1, b, n = draws @ events, draws @ exposed, draws @ other_events, draws @ inside
        ratios: Floats = np.nan_to_num(a * (n - n1) / n).sum(axis=1) / np.nan_to_num(b * n1 / n).sum(axis=1)
        return ratios

    return cluster_bootstrap(risk_ratio, events.shape[0])[0]


# -- before and after a compaction


def _around_compaction(profiled: Sequence[Profiled]) -> Compaction:
    sides = [side for side in _sides(profiled) if side[1] and side[3]]
    numbers = np.array(sides, float).reshape(len(sides), 5)
    before, after = _share(numbers[:, 0], numbers[:, 1]), _share(numbers[:, 2], numbers[:, 3])

    def change(draws: Floats) -> Floats:
        errors_before, calls_before, errors_after, calls_after, _ = (draws @ numbers).T
        changes: Floats = errors_after / calls_after - errors_before / calls_before
        return changes

    found, _ = cluster_bootstrap(change, len(sides))
    return Compaction(
        **found._asdict(),
        before=before,
        after=after,
        compactions=int(numbers[:, 4].sum()),
        sessions=len(sides),
    )


def _share(errors: Floats, calls: Floats) -> float | None:
    return float(errors.sum() / calls.sum()) if calls.sum() else None


def _sides(profiled: Sequence[Profiled]) -> Iterator[tuple[float, int, float, int, int]]:
    """Errors and calls before and after the compactions of each session, and how many those are.

    A session that continues a compacted one has the end of that one before it.
    """
    failed = {each.session.id: _history(each).failed for each in profiled}
    for each in profiled:
        own = failed[each.session.id]
        # The calls between two compactions belong to one of them only on either side.
        cuts = [0, *sorted(each.profile.compactions), own.size]
        pairs = [
            (own[max(cuts[i - 1], cut - WINDOW) : cut], own[cut : min(cuts[i + 1], cut + WINDOW)])
            for i, cut in enumerate(cuts[1:-1], 1)
        ]
        if each.session.parent_kind == "compaction" and each.session.parent_id in failed:
            pairs.append((failed[each.session.parent_id][-WINDOW:], own[: min(cuts[1], WINDOW)]))
        pairs = [(before, after) for before, after in pairs if before.size and after.size]
        if pairs:
            befores, afters = (np.concatenate(side) for side in zip(*pairs, strict=True))
            yield float(befores.sum()), befores.size, float(afters.sum()), afters.size, len(pairs)


# -- in words

_SUMMARY: dict[Reading, str] = {
    "selection": "The data support selection: sessions that go wrong end early, and the long ones remain. Nothing here "
    "shows that a session learns as it goes on.",
    "learning": "The data support learning: inside sessions the error rate falls, each tool compared with itself, and "
    "neither early errors nor abandonment explain it.",
    "both": "The data support both: inside sessions the error rate falls, and sessions that go wrong also end early.",
    "neither": "The data show neither: inside sessions the error rate does not clearly fall, and sessions with errors "
    "do not clearly end sooner. An effect smaller than the intervals would not show.",
    "not enough data": "There are too few sessions or errors to tell learning from selection.",
}
_MIN_DIFFERENCE = 0.1  # a difference between length bins, as a share of the first


def _explain(
    reading: Reading,
    lengths: Sequence[Rate],
    early: EarlyErrors,
    slope: Slope,
    hazard: Hazard,
    compaction: Compaction,
) -> tuple[str, ...]:
    """What the diagnostics say, one sentence each, the reading first."""
    sentences = [_SUMMARY[reading], _bins(lengths, slope)]
    if early.estimate is not None:
        sentences.append(
            f"In their first ten calls, sessions that ended with at most {early.split} messages had an error rate "
            f"{_points(early)} {'higher' if early.estimate >= 0 else 'lower'} than the others."
        )
    if slope.estimate is not None:
        sentences.append(describe_slope(slope))
    if hazard.estimate is not None:
        sentences.append(_describe_hazard(hazard))
    if compaction.estimate is not None and compaction.low is not None:
        word = "higher" if compaction.estimate > 0 else "lower"
        number = f"{compaction.compactions} compaction{'' if compaction.compactions == 1 else 's'}"
        chance = "" if _excludes_zero(compaction) else "; it may be chance"
        sentences.append(
            f"In the 20 calls after a compaction the error rate is {_points(compaction)} {word} than in the 20 before "
            f"({number}{chance})."
        )
    return tuple(sentences)


def describe_slope(slope: Slope) -> str:
    """How the error rate changes inside a session."""
    if slope.estimate is None:
        return "There are too few calls to say whether the error rate changes inside a session."
    doubling = slope.per_doubling
    chance = "" if _excludes_zero(slope) or _excludes_zero(doubling) else "; this may be chance"
    return (
        f"Inside a session, without its end, the error rate {_change(slope)} over 100 calls and "
        f"{_change(doubling)} with every doubling of the call number{chance}."
    )


def _change(value: Slope | Estimate) -> str:
    return f"{'rises' if (value.estimate or 0.0) > 0 else 'falls'} by {_points(value)}"


def _describe_hazard(hazard: Hazard) -> str:
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
    if slope.estimate is None or apart * slope.estimate >= 0 or abs(apart) < _MIN_DIFFERENCE * rates[0]:
        return (
            "Rates by length alone mislead: they compare different sessions, and cannot tell a session that learns "
            "from one that was easy from the start."
        )
    between, within = ("fall", "rises") if rates[-1] < rates[0] else ("rise", "falls")
    return (
        f"Rates by length alone mislead here: between sessions they {between} from {rates[0]:.1%} to {rates[-1]:.1%} "
        f"with length, while inside a session the rate {within}{'' if _excludes_zero(slope) else ', if anything'}."
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


def _excludes_zero(value: Slope | Compaction | Estimate) -> bool:
    return value.low is not None and value.high is not None and (value.low > 0 or value.high < 0)
