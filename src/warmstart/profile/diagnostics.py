"""Do sessions learn, or is it selection?

Long sessions have fewer errors; that alone says nothing, because sessions in which errors pile up are abandoned and so
stay short. Four numbers distinguish the two; `docs/profile.md` explains how to read them. The slope leaves out the end
of every session: if the user gives up after an error, that is the last call, and if the work is done, the agent checks
the state and commits, which rarely fails. Whether sessions learn is decided by the slope over the logarithm of the call
number (learning is steep at first, and a few very long sessions must not decide alone), and only if the slope within
each tool agrees: otherwise a session that switches to safer tools would seem to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from warmstart.profile.rules import load_table
from warmstart.profile.values import Profiled
from warmstart.stats import NOTHING, Estimate, cluster_bootstrap, cluster_rate, cluster_ratio, ratio_error

_BINS = {"0-50": 50, "51-100": 100, "101+": None}  # by number of messages, with the upper limit of each
_WINDOW = 20  # calls on either side of a compaction
_MIN_SESSIONS = 30  # with at least two calls
_MIN_ERRORS = 50
_SHORT = 50  # messages
_MIN_SHARE = 0.2  # of the sessions on either side of the split into short and long
_EARLY = 10
_EXACT = 200  # call numbers up to which each is its own stratum; later ones are grouped
_LONG = 20  # minimum calls of a session whose halves and tenths are shown
# With two tests the chance that one is wrong is higher, so each is decided at 99 %.
_CERTAIN = NormalDist().inv_cdf(0.995)
_AGREES = NormalDist().inv_cdf(0.99)
_END = 10  # calls at the end of a session that the slope leaves out, at most
_RECENT = 5  # calls within which an error counts as recent
_MIN_DIFFERENCE = 0.1  # between the rates of length bins, relative to the first

Floats = npt.NDArray[np.float64]


Reading = Literal["selection", "learning", "both", "neither", "not enough data"]


class Rate(NamedTuple):
    """An error rate: the share of all calls that failed, with its 95 % interval over sessions.

    The interval is `None` for fewer than two sessions: one session says nothing about the next.
    """

    key: str
    sessions: int
    calls: int
    errors: int
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """An estimate with its 95 % interval over sessions; `None` where the data give none."""

    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyErrors(Diagnostic):
    """The error rate in the first calls of a session by its final length.

    `estimate` is the rate of sessions that ended short (with at most `split` messages) minus that of the others, over
    the first ten calls, compared call number by call number.
    """

    first_10: tuple[Rate, ...]
    first_30: tuple[Rate, ...]
    split: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope(Diagnostic):
    """The change of the error rate within a session: `estimate` is per 100 calls, with session fixed effects.

    The end of each session is left out. `per_doubling` is the same over the logarithm of the call number, because most
    is learned early, and `within_tool` also has fixed effects for tools. `first_half` and `second_half` are the rates
    in the halves of all sessions with at least 20 calls, `by_position` those in their tenths.
    """

    sessions: int
    calls: int
    first_half: float | None
    second_half: float | None
    by_position: tuple[Rate, ...]
    per_doubling: Estimate = NOTHING
    within_tool: Estimate = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard(Diagnostic):
    """How likely a session is to end after a call: `estimate` is the risk ratio of an error to any other call.

    `recent` is the same for an error among the last five calls: people often wait a little before they give up.
    """

    after_error: float | None
    after_success: float | None
    errors: int
    sessions: int
    recent: Estimate = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction(Diagnostic):
    """Error rates in the 20 calls before and after a compaction; `estimate` is after minus before."""

    before: float | None
    after: float | None
    compactions: int
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Do sessions learn, or do the bad ones end early? `explanation` says what the numbers support, in sentences."""

    early_error_by_length: EarlyErrors
    within_session_slope: Slope
    hazard_after_error: Hazard
    around_compaction: Compaction
    reading: Reading
    explanation: tuple[str, ...]


class _History(NamedTuple):
    """What the diagnostics need from a session: the number of messages, which calls failed, and their tools."""

    messages: int
    failed: Floats
    tools: tuple[str, ...]


class _Tested(NamedTuple):
    """An estimate, and its distance from no effect in standard errors."""

    estimate: Estimate
    distance: float


def diagnose(profiled: Sequence[Profiled]) -> Diagnostics:
    """The four diagnostics over these sessions, and the reading that they support.

    Subagents are left out of all but the last, because no person decides when they end.
    """
    histories = _histories(profiled)
    early, early_distance = _early_errors(histories)
    slope, learned = _slope(histories)
    hazard, hazard_distance = _hazard(histories)
    usable = sum(history.failed.size > 1 for history in histories)
    found = Diagnostics(
        early_error_by_length=early,
        within_session_slope=slope,
        hazard_after_error=hazard,
        around_compaction=_around_compaction(profiled),
        reading="not enough data",
        explanation=(),
    )
    if usable >= _MIN_SESSIONS and hazard.errors >= _MIN_ERRORS:
        selected = max(early_distance, hazard_distance) > _CERTAIN
        one: Reading = "selection" if selected else "learning" if learned else "neither"
        found = replace(found, reading="both" if selected and learned else one)
    return replace(found, explanation=tuple(_explain(found, _by_length(histories))))


def rates_by_length(profiled: Sequence[Profiled]) -> tuple[Rate, ...]:
    """The error rates of main sessions in three bins of length; sessions without calls are left out."""
    return _by_length(_histories(profiled))


def rate(key: str, errors: Sequence[float] | Floats, calls: Sequence[float] | Floats) -> Rate:
    """The error rate of sessions, from the errors and calls of each; those without calls are left out."""
    y, x = np.asarray(errors, float), np.asarray(calls, float)
    y, x = y[x > 0], x[x > 0]
    return Rate(key, int(y.size), int(x.sum()), int(y.sum()), *cluster_rate(y, x))


def _failed(each: Profiled) -> Floats:
    return np.array([call.outcome == "error" for call in each.profile.calls], float)


def _histories(profiled: Sequence[Profiled]) -> list[_History]:
    return [
        _History(each.profile.markers.messages, _failed(each), tuple(call.tool for call in each.profile.calls))
        for each in profiled
        if each.session.parent_kind != "subagent" and each.profile.calls
    ]


def _pooled(key: str, parts: Sequence[Floats]) -> Rate:
    return rate(key, [float(part.sum()) for part in parts], [part.size for part in parts])


def _mantel_haenszel(
    events: Floats, exposed: Floats, other_events: Floats, inside: Floats, *, ratio: bool = False
) -> _Tested:
    """The Mantel-Haenszel risk difference (or ratio) between exposed and unexposed calls within strata.

    Rows are sessions, columns are strata; `inside` counts both groups.
    """

    def statistic(draws: Floats) -> Floats:
        a, n1, b, n = draws @ events, draws @ exposed, draws @ other_events, draws @ inside
        n0 = n - n1
        above, below = (a * n0 / n, b * n1 / n) if ratio else ((a * n0 - b * n1) / n, n1 * n0 / n)
        results: Floats = np.nan_to_num(above).sum(axis=1) / np.nan_to_num(below).sum(axis=1)
        return results

    found, error = cluster_bootstrap(statistic, events.shape[0])
    return _Tested(found, found.estimate / error if found.estimate is not None and error else 0.0)


# -- early errors by eventual length


def _early_errors(histories: Sequence[_History]) -> tuple[EarlyErrors, float]:
    lengths = np.array([history.messages for history in histories], float)
    split = _SHORT
    if lengths.size and not _MIN_SHARE <= (lengths <= _SHORT).mean() <= 1 - _MIN_SHARE:
        split = int(np.median(lengths))  # almost all sessions are on one side of the default
    short = (lengths <= split)[:, None]
    inside, failed = np.zeros((2, len(histories), _EARLY))
    for row, history in enumerate(histories):
        first = history.failed[:_EARLY]
        inside[row, : first.size] = 1
        failed[row, : first.size] = first
    found, distance = _mantel_haenszel(short * failed, short * inside, ~short * failed, inside)
    first_10, first_30 = _by_length(histories, 10), _by_length(histories, 30)
    return EarlyErrors(**found._asdict(), split=split, first_10=first_10, first_30=first_30), distance


def _by_length(histories: Sequence[_History], calls: int | None = None) -> tuple[Rate, ...]:
    binned: dict[str, list[Floats]] = {name: [] for name in _BINS}
    for history in histories:
        name = next(name for name, last in _BINS.items() if last is None or history.messages <= last)
        binned[name].append(history.failed[:calls])
    return tuple(_pooled(name, failed) for name, failed in binned.items())


# -- the slope within sessions


def _slope(histories: Sequence[_History]) -> tuple[Slope, bool]:
    trimmed = []
    for messages, failed, used in histories:
        left = failed.size - max(1, min(_END, failed.size // 2))
        if left > 1:
            trimmed.append(_History(messages, failed[:left], used[:left]))
    numbers = [np.arange(1.0, history.failed.size + 1) for history in trimmed]
    each = list(zip(trimmed, numbers, strict=True))
    linear = _trend([[(number / 100, history.failed)] for history, number in each])
    doubling = _trend([[(np.log2(number), history.failed)] for history, number in each])
    within = _trend([_by_tool(history, np.log2(number)) for history, number in each])
    long = [history.failed for history in histories if history.failed.size >= _LONG]
    first_half, second_half = _by_part(long, 2)
    return (
        Slope(
            **linear.estimate._asdict(),
            per_doubling=doubling.estimate,
            within_tool=within.estimate,
            sessions=len(trimmed),
            calls=sum(history.failed.size for history in trimmed),
            first_half=first_half.rate,
            second_half=second_half.rate,
            by_position=tuple(_by_part(long, 10)) if long else (),
        ),
        doubling.distance < -_CERTAIN and within.distance < -_AGREES,
    )


def _by_part(sessions: Sequence[Floats], parts: int) -> list[Rate]:
    """The rate in each part when every session is split into this many equal parts."""
    split = [np.array_split(failed, parts) for failed in sessions]
    return [_pooled(f"{100 * (part + 1) // parts}%", [each[part] for each in split]) for part in range(parts)]


def _by_tool(history: _History, number: Floats) -> list[tuple[Floats, Floats]]:
    """The numbers of each tool's calls, and which of them failed."""
    names = np.array(history.tools)
    return [(number[names == name], history.failed[names == name]) for name in dict.fromkeys(history.tools)]


def _trend(sessions: Sequence[Sequence[tuple[Floats, Floats]]]) -> _Tested:
    """The slope of failures over call numbers, with a fixed effect for every group of every session."""
    products, squares = np.zeros((2, len(sessions)))
    for place, groups in enumerate(sessions):
        for number, failed in groups:
            centred = number - number.mean()
            products[place] += centred @ failed
            squares[place] += centred @ centred
    found = cluster_ratio(products, squares)
    if found.estimate is None or found.low is None:
        return _Tested(found, 0.0)
    return _Tested(found, found.estimate / ratio_error(products, squares))


# -- the hazard of ending after an error


def _hazard(histories: Sequence[_History]) -> tuple[Hazard, float]:
    calls = [history.failed for history in histories]
    # Whether one of the last five calls failed, including this one.
    recently = [(np.convolve(each, np.ones(_RECENT))[: each.size] > 0).astype(float) for each in calls]
    at_once, recent = _ending(calls), _ending(recently)
    errors, last = sum(float(each.sum()) for each in calls), sum(float(each[-1]) for each in calls)
    others = sum(each.size for each in calls) - errors
    return (
        Hazard(
            **at_once.estimate._asdict(),
            recent=recent.estimate,
            after_error=last / errors if errors else None,
            after_success=(len(histories) - last) / others if others else None,
            errors=int(errors),
            sessions=len(histories),
        ),
        max(at_once.distance, recent.distance),
    )


def _ending(exposed: Sequence[Floats]) -> _Tested:
    """The risk ratio of a session ending after an exposed call; the distance is that of the risk difference."""
    # The stratum of a call is its number up to 200, then a group that is a tenth wider each time.
    numbers = np.arange(max((each.size for each in exposed), default=0))
    late = np.log(np.maximum(numbers, _EXACT) / _EXACT) / np.log(1.1)
    strata = np.where(numbers < _EXACT, numbers, _EXACT + late.astype(np.int64))
    shape = (len(exposed), int(strata[-1]) + 1 if strata.size else 0)
    inside, failed, ended, ended_failed = np.zeros((4, *shape))
    for row, each in enumerate(exposed):
        own = strata[: each.size]
        np.add.at(inside[row], own, 1)
        np.add.at(failed[row], own, each)
        ended[row, own[-1]] = 1 - each[-1]
        ended_failed[row, own[-1]] = each[-1]
    found = _mantel_haenszel(ended_failed, failed, ended, inside, ratio=True).estimate
    if found.estimate == 0.0:
        # A bootstrap cannot resample events that did not occur; the rule of three gives an upper bound.
        found = Estimate(0.0, 0.0, float(3 / failed.sum() / (ended.sum() / (inside - failed).sum())))
    return _Tested(found, _mantel_haenszel(ended_failed, failed, ended, inside).distance)


# -- before and after a compaction


def _around_compaction(profiled: Sequence[Profiled]) -> Compaction:
    sides = list(_sides(profiled))
    numbers = np.array(sides, float).reshape(len(sides), 5)
    errors_before, calls_before, errors_after, calls_after, compactions = numbers.T

    def change(draws: Floats) -> Floats:
        before, all_before, after, all_after, _ = (draws @ numbers).T
        changes: Floats = after / all_after - before / all_before
        return changes

    found, _ = cluster_bootstrap(change, len(sides))
    return Compaction(
        **found._asdict(),
        before=rate("", errors_before, calls_before).rate,
        after=rate("", errors_after, calls_after).rate,
        compactions=int(compactions.sum()),
        sessions=len(sides),
    )


def _sides(profiled: Sequence[Profiled]) -> Iterator[tuple[float, int, float, int, int]]:
    """Errors and calls before and after the compactions of each session, and the number of compactions.

    For a session that continues a compacted one, the calls before are the last ones of that session.
    """
    failed = {each.session.id: _failed(each) for each in profiled}
    for each in profiled:
        own = failed[each.session.id]
        # Windows end at the next compaction, so that they do not overlap.
        cuts = [0, *sorted(each.profile.compactions), own.size]
        pairs = [
            (own[max(cuts[i - 1], cut - _WINDOW) : cut], own[cut : min(cuts[i + 1], cut + _WINDOW)])
            for i, cut in enumerate(cuts[1:-1], 1)
        ]
        if each.session.parent_kind == "compaction" and each.session.parent_id in failed:
            pairs.append((failed[each.session.parent_id][-_WINDOW:], own[: min(cuts[1], _WINDOW)]))
        pairs = [(before, after) for before, after in pairs if before.size and after.size]
        if pairs:
            befores, afters = (np.concatenate(side) for side in zip(*pairs, strict=True))
            yield float(befores.sum()), befores.size, float(afters.sum()), afters.size, len(pairs)


# -- sentences


def _explain(found: Diagnostics, lengths: Sequence[Rate]) -> Iterator[str]:
    """What the diagnostics say, one sentence each, with the reading first."""
    early, slope, hazard = found.early_error_by_length, found.within_session_slope, found.hazard_after_error
    compaction, say = found.around_compaction, load_table("readings")["sentences"]
    yield load_table("readings")[found.reading]["summary"]
    if found.reading == "not enough data":  # numbers from so few sessions would mislead
        yield say["bins"]
        return
    yield _explain_bins(lengths, slope)
    if early.estimate is not None:
        higher = "higher" if early.estimate >= 0 else "lower"
        yield say["early"].format(split=early.split, points=_points(early), higher=higher)
    if slope.estimate is not None:
        yield explain_slope(slope)
    if hazard.estimate is not None:
        ending = say["hazard" if hazard.estimate else "no_hazard"].format(times=hazard.estimate, range=_range(hazard))
        if (recent := hazard.recent).estimate is not None:
            ending += say["recent_hazard"].format(times=recent.estimate, range=_range(recent))
        yield f"{ending}."
    if compaction.estimate is not None and compaction.low is not None:
        yield say["compaction"].format(
            points=_points(compaction),
            higher="higher" if compaction.estimate > 0 else "lower",
            number=compaction.compactions,
            plural="" if compaction.compactions == 1 else "s",
            chance="" if _excludes_zero(compaction) else "; it may be chance",
        )


def explain_slope(slope: Slope) -> str:
    """How the error rate changes within a session, as a sentence."""
    say = load_table("readings")["sentences"]
    if slope.estimate is None:
        return str(say["no_slope"])
    by_call, by_doubling = (
        f"{'rises' if (each.estimate or 0.0) > 0 else 'falls'} by {_points(each)}"
        for each in (slope, slope.per_doubling)
    )
    chance = "" if _excludes_zero(slope) or _excludes_zero(slope.per_doubling) else "; this may be chance"
    return str(say["slope"].format(by_call=by_call, by_doubling=by_doubling, chance=chance))


def _explain_bins(lengths: Sequence[Rate], slope: Slope) -> str:
    """Why the length bins must not be read alone, with the numbers if they point the wrong way."""
    say = load_table("readings")["sentences"]
    rates = [each.rate for each in lengths if each.rate is not None]
    difference = rates[-1] - rates[0] if len(rates) > 1 else 0.0
    if slope.estimate is None or difference * slope.estimate >= 0 or abs(difference) < _MIN_DIFFERENCE * rates[0]:
        return str(say["bins"])
    between, within = ("fall", "rises") if difference < 0 else ("rise", "falls")
    perhaps = "" if _excludes_zero(slope) else ", if anything"
    found = say["opposite_bins"].format(between=between, first=rates[0], last=rates[-1], within=within, perhaps=perhaps)
    return str(found)


def _points(value: Diagnostic | Estimate) -> str:
    """A difference of rates in percentage points, with its interval read in the same direction."""
    estimate, low, high = value.estimate or 0.0, value.low, value.high
    if estimate < 0 and low is not None and high is not None:
        low, high = -high, -low
    return f"{abs(100 * estimate):.1f} points{_range(Estimate(estimate, low, high), scale=100)}"


def _range(value: Diagnostic | Estimate, *, scale: float = 1) -> str:
    if value.low is None or value.high is None:
        return ""
    return f" ({scale * value.low:.1f} to {scale * value.high:.1f})"


def _excludes_zero(value: Diagnostic | Estimate) -> bool:
    return value.low is not None and value.high is not None and (value.low > 0 or value.high < 0)
