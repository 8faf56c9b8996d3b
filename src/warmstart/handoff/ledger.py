"""The ledger: what must survive a compaction, updated with every message, by rules alone.

It records what was done (files, commands, the last tests and builds, to-dos), what was said (requests, constraints,
decisions, refusals, withdrawals), errors and their fixes, and exact identifiers. Every quote names its message. Tool
calls come from `profile`'s annotated steps. Redact messages before you add them: half a secret cannot be detected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from warmstart.handoff.constraints import Quote, find_quotes
from warmstart.handoff.files import FileOperation, Operation, file_operations, relative_to
from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import agrees, is_request, own_words
from warmstart.profile.outcome import CheckResult, WorkState, follow_step
from warmstart.profile.profiler import Profiler
from warmstart.profile.recoveries import describe_recovery, find_recoveries
from warmstart.profile.signatures import error_signature
from warmstart.profile.tools import agent_tools, check_of
from warmstart.profile.values import AnnotatedStep, Role
from warmstart.sessions.marks import is_marked_call, without_ours
from warmstart.sessions.values import Message, Session, Step, ToolCall, ToolResult
from warmstart.text.shell import parse_commands
from warmstart.text.truncate import one_line, truncate
from warmstart.text.words import topic_terms

LOOKING = ("read", "look", "note")  # roles of calls that change nothing
_MAX_COMMAND = 160  # characters of a command that are shown
_MAX_READ = 500  # characters of a message, command or output to search for identifiers
_MAX_GO_AHEAD = 3  # words of a message that is only a go-ahead
_MAX_WITHDRAWAL = 12  # words of a clause that withdraws a request
_WITHDRAWALS = "stop undo revert roll back never mind cancel abort forget scrap drop please actually wait"
_CLAUSE = re.compile(r"[.,;:!?\n–—]+|\s-\s|\b(?:and|but)\b")
_MAX_REFUSAL = 5  # lines of the user's reason for refusing a call
_REFUSAL = re.compile(
    r"\A\s*(?:Error:\s*)?(?:BLOCKED: )?(?:The )?user (?:has )?(?:rejected|denied|declined|(?:doesn.t|does not) want)\b"
    r"[^\n]{0,400}?\b(?:said|feedback|reason):\s*"
    r"(?:<feedback>\s*)?(\S.*?)(?:\s*</feedback>.*)?\Z",
    re.DOTALL | re.IGNORECASE,
)
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
_BRANCH = re.compile(r"\bgit [^;&|\n]*?\b(?:checkout|switch|worktree)\b[^;&|\n]*? (?:-[bBcC]|--create) ([\w./@-]+)")
_DONE = frozenset(("completed", "complete", "done", "cancelled", "canceled", "deleted"))
_TODO_TEXT = ("content", "step", "subject", "description", "title", "text")
_STATUS = {"ok": "ok", "error": "failed", "rejected": "refused by the user", "unknown": "unknown"}


class File(NamedTuple):
    """A file and its last operation. `digest` is the start of its SHA-256, if the content is known."""

    path: str
    operation: Operation
    turn: int
    edits: int = 0
    digest: str = ""


class CommandRun(NamedTuple):
    """A shell command: how often it ran and how the last run ended."""

    text: str
    role: Role
    times: int
    status: str
    message_id: str


class Request(NamedTuple):
    """A message of the user, verbatim; `words` leaves out pasted text."""

    message_id: str
    text: str
    words: str


class Failure(NamedTuple):
    """An error: its signature, the call that failed, and the call that worked instead (empty if none did)."""

    error: str
    failed: str
    fix: str
    message_id: str


@dataclass(slots=True)
class Ledger:
    """What a session must not lose. Add its messages in order."""

    session: Session
    tools: Mapping[str, str] | None = None
    messages: int = 0
    turn: int = 0
    files: dict[str, File] = field(default_factory=dict)
    commands: dict[str, CommandRun] = field(default_factory=dict)
    checks: dict[str, CheckResult] = field(default_factory=dict)  # the last of each kind
    todos: dict[str, tuple[str, str]] = field(default_factory=dict)  # id to text and status
    requests: list[Request] = field(default_factory=list)
    decisions: list[Quote] = field(default_factory=list)
    withdrawn: list[Request] = field(default_factory=list)
    identifiers: dict[str, str] = field(default_factory=dict)  # to message id
    steps: list[AnnotatedStep] = field(default_factory=list)  # results are kept for errors only
    numbers: dict[str, tuple[str, int]] = field(default_factory=dict)  # message id to session id and number
    last: Message | None = None
    model: str = ""
    compressions: int = 0  # of the context, as far as the messages show
    compressed_at: datetime | None = None
    root: str = field(init=False)  # the folder that file paths are relative to; empty if unknown
    _constraints: dict[str, Quote] = field(default_factory=dict)
    _profiler: Profiler = field(init=False)
    _state: WorkState = field(init=False)
    _roots: tuple[str, ...] = field(init=False)
    _waiting: dict[str, tuple[ToolCall, str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._profiler = Profiler(self.tools)
        places = (self.session.directory, self.session.project)
        self._roots = tuple(dict.fromkeys(one.replace("\\", "/").rstrip("/") for one in places if one))
        self.root = self._roots[0] if self._roots else ""
        self._state = WorkState(self.root)

    @property
    def constraints(self) -> tuple[Quote, ...]:
        """The user's constraints in the order in which they were first stated."""
        return tuple(self._constraints.values())

    def add(self, message: Message) -> None:
        """Record a message. Text that Warmstart inserted does not count."""
        self.messages += 1
        self.numbers[message.native_id] = (self.session.id, self.messages)
        self.model = message.model or self.model
        if message.timestamp or self.last is None:
            self.last = message
        if message.compaction_summary:
            self.compressions += 1
            self.compressed_at = message.timestamp or self.compressed_at
        if message.role in ("user", "system") and message.text:
            self._add_words(message)
        for result in message.tool_results:
            if call := self._waiting.pop(result.call_id, None):
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
        """Switch to the session that continues this one: the messages that follow belong to it."""
        self.session, self.messages = session, 0
        if session.parent_kind == "handoff":  # a fresh context
            self.compressions, self.compressed_at = 0, None

    def reference(self, message_id: str) -> str:
        """The number of a message, with its session if it is an earlier one, as ` (#12)`; empty if it is unknown."""
        session, number = self.numbers.get(message_id, ("", 0))
        return f" ({'' if session == self.session.id else session}#{number})" if number else ""

    # -- what was said

    def _add_words(self, message: Message) -> None:
        if message.role == "system":
            # A coding agent's next session has the same system prompt; that of a custom agent has policies.
            if self.session.agent not in agent_tools():
                self._add_quotes(message)
            return
        if message.sidechain or not is_request(message):
            return
        text = without_ours(message.text).strip()
        words = own_words(replace(message, text=text)) if text else ""
        if not words:
            return
        self.turn += 1
        request = Request(message.native_id, text, words)
        if self._add_quotes(message):
            self._withdraw(request)
        self.requests.append(request)
        self._add_identifiers(_IDENTIFIER.findall(words[:_MAX_READ]), message.native_id)

    def _add_quotes(self, message: Message) -> bool:
        """Record constraints and decisions; return whether something was withdrawn."""
        quotes = find_quotes(message.text, message.native_id)
        for quote in quotes:
            if quote.is_constraint:
                self._constraints.setdefault(quote.key, quote)
            elif quote.kind != "withdrawal" and message.role == "user":
                self.decisions.append(quote)
        return any(quote.kind == "withdrawal" for quote in quotes)

    def _withdraw(self, request: Request) -> None:
        """Record a withdrawal of the latest request that shares a word with it, or else of the latest one."""
        clauses = [one.strip() for one in _CLAUSE.split(request.words)]
        taking = [one for one in clauses if any(quote.kind == "withdrawal" for quote in find_quotes(one))]
        if all(one in taking or len(one.split()) < 3 for one in clauses):
            self.withdrawn.append(request)  # it asks for nothing else
        for clause in (one for one in taking if len(one.split()) <= _MAX_WITHDRAWAL):
            about = {*topic_terms(clause)} - {*topic_terms(_WITHDRAWALS)}
            alike = (one for one in self.requests if not about or not about.isdisjoint(topic_terms(one.words)))
            self.withdrawn += [*alike][-1:]

    def _add_identifiers(self, found: Iterable[str], message_id: str) -> None:
        for name in (one.rstrip(".,;:") for one in found):
            self.identifiers.pop(name, None)  # the most recent come last
            self.identifiers[name] = message_id

    @property
    def latest_request(self) -> Request | None:
        """The latest request that is more than a go-ahead and was not withdrawn."""
        for request in reversed(self.requests):
            is_go_ahead = len(request.words.split()) <= _MAX_GO_AHEAD and agrees(request.words)
            if not is_go_ahead and request not in self.withdrawn:
                return request
        return None

    # -- what was done

    def _add_step(self, call: ToolCall, result: ToolResult, message_id: str, turn: int) -> None:
        agent, place, plain = self.session.agent, len(self.steps), Step(call, result, None)
        step = self._profiler.annotate(agent, plain, message_id, turn, place, signature=False)
        self.steps.append(step if step.outcome == "error" else step._replace(result=None))
        if step.outcome == "rejected":
            said = words_of_refusal(result).splitlines()[:_MAX_REFUSAL]
            for line in filter(None, map(str.strip, said)):
                quote = Quote(truncate(line, 600), message_id, "refusal")
                self._constraints.setdefault(quote.key, quote)
            self.decisions.append(Quote(shown_call(call), message_id, "refusal"))
            return
        for operation in file_operations(step, self.root):
            self._add_file(operation, step)
        if call.name in SHELLS:
            self._add_command(step, result)
        elif step.role == "note" and step.outcome != "error":
            self._add_note(step, result.text)
        follow_step(self._state, step.position + 1, step)
        self.checks |= self._state.checks

    def _add_file(self, done: FileOperation, step: AnnotatedStep) -> None:
        path, operation = relative_to(done.path, self.root), done.operation
        known = self.files.get(path)
        if done.folder:
            inside = [one for one in self.files.values() if one.path == path or one.path.startswith(f"{path}/")]
            self.files |= {one.path: one._replace(operation="deleted", turn=step.turn, digest="") for one in inside}
        elif operation == "read":
            self.files.setdefault(path, File(path, "read", step.turn))
        else:
            content = fields_of(step.call.arguments).get("content") if operation in ("created", "written") else None
            is_kept = isinstance(content, str) and "[redacted:" not in content
            digest = sha256(str(content).encode(errors="replace")).hexdigest()[:12] if is_kept else ""
            if operation == "written":
                operation = "changed" if known and known.operation in ("read", "changed") else "created"
            elif operation == "changed" and known and known.operation == "created":
                operation = "created"
            self.files[path] = File(path, operation, step.turn, known.edits + 1 if known else 1, digest)

    def _add_command(self, step: AnnotatedStep, result: ToolResult) -> None:
        text = command_in(step.call.arguments)
        shown = _shown_command(text, self._roots)
        before = self.commands.pop(shown, None)
        status = _STATUS[step.outcome] if result.exit_code is None else f"exit {result.exit_code}"
        times = before.times + 1 if before else 1
        self.commands[shown] = CommandRun(shown, step.role, times, status, step.message_id)  # the most recent come last
        found = _IDENTIFIER.findall(text[:_MAX_READ])
        if "git" in text:
            found += (f"commit {commit} on {branch}" for branch, commit in _COMMIT.findall(result.text[:_MAX_READ]))
            found += (f"branch {branch}" for branch in _BRANCH.findall(text) if step.outcome == "ok")
        self._add_identifiers(found, step.message_id)

    def is_outdated(self, check: CheckResult) -> bool:
        """Whether something was edited after a test or build."""
        return check.place < self._state.edited

    def _add_note(self, step: AnnotatedStep, output: str) -> None:
        """Record a to-do list, or the user's answers to the agent's questions."""
        fields, name = fields_of(step.call.arguments), step.call.name.lower()
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
        elif name == "taskupdate" and (known := self.todos.get(str(fields.get("taskId")))):
            self.todos[str(fields["taskId"])] = (_first_text(fields) or known[0], str(fields.get("status") or known[1]))
        elif "question" in name or "ask_user" in name:
            self._add_answers(fields, output, step.message_id)

    def _add_answers(self, fields: Mapping[str, Any], output: str, message_id: str) -> None:
        answers = dict(_ANSWER.findall(output[:4_000]))
        questions = fields.get("questions")
        for one in questions if isinstance(questions, list) else ():
            question = str(one.get("question", "")) if isinstance(one, dict) else ""
            if answer := answers.get(question):
                self.decisions.append(Quote(f"{one_line(question, 200)} — {answer}", message_id, "answer"))
                options = (option for option in one.get("options") or () if isinstance(option, dict))
                labels = (str(option.get("label", "")) for option in options)
                if rejected := [label for label in labels if label and label not in answer]:
                    self.decisions.append(Quote(", ".join(rejected), message_id, "rejected"))

    @property
    def open_todos(self) -> list[tuple[str, str]]:
        """The to-dos that are not done, each with its status."""
        return [(text, status) for text, status in self.todos.values() if status.lower() not in _DONE]

    # -- what went wrong, and what helped

    def failures(self) -> list[Failure]:
        """Unresolved errors, and resolved ones with the call that worked instead."""
        recovered = {one.failed: one for one in find_recoveries(self.steps)}
        found: dict[tuple[str, str], Failure] = {}
        for step in self.steps:
            if step.outcome != "error" or not step.result:
                continue
            error = error_signature(step.call.name, step.result.text, arguments=step.call.arguments)
            if not error or error.endswith(("no output", "nothing to commit")):
                continue  # a `grep` without a match is not an error
            later = (one for one in self.steps[step.position + 1 :] if one.outcome == "ok")
            worked = next((one for one in later if _is_same_purpose(step.call, one.call)), None)
            call, recovery, fix = shown_call(step.call), recovered.get(step.position), ""
            if worked and recovery and recovery.succeeded == worked.position:
                fix = shown_call(worked.call) if step.call.name in SHELLS else describe_recovery(recovery)
            is_open = worked is None and step.role not in LOOKING
            if is_open or fix not in ("", call):
                found.pop((call, error), None)
                found[call, error] = Failure(error, call, fix, step.message_id)
        return list(found.values())

    def digest(self) -> str:
        """A hash of the whole ledger; it changes when anything in it does."""
        parts = (
            [(file.path, file.operation, file.edits) for file in self.files.values()],
            [(run.text, run.times, run.status) for run in self.commands.values()],
            [request.text for request in self.requests],
            [constraint.text for constraint in self.constraints],
            [*self.todos.values()],
            len(self.steps),
        )
        return blake2b(repr(parts).encode(errors="replace"), digest_size=16).hexdigest()


def build_ledger(session: Session, messages: Iterable[Message], tools: Mapping[str, str] | None = None) -> Ledger:
    """Build the ledger of a whole session. `tools` is the user's own mapping of tools to roles."""
    return Ledger(session, tools).extend(messages)


def words_of_refusal(result: ToolResult) -> str:
    """The user's words in the result of a call that they refused; empty for other results."""
    found = _REFUSAL.search(result.text[:5_000]) if result.outcome == "rejected" else None
    return found[1] if found else ""


def shown_call(call: ToolCall) -> str:
    """A call on one line: a shell command, or the tool with its file or its arguments."""
    if call.name in SHELLS:
        return _shown_command(command_in(call.arguments))
    return one_line(f"{call.name} {path_in(call.arguments) or call.arguments}", _MAX_COMMAND)


def _shown_command(text: str, roots: Iterable[str] = ()) -> str:
    """A shell command on one line, without the `cd` into the project and the text of a heredoc."""
    for root in roots:
        text = text.removeprefix(f"cd {root} && ")
    return one_line(_HEREDOC.sub(r"<<\1 …", text) if "<<" in text else text, _MAX_COMMAND)


def _first_text(row: Mapping[str, Any]) -> str:
    return next((one_line(row[name], 200) for name in _TODO_TEXT if isinstance(row.get(name), str) and row[name]), "")


def _is_same_purpose(first: ToolCall, second: ToolCall) -> bool:
    """Whether two calls are about the same file, or run the same program for the same check or with the same word."""
    if first.name != second.name:
        return False
    if first.name not in SHELLS:
        return path_in(first.arguments) == path_in(second.arguments)
    purposes = (
        {f"{one.program} {check_of(one) or ' '.join(one.words[:1])}" for one in parse_commands(command_in(arguments))}
        for arguments in (first.arguments, second.arguments)
    )
    return not set.isdisjoint(*purposes)
