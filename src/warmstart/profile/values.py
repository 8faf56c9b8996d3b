"""How a session went, as frozen values.

A `Profile` is derived from a session's messages alone, so it can be thrown away and recomputed when a rule improves. It
contains no message text other than error signatures, evidence and the user's standing instructions. Its records are
named tuples because a store has hundreds of thousands of them: as JSON they are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from warmstart.sessions.values import CallOutcome, Session, SessionOutcome, ToolCall, ToolResult

Kind = Literal["code", "file", "research", "other"]  # the kind of work that a call belongs to
Role = Literal["edit", "commit", "check", "run", "read", "look", "note"]  # what a call does
TaskType = Literal["code", "file", "research", "mixed"]  # what a session is about
How = Literal["added", "removed", "changed"]
Feedback = Literal["corrective", "approving", "terse", "plain"]
Source = Literal["", "user", "reward", "commit", "check", "words"]


class Call(NamedTuple):
    """One tool call as a profile stores it: everything that corpus statistics need.

    `turn` is the number of the user request it belongs to, from 1 (0 before the first); `at` is in seconds since the
    session began, `seconds` is the duration of the call. `signature` is empty unless the outcome is `error`.
    """

    tool: str
    outcome: CallOutcome
    kind: Kind
    turn: int = 0
    at: float | None = None
    seconds: float | None = None
    model: str = ""
    signature: str = ""


class Change(NamedTuple):
    """How one argument of the successful call differs from that of the failing one.

    `what` names the argument, or the part of a shell command (a program, a flag); it never contains a value.
    """

    what: str
    how: How


class Recovery(NamedTuple):
    """A failed call and the next successful call of the same tool, at most three calls of that tool later.

    `failed` and `succeeded` are positions in `Profile.calls`; `between` are the other tools called in between.
    """

    failed: int
    succeeded: int
    tries: int
    changes: tuple[Change, ...] = ()
    between: tuple[str, ...] = ()


class DeadEnd(NamedTuple):
    """An error that recurred and was not resolved: the tool, the signature, and how often it occurred."""

    tool: str
    signature: str
    times: int


class AnyStep(Protocol):
    """A tool call with its result, annotated or not."""

    @property
    def call(self) -> ToolCall: ...
    @property
    def result(self) -> ToolResult | None: ...
    @property
    def outcome(self) -> CallOutcome: ...


class AnnotatedStep(NamedTuple):
    """A tool call with its result and everything that the rules say about it, computed once for all uses.

    `message_id` is the native id of the message that made the call. `role` is what the call does: it edits (files or
    other state), commits, checks (tests, builds, lints), runs, reads, only looks around, or only takes notes.
    `recovery` says which later call succeeded after this one failed. A result whose call is not in the log still gets a
    step, whose call has no name.
    """

    position: int
    call: ToolCall
    result: ToolResult | None
    message_id: str
    turn: int
    kind: Kind
    role: Role
    outcome: CallOutcome
    at: float | None = None
    seconds: float | None = None
    model: str = ""
    signature: str = ""
    recovery: Recovery | None = None

    @property
    def record(self) -> Call:
        """The step as a profile stores it."""
        return Call(
            self.call.name, self.outcome, self.kind, self.turn, self.at, self.seconds, self.model, self.signature
        )


class Outcome(NamedTuple):
    """How a session ended, according to evidence other than the assistant's own word.

    `source` says what the evidence is: the user's explicit verdict, a reward in the log, a commit after the last edit,
    the last test or build, or the user's closing words.
    """

    value: SessionOutcome = "unknown"
    evidence: str = ""
    source: Source = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Numbers that may distinguish a proficient session from others. `None` if a session does not have the data.

    `diversity` is the expected number of different tools among ten random calls, which does not depend on length;
    `context_share` is the largest prompt as a share of the model's context window.
    """

    messages: int = 0
    turns: int = 0
    calls: int = 0
    results: int = 0
    errors: int = 0
    rejected: int = 0
    unknown: int = 0
    error_rate: float | None = None
    early_error_rate: float | None = None
    seconds_to_success: float | None = None
    calls_to_success: int | None = None
    recovery_rate: float | None = None
    diversity: float | None = None
    repeated_calls: int = 0
    rereads: int = 0
    corrections: int = 0
    compactions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    context_share: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingStyle:
    """How the user writes. Weak evidence: a label for people to check, not a fact about them.

    `length` is the median number of words per message, `directness` the share of messages that say what to do rather
    than ask or hedge, `feedback` counts the messages after the first by style, `instructions` are standing instructions
    verbatim.
    """

    messages: int = 0
    length: float | None = None
    directness: float | None = None
    language: str = ""
    feedback: dict[Feedback, int] = field(default_factory=dict)
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one session went.

    `compactions` are positions in `calls`: a compaction happened before the call at that position.
    """

    task_type: TaskType = "mixed"
    markers: Markers = Markers()
    outcome: Outcome = field(default_factory=Outcome)
    style: WritingStyle = WritingStyle()
    calls: tuple[Call, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    dead_ends: tuple[DeadEnd, ...] = ()
    compactions: tuple[int, ...] = ()


class Profiled(NamedTuple):
    """A session with its profile."""

    session: Session
    profile: Profile


def redact_profile(profile: Profile, redact: Callable[[str], str]) -> Profile:
    """The profile with `redact` applied to every text: profiles from an unredacted store are not redacted."""
    return replace(
        profile,
        outcome=profile.outcome._replace(evidence=redact(profile.outcome.evidence)),
        style=replace(profile.style, instructions=tuple(map(redact, profile.style.instructions))),
        calls=tuple(call._replace(signature=redact(call.signature)) for call in profile.calls),
        dead_ends=tuple(end._replace(signature=redact(end.signature)) for end in profile.dead_ends),
    )
