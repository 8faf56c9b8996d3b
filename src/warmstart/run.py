"""`Run`: one live session of a host or of your own agent.

A step that fails or takes too long leaves the turn as if Warmstart were not there, and one line in the log. Each step
can be used alone. Threads may share a run, and runs in several threads may share a store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from uuid import uuid4

from warmstart.handoff.compact import compact, latest, read_message
from warmstart.handoff.constraints import Quote
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.packet import render_constraints
from warmstart.log import log_error
from warmstart.memory.lines import memory_key
from warmstart.memory.selection import memory_file
from warmstart.preflight.index import migrate
from warmstart.preflight.overlay import ONE_TURN, Policy, Preflight
from warmstart.preflight.prompt import block
from warmstart.sessions.projects import resolve_project
from warmstart.sessions.values import Message, Session, SessionOutcome, clean, session_id
from warmstart.storage.deadline import time_limit
from warmstart.templates.start import insert_brief, is_prompt, shape_of

if TYPE_CHECKING:
    from threading import RLock

    from warmstart.config import Settings
    from warmstart.experiments.store import Experiments
    from warmstart.handoff.policy import HandoffResult
    from warmstart.handoff.store import Handoffs
    from warmstart.recall.semantic import SemanticIndex
    from warmstart.redact.redactor import Redactor
    from warmstart.sessions.sql_store import SQLSessionStore
    from warmstart.templates.brief import Brief
    from warmstart.templates.rendering import Shape
    from warmstart.templates.start import Started

START_SECONDS = 1.0  # for the start of a session
MAX_START = 8_000  # characters; with an overlay below 10,000, where agents truncate a text to a preview
EXPERIMENTS = "experiments/0001_tables"  # a store without it has no experiments
AGENT = "warmstart"  # of sessions that a run records itself
_PARTS: tuple[str, ...] = ("brief", "template")  # of a start, outside of experiments

T = TypeVar("T")


class Services(Protocol):
    """What a run needs from the `Warmstart` that created it."""

    settings: Settings
    store: SQLSessionStore
    lock: RLock

    @property
    def redactor(self) -> Redactor: ...
    @property
    def memory(self) -> Any: ...
    @property
    def templates(self) -> Any: ...
    @property
    def sessions(self) -> Any: ...
    def brief(self, *, project: str, task: str, update: bool) -> Brief: ...
    @property
    def handoffs(self) -> Handoffs: ...
    @property
    def experiments(self) -> Experiments: ...
    def update(self) -> None: ...
    def local_vectors(self) -> SemanticIndex | None: ...


class Run:
    """One live session. Created by `Warmstart.begin`."""

    def __init__(
        self,
        app: Services,
        session: str,
        *,
        task: str = "",
        project: str = ".",
        messages: Sequence[Any] = (),
        tools: Sequence[Any] | None = None,
        shape: Shape | None = None,
        host: str = "",
        model: str = "",
    ) -> None:
        self.session_id = session
        self.host = host
        self._app = app
        self._task = task
        self._tools = tools
        self._shape: Shape = shape or shape_of(messages, tools or ())
        self._lock = app.lock
        self.project = self._step("project", lambda: resolve_project(project), "")
        self._session = Session(
            agent=host or AGENT, native_id=session, project=self.project, directory=project, model=model
        )
        self._ledger = Ledger(self._session, app.settings.profile_tools)
        self._recorded = 0
        self.arm = ""  # of a field experiment
        self._skips_preflight = False
        self.handoff: HandoffResult | None = None
        self.system = ""
        self.messages: list[Any] = list(messages)
        self._prompt = [message for message in messages if isinstance(message, Mapping) and is_prompt(message)]
        self._split(self._step("begin", self._start, self._with_block()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _step(self, name: str, do: Callable[[], T], otherwise: T, wait: float = -1) -> T:
        """The result of the step, or `otherwise` if it fails. `wait` is the timeout for steps in other threads."""
        is_ours = self._lock.acquire(timeout=wait)
        try:
            if not is_ours:
                raise TimeoutError("a step in another thread takes too long")
            return do()
        except Exception as error:
            log_error(self._app.settings.home, f"run {name}", error, redact=self._app.redactor.clean)
            return otherwise
        finally:
            if is_ours:
                self._lock.release()

    # -- the start

    def _split(self, messages: list[Any]) -> None:
        """Set `messages`, and `system` for Anthropic, whose messages have no system role."""
        self.messages = messages
        if self._shape == "anthropic":
            leading = [message for message in messages if message.get("role") == "system"]
            self.system = "\n\n".join(str(message["content"]) for message in leading)
            self.messages = [message for message in messages if message.get("role") != "system"]

    def _with_block(self) -> list[Any]:
        """The messages with the preflight block after the program's own system messages: always the same bytes."""
        text = "" if self._skips_preflight else block(self._app.settings.preflight_mode, self.host)
        return insert_brief(self.messages, text, "openai")

    def _start(self) -> list[Any]:
        """The messages with the block and the brief, and a template if one fits. If it fails, the brief remains."""
        if not self.project:
            return self._with_block()  # the host does not say where it works, and "" would mean all projects
        database = self._app.store.database
        with time_limit(database.connection, database.DIALECT, time.monotonic() + START_SECONDS):
            self.arm, parts = self._step("assign", self._assign, ("", _PARTS))
            brief: Brief | str = ""
            if "brief" in parts:
                brief = self._app.brief(project=self._session.directory, task=self._task, update=not self.host)
                if self.host in ONE_TURN:
                    self._step("memories", lambda: self._note_memories(str(brief)), None)
            if self.host:
                self._step("memories", self._app.memory.screen, None)
            messages = self._with_block()
            with_brief = insert_brief(messages, brief, self._shape)
            if "template" not in parts:
                return with_brief
            return self._step("template", lambda: self._with_template(messages, brief), with_brief)

    def _note_memories(self, brief: str) -> None:
        """Record which memories the brief has, so that no overlay repeats them: both are in the same message."""
        known = self._app.memory.of_project(self.project, self._task)
        lines = zip((*known.memories, *known.notes), known.entries, strict=True)
        if keys := [memory_key(entry) for line, entry in lines if line in brief]:
            self._preflight.note("brief", keys)

    def _assign(self) -> tuple[str, tuple[str, ...]]:
        """The arm of the project's field experiment, if there is one, and the parts of the start.

        The arm is stored before the session starts, balanced within the model and the project's kind of work.
        """
        if EXPERIMENTS not in self._app.store.database.applied():
            return "", _PARTS
        experiments = self._app.experiments
        design = experiments.running_in(self.project, self.session_id)
        if design is None:
            return "", _PARTS
        model = self._session.model or self._session.agent
        stratum = f"{experiments.task_type_of(self.project)} {model}".strip()
        unit = self.project if design.assign_by == "project" else ""
        trial = experiments.assign(design, self.session_id, stratum=stratum, unit=unit)
        arm = design.arm(trial.arm)
        self._skips_preflight = arm.preflight is False
        return trial.arm, arm.start

    def _with_template(self, messages: list[Any], brief: Brief | str) -> list[Any]:
        options: dict[str, Any] = {"shape": self._shape}
        if self.host:
            options["renderer"] = "system"
        if self.arm:
            options["holdout"] = 0.0  # the experiment has already decided
        started: Started = self._app.templates.start(
            self.session_id,
            messages,
            project=self.project,
            task=self._task,
            tools=self._tools,
            agent=self._session.agent,
            brief=brief,
            **options,
        )
        return started.messages

    @property
    def start_text(self) -> str:
        """The start as one text, for hosts that take no messages: the preflight block, the brief, the template."""
        return self._step("start", self._start_text, "")

    def _start_text(self) -> str:
        texts = [self.system] if self.system else []
        for message in self.messages:
            content = message.get("content")
            texts += [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content or ()]
        while sum(map(len, texts)) + 2 * len(texts) > MAX_START:
            texts.pop()  # first the template, then the brief, then the block
        return "\n\n".join(filter(None, texts))

    # -- turns

    @cached_property
    def _preflight(self) -> Preflight:
        settings = self._app.settings
        policy = Policy(settings, memory_file(settings), default="smart" if self.host else "off")
        database = self._app.store.database
        migrate(self._app.store)
        return Preflight(
            database.connection,
            database.DIALECT,
            session=self.session_id,
            project=self.project,
            host=self.host,
            policy=policy,
            semantic=self._app.local_vectors(),
        )

    def before_turn(self, message: str) -> str | None:
        """What earlier sessions know about the user's message, to add to this request and to nothing else."""
        if self._skips_preflight:
            return None
        wait = self._app.settings.preflight_deadline_ms / 1000
        return self._step("before_turn", lambda: self._preflight.before_turn(clean(message)).text or None, None, wait)

    def after_tool(self, tool: str, arguments: str | Mapping[str, Any], output: str) -> str | None:
        """For a failed call: what worked instead in an earlier session, if known."""
        if self._skips_preflight:
            return None
        return self._step("after_tool", lambda: self._preflight.after_tool(tool, arguments, output), None)

    def after_compaction(self, messages: Sequence[tuple[str, str, str]] = ()) -> str:
        """What to repeat after a compaction: the user's constraints, verbatim.

        `messages` are the (role, text, id) of the conversation, for hosts that do not `record` it.
        """
        return self._step("after_compaction", lambda: self._after_compaction(messages), "")

    def _after_compaction(self, messages: Sequence[tuple[str, str, str]]) -> str:
        for role, text, message_id in messages:
            text = self._app.redactor.clean(text)
            self._ledger.add(Message(native_id=message_id, role="user" if role == "user" else "assistant", text=text))
        self._preflight.note("compaction")
        return render_constraints(self._ledger, self._app.redactor)

    def fit(self, messages: Sequence[Any], *, budget_tokens: int, strategy: str = "mask") -> list[Any]:
        """The messages compacted to a budget; messages that fit are returned unchanged.

        After too many compactions the session is handed over, if the settings say so: the messages are then those of a
        fresh session, whose id is `session_id` from then on. `handoff` has the result.
        """
        return self._step("fit", lambda: self._fit(messages, budget_tokens, strategy), list(messages))

    def _fit(self, messages: Sequence[Any], budget_tokens: int, strategy: str) -> list[Any]:
        from warmstart.handoff.policy import AutoHandoff

        ledger, own = self._ledger, session_id(self._session.agent, self._session.native_id)
        options: dict[str, Any] = {"ledger": ledger, "session": own, "redactor": self._app.redactor}
        done = compact(messages, budget_tokens=budget_tokens, strategy=strategy, **options)
        if done.report.tokens_before <= budget_tokens:
            return done.messages
        if self._recorded:
            self._step("compressed", lambda: self._app.handoffs.compressed(own), None)
        if not self._app.settings.handoff_enabled:
            return done.messages
        policy = AutoHandoff(self._app.handoffs, self._app.settings)
        name, _, number = self.session_id.rpartition("+")
        child_id = f"{name}+{int(number) + 1}" if name and number.isdigit() else f"{self.session_id}+1"
        self.handoff = policy.after_compression(ledger, child_id=child_id)
        if not self.handoff.child or not self.handoff.packet:
            return done.messages
        self._session, self.session_id, self._recorded = self.handoff.child, child_id, 0
        ledger.continue_in(self._session)
        system = [one for one in messages if one.get("role") in ("system", "developer")]
        talk = [one for one in messages if one.get("role") not in ("system", "developer")]
        return [*system, *self.handoff.packet.messages, *latest(talk)]

    @property
    def constraints(self) -> tuple[Quote, ...]:
        """The user's constraints (must, must not, only), verbatim."""
        return self._ledger.constraints

    # -- the record

    def record(self, message: Message | Mapping[str, Any]) -> None:
        """Store a message of the session; the first one creates it. Secrets are replaced first."""
        self._step("record", lambda: self._record(message), None)

    def _record(self, recorded: Message | Mapping[str, Any]) -> None:
        from warmstart.sessions.redaction import redacted_messages, redacted_session

        self._recorded += 1
        # A resumed session, perhaps in another process, must not reuse the ids of its earlier messages.
        new_id = f"{self.session_id}#{uuid4().hex}"
        message = recorded if isinstance(recorded, Message) else read_message(recorded, new_id)
        if message is None:
            return
        now = datetime.now(UTC)
        message = replace(message, timestamp=message.timestamp or now)
        self._session = replace(self._session, started_at=self._session.started_at or now, ended_at=now)
        redactor = self._app.redactor
        new = [*self._prompt_messages(), message] if self._recorded == 1 else [message]
        cleaned = list(redacted_messages(new, redactor))
        self._ledger.extend(cleaned)
        self._app.store.append(redacted_session(self._session, redactor), cleaned)

    def _prompt_messages(self) -> list[Message]:
        """The program's system messages, under ids that stay the same when the session is resumed."""
        ids = (f"{self.session_id}#system-{number}" for number in range(len(self._prompt)))
        read = (read_message(message, id_) for message, id_ in zip(self._prompt, ids, strict=True))
        return [message for message in read if message is not None]

    def end(self, outcome: SessionOutcome | None = None) -> None:
        """Close the session: record its outcome, profile it, and settle its template. Safe to call twice."""
        self._step("end", lambda: self._end(outcome), None)

    def _end(self, outcome: SessionOutcome | None) -> None:
        from warmstart.templates.audit import settle

        if not self._recorded:
            return
        own = session_id(self._session.agent, self._session.native_id)
        if outcome:
            self._app.sessions.set_outcome(own, outcome)
        self._app.update()
        settle(self._app.templates.store, tools=self._app.settings.profile_tools)
        if self.arm:
            self._app.experiments.settle(tools=self._app.settings.profile_tools)
