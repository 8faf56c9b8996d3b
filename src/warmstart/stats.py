"""Intervals: Wilson's for a proportion, Newcombe's for a difference, and a cluster bootstrap over sessions.

The unit is the session, never the call: calls in one session are not independent. A rate is a ratio of two sums over
sessions. Its interval is a studentised cluster bootstrap: whole sessions are resampled with replacement, and each
draw's distance from the estimate is measured in its own standard errors. On simulated corpora of 100 sessions its
coverage is 94 %; that of the plain percentile bootstrap is 89 to 93 %. The seed is fixed, so the same sessions give the
same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # numpy takes 0.1 s to load, and a hook that needs Wilson's interval does not need it
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

LEVEL = 0.95
_Z = 1.959963984540054  # standard errors to either side of an estimate, for that level

_DRAWS, _MIN_DRAWS = 1000, 200
_MAX_CELLS = 4_000_000  # draws times sessions: with many sessions, fewer draws are enough
# With fewer sessions, or fewer with errors, the variance cannot be estimated: assume an intra-class correlation at the
# upper end of what real sessions show.
_MIN_SESSIONS, _MIN_SESSIONS_WITH_ERRORS = 8, 3
_ASSUMED_CORRELATION = 0.1
_ZERO = 1e-12  # a smaller standard error is rounding noise


class Interval(NamedTuple):
    """A confidence interval for a proportion, or for the difference of two."""

    low: float
    high: float


class Estimate(NamedTuple):
    """An estimate with its confidence interval; `None` where the data allow none."""

    estimate: float | None
    low: float | None
    high: float | None


NOTHING = Estimate(None, None, None)


def wilson(successes: float, n: float) -> Interval | None:
    """Wilson's score interval for a proportion; `None` for n = 0. With weights, n is the effective sample size."""
    return _wilson(successes / n, n) if n else None


def _wilson(share: float, n: float) -> Interval:
    shrink = _Z**2 / n
    middle = share + shrink / 2
    half = sqrt(shrink * (share * (1 - share) + shrink / 4))
    low, high = (middle - half) / (1 + shrink), (middle + half) / (1 + shrink)
    return Interval(low if share else 0.0, high if share < 1 else 1.0)


def newcombe(successes: int, n: int, other_successes: int, other_n: int) -> Interval | None:
    """Newcombe's interval (method 10) for the first proportion minus the other; `None` if either n is 0."""
    one, other = wilson(successes, n), wilson(other_successes, other_n)
    if one is None or other is None:
        return None
    share, other_share = successes / n, other_successes / other_n
    below = sqrt((share - one.low) ** 2 + (other.high - other_share) ** 2)
    above = sqrt((one.high - share) ** 2 + (other_share - other.low) ** 2)
    return Interval(share - other_share - below, share - other_share + above)


# -- confidence sequences: intervals that are valid at every look


def sequence_rho(planned: int, alpha: float) -> float:
    """The squared parameter that makes a confidence sequence tightest after `planned` units."""
    bound = -2 * log(alpha)
    return (bound + log(bound + 1)) / max(planned, 2)


def sequence_factor(units: int, *, planned: int = 100) -> float:
    """Half the width of an asymptotic confidence sequence after this many units, in standard errors.

    Such an interval is valid at all looks simultaneously (Waudby-Smith et al. 2021). It is tightest at `planned` units.
    """
    t = units * sequence_rho(planned, 1 - LEVEL)
    return sqrt(2 * (t + 1) / t * log(sqrt(t + 1) / (1 - LEVEL)))


# -- cluster bootstrap


@lru_cache(maxsize=32)
def _draw(clusters: int) -> npt.NDArray[np.int32]:
    """The clusters in each bootstrap draw, as a matrix of indices with one draw per row."""
    import numpy as np

    draws = max(_MIN_DRAWS, min(_DRAWS, _MAX_CELLS // clusters))
    return np.random.default_rng(clusters).integers(0, clusters, size=(draws, clusters), dtype=np.int32)


def cluster_weights(clusters: int) -> Floats:
    """How often each cluster (column) occurs in each draw (row)."""
    import numpy as np

    drawn = _draw(clusters)
    weights = np.zeros(drawn.shape)
    for row, indices in zip(weights, drawn, strict=True):
        row += np.bincount(indices, minlength=clusters)
    return weights


def cluster_bootstrap(statistic: Callable[[Floats], Floats], clusters: int) -> tuple[Estimate, float]:
    """A statistic over clusters with its percentile interval, and its standard error.

    `statistic` takes a matrix with the weight of each cluster (column) in each draw (row) and returns one number per
    draw. Without clusters there is no estimate. With one cluster, or if most draws give no number, there is no interval
    and the standard error is 0.
    """
    import numpy as np

    if not clusters:
        return NOTHING, 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(statistic(np.ones((1, clusters)))[0])
        draws = statistic(cluster_weights(clusters)) if clusters > 1 else np.empty(0)
    if not isfinite(estimate):
        return NOTHING, 0.0
    known = draws[np.isfinite(draws)]
    if not known.size or known.size < draws.size / 2:
        return Estimate(estimate, None, None), 0.0
    return Estimate(estimate, *_tails(known)), float(known.std())


def _tails(draws: Floats) -> tuple[float, float]:
    import numpy as np

    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)


def cluster_ratio(numerators: Sequence[float] | Floats, denominators: Sequence[float] | Floats) -> Estimate:
    """The ratio of two sums over clusters with its studentised interval.

    Without clusters there is no estimate; with one cluster there is no interval.
    """
    import numpy as np

    y, x = np.asarray(numerators, float), np.asarray(denominators, float)
    if not y.size or x.sum() == 0:
        return NOTHING
    estimate = float(y.sum() / x.sum())
    error = ratio_error(y, x) if y.size > 1 else 0.0
    if error < _ZERO:
        return Estimate(estimate, None, None)
    lower, upper = _tails(_distances(y, x))
    if not isfinite(lower) or not isfinite(upper):
        return Estimate(estimate, None, None)
    return Estimate(estimate, estimate - upper * error, estimate - lower * error)


def cluster_rate(errors: Floats, calls: Floats) -> Estimate:
    """The error rate over all calls of sessions that each have at least one call.

    Without sessions there is no estimate; with one there is no interval. With fewer than eight sessions, or fewer than
    three with errors or with successes, it is Wilson's interval for the effective number of independent calls.
    """
    import numpy as np

    y, x = errors, calls
    if not y.size:
        return NOTHING
    rate = float(y.sum() / x.sum())
    if y.size < 2:
        return Estimate(rate, None, None)
    assumed = _assumed_interval(rate, x)
    error = ratio_error(y, x)
    has_both = min(np.count_nonzero(y), np.count_nonzero(x - y)) >= _MIN_SESSIONS_WITH_ERRORS
    if y.size < _MIN_SESSIONS or error < _ZERO or not has_both:
        return Estimate(rate, *assumed)
    distances = _distances(y, x)
    lower, upper = _tails(distances)
    # A draw without any error is infinitely far away; the other draws then give the bound.
    low = rate - upper * error if isfinite(upper) else assumed.low
    high = rate - lower * error
    if not isfinite(lower):
        high = max(assumed.high, rate - float(distances[np.isfinite(distances)].min(initial=0)) * error)
    return Estimate(rate, max(0.0, low), min(1.0, high))


def ratio_error(y: Floats, x: Floats) -> float:
    """The linearised standard error of the ratio of two sums over at least two clusters."""
    residuals = y - y.sum() / x.sum() * x
    return sqrt(y.size / (y.size - 1) * float(residuals @ residuals)) / float(x.sum())


def _distances(y: Floats, x: Floats) -> Floats:
    """The distance of each draw's ratio from the estimate, in standard errors of that draw."""
    import numpy as np

    drawn = _draw(y.size)
    ys, xs = y[drawn], x[drawn]
    total, base = ys.sum(axis=1), xs.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = total / base
        squares = (ys * ys).sum(axis=1) - 2 * ratios * (ys * xs).sum(axis=1) + ratios**2 * (xs * xs).sum(axis=1)
        errors = np.sqrt(np.maximum(squares, 0) * y.size / (y.size - 1)) / base
        difference = ratios - y.sum() / x.sum()
        distances: Floats = np.where(errors > _ZERO, difference / errors, np.sign(difference) * np.inf)
    return distances[~np.isnan(distances)]


def _assumed_interval(rate: float, calls: Floats) -> Interval:
    """Wilson's interval for the effective number of calls under the assumed correlation within a session."""
    total = float(calls.sum())
    mean = float(calls @ calls) / total
    n = total / (1 + (mean - 1) * _ASSUMED_CORRELATION)
    return _wilson(rate, n)


# -- reproducible randomness


def assign(
    shares: Mapping[str, float], question: str, session: str, *, seed: int | None = None, place: int | None = None
) -> tuple[str, float]:
    """Assign a session to an arm. Returns the arm and its probability; every assignment is made here.

    `shares` are relative weights. The question, the session's id and the seed determine the arm; without a session and
    a seed, every call draws a new one. The draws for different questions are independent: whether a session is held out
    says nothing about which template it would have started from. With `place`, the number of earlier sessions in the
    same stratum, arms come in shuffled blocks that contain each arm in proportion to its share, so that the stratum
    stays balanced; `session` then names the stratum.
    """
    from random import Random

    total = sum(shares.values())
    probabilities = {arm: share / total for arm, share in shares.items()}
    if place is not None:
        smallest = min(share for share in probabilities.values() if share > 0)
        block = [arm for arm, share in probabilities.items() for _ in range(round(2 * share / smallest))]
        block_number, within = divmod(place, len(block))
        Random(ascii((question, session, seed, block_number))).shuffle(block)  # noqa: S311 - no secret
        return block[within], block.count(block[within]) / len(block)
    known = session or seed is not None
    number = Random(ascii((question, session, seed)) if known else None).random()  # noqa: S311 - no secret
    for arm, share in probabilities.items():
        if number < share:
            return arm, share
        number -= share
    return arm, share
