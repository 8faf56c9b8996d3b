"""Secrets of every kind are found in every context, and scanning time is proportional to the length of the text."""

from __future__ import annotations

import gc
import time
from collections import defaultdict

import pytest
from bench.redact_cases import hostile_units, positives, repeat

from warmstart.redact.redactor import PERSONAL, Redactor

REDACTOR = Redactor(personal=PERSONAL)


def test_secrets_of_every_kind_are_found_at_every_place() -> None:
    missed = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for case in positives(each=3):
        for group in (f"kind {case.kind}", f"place {case.place}"):
            counts[group] += 1
            if case.secret in REDACTOR.clean(case.text):
                missed[group].append(case.text)
    bad = {group: texts[:3] for group, texts in missed.items() if len(texts) > max(1, counts[group] // 20)}
    assert not bad


def seconds(text: str) -> float:
    gc.disable()  # as `timeit` does: a collection takes as long as this process is large
    try:
        began = time.process_time()
        REDACTOR.redact(text)
        return time.process_time() - began
    finally:
        gc.enable()


def is_slow(unit: str, length: int) -> bool:
    """Whether twice the text takes more than three times as long."""
    return seconds(repeat(unit, 2 * length)) > 3 * seconds(repeat(unit, length)) + 0.002


def slow_units(length: int, units: list[tuple[str, str]]) -> list[str]:
    """The units that are slow every time; on a busy machine any one may be slow once."""
    for _, unit in units:
        REDACTOR.redact(repeat(unit, 2000))
    return [name for name, unit in units if all(is_slow(unit, length) for _ in range(3))]


def test_hostile_text_takes_time_in_proportion_to_its_length() -> None:
    units = [unit for number, unit in enumerate(hostile_units()) if number % 12 == 0 or unit[0].startswith("text")]
    assert slow_units(20_000, units) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_a_megabyte_takes_at_most_three_times_as_long_as_half_of_it(part: int) -> None:
    assert slow_units(500_000, [unit for number, unit in enumerate(hostile_units()) if number % 8 == part]) == []
