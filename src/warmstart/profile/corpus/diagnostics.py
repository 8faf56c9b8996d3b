"""Does it learn, or is it selection?

Long sessions err less; that alone says nothing. Sessions in which errors pile up are abandoned and so end short, which
lowers the rate of those that are left. Four numbers tell the two apart:

- the error rate in the first calls, by how long the session became: a difference was there before anything could be
  learned;
- the slope inside sessions, each compared with itself only (session fixed effects): learning makes it fall;
- the hazard of a session ending after an error, compared call number by call number: abandonment raises it;
- the error rate before and after a compaction: what was learned may be lost there.

How a session ends says nothing about learning: whoever gives up after an error leaves it as the last call, and whoever
is done looks once more at the state and commits, which seldom fails. The slope therefore leaves out the end of every
session, half of it and at most ten calls. Whether a session learns is decided by the slope over the logarithm of
the call number (the curve of learning is steep at first, and a few very long sessions do not decide alone), and only if
each tool compared with itself agrees: otherwise a session that goes over to safer tools would seem to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from warmstart.profile.corpus.explaining import explain
from warmstart.profile.corpus.statistics import NOTHING, Floats, interval, rate, ratio, standard_error, weights
from warmstart.profile.corpus.values import Compaction, Diagnostics, EarlyErrors, Estimate, Hazard, Rate, Reading, Slope
from warmstart.profile.values import Profiled

BINS = (("0-50", 0, 50), ("51-100", 51, 100), ("101+", 101, None))
WINDOW = 20  # calls on either side of a compaction
MIN_SESSIONS = 30  # with at least two calls
MIN_ERRORS = 50

_SHORT = 50  # messages
_LEAST_SHARE = 0.2  # of the sessions on either side of the split into short and long
_EARLY = 10
_EXACT = 200  # call numbers compared one by one; later ones in growing groups
_TREND = 20  # calls of a session whose halves and tenths are shown
# Two readings are wrong more often than one: each is decided at 99 %.
_CERTAIN = NormalDist().inv_cdf(0.995)
_AGREES = NormalDist().inv_cdf(0.99)
_END = 10  # calls at the end of a session that the slope leaves out, at most
_RECENT = 5  # calls within which an error counts as recent

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Course:
    """What the diagnostics need of a session: its messages, and which calls failed, of which tools."""

    messages: int
    failed: Floats
    tools: tuple[str, ...]


def length_bin(messages: int) -> str:
    """The bin of a session with so many messages."""
    return next(name for name, _, last in BINS if last is None or messages <= last)


def diagnose(profiled: Sequence[Profiled]) -> Diagnostics:
    """The four diagnostics over these sessions, and the reading that they support.

    Subagents are left out: no person decides when they end.
    """
    courses = [_course(each) for each in profiled if each.session.parent_kind != "subagent" and each.profile.calls]
    early, early_z = _early(courses)
    slope, learned = _slope(courses)
    hazard, hazard_z = _hazard(courses)
    compaction = _around_compaction(profiled)
    errors = sum(float(course.failed.sum()) for course in courses)
    sessions = sum(course.failed.size > 1 for course in courses)
    enough = sessions >= MIN_SESSIONS and errors >= MIN_ERRORS
    reading = _reading(enough, max(early_z, hazard_z) > _CERTAIN, learned)
    return Diagnostics(
        early_error_by_length=early,
        within_session_slope=slope,
        hazard_after_error=hazard,
        around_compaction=compaction,
        reading=reading,
        explanation=explain(reading, by_length(courses), early, slope, hazard, compaction),
    )


def _course(each: Profiled) -> _Course:
    failed = np.array([call.outcome == "error" for call in each.profile.calls], float)
    return _Course(each.profile.markers.messages, failed, tuple(call.tool for call in each.profile.calls))


def _reading(enough: bool, selected: bool, learned: bool) -> Reading:
    if not enough:
        return "not enough data"
    if selected and learned:
        return "both"
    return "selection" if selected else "learning" if learned else "neither"


# -- early errors by eventual length


def _early(courses: Sequence[_Course]) -> tuple[EarlyErrors, float]:
    short, split = _split(courses)
    n = len(courses)
    inside, failed = np.zeros((n, _EARLY)), np.zeros((n, _EARLY))
    for row, course in enumerate(courses):
        first = course.failed[:_EARLY]
        inside[row, : first.size] = 1
        failed[row, : first.size] = first
    found, z = _compared(short[:, None] * failed, short[:, None] * inside, ~short[:, None] * failed, inside)
    return (
        EarlyErrors(
            **found._asdict(),
            split=split,
            first_10=by_length(courses, 10),
            first_30=by_length(courses, 30),
        ),
        z,
    )


def _split(courses: Sequence[_Course]) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int]:
    """Which sessions count as short, and up to how many messages: 50, or half of them where hardly any is longer."""
    lengths = np.array([course.messages for course in courses], float)
    split = _SHORT
    if lengths.size:
        share = float((lengths <= _SHORT).mean())
        if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
            split = int(np.median(lengths))
    return lengths <= split, split


def by_length(courses: Sequence[_Course], calls: int | None = None) -> tuple[Rate, ...]:
    binned: dict[str, list[Floats]] = {name: [] for name, _, _ in BINS}
    for course in courses:
        binned[length_bin(course.messages)].append(course.failed[:calls])
    return tuple(
        rate(name, [float(some.sum()) for some in failed], [some.size for some in failed])
        for name, failed in binned.items()
    )


def _compared(events: Floats, exposed: Floats, other_events: Floats, inside: Floats) -> tuple[Estimate, float]:
    """The difference in risk between the exposed and the others within strata, and how many standard errors it is.

    Mantel and Haenszel's: rows are sessions, columns strata; `inside` counts both groups.
    """
    if not events.shape[0]:
        return NOTHING, 0.0

    def difference(draws: Floats) -> Floats:
        a, n1, b, n = draws @ events, draws @ exposed, draws @ other_events, draws @ inside
        n0 = n - n1
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.nan_to_num((a * n0 - b * n1) / n).sum(axis=1)
            below = np.nan_to_num(n1 * n0 / n).sum(axis=1)
            found: Floats = above / below
        return found

    estimate = float(difference(np.ones((1, events.shape[0])))[0])
    draws = difference(weights(events.shape[0]))
    return interval(estimate, draws), _distance(estimate, draws)


def _distance(estimate: float, draws: Floats) -> float:
    kept = draws[np.isfinite(draws)]
    spread = float(kept.std()) if kept.size > draws.size / 2 else 0.0
    return estimate / spread if spread and np.isfinite(estimate) else 0.0


# -- the slope inside sessions


def _slope(courses: Sequence[_Course]) -> tuple[Slope, bool]:
    kept = [_opened(course) for course in courses]
    kept = [course for course in kept if course.failed.size > 1]
    linear, _ = _trend([[course.failed] for course in kept], [[_numbers(course) / 100] for course in kept])
    numbers = [np.log2(_numbers(course)) for course in kept]
    doubling, distance = _trend([[course.failed] for course in kept], [[number] for number in numbers])
    groups = [_by_tool(course) for course in kept]
    within, within_distance = _trend(
        [[course.failed[places] for places in own] for course, own in zip(kept, groups, strict=True)],
        [[number[places] for places in own] for number, own in zip(numbers, groups, strict=True)],
    )
    long = [course.failed for course in courses if course.failed.size >= _TREND]
    halves = [np.array_split(failed, 2) for failed in long]
    first, second = (_pooled([half[part] for half in halves]) for part in (0, 1))
    return (
        Slope(
            **linear._asdict(),
            per_doubling=doubling,
            within_tool=within,
            sessions=len(kept),
            calls=sum(course.failed.size for course in kept),
            first_half=first,
            second_half=second,
            by_position=_tenths(long),
        ),
        distance < -_CERTAIN and within_distance < -_AGREES,
    )


def _opened(course: _Course) -> _Course:
    """The session without its end."""
    calls = course.failed.size
    kept = calls - max(1, min(_END, calls // 2))
    return _Course(course.messages, course.failed[:kept], course.tools[:kept])


def _numbers(course: _Course) -> Floats:
    return np.arange(1.0, course.failed.size + 1)


def _by_tool(course: _Course) -> list[Places]:
    """The places of each tool's calls."""
    names = np.array(course.tools)
    return [np.flatnonzero(names == name) for name in dict.fromkeys(course.tools)]


def _trend(failed: Sequence[Sequence[Floats]], numbers: Sequence[Sequence[Floats]]) -> tuple[Estimate, float]:
    """The slope over the numbers with a fixed effect for every group of every session, also in standard errors."""
    products, squares = np.zeros(len(failed)), np.zeros(len(failed))
    for place, groups in enumerate(zip(failed, numbers, strict=True)):
        for outcomes, number in zip(*groups, strict=True):
            apart = number - number.mean()
            products[place] += apart @ outcomes
            squares[place] += apart @ apart
    found = ratio(products, squares)
    if found.estimate is None or found.low is None:
        return found, 0.0
    return found, found.estimate / standard_error(products, squares)


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


def _hazard(courses: Sequence[_Course]) -> tuple[Hazard, float]:
    at_once, at_once_z = _ending([course.failed for course in courses])
    recent, recent_z = _ending([_recently(course.failed) for course in courses])
    failed = sum(float(course.failed.sum()) for course in courses)
    last = sum(float(course.failed[-1]) for course in courses)
    others = sum(course.failed.size for course in courses) - failed
    return (
        Hazard(
            **at_once._asdict(),
            recent=recent,
            after_error=last / failed if failed else None,
            after_success=(len(courses) - last) / others if others else None,
            errors=int(failed),
            sessions=len(courses),
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
    if not events.shape[0]:
        return NOTHING

    def found(draws: Floats) -> Floats:
        a, n1, b, n = draws @ events, draws @ exposed, draws @ other_events, draws @ inside
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios: Floats = np.nan_to_num(a * (n - n1) / n).sum(axis=1) / np.nan_to_num(b * n1 / n).sum(axis=1)
        return ratios

    return interval(float(found(np.ones((1, events.shape[0])))[0]), found(weights(events.shape[0])))


# -- before and after a compaction


def _around_compaction(profiled: Sequence[Profiled]) -> Compaction:
    sides = [side for side in _sides(profiled) if side[1] and side[3]]
    numbers = np.array(sides, float).reshape(len(sides), 5)
    before, after = _share(numbers[:, 0], numbers[:, 1]), _share(numbers[:, 2], numbers[:, 3])
    found = NOTHING
    if before is not None and after is not None:
        found = Estimate(after - before, None, None)
        if len(sides) > 1:
            draws = weights(len(sides)) @ numbers
            found = interval(after - before, draws[:, 2] / draws[:, 3] - draws[:, 0] / draws[:, 1])
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
    failed = {each.session.id: _course(each).failed for each in profiled}
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
