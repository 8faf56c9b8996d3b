"""Simulated corpora whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from warmstart.profile.values import Call, Markers, Profile, Profiled
from warmstart.sessions.values import Session

BASE = 0.08
MEAN = 40  # calls of a session
LONGEST = 400


class Safe(int):
    """The outcome of a call of another tool, which seldom fails; true where it failed."""


def profiled(name: object, failed: Iterable[int], *, messages: int | None = None, **fields: object) -> Profiled:
    """A session whose calls failed or did not, with two messages a call unless said otherwise."""
    calls = tuple(
        Call("Edit" if isinstance(each, Safe) else "Bash", "error" if each else "ok", "code") for each in failed
    )
    markers = Markers(
        messages=2 * len(calls) + 2 if messages is None else messages,
        calls=len(calls),
        errors=sum(call.outcome == "error" for call in calls),
    )
    session = Session(agent="simulated", native_id=str(name), **fields)  # type: ignore[arg-type]
    return Profiled(session, Profile(calls=calls, markers=markers))


def difficulty(random: Random, mean: float, correlation: float) -> float:
    """A session's own error rate: sessions differ, so that two calls of one are correlated."""
    spread = 1 / correlation - 1
    return random.betavariate(mean * spread, (1 - mean) * spread)


def corpus(random: Random, session: Callable[[Random], list[int]], size: int = 300) -> list[Profiled]:
    return [profiled(number, session(random)) for number in range(size)]


def abandoned(random: Random) -> list[int]:
    """Nothing is learned; after an error the user gives up more often."""
    own = difficulty(random, BASE, 0.08)
    failed: list[int] = []
    while len(failed) < LONGEST:
        failed.append(random.random() < own)
        if random.random() < (0.15 if failed[-1] else 0.6 / MEAN):
            break
    return failed


def learned(random: Random) -> list[int]:
    """The error rate falls as the session goes on; when it ends has nothing to do with errors."""
    own = difficulty(random, BASE, 0.08) / BASE
    length = 1 + min(LONGEST, int(random.expovariate(1 / MEAN)))
    return [random.random() < own * (0.04 + 0.10 * 0.96**place) for place in range(length)]


def both(random: Random) -> list[int]:
    """The error rate falls, and after an error the user gives up more often."""
    own = difficulty(random, BASE, 0.08) / BASE
    failed: list[int] = []
    while len(failed) < LONGEST:
        failed.append(random.random() < own * (0.04 + 0.10 * 0.96 ** len(failed)))
        if random.random() < (0.15 if failed[-1] else 0.6 / MEAN):
            break
    return failed


def tiring(random: Random) -> list[int]:
    """The error rate rises, all sessions are equally long."""
    own = difficulty(random, BASE, 0.08) / BASE
    return [random.random() < own * (0.04 + 0.10 * place / MEAN) for place in range(MEAN)]


def steady(random: Random) -> list[int]:
    """Nothing is learned and nothing is abandoned; some sessions are harder than others."""
    own = difficulty(random, BASE, 0.08)
    length = 1 + min(LONGEST, int(random.expovariate(1 / MEAN)))
    return [random.random() < own for _ in range(length)]


def closing(random: Random) -> list[int]:
    """Nothing is learned; at the end come some calls that hardly ever fail: a look at the state, a commit, a push."""
    return [*steady(random), *(random.random() < 0.005 for _ in range(random.randint(5, 9)))]


def content(random: Random) -> list[int]:
    """Nothing is learned; a session ends when five calls in a row went well, not before."""
    own = difficulty(random, BASE, 0.08)
    failed: list[int] = []
    while len(failed) < LONGEST:
        failed.append(random.random() < own)
        if not any(failed[-5:]) and len(failed) >= 5 and random.random() < 1 / MEAN:
            break
    return failed


def drifting(random: Random) -> list[int]:
    """Nothing is learned, each tool fails as often as ever; after a while the safer tool is used more."""
    own = difficulty(random, BASE, 0.08) / BASE
    failed: list[int] = []
    for place in range(1 + min(LONGEST, int(random.expovariate(1 / MEAN)))):
        if random.random() < (0.2 if place < 15 else 0.8):
            failed.append(Safe(random.random() < 0.03 * own))
        else:
            failed.append(random.random() < 0.09 * own)
    return failed


def leaving(random: Random) -> list[int]:
    """Nothing is learned; after an error the agent goes on for some calls, then the user often leaves."""
    own = BASE
    failed: list[int] = []
    left = LONGEST
    while len(failed) < min(left, LONGEST):
        failed.append(random.random() < own)
        if failed[-1] and random.random() < 0.3:
            left = min(left, len(failed) + random.randint(1, 4))
        elif random.random() < 0.5 / MEAN:
            break
    return failed
