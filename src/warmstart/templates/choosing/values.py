"""What a choice came to, as frozen values that know nothing of storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from warmstart.templates.choosing.filters import ChangedTool
from warmstart.templates.values import State

Arm = Literal["warm", "holdout", "abstained"]
Told = Literal["success", "failure"]

MIN_CALLS = 5  # of a session that a template is made of unasked
MAX_ERROR_RATE = 0.1

_FAIR, _HIGH = 0.5, 0.8


class Policy(NamedTuple):
    """How templates are chosen: the share of sessions that start cold, the share of chance, how sure it has to be."""

    holdout: float = 0.10
    explore: float = 0.10
    surely: float = 0.30


DEFAULT = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A template that fits a task: how sure that is, from 0 to 1, and why.

    `similarity` is how near it is to the task, `utility` how much more often than a cold start it succeeds;
    `task` is the sub-task of it that is nearest, if one is.
    """

    id: str
    name: str
    version: int
    state: State
    sure: float
    similarity: float
    utility: float
    why: str
    description: str = ""
    task: str = ""

    @property
    def confidence(self) -> Literal["low", "fair", "high"]:
        """How sure in a word."""
        return "high" if self.sure >= _HIGH else "fair" if self.sure >= _FAIR else "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a session is to start with, and why.

    `template` is what it starts from, or in the arm `holdout` would have started from; `propensity` is the probability
    with which just this arm and template come out. `odds` are the probabilities of the templates before the holdout is
    taken off; what they leave is the probability to abstain. `policy` says by which rules all of that was.
    """

    arm: Arm
    template: Suggestion | None
    why: str
    propensity: float
    odds: Mapping[str, float] = field(default_factory=dict)
    changed: tuple[ChangedTool, ...] = ()
    policy: Policy = DEFAULT

    @property
    def sure(self) -> float:
        """How sure the choice is; 0 where there is none."""
        return self.template.sure if self.template else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One line of the audit: how a session started and what came of it.

    `session` is the id that the host gave. `items` are the ids of what was injected. `outcome` is empty while it is not
    known; `errors` and `calls` are those of the session.
    """

    id: int
    session: str
    arm: Arm
    at: datetime
    project: str = ""
    agent: str = ""
    template: str = ""
    version: int = 0
    task: str = ""
    why: str = ""
    propensity: float = 1.0
    tokens: int = 0
    items: tuple[str, ...] = ()
    outcome: Literal["", "success", "failure"] = ""
    errors: int | None = None
    calls: int | None = None
    policy: Mapping[str, object] = field(default_factory=dict)
