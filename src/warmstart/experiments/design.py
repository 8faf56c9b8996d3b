"""The design of an experiment, one TOML file: tasks, arms, model, metric, smallest effect of interest, power, seed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from warmstart.errors import ExperimentError
from warmstart.experiments.metrics import DEFAULT_METRIC, metric_of
from warmstart.experiments.statistics import DEFAULT_ICC, Power, plan

# The parts of a start. `template` is the whole template; single kinds of its items can be shown alone.
KINDS = {
    "examples": "example",
    "traps": "trap",
    "commands": "command",
    "instructions": "instruction",
    "files": "file",
}
Part = Literal["brief", "template", "placebo", "examples", "traps", "commands", "instructions", "files"]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
_EXAMPLE = Path(__file__).with_name("example.toml")
_POWER_LINE = "power = {baseline = 0.09, effect = 0.033, icc = 0.05, calls = 30}"


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the sessions of an arm start and run. Without any part they start cold.

    `examples` limits how many are shown, `template` overrides that of the experiment. In the lab, `compaction` and
    `preflight` need the agent `loop`; in the field only `brief` and `template` are possible, and the template is the
    one that fits the session.
    """

    start: tuple[Part, ...] = ()
    examples: Natural | None = None
    template: str = ""
    preflight: bool | None = None
    compaction: Literal["", "mask", "ledger", "hybrid"] = ""
    share: Positive = 1.0


class PowerLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect that an experiment should be able to detect, on a rate of `baseline`."""

    baseline: float
    effect: float
    icc: float = DEFAULT_ICC
    calls: float = 30


class Design(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experiment. `tasks` is an Inspect task: `file.py@name`, or `module:name`.

    With `aa`, every arm starts like the baseline, so that any difference is an artifact of the experiment. In the
    field, sessions are assigned by `session`, or by `project` if memory carries over from one to the next, until each
    arm has `sessions`.
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
        """The arm that the others are compared with: the named one, or `cold`, or the first in the file."""
        return self.baseline or ("cold" if "cold" in self.arms else next(iter(self.arms)))

    def arm(self, name: str) -> Arm:
        """How the sessions of an arm start; in A/A mode all start like the baseline."""
        return self.arms[self.first_arm if self.aa else name]

    def plan(self, sessions: int) -> Power:
        """What this many sessions per arm can and cannot detect."""
        fields = msgspec.structs.asdict(self.power) if self.power else {}
        return plan(**fields, sessions=max(2, sessions), higher_is_better=not metric_of(self.metric).lower_is_better)


def example(name: str) -> str:
    """The text of an example design."""
    return _EXAMPLE.read_text(encoding="utf-8").replace("NAME", name)


def parse_design(text: str, *, where: str = "the design") -> Design:
    """Parse a design. Raises `ExperimentError` with all its problems."""
    try:
        design = msgspec.convert(tomllib.loads(text), Design)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        hint = f"; the parts of a start are {', '.join(get_args(Part))}" if ".start" in str(error) else ""
        raise ExperimentError(f"{where}: {error}{hint}") from error
    problems = _problems(design)
    if problems:
        raise ExperimentError(f"{where}: {'; '.join(problems)}")
    return design


def _problems(design: Design) -> list[str]:
    problems = []
    if len(design.arms) < 2:
        problems.append("at least two arms are needed")
    if design.baseline and design.baseline not in design.arms:
        problems.append(f"the baseline {design.baseline!r} is not one of the arms")
    if design.kind == "lab" and not (design.tasks and design.model):
        problems.append("a lab experiment needs tasks and a model")
    if design.power is None:
        problems.append(f"add a line with the effect that the experiment should detect, such as {_POWER_LINE}")
    metric_of(design.metric)
    for name, arm in design.arms.items():
        problems += [f"arm {name!r}: {problem}" for problem in _arm_problems(design, arm)]
    return problems


def _arm_problems(design: Design, arm: Arm) -> list[str]:
    problems = []
    if design.kind == "field" and (set(arm.start) - {"brief", "template"} or arm.examples or arm.compaction):
        problems.append("a field experiment can only start with brief and template")
    if set(arm.start) - {"brief"} and design.kind == "lab" and not (arm.template or design.template):
        problems.append("name the template that it starts from")
    if "placebo" in arm.start and not design.placebo:
        problems.append("name a template from unrelated work with placebo = NAME")
    if (arm.compaction or arm.preflight) and design.kind == "lab" and design.agent != "loop":
        problems.append('compaction and preflight need agent = "loop"')
    return problems
