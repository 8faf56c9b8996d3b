"""Experiments in a store: designs, assignments and results.

An assignment with its propensity is written before the session starts and never changes, so that later events cannot
affect who is compared with whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import ExperimentError, SessionNotFound
from warmstart.experiments.design import Arm, Design, parse_design
from warmstart.experiments.metrics import measure_all
from warmstart.experiments.units import Row
from warmstart.profile.profiler import profile_of
from warmstart.profile.store import MIGRATIONS as PROFILES
from warmstart.profile.values import Profile
from warmstart.sessions.sql_store import BAD_SESSION, SQLSessionStore, log_skip
from warmstart.sessions.values import clean
from warmstart.stats import assign
from warmstart.storage.database import migrations_of
from warmstart.templates import item_store

MIGRATIONS = migrations_of("experiments", __file__)
EXPERTISE = "expertise"  # the covariate of a session: how many the user had in its project before
HOLDOUT = "holdout"  # the standing experiment: sessions that start without a template even though one fits
_MAX_TREND = 100  # calls
_MAX_OPEN = 500  # newest sessions without an outcome to settle in one go
_FIELDS = "session, arm, propensity, stratum, unit, task, at, measures"


class _TaskType(msgspec.Struct):
    task_type: str = ""


class Trial(NamedTuple):
    """A session of an experiment. `measures` is empty until it has ended."""

    session: str
    arm: str
    propensity: float
    stratum: str
    unit: str
    task: str
    at: datetime
    measures: Mapping[str, Any]

    def row(self, metric: str) -> Row:
        """The session as a row for the analysis of one metric."""
        row = Row(self.arm, None, self.unit or self.session, self.task)
        if metric not in self.measures:
            return row
        total, size, observed = self.measures[metric]
        square = total if size != 1 else None  # of zeros and ones
        return row._replace(total=total, size=size, square=square, observed=observed)


class Experiments:
    """The experiments of a store."""

    def __init__(self, store: SQLSessionStore) -> None:
        self.store = store
        store.database.migrate((*PROFILES, *migrations_of("templates", item_store.__file__), *MIGRATIONS))

    # -- designs

    def save(self, text: str) -> Design:
        """Store a design as running. Raises `ExperimentError` if a different one with its name has sessions."""
        design = parse_design(text)
        if design.name == HOLDOUT:
            raise ExperimentError(f"the name {HOLDOUT!r} is reserved for the holdout of templates: choose another")
        rows = self.store.fetch("SELECT design FROM experiments WHERE name = ?", (design.name,))
        if rows and rows[0][0] != text and self.trials(design.name):
            raise ExperimentError(f"experiment {design.name!r} was started with another design: choose a new name")
        with self.store.transaction() as connection:
            self.store.database.take_back()  # hooks cannot see that the experiment decides from now on
            connection.execute(
                "INSERT INTO experiments (name, kind, design, state, at) VALUES (?, ?, ?, 'running', ?) "
                "ON CONFLICT (name) DO UPDATE SET design = excluded.design, state = excluded.state",
                (design.name, design.kind, text, datetime.now(UTC).timestamp()),
            )
        return design

    def finish(self, name: str) -> None:
        """Mark an experiment as complete: its analysis need no longer be valid at every look."""
        with self.store.transaction() as connection:
            connection.execute("UPDATE experiments SET state = 'complete' WHERE name = ?", (name,))

    def all(self) -> list[tuple[str, str, str, datetime]]:
        """Name, kind, state and start of every experiment, newest first."""
        rows = self.store.fetch("SELECT name, kind, state, at FROM experiments ORDER BY at DESC, name")
        return [(name, kind, state, datetime.fromtimestamp(at, UTC)) for name, kind, state, at in rows]

    def get(self, name: str) -> tuple[Design, str]:
        """A design and its state; `holdout` is the one run by templates. Raises `ExperimentError` if there is none."""
        if name == HOLDOUT:
            return self._holdout_design(), "running"
        rows = self.store.fetch("SELECT design, state FROM experiments WHERE name = ?", (clean(name),))
        if not rows:
            raise ExperimentError(f"there is no experiment {name!r}; `warmstart experiment list` shows them")
        return parse_design(rows[0][0]), rows[0][1]

    # -- sessions

    def assign(self, design: Design, session: str, *, stratum: str = "", unit: str = "") -> Trial:
        """Assign a session to an arm, stored with its propensity. A session that already has an arm keeps it.

        Arms are balanced within a stratum. Sessions with the same `unit`, such as a project, get the same arm.
        """
        shares = {name: arm.share for name, arm in design.arms.items()}
        with self.store.transaction():
            known = self._trials("experiment = ? AND (session = ? OR unit = ?)", design.name, session, unit or None)
            for trial in known:
                if trial.session == session:
                    return trial
            if known:
                arm, propensity = known[0].arm, known[0].propensity
            else:
                count = "count(DISTINCT CASE unit WHEN '' THEN session ELSE unit END)"
                sql = f"SELECT {count} FROM experiment_sessions WHERE experiment = ? AND stratum = ?"
                ((place,),) = self.store.fetch(sql, (design.name, stratum))
                arm, propensity = assign(shares, design.name, stratum, seed=design.seed, place=place)
            trial = Trial(session, arm, propensity, stratum, unit, "", datetime.now(UTC), {})
            self._insert(design, trial)
        return trial

    def record(self, design: Design, session: str, arm: str, *, task: str, profile: Profile | None) -> None:
        """Store the result of a lab session; without a profile the outcome is missing, and the session can be rerun."""
        measures = {} if profile is None else _measures(profile)
        self._insert(design, Trial(session, arm, 1.0, "", "", task, datetime.now(UTC), measures), settled=True)

    def _insert(self, design: Design, trial: Trial, *, settled: bool = False) -> None:
        at = trial.at.timestamp()
        values = (*trial[:6], at, msgspec.json.encode(trial.measures).decode(), at if settled else None)
        with self.store.transaction() as connection:
            connection.execute(
                f"INSERT INTO experiment_sessions (experiment, {_FIELDS}, settled_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (experiment, session) DO UPDATE SET measures = excluded.measures, at = excluded.at",
                (design.name, *values),
            )

    def running_in(self, project: str, session: str = "") -> Design | None:
        """The field experiment that a session in a project takes part in, if any.

        A session that has started stays in its experiment, even if that has been completed since.
        """
        sql = "SELECT x.design FROM experiments x JOIN experiment_sessions e ON e.experiment = x.name "
        if joined := self.store.fetch(f"{sql} WHERE x.kind = 'field' AND e.session = ?", (session,)):
            return parse_design(joined[0][0])
        rows = self.store.fetch("SELECT design FROM experiments WHERE kind = 'field' AND state = 'running' ORDER BY at")
        for (text,) in rows:
            design = parse_design(text)
            if design.project in ("", project):
                if design.sessions and len(self.trials(design.name)) >= design.sessions * len(design.arms):
                    self.finish(design.name)
                    continue
                return design
        return None

    def task_type_of(self, project: str) -> str:
        """The most common task type of a project's latest sessions; empty if unknown."""
        rows = self.store.fetch(
            "SELECT decompress(p.body) FROM profiles p JOIN sessions s ON s.pk = p.session WHERE s.project = ? "
            "ORDER BY s.started_at DESC LIMIT 10",
            (project,),
        )
        types = Counter(msgspec.json.decode(body, type=_TaskType).task_type for (body,) in rows)
        return types.most_common(1)[0][0] if types else ""

    def settle(self, *, tools: Mapping[str, str] | None = None) -> int:
        """Measure the sessions of field experiments that have ended; returns how many."""
        rows = self.store.fetch(
            "SELECT e.id, s.id FROM experiment_sessions e JOIN experiments x ON x.name = e.experiment "
            "JOIN sessions s ON s.id = e.session OR s.native_id = e.session "
            "WHERE x.kind = 'field' AND (e.settled_at IS NULL OR s.ended_at > e.settled_at) ORDER BY e.at DESC LIMIT ?",
            (_MAX_OPEN,),
        )
        return sum(self._settle(trial, session, tools) for trial, session in dict(rows).items())

    def _settle(self, trial: int, session: str, tools: Mapping[str, str] | None) -> bool:
        try:
            profile = profile_of(self.store, self.store.get(session), tools=tools)
        except (SessionNotFound, StopIteration):
            return False  # another process deleted it
        except BAD_SESSION as error:
            log_skip(session, error)
            return False
        values = (msgspec.json.encode(_measures(profile)).decode(), datetime.now(UTC).timestamp(), trial)
        with self.store.transaction() as connection:
            connection.execute("UPDATE experiment_sessions SET measures = ?, settled_at = ? WHERE id = ?", values)
        return True

    def trials(self, name: str) -> list[Trial]:
        """The sessions of an experiment, oldest first; for `holdout`, those assigned by templates."""
        if name == HOLDOUT:
            return list(self._holdout_trials())
        return self._trials("experiment = ?", clean(name))

    def _trials(self, condition: str, *values: object) -> list[Trial]:
        rows = self.store.fetch(f"SELECT {_FIELDS} FROM experiment_sessions WHERE {condition} ORDER BY at, id", values)
        return [
            Trial._make((*row[:6], datetime.fromtimestamp(row[6], UTC), msgspec.json.decode(row[7]))) for row in rows
        ]

    def expertise(self) -> dict[str, int]:
        """How many sessions the user had in a project before each session, by its own id and by its agent's.

        What an agent began by itself, a subagent or the rest of a compacted session, does not count.
        """
        rows = self.store.fetch(
            "SELECT id, native_id, project, parent_kind FROM sessions WHERE project <> '' AND started_at IS NOT NULL "
            "ORDER BY started_at, id"
        )
        counts, found = Counter[str](), dict[str, int]()
        for session, native_id, project, parent_kind in rows:
            found[session] = found[native_id] = counts[project]
            counts[project] += parent_kind not in ("subagent", "compaction")
        return found

    def uses(self) -> list[dict[str, Any]]:
        """The template starts with a known outcome, to estimate the value of each policy."""
        rows = self.store.fetch(
            "SELECT arm, template, propensity, policy, outcome FROM template_uses "
            "WHERE arm IN ('warm', 'holdout') AND outcome <> '' AND template IS NOT NULL"
        )
        return [
            {"arm": arm, "template": template, "propensity": propensity, "reward": outcome == "success"}
            | {"odds": msgspec.json.decode(policy).get("odds") or {}}
            for arm, template, propensity, policy, outcome in rows
        ]

    def _holdout_design(self) -> Design:
        """The standing experiment, with the actual shares of its sessions."""
        chances = [each.propensity if each.arm == "cold" else 1 - each.propensity for each in self.trials(HOLDOUT)]
        share = sum(chances) / len(chances) if chances else 0.5
        arms = {"cold": Arm(share=share), "warm": Arm(start=("template",), share=1 - share)}
        return Design(name=HOLDOUT, kind="field", arms=arms, metric="success")

    def _holdout_trials(self) -> Iterable[Trial]:
        """The assignments of templates: the arm `warm` or `cold`, stratified by the template that was drawn."""
        rows = self.store.fetch(
            "SELECT session, arm, coalesce(template, ''), at, outcome, errors, calls, policy "
            "FROM template_uses WHERE arm IN ('warm', 'holdout') ORDER BY at, id"
        )
        for session, arm, template, at, outcome, errors, calls, policy in rows:
            chance = msgspec.json.decode(policy).get("holdout", 0)
            if not 0 < chance < 1:
                continue  # not randomized
            measures: dict[str, Sequence[float]] = {}
            if outcome:
                measures["success"] = (float(outcome == "success"), 1.0, True)
            if calls:
                measures["errors"], measures["error_count"] = (errors, calls, True), (errors, 1.0, True)
            name, chance = ("cold", chance) if arm == "holdout" else ("warm", 1 - chance)
            yield Trial(session, name, chance, template, "", "", datetime.fromtimestamp(at, UTC), measures)


def _measures(profile: Profile) -> dict[str, Any]:
    """The stored measures of a session: three numbers per metric, and which of its first calls failed."""
    failed = [int(call.outcome == "error") for call in profile.calls[:_MAX_TREND]]
    return {"failed": failed, **{name: list(measure) for name, measure in measure_all(profile).items()}}
