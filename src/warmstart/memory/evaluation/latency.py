"""How long operations take as a user's memory grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.labelled import Labelled
from warmstart.memory.evaluation.values import LatencyAt, Percentiles
from warmstart.memory.evaluation.visitors import Visitors

CLOUD_LIMIT = 1_000  # entries: what is stored with somebody else costs money and patience
_SAMPLES = 100
_SEED = 20


def latency(
    backend: MemoryBackend, visitors: Visitors, data: Labelled, sizes: Sequence[int], *, seconds: float
) -> Iterator[LatencyAt]:
    """Fill one user's memory to each size in turn and measure there. A size gets at most `seconds` to be reached."""
    user = visitors.new("latency")
    random = Random(_SEED)  # noqa: S311
    texts = _texts(data, random)
    filled = 0
    for size in sorted(set(sizes)):
        if backend.is_cloud and size > CLOUD_LIMIT:
            yield LatencyAt(size, filled, note=f"not filled: no more than {CLOUD_LIMIT:,} entries go to a cloud")
            continue
        until = time.monotonic() + seconds
        while filled < size and time.monotonic() < until:
            visitors.wrote(user, f"entry_{filled}")
            backend.store(user, f"entry_{filled}", next(texts))
            filled += 1
        note = "" if filled == size else f"stopped at {filled:,} entries after {seconds:g} s"
        yield _measured(backend, user, data, random, texts, LatencyAt(size, filled, note=note), seconds)
        if filled < size:
            return


def _measured(
    backend: MemoryBackend,
    user: str,
    data: Labelled,
    random: Random,
    texts: Iterator[str],
    at: LatencyAt,
    seconds: float,
) -> LatencyAt:
    questions = [question.text for question in data.questions]

    def key() -> str:
        return f"entry_{random.randrange(max(at.entries, 1))}"

    return LatencyAt(
        wanted=at.wanted,
        entries=at.entries,
        store=_percentiles(lambda: backend.store(user, key(), next(texts)), seconds / 3),
        retrieve=_percentiles(lambda: backend.retrieve(user, key()), seconds / 3),
        query=_percentiles(lambda: backend.query(user, random.choice(questions)), seconds / 3),
        note=at.note,
    )


def _percentiles(operation: Callable[[], object], seconds: float) -> Percentiles:
    spent: list[float] = []
    until = time.monotonic() + seconds
    operation()  # the first one opens and prepares things
    while len(spent) < _SAMPLES and (not spent or time.monotonic() < until):
        start = time.perf_counter()
        operation()
        spent.append((time.perf_counter() - start) * 1000)
    return Percentiles(p50=percentile(spent, 0.5), p95=percentile(spent, 0.95), count=len(spent))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[max(-(-len(ranked) * round(share * 100) // 100) - 1, 0)]


def _texts(data: Labelled, random: Random) -> Iterator[str]:
    """Sentences like the labelled ones, none of them twice."""
    values = [write.value for write in data.writes]
    for number in count():
        first, second = random.choice(values).split(), random.choice(values).split()
        yield f"{' '.join(first[: len(first) // 2 + 1])} {' '.join(second[len(second) // 2 :])} ({number})"
