"""The ledger: what must survive a compaction, kept up message by message, by rules alone.

It has what was done (files, commands, the last tests and builds, to-dos), what was said (requests, constraints,
decisions, refusals, what was withdrawn), what went wrong and what helped, and exact identifiers. What is quoted names
its message. Calls are read as `profile` annotates them. Add redacted messages: a secret that is cut in half cannot be
found any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b, sha256
from typing import Any, Literal, NamedTuple

from warmstart.handoff.constraints import Constraint, ConstraintLedger, find_sentences
from warmstart.handoff.files import FileOperation, Operation, file_operations, relative_to
from warmstart.profile.feedback import agrees, is_request, own_words
from warmstart.profile.outcome import CheckResult, WorkState, follow_step
from warmstart.profile.profiler import Profiler
from warmstart.profile.recoveries import describe_recovery, find_recoveries
from warmstart.profile.signatures import error_signature
from warmstart.profile.tools import SHELLS, agent_tools, check_of, command_in, fields_of, path_in
from warmstart.profile.values import AnnotatedStep, Recovery, Role
from warmstart.sessions.marks import is_marked_call, without_ours
from warmstart.sessions.values import CallOutcome, Message, Session, Step, ToolCall, ToolResult
from warmstart.templates.item import Call, Item, Source
from warmstart.text.shell import parse_commands
from warmstart.text.truncate import one_line, truncate
from warmstart.text.words import topic_terms

MAX_COMMAND = 160  # characters of a command that are shown

_MAX_READ = 500  # characters of a message, a command or its output in which identifiers are looked for
_MAX_GO_AHEAD = 3  # words of a message that only agrees
_MAX_WITHDRAWAL = 12  # words of a message that only takes the last request back
_WITHDRAWALS = "stop undo revert roll back never mind cancel abort forget scrap drop please actually wait"
_MAX_REFUSAL = 5  # lines of what the user says when they refuse a call
_SAID = re.compile(r"the user said:\s*(\S.*)", re.DOTALL)
_ANSWER = re.compile(r'"([^"\n]{4,300})"\s*=\s*"([^"\n]{1,300})"')
_COMMIT = re.compile(r"^\[([^\]\s]{1,100})(?: \([^)]*\))? ([0-9a-f]{7,40})\] ", re.MULTILINE)
_TASK = re.compile(r"#(\d+)")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?.*", re.DOTALL)
_IDENTIFIER = re.compile(
    r"https?://[^\s<>\"'`)\]\\]{4,200}"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|(?<![\w&])#\d{1,6}\b"
    r"|\b(?!UTF|SHA|ISO|MD)[A-Z]{2,8}-\d{1,6}\b"
    r"|(?<![\w./-])v?\d{1,4}\.\d{1,4}\.\d{1,5}(?:-[\w.]{1,20})?\b(?!\.\d)"
    r"|\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):\d{2,5}\b|\bport \d{2,5}\b"
)
_NEW_BRANCH = {"checkout": ("-b", "-B"), "switch": ("-c", "-C", "--create"), "worktree": ("-b", "-B")}
_DONE = frozenset(("completed", "complete", "done", "cancelled", "canceled", "deleted"))
_TODO_TEXT = ("content", "step", "subject", "description", "title", "text")

DecisionKind = Literal["decision", "answer", "approval", "rejected", "refusal"]


@dataclass(slots=True)
class File:
    """A file and what was done with it. `digest` is the start of the SHA-256 of its content, where that is known."""

    path: str
    operation: Operation
    turn: int
    edits: int = 0
    is_new: bool = False
    was_read: bool = False
    digest: str = ""


@dataclass(slots=True)
class CommandRun:
    """A shell command: how often it was run, and how it ended the last time."""

    text: str
    role: Role
    count: int = 0
    exit_code: int | None = None
    outcome: CallOutcome = "unknown"
    turn: int = 0
    message_id: str = ""

    @property
    def status(self) -> str:
        """The exit status in words."""
        if self.exit_code is not None:
            return f"exit {self.exit_code}"
        return {"ok": "ok", "error": "failed", "rejected": "refused by the user"}.get(self.outcome, "unknown")


class Request(NamedTuple):
    """What the user wrote, verbatim; `words` leaves out what was pasted."""

    message_id: str
    text: str
    words: str


class Decision(NamedTuple):
    """What the user decided, answered, approved, or turned down, quoted."""

    kind: DecisionKind
    text: str
    message_id: str


class Failure(NamedTuple):
    """An error: its signature, the call that failed, and the call that worked after it; empty if none did."""

    tool: str
    error: str
    failed: str
    fix: str
    message_id: str


@dataclass(slots=True)
class Check:
    """The last test or build of a kind; `outdated` after a later edit."""

    result: CheckResult
    turn: int
    message_id: str
    outdated: bool = False


@dataclass(slots=True)
class Ledger:
    """What a session must not lose. Add its messages in order."""

    session: Session
    tools: Mapping[str, str] | None = None
    messages: int = 0
    turn: int = 0
    files: dict[str, File] = field(default_factory=dict)
    commands: dict[str, CommandRun] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    todos: dict[str, tuple[str, str]] = field(default_factory=dict)  # id to text and status
    requests: list[Request] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    withdrawn: list[Request] = field(default_factory=list)
    identifiers: dict[str, str] = field(default_factory=dict)  # to the message that has it
    steps: list[AnnotatedStep] = field(default_factory=list)  # only errors with their results
    numbers: dict[str, tuple[str, int]] = field(default_factory=dict)  # message to its session and its number there
    last: Message | None = None
    model: str = ""
    _rules: ConstraintLedger = field(default_factory=ConstraintLedger)
    _refusals: dict[str, Constraint] = field(default_factory=dict)
    _profiler: Profiler = field(init=False)
    _state: WorkState = field(init=False)
    _roots: tuple[str, ...] = field(init=False)
    _waiting: dict[str, tuple[ToolCall, str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._profiler = Profiler(self.tools)
        places = (self.session.directory, self.session.project)
        self._roots = tuple(dict.fromkeys(one.replace("\\", "/").rstrip("/") for one in places if one))
        self._state = WorkState(self.root)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The user's constraints in the order in which they were first stated, then what the user refused."""
        return (*self._rules.constraints, *self._refusals.values())

    def add(self, message: Message) -> None:
        """Take note of a message. What Warmstart itself put into the conversation does not count."""
        self.messages += 1
        self.numbers[message.native_id] = (self.session.id, self.messages)
        self.model = message.model or self.model
        if message.timestamp or self.last is None:
            self.last = message
        if message.role in ("user", "system") and message.text:
            self._add_words(message)
        for result in message.tool_results:
            call = self._waiting.pop(result.call_id, None)
            if call:
                self._add_step(call[0], result, call[1], call[2])
        for each in message.tool_calls:
            if not is_marked_call(each.id):
                self._waiting[each.id] = (each, message.native_id, self.turn)

    def extend(self, messages: Iterable[Message]) -> Ledger:
        """Add messages in order; returns the ledger."""
        for message in messages:
            self.add(message)
        return self

    def continue_in(self, session: Session) -> None:
        """The messages that follow belong to another session, which continues this one."""
        self.session, self.messages = session, 0

    def reference(self, message_id: str) -> str:
        """The number of a message, with its session if that is an earlier one."""
        session, number = self.numbers.get(message_id, ("", 0))
        return f"{'' if session == self.session.id else session}#{number}" if number else ""

    @property
    def root(self) -> str:
        """The folder that the paths of files are relative to; empty if it is not known."""
        return self._roots[0] if self._roots else ""

    # -- what was said

    def _add_words(self, message: Message) -> None:
        if message.role == "system":
            # The prompt of a coding agent is in its next session too; that of an agent of one's own holds policies.
            if self.session.agent not in agent_tools():
                self._rules.add("user", message.text, message.native_id)
            return
        if message.sidechain or not is_request(message):
            return
        text = without_ours(message.text).strip()
        words = own_words(replace(message, text=text)) if text else ""
        if not words:
            return
        self.turn += 1
        self._rules.add("user", text, message.native_id)
        request = Request(message.native_id, text, words)
        found = find_sentences(words)
        if any(kind == "withdrawal" for kind, _ in found):
            self.withdrawn.append(request)
            if len(words.split()) <= _MAX_WITHDRAWAL:
                self.withdrawn += self._withdrawn_by(words)
        self.requests.append(request)
        decisions: tuple[DecisionKind, ...] = ("decision", "approval")
        self.decisions += [
            Decision(kind, text, message.native_id) for name, text in found for kind in decisions if kind == name
        ]
        self._add_identifiers(words, message.native_id)

    def _withdrawn_by(self, words: str) -> list[Request]:
        """The request that a message takes back: the last one that it shares a word with, or else the last one."""
        about = {*topic_terms(words)} - {*topic_terms(_WITHDRAWALS)}
        alike = (one for one in reversed(self.requests) if not about or not about.isdisjoint(topic_terms(one.words)))
        return [one for one in (next(alike, None),) if one]

    def _add_identifiers(self, text: str, message_id: str) -> None:
        for found in _IDENTIFIER.findall(text[:_MAX_READ]):
            self._add_identifier(found.rstrip(".,;:"), message_id)

    def _add_identifier(self, text: str, message_id: str) -> None:
        self.identifiers.pop(text, None)  # the most recent come last
        self.identifiers[text] = message_id

    @property
    def latest_request(self) -> Request | None:
        """The latest request that is more than a go-ahead and was not withdrawn."""
        open_requests = [one for one in self.requests if one not in self.withdrawn]
        return next((one for one in reversed(open_requests) if not is_go_ahead(one)), None)

    # -- what was done

    def _add_step(self, call: ToolCall, result: ToolResult, message_id: str, turn: int) -> None:
        step = self._profiler.annotate(
            self.session.agent, Step(call, result, None), message_id, turn, len(self.steps), signature=False
        )
        self.steps.append(step if step.outcome == "error" else step._replace(result=None))
        if step.outcome == "rejected":
            self._add_refusal(step, result.text)
            return
        for operation in file_operations(step, self.root):
            self._add_file(operation, step)
        if call.name in SHELLS:
            self._add_command(step, result)
        elif step.role == "note" and step.outcome != "error":
            self._add_note(step, result.text)
        self._follow_checks(step)

    def _add_refusal(self, step: AnnotatedStep, text: str) -> None:
        said = _SAID.search(text)
        if said:
            for line in filter(None, map(str.strip, said[1].splitlines()[:_MAX_REFUSAL])):
                self._refusals[line] = Constraint(truncate(line, 600), step.message_id, "refusal")
        self.decisions.append(Decision("refusal", shown_call(step.call), step.message_id))

    def _add_file(self, done: FileOperation, step: AnnotatedStep) -> None:
        path = relative_to(done.path, self.root)
        if done.folder:
            for known in self.files.values():
                if known.path.startswith(f"{path}/"):
                    known.operation, known.turn, known.digest = "deleted", step.turn, ""
            return
        file = self.files.get(path)
        if file is None:
            file = self.files[path] = File(path, done.operation, step.turn, is_new=done.operation == "written")
        if done.operation == "read":
            file.was_read = True
            return
        file.turn, file.digest = step.turn, ""
        file.is_new = file.is_new or done.operation == "created"
        file.operation = "deleted" if done.operation == "deleted" else "created" if file.is_new else "changed"
        file.edits += 1
        content = fields_of(step.call.arguments).get("content") if done.operation in ("created", "written") else None
        if isinstance(content, str) and "[redacted:" not in content:
            file.digest = sha256(content.encode(errors="replace")).hexdigest()[:12]

    def _add_command(self, step: AnnotatedStep, result: ToolResult) -> None:
        text = command_in(step.call.arguments)
        shown = shown_command(text, self._roots)
        run = self.commands.pop(shown, None) or CommandRun(shown, step.role)
        self.commands[shown] = run  # the most recent come last
        run.count += 1
        run.exit_code, run.outcome = result.exit_code, step.outcome
        run.turn, run.message_id = step.turn, step.message_id
        self._add_identifiers(text, step.message_id)
        if "git" in text:
            for branch, commit in _COMMIT.findall(result.text[:_MAX_READ]):
                self._add_identifier(f"commit {commit} on {branch}", step.message_id)
            for branch in _new_branches(text) if step.outcome == "ok" else ():
                self._add_identifier(f"branch {branch}", step.message_id)

    def _follow_checks(self, step: AnnotatedStep) -> None:
        state = self._state
        before, edited = dict(state.checks), state.edited
        follow_step(state, step.position + 1, step)
        for kind, result in state.checks.items():
            if before.get(kind) != result:
                self.checks[kind] = Check(result, step.turn, step.message_id)
        if state.edited != edited:
            for check in self.checks.values():
                check.outdated = check.result.place < state.edited

    def _add_note(self, step: AnnotatedStep, output: str) -> None:
        """A to-do list, a question to the user, or something else that an agent says to itself."""
        fields = fields_of(step.call.arguments)
        name = step.call.name.lower()
        rows = fields.get("todos") or fields.get("plan") or fields.get("items")
        if isinstance(rows, list):
            if not fields.get("merge"):
                self.todos.clear()
            for number, row in enumerate(rows):
                if isinstance(row, dict) and (text := _first_text(row)):
                    self.todos[str(row.get("id") or number)] = (text, str(row.get("status") or "pending"))
        elif name == "taskcreate" and (text := _first_text(fields)):
            task = _TASK.search(output)
            self.todos[task[1] if task else str(len(self.todos) + 1)] = (text, "pending")
        elif name == "taskupdate":
            task_id = str(fields.get("taskId") or "")
            text, status = self.todos.get(task_id, ("", ""))
            if text:
                self.todos[task_id] = (_first_text(fields) or text, str(fields.get("status") or status))
        elif "question" in name or "ask_user" in name:
            self._add_answers(fields, output, step.message_id)

    def _add_answers(self, fields: Mapping[str, Any], output: str, message_id: str) -> None:
        answers = dict(_ANSWER.findall(output[:4_000]))
        questions = fields.get("questions")
        for one in questions if isinstance(questions, list) else ():
            question = str(one.get("question", "")) if isinstance(one, dict) else ""
            if question not in answers:
                continue
            answer = answers[question]
            self.decisions.append(Decision("answer", f"{one_line(question, 200)} — {answer}", message_id))
            labels = [str(option.get("label", "")) for option in one.get("options") or () if isinstance(option, dict)]
            if rejected := [label for label in labels if label and label not in answer]:
                self.decisions.append(Decision("rejected", ", ".join(rejected), message_id))

    @property
    def open_todos(self) -> list[tuple[str, str]]:
        """The to-dos that are not done, each with its status."""
        return [(text, status) for text, status in self.todos.values() if status.lower() not in _DONE]

    # -- what went wrong, and what helped

    def failures(self) -> list[Failure]:
        """The errors, each with the call that worked instead, or without one if it is not resolved."""
        recovered = {one.failed: one for one in find_recoveries(self.steps)}
        found: dict[tuple[str, str], Failure] = {}
        for step in self.steps:
            if step.outcome != "error" or not step.result:
                continue
            error = error_signature(step.call.name, step.result.text, arguments=step.call.arguments)
            if not error or error.endswith("no output"):
                continue  # `grep` that finds nothing is no error
            recovery = recovered.get(step.position)
            fix = self._fix(step, recovery) if recovery else ""
            if recovery and not fix:
                continue  # the next call of the tool was about something else
            if not fix and self._worked_later(step):
                continue
            call = shown_call(step.call)
            found.pop((call, error), None)
            found[call, error] = Failure(step.call.name, error, call, fix, step.message_id)
        return list(found.values())

    def _fix(self, step: AnnotatedStep, recovery: Recovery) -> str:
        """The call that worked, if it is another one for the same purpose."""
        worked = self.steps[recovery.succeeded].call
        failed, fixed = shown_call(step.call), shown_call(worked)
        if step.call.name not in SHELLS:
            return describe_recovery(recovery) if path_in(step.call.arguments) == path_in(worked.arguments) else ""
        same = _purposes(command_in(step.call.arguments)) & _purposes(command_in(worked.arguments))
        return fixed if same and failed != fixed else ""

    def _worked_later(self, step: AnnotatedStep) -> bool:
        call = step.call
        if call.name in SHELLS:
            run = self.commands.get(shown_command(command_in(call.arguments), self._roots))
            return run is None or run.outcome == "ok"
        path = path_in(call.arguments)
        later = (one for one in self.steps[step.position + 1 :] if one.call.name == call.name and one.outcome == "ok")
        return any(path == path_in(one.call.arguments) for one in later)

    def items(self) -> tuple[Item, ...]:
        """What worked in this session, as templates carry it: commands that check the project, and traps."""
        source = (Source(self.session.id),)
        commands = (
            Item(kind="command", text=run.text, tool=run.role, count=run.count, worked=1, sources=source)
            for run in self.commands.values()
            if run.role in ("check", "commit") and run.outcome == "ok" and _is_check(run.text)
        )
        traps = (
            Item(
                kind="trap", text=one.error, calls=(Call(one.tool, one.failed), Call(one.tool, one.fix)), sources=source
            )
            for one in self.failures()
            if one.fix
        )
        return (*commands, *traps)

    def digest(self) -> str:
        """A hash of the whole ledger; it changes when anything in it does."""
        parts = (
            [(file.path, file.operation, file.edits) for file in self.files.values()],
            [(run.text, run.count, run.status) for run in self.commands.values()],
            [request.text for request in self.requests],
            [constraint.text for constraint in self.constraints],
            [*self.todos.values()],
            len(self.steps),
        )
        return blake2b(repr(parts).encode(errors="replace"), digest_size=16).hexdigest()


def build_ledger(session: Session, messages: Iterable[Message], tools: Mapping[str, str] | None = None) -> Ledger:
    """The ledger of a whole session. `tools` is the user's own table of what tools are for."""
    return Ledger(session, tools).extend(messages)


def is_go_ahead(request: Request) -> bool:
    """Whether a message only agrees."""
    return len(request.words.split()) <= _MAX_GO_AHEAD and agrees(request.words)


def shown_command(text: str, roots: Iterable[str] = ()) -> str:
    """A shell command on one line, without the `cd` into the project and without the text it is fed."""
    for root in roots:
        text = text.removeprefix(f"cd {root} && ")
    return one_line(_HEREDOC.sub(r"<<\1 …", text) if "<<" in text else text, MAX_COMMAND)


def shown_call(call: ToolCall) -> str:
    """A call on one line: a shell command, or the tool with its file or its arguments."""
    if call.name in SHELLS:
        return shown_command(command_in(call.arguments))
    return one_line(f"{call.name} {path_in(call.arguments) or call.arguments}", MAX_COMMAND)


def _first_text(row: Mapping[str, Any]) -> str:
    return next((one_line(row[name], 200) for name in _TODO_TEXT if isinstance(row.get(name), str) and row[name]), "")


def _purposes(text: str) -> set[str]:
    """What a shell command is for: its programs, each with its check or its first word."""
    return {f"{one.program} {check_of(one) or ' '.join(one.words[:1])}" for one in parse_commands(text)}


def _is_check(text: str) -> bool:
    return any(map(check_of, parse_commands(text)))


def _new_branches(text: str) -> Iterator[str]:
    for command in parse_commands(text):
        options = _NEW_BRANCH.get(next((word for word in command.words if not word.startswith("-")), ""), ())
        if command.program == "git":
            for option, word in zip(command.words, command.words[1:], strict=False):
                if option in options:
                    yield word
