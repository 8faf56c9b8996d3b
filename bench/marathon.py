"""Do marathon sessions make fewer errors? The claim tested on real sessions and on simulated ones without learning.

    python bench/marathon.py --data FOLDER --out docs/research/marathon.md

Writes aggregates only: the length bins, the four diagnostics of `warmstart profile`, and the same numbers for simulated
sessions with constant error rates that are abandoned after errors (survivorship, but no learning).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import warmstart
from warmstart.profile.corpus import Report, summarize
from warmstart.profile.values import Call, Markers, Profile, Profiled
from warmstart.sessions.values import Session

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
SESSIONS = 2_000
RATE, CORRELATION, MEAN_CALLS = 0.08, 0.05, 60
GIVE_UP = 0.10  # probability that a session is abandoned after an error


def simulated(seed: int = 1) -> Iterator[Profiled]:
    """Sessions with different but constant error rates that tend to end early after errors."""
    random = Random(seed)
    spread = 1 / CORRELATION - 1
    for number in range(SESSIONS):
        rate = random.betavariate(RATE * spread, (1 - RATE) * spread)
        length = 1 + int(random.expovariate(1 / MEAN_CALLS))
        failed: list[bool] = []
        while len(failed) < length:
            failed.append(random.random() < rate)
            if failed[-1] and random.random() < GIVE_UP:
                break
        calls = tuple(Call("Bash", "error" if each else "ok", "code", turn=1) for each in failed)
        markers = Markers(messages=2 * len(calls) + 2, calls=len(calls), errors=sum(failed))
        session = Session(agent="simulated", native_id=str(number))
        yield Profiled(session, Profile(calls=calls, markers=markers))


def show(value: float | None, unit: str = "%") -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if unit == "%" else f"{100 * value:+.1f}" if unit == "points" else f"{value:.2f}"


def lines(real: Report, made: Report) -> Iterator[str]:
    yield "| messages | sessions | error rate [95 %] | simulated: sessions | error rate [95 %] |"
    yield "| --- | --- | --- | --- | --- |"
    other = {rate.key: rate for rate in made.by_length}
    for rate in real.by_length:
        cells = []
        for each in (rate, other.get(rate.key)):
            interval = f"{show(each.rate)} [{show(each.low)}, {show(each.high)}]" if each else "-"
            cells += [str(each.sessions) if each else "0", interval]
        yield f"| {rate.key} | {' | '.join(cells)} |"
    yield ""
    yield "| diagnostic | real sessions [95 %] | simulated, no learning [95 %] |"
    yield "| --- | --- | --- |"
    rows = [
        (
            "early errors: short sessions minus the others, first 10 calls, points",
            "early_error_by_length",
            "points",
        ),
        ("slope within a session, points per 100 calls", "within_session_slope", "points"),
        ("risk of ending after an error, relative to after a success, ratio", "hazard_after_error", "ratio"),
        ("after a compaction minus before, points", "around_compaction", "points"),
    ]
    for name, field, unit in rows:
        cells = []
        for report in (real, made):
            found = getattr(report.diagnostics, field)
            value = "no data"
            if found.estimate is not None:
                value = f"{show(found.estimate, unit)} [{show(found.low, unit)}, {show(found.high, unit)}]"
            cells.append(value)
        yield f"| {name} | {' | '.join(cells)} |"


TEXT = """\
# Do marathon sessions make fewer errors?

Written by `python bench/marathon.py`. Aggregates only.

The claim: long sessions have fewer tool errors (7.2 % up to 50 messages, 9.0 % up to 100, 5.7 % beyond), so agents get
better while they work. Length bins cannot show that. A session that goes badly is abandoned, which makes it short: bins
compare different sessions, not the same session earlier and later.

Real: {sessions} sessions of four coding agents with {calls:,} tool calls. Simulated: {simulated:,} sessions whose error
rates differ (mean {rate:.0%}, intra-class correlation {icc}) but never change, and which are abandoned with
a probability of {give_up:.0%} after each error.

{table}

Within real sessions of at least 20 calls the rate is {first} in the first half and {second} in the second. {bins}

The conclusion of `warmstart profile`: {explanation}

The simulation shows how far survivorship alone goes: without any learning, its short sessions still have a higher error
rate than its long ones. Whether a start with more knowledge helps is another question, which only an
[experiment](../experiments.md) can answer.
"""


def page(real: Report, made: Report) -> str:
    slope, (short, *_, long) = real.diagnostics.within_session_slope, real.by_length
    apart = (
        short.low is not None
        and long.high is not None
        and (short.low > long.high or (short.high or 1) < (long.low or 0))
    )
    return TEXT.format(
        sessions=real.sessions,
        calls=real.calls,
        simulated=made.sessions,
        rate=RATE,
        icc=CORRELATION,
        give_up=GIVE_UP,
        table="\n".join(lines(real, made)),
        first=show(slope.first_half),
        second=show(slope.second_half),
        bins=f"Their length bins {'differ' if apart else 'do not differ'} beyond their intervals.",
        explanation=real.diagnostics.explanation[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as home, warmstart.open(home=home) as ws:
        ws.sync([options.data / "sessions"])
        real = ws.report(project=None)
    text = page(real, summarize(simulated()))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
