"""An experiment as one readable TOML file: tasks, arms, model, metric, smallest effect of interest, power, seed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from warmstart.errors import ExperimentError
from warmstart.experiments.metrics import DEFAULT_METRIC, metric_of
from warmstart.experiments.power import DEFAULT_ICC, Power, plan

# What a start can be made of. `template` is all of the template; its kinds of items can be shown alone.
KINDS = {
    "procedures": "procedure",
    "traps": "trap",
    "commands": "command",
    "instructions": "instruction",
    "files": "file",
}
Part = Literal["brief", "template", "placebo", "procedures", "traps", "commands", "instructions", "files"]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
_EXAMPLE = Path(__file__).with_name("example.toml")
_POWER_LINE = "power = {baseline = 0.09, effect = 0.033, icc = 0.05, calls = 30}"


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How sessions of an arm start and go on. Without any part they start cold.

    `procedures` limits how many are shown, `template` overrides that of the experiment. In the lab, `compaction` and
    `preflight` need the agent `loop`; in the field a session starts with `brief` and `template`, which is the one that
    fits.
    """

    start: tuple[Part, ...] = ()
    procedures: Natural | None = None
    template: str = ""
    preflight: bool | None = None
    compaction: Literal["", "mask", "ledger", "hybrid"] = ""
    share: Positive = 1.0


class PowerLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect that an experiment is meant to see, on a rate of `baseline`."""

    baseline: float
    effect: float
    icc: float = DEFAULT_ICC
    calls: float = 30


class Design(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experiment. `tasks` is an Inspect task: `file.py@name`, or `module:name`.

    With `aa`, every arm starts as the first one, so that any difference is the experiment's own. In the field,
    sessions are assigned by `session`, or by `project` where memory carries over from one to the next, until each arm
    has `sessions`.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$")]
    arms: dict[str, Arm]
    power: PowerLine | None = None
    kind: Literal["lab", "field"] = "lab"
    tasks: str = ""
    model: str = ""
    model_args: dict[str, Any] = {}
    agent: Literal["task", "loop"] = "task"
    max_turns: Natural = 30
    context_tokens: Natural = 0
    epochs: Annotated[int, Meta(ge=1)] = 1
    metric: str = DEFAULT_METRIC
    smallest_effect: Annotated[float, Meta(ge=0)] = 0.0
    seed: int = 0
    baseline: str = ""
    template: str = ""
    placebo: str = ""
    project: str = ""
    assign_by: Literal["session", "project"] = "session"
    sessions: Natural = 0
    aa: bool = False

    @property
    def first_arm(self) -> str:
        """The arm that the others are compared with: the one that is named, or `cold`, or the first in the file."""
        return self.baseline or ("cold" if "cold" in self.arms else next(iter(self.arms)))

    def arm(self, name: str) -> Arm:
        """How sessions of an arm start: in A/A mode all as the baseline."""
        return self.arms[self.first_arm if self.aa else name]

    def plan(self, sessions: int) -> Power:
        """What this many sessions an arm can and cannot see."""
        given = msgspec.structs.asdict(self.power) if self.power else {}
        return plan(**given, sessions=max(2, sessions), higher_is_better=not metric_of(self.metric).lower_is_better)


def example(name: str) -> str:
    """The text of a design to start from."""
    return _EXAMPLE.read_text(encoding="utf-8").replace("NAME", name)


def parse_design(text: str, *, where: str = "the design") -> Design:
    """The design in a text. Raises `ExperimentError` with all that is wrong with it."""
    try:
        design = msgspec.convert(tomllib.loads(text), Design)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        hint = f"; a start has {', '.join(get_args(Part))}" if ".start" in str(error) else ""
        raise ExperimentError(f"{where}: {error}{hint}") from error
    problems = _problems(design)
    if problems:
        raise ExperimentError(f"{where}: {'; '.join(problems)}")
    return design


def _problems(design: Design) -> list[str]:
    found = []
    if len(design.arms) < 2:
        found.append("at least two arms are needed")
    if design.baseline and design.baseline not in design.arms:
        found.append(f"there is no arm {design.baseline!r} to be the baseline")
    if design.kind == "lab" and not (design.tasks and design.model):
        found.append("a lab experiment needs tasks and a model")
    if design.power is None:
        found.append(f"a power line is needed, which says what the experiment should be able to see: {_POWER_LINE}")
    metric_of(design.metric)
    for name, arm in design.arms.items():
        found += [f"arm {name!r}: {problem}" for problem in _arm_problems(design, arm)]
    return found


def _arm_problems(design: Design, arm: Arm) -> list[str]:
    found = []
    if design.kind == "field" and (set(arm.start) - {"brief", "template"} or arm.procedures or arm.compaction):
        found.append("in the field a start has brief and template only")
    if set(arm.start) - {"brief"} and design.kind == "lab" and not (arm.template or design.template):
        found.append("name the template that it starts from")
    if "placebo" in arm.start and not design.placebo:
        found.append("name a template of unrelated work with placebo = NAME")
    if (arm.compaction or arm.preflight) and design.kind == "lab" and design.agent != "loop":
        found.append('compaction and preflight need agent = "loop"')
    return found
