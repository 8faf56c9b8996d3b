"""The rows of an experiment, and its independent units.

`group_units` is the only place that decides what a unit is. Everything else uses its result: the difference, its
standard error, resampling, the intra-class correlation and the counts.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warmstart.errors import ExperimentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_WORDS = {"true": 1.0, "yes": 1.0, "success": 1.0, "pass": 1.0, "false": 0.0, "no": 0.0, "failure": 0.0, "fail": 0.0}
_MISSING = {"", "na", "n/a", "nan", "none", "null", "unknown"}


class Row(NamedTuple):
    """One observation: the sum of its outcomes over `size` trials, `None` if the outcome is missing.

    `unit` is the session or cluster it belongs to, and `pair` the task that both arms share. A time without its event
    is not `observed`. `square` is the sum of squared outcomes, if it differs from the square of the total. `covariate`
    is what was known before the session started, `None` if it is missing.
    """

    arm: str
    total: float | None
    unit: str
    pair: str = ""
    size: float = 1.0
    square: float | None = None
    observed: bool = True
    covariate: float | None = 0.0


class Arm(NamedTuple):
    """The units of one arm, one entry each: sum of outcomes, sum of squares, number of trials, sum of covariates."""

    sums: Floats
    squares: Floats
    sizes: Floats
    covariates: Floats

    @property
    def means(self) -> Floats:
        """The mean of each unit."""
        return self.sums / self.sizes

    @property
    def mean(self) -> float:
        """The mean over all trials."""
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def is_binary(self) -> bool:
        """Whether each unit is a single trial with outcome 0 or 1."""
        return bool((self.sizes == 1).all() and ((self.sums == 0) | (self.sums == 1)).all())


class Units(NamedTuple):
    """Two arms as independent units.

    With pairs, the arms have one entry per pair, `pairs` holds their names, and `clusters` the index of the unit that
    each belongs to. Without pairs `clusters` is `None`.
    """

    baseline: Arm
    treatment: Arm
    clusters: npt.NDArray[np.intp] | None = None
    pairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def differences(self) -> Floats:
        """The difference within each pair."""
        return self.treatment.means - self.baseline.means

    def sum_differences(self) -> tuple[Floats, Floats]:
        """For each unit, the sum of the differences of its pairs, and their number."""
        import numpy as np

        clusters = np.asarray(self.clusters)
        return np.bincount(clusters, self.differences).astype(float), np.bincount(clusters).astype(float)

    @property
    def independent(self) -> int:
        """The number of independent units: clusters of pairs, or the units of both arms."""
        if self.clusters is None:
            return self.baseline.sums.size + self.treatment.sums.size
        return int(self.clusters.max()) + 1


def group_units(rows: Sequence[Row], baseline: str, treatment: str) -> Units:
    """The independent units of two arms.

    With pairs, the pair is the independent unit, unless several whole pairs share a `unit`. Without pairs, it is the
    `unit`; if every one is in both arms, units are treated as pairs. Raises `ExperimentError` if only some are.
    """
    known = [row for row in rows if row.arm in (baseline, treatment) and row.total is not None]
    for arm in (baseline, treatment):
        if not any(row.arm == arm for row in known):
            raise ExperimentError(f"arm {arm!r} has no outcome: there is nothing to compare")
    if any(row.pair for row in known):
        return _pair(known, baseline, treatment)
    first, second = ({row.unit for row in known if row.arm == arm} for arm in (baseline, treatment))
    if not first & second:
        one, other = (_arm(known, arm, lambda row: row.unit) for arm in (baseline, treatment))
        return Units(one, other)
    if first != second:
        raise ExperimentError(
            f"some units are in both arms and some in one only ({len(first & second)} and {len(first ^ second)}): name "
            "the column that both arms share with --paired-by, or a --unit that belongs to one arm"
        )
    units = _pair([row._replace(pair=row.unit, unit="") for row in known], baseline, treatment)
    return units._replace(notes=("Every unit is in both arms, so units are compared with themselves.", *units.notes))


def _pair(rows: Sequence[Row], baseline: str, treatment: str) -> Units:
    import numpy as np

    names = [{row.pair for row in rows if row.arm == arm} for arm in (baseline, treatment)]
    shared = sorted(names[0] & names[1])
    left, notes = len(names[0] ^ names[1]), []
    if not shared:
        raise ExperimentError(f"no pair is in both {baseline!r} and {treatment!r}: there is nothing to compare")
    if left:
        notes.append(f"{left} of {left + len(shared)} pairs are in one arm only and were left out.")
    units_of = defaultdict(set)
    for row in rows:
        units_of[row.pair].add(row.unit)
    clusters = np.arange(len(shared))
    owners = [next(iter(units_of[pair])) for pair in shared if len(units_of[pair]) == 1]
    if len(owners) == len(shared) and 1 < len(set(owners)) < len(shared):
        notes.append("Several pairs belong to one unit, so the units are the clusters.")
        clusters = np.unique(owners, return_inverse=True)[1]
    one, other = (_arm(rows, arm, lambda row: row.pair, shared) for arm in (baseline, treatment))
    return Units(one, other, clusters, tuple(shared), tuple(notes))


def _arm(rows: Iterable[Row], arm: str, key: Callable[[Row], str], only: Sequence[str] = ()) -> Arm:
    """The units of an arm; with `only`, just these in this order."""
    import numpy as np

    sums: dict[str, list[float]] = {name: [0.0] * len(Arm._fields) for name in only}
    for row in rows:
        if row.arm == arm and row.total is not None and (not only or key(row) in sums):
            entry = sums.setdefault(key(row), [0.0] * len(Arm._fields))
            square = row.total**2 if row.square is None else row.square
            values = row.total, square, row.size, (row.covariate or 0.0) * row.size
            entry[:] = [before + value for before, value in zip(entry, values, strict=True)]
    return Arm(*np.array([*sums.values()], float).T)


# -- rows from a file


def read_csv(
    path: Path, *, arm: str, outcome: str, unit: str = "", paired_by: str = "", covariate: str = ""
) -> list[Row]:
    """The rows of a CSV file. Missing numbers become `None`; any other non-number is an error that names its line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            for name in filter(None, (arm, outcome, unit, paired_by, covariate)):
                if names.count(name) != 1:
                    problem = "several columns" if name in names else "no column"
                    raise ExperimentError(f"{path} has {problem} {name!r}; it has {', '.join(names) or 'none at all'}")
            rows = [
                Row(
                    arm=_text(line, arm, where),
                    total=_number(line, outcome, where),
                    unit=_text(line, unit, where) if unit else str(reader.line_num),
                    pair=_text(line, paired_by, where) if paired_by else "",
                    covariate=_number(line, covariate, where) if covariate else 0.0,
                )
                for line in reader
                for where in [f"line {reader.line_num} of {path}"]
            ]
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, csv.Error) as error:
        raise ExperimentError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not rows:
        raise ExperimentError(f"{path} has no rows: there is nothing to analyse")
    return rows


def _text(line: Mapping[str | None, str | None], column: str, where: str) -> str:
    if None in line:
        raise ExperimentError(f"{where} has more values than the file has columns")
    if not (value := (line[column] or "").strip()):
        raise ExperimentError(f"{where} has no {column!r}; fill it in or remove the line")
    return value


def _number(line: Mapping[str | None, str | None], column: str, where: str) -> float | None:
    value = line[column]
    text = (value or "").strip().lower()
    if text in _MISSING:
        return None
    try:
        number = _WORDS[text] if text in _WORDS else float(text)
    except ValueError:
        raise ExperimentError(f"{where} has {value!r} as {column!r}, which is not a number") from None
    if not math.isfinite(number):
        raise ExperimentError(f"{where} has {value!r} as {column!r}, which is not finite")
    return number


def arm_names(rows: Iterable[Row], *, baseline: str = "", only: Sequence[str] = ()) -> list[str]:
    """The arms in alphabetical order, with the baseline first if it is given."""
    names = {row.arm for row in rows}
    for name in filter(None, (baseline, *only)):
        if name not in names:
            raise ExperimentError(f"there is no arm {name!r}; the arms are {', '.join(sorted(names)) or 'none'}")
    chosen = sorted(names & {*only, baseline} if only else names)
    if len(chosen) < 2:
        raise ExperimentError(f"there is only one arm, {chosen[0]!r}: there is nothing to compare it with")
    return [baseline, *(name for name in chosen if name != baseline)] if baseline else chosen
