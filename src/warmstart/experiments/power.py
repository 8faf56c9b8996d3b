"""How many sessions an experiment needs, and which effects it can and cannot detect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

from warmstart.errors import ExperimentError
from warmstart.experiments.statistics import ALPHA, POWER, load_scipy, power_of, smallest_detectable

DEFAULT_ICC = 0.05  # of tool errors in real sessions, at the lower end


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The sessions per arm needed to detect an effect on a rate.

    With a number of sessions also their `power` for that effect and `mde`, the smallest effect they detect in 80 of
    100 experiments.
    """

    baseline: float
    effect: float
    icc: float
    calls: float
    design_effect: float
    sessions_needed: int
    sessions: int | None = None
    power: float | None = None
    mde: float | None = None

    def in_words(self) -> str:
        """The summary shown before an experiment starts."""
        effect = f"an effect of {100 * self.effect:.1f} points on a rate of {100 * self.baseline:.1f} %"
        line = f"{self.sessions_needed} sessions per arm detect {effect} in 80 of 100 experiments."
        if self.power is None or self.mde is None:
            return line
        return (
            f"With {self.sessions} sessions per arm, {effect} is detected in {100 * self.power:.0f} of 100 "
            f"experiments; effects below {100 * min(self.mde, 1.0):.1f} points will mostly be missed. {line}"
        )


def plan(
    baseline: float,
    effect: float,
    *,
    icc: float = DEFAULT_ICC,
    calls: float = 30,
    sessions: int | None = None,
    higher_is_better: bool = False,
) -> Power:
    """Plan for an improvement by `effect`: downwards for an error rate, upwards with `higher_is_better`.

    With `calls=1` there is one outcome per session, such as its success, and `icc` does not matter.
    """
    other = baseline + effect if higher_is_better else baseline - effect
    for name, value in (("baseline", baseline), ("baseline and effect together", other), ("icc", icc)):
        if not 0 <= value <= 1:
            raise ExperimentError(f"{name} is {value:g}: give a number from 0 to 1")
    if effect <= 0 or calls < 1 or (sessions is not None and sessions < 2):
        raise ExperimentError("an effect above 0, at least one call and at least two sessions are needed")
    inflation, norm = 1 + (calls - 1) * icc, load_scipy().norm
    variance = sum(rate * (1 - rate) for rate in (baseline, other)) * inflation / calls  # of a session, in both arms
    needed = ceil((norm.isf(ALPHA / 2) + norm.ppf(POWER)) ** 2 * variance / effect**2)
    power = Power(
        baseline=baseline,
        effect=effect,
        icc=icc,
        calls=calls,
        design_effect=inflation,
        sessions_needed=max(2, needed),
    )
    if sessions is None:
        return power
    se, df = sqrt(variance / sessions), 2 * sessions - 2
    return replace(power, sessions=sessions, power=power_of(effect, se, df), mde=smallest_detectable(se, df))
