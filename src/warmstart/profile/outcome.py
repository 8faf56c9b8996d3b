"""The outcome of a session: from the user's verdict, a reward, a commit, a test or build, or the user's closing words.

The assistant's own claims never count. Tests, builds and commits count only after the last edit: a test that passed
before says nothing about the final state of the work. If the exit code does not belong to the check (a pipe, `|| true`,
a background run), the test runner's summary in the output decides; a failure in it outweighs every success, because a
run over many packages has many summaries. Without a summary there is no evidence, and the outcome is `unknown`. The
patterns are in `tables/checks.toml`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import warmstart.profile.tools as tools
from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import MAX_TERSE, approves, complains, own_words
from warmstart.profile.rules import pattern
from warmstart.profile.values import AnyStep, Outcome
from warmstart.sessions.values import Message, Session, ToolResult
from warmstart.text.shell import Command, parse_commands

MAX_QUOTE = 80  # characters of the user's words in the evidence
_SUMMARY = 4_000  # characters at the end that are searched for a summary
_BACKGROUND = ("run_in_background", "background", "is_background", "detach")
_RUN_IDS = ("session_id", "bash_id", "task_id", "shellId", "shell_id", "shell", "process_id")
_EXIT = re.compile(r"<exit_code>(\d+)</exit_code>|exited with (?:exit )?code (\d+)")
_PRINTED_EXIT = re.compile(r"\b(?:exit|rc|status|code)\w*\b[^\d\n]{0,12}(\d{1,3})\s*$", re.IGNORECASE)
_COMMITTED = re.compile(r"^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] ", re.MULTILINE)
_HOME = re.compile(r"/root\b|/(?:home|Users)/[^/]+")
_HEAD_COMMAND = re.compile(r"head(?: -n)? ?-?(\d+)?")
_SEARCHES = tuple(tools.SEARCHES)
# Programs that a check's output is piped through: if the pipe fails, the check failed.
_PIPED = tools.FILTERS | tools.SEARCHES | {"sed", "awk"}


class CheckResult(NamedTuple):
    """The result of a test or build: the number of its call, its name, and whether it passed."""

    place: int
    name: str
    passed: bool


@dataclass(slots=True)
class WorkState:
    """What is known about the state of the work after a call; an edit invalidates all of it."""

    project: str = ""
    edited: int = 0
    path: str = ""  # the file of the last edit, if it is known
    committed: int = 0
    checks: dict[str, CheckResult] = field(default_factory=dict)
    running: dict[str, tuple[int, str, Command]] = field(default_factory=dict)

    def edit(self, place: int, path: str = "") -> None:
        self.edited, self.committed = place, 0
        self.path = path or self.path
        self.checks.clear()
        self.running.clear()

    def check(self, place: int, command: Command, passed: bool | None) -> None:
        if passed is not None:
            kind = tools.check_of(command)
            self.checks.pop(kind, None)
            self.checks[kind] = CheckResult(place, _name(command), passed)


def judge_session(session: Session, messages: Sequence[Message], calls: Sequence[AnyStep]) -> Outcome:
    """How the session ended, with the evidence; `unknown` if only the assistant says so."""
    if session.judge == "user":
        return Outcome(session.outcome, session.evidence or "the user said so", "user")
    if session.judge == "log" and session.outcome != "unknown":
        return Outcome(session.outcome, session.evidence or "a reward in the log", "reward")
    by_calls = judge_calls(calls, session.directory or session.project)
    by_words = _by_closing_words(messages)
    if by_calls.value == "unknown":
        return by_calls if by_words.value == "unknown" else by_words
    if by_calls.value == "success" and by_words.value == "failure":
        return Outcome("unknown", f"{by_calls.evidence}, but {by_words.evidence}", by_calls.source)
    return by_calls


def judge_calls(calls: Sequence[AnyStep], project: str) -> Outcome:
    """The outcome according to tests, builds and commits alone."""
    state = WorkState(project)
    for place, step in enumerate(calls, 1):
        follow_step(state, place, step)
    since = "after the last edit " if state.edited else ""
    test, last = state.checks.get("test"), next(reversed(state.checks.values()), None)
    # A passing build does not cancel out a failed test.
    check = test if test and last and last.passed and not test.passed else last
    # A commit does not make up for a failing check: work in progress is committed too.
    if state.committed and (check is None or check.passed):
        return Outcome("success", f"committed {since}(call {state.committed} of {len(calls)})", "commit")
    # Without an edit, only a check at the very end shows what the session achieved.
    if check is None or not (
        state.edited
        or state.committed
        or all(tools.role_of(step.call.name, step.call.arguments) == "note" for step in calls[check.place :])
    ):
        return Outcome()
    ended = "passed" if check.passed else "failed"
    evidence = f"`{check.name}` {ended} {since}(call {check.place} of {len(calls)})"
    if state.committed:
        return Outcome("unknown", f"committed {since}(call {state.committed}), but {evidence}", "check")
    return Outcome("success" if check.passed else "failure", evidence, "check")


def follow_step(state: WorkState, place: int, step: AnyStep) -> None:
    """Update the state of the work after a call."""
    name, arguments = step.call.name, step.call.arguments
    if step.outcome == "rejected":
        return
    if name in SHELLS:
        _follow_shell(state, place, step)
    elif name.rsplit("__", 1)[-1].lower() in tools.tool_names("files", "edit"):
        if (
            step.outcome != "error"
            and fields_of(arguments).get("command") not in tools.VIEW_COMMANDS
            and not pattern("checks", "not_the_work").search(path_in(arguments))
        ):
            state.edit(place, path_in(arguments))
    elif state.running and step.result:
        _finish_background(state, step.result, fields_of(arguments))


def _follow_shell(state: WorkState, place: int, step: AnyStep) -> None:
    text = command_in(step.call.arguments)
    commands = parse_commands(text)
    scripted = pattern("checks", "scripted_edit").search(text) and "/tmp/" not in text  # noqa: S108
    checked: Command | None = None
    for command in commands:
        kind = tools.check_of(command)
        if kind in ("test", "build"):
            # One call, one result: of several checks the test, and of several tests the last.
            if not (checked and kind == "build" and tools.check_of(checked) == "test"):
                checked = command
        elif tools.commits(command):
            if _committed(command, step) and not _is_elsewhere(state, text, command):
                state.committed = place
        elif (tools.edits(command) and not (checked and checked.then == "|")) or (
            tools.interprets(command) and scripted
        ):
            state.edit(place)
            checked = None
    if checked and not _is_elsewhere(state, text, checked):
        _record_check(state, place, text, checked, step)


def _is_elsewhere(state: WorkState, text: str, command: Command) -> bool:
    """Whether a command works outside the project and not on the file that was last edited."""
    if pattern("checks", "elsewhere").search(text):
        return True
    folder, home = tools.folder_of(command), _HOME.match(state.project)
    if folder.startswith("~/") and home:
        folder = home[0] + folder[1:]
    if not (folder.startswith("/") and state.project.startswith("/")):
        return False  # inside the project, or unknown
    if "worktree" in folder and posixpath.basename(state.project.rstrip("/")) in folder:
        return False  # another worktree of the same repository
    pairs = ((folder, state.project), (state.project, folder), (folder, state.path))
    return not any(_contains(*pair) for pair in pairs)


def _contains(folder: str, path: str) -> bool:
    folder, path = (posixpath.normpath(each).removeprefix("/private") for each in (folder, path))
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _record_check(state: WorkState, place: int, text: str, checked: Command, step: AnyStep) -> None:
    result = step.result
    if result is None or result.outcome == "unknown":
        return
    background = pattern("checks", "running", after=r"[:\s]+([\w-]+)", flags=re.IGNORECASE)
    running = background.search(result.text[:2000])
    if running and result.exit_code is None:
        state.running[running[1]] = (place, text, checked)
        return
    if not running and any(fields_of(step.call.arguments).get(name) is True for name in _BACKGROUND):
        return
    ok = result.outcome == "ok"
    # Without a flag and an exit code it is `ok` only because nothing says otherwise.
    doubtful = ok and result.flag is None and result.exit_code is None
    failed = doubtful and has_passed(result.text) is False
    state.check(place, checked, False if failed else _passed(text, checked, ok, result.text))


def _finish_background(state: WorkState, result: ToolResult, fields: dict[str, object]) -> None:
    """Record how a background check ended, if a call that polls it says so."""
    run = next((str(fields[name]) for name in _RUN_IDS if name in fields), "")
    if run not in state.running:
        return
    code = result.exit_code
    if code is None and (shown := _EXIT.search(result.text)):
        code = int(shown[1] or shown[2])
    if code is not None:
        place, text, checked = state.running.pop(run)
        state.check(place, checked, _passed(text, checked, code == 0, result.text))


def _passed(text: str, checked: Command, ok: bool, output: str) -> bool | None:
    """Whether a check passed; `None` if neither the exit code nor the output says so."""
    if ok and not checked.masked:
        return True
    commands = parse_commands(text)
    asked = "$?" in text and checked == commands[-1] and checked.then in (";", "\n")
    if asked and (printed := _PRINTED_EXIT.search(output[-200:])):
        return int(printed[1]) == 0
    alone = all(command == checked or command.program in _PIPED for command in commands)
    silent = ok and alone and tools.check_of(checked) == "build" and "2>&1" in text
    after = commands[commands.index(checked) + 1 :]
    piped = " ".join((after[0].program, *after[0].words)) if checked.then == "|" and after else ""  # such as `tail -5`
    shown = has_passed(output, piped, alone=alone, silent=silent)
    if shown is not None or ok or checked.masked:
        return shown
    # It failed silently: the check failed, if nothing else could have.
    could_not_run = pattern("checks", "could_not_run", flags=re.IGNORECASE)
    return False if alone and not could_not_run.search(output[-2000:]) else None


def has_passed(output: str, filter: str = "", *, alone: bool = True, silent: bool = False) -> bool | None:
    """Whether the output says that a check passed; `None` if it does not say.

    `filter` is the command that the output was piped through: a success counts only if the filter cannot have hidden a
    failure. Unless the check ran `alone`, an error may come from another program. With `silent`, empty output counts as
    passed, because a compiler without errors prints nothing.
    """
    tail = output[-_SUMMARY:]
    failed, errors, passed = (pattern("checks", kind, flags=re.MULTILINE) for kind in ("failed", "errors", "passed"))
    if failed.search(tail) or (alone and errors.search(tail)):
        return False
    if not output.strip():
        return True if silent and not filter.startswith(_SEARCHES) else None
    if filter.startswith("head"):
        lines = _HEAD_COMMAND.match(filter)
        if output.count("\n") + 1 >= int((lines and lines[1]) or 10):
            return None
    if filter.startswith(_SEARCHES) and "fail" not in filter.lower():
        return None
    return True if passed.search(tail) else None


def _committed(command: Command, step: AnyStep) -> bool:
    output = step.result.text if step.result else ""
    silent = step.outcome == "ok" and not command.masked and not pattern("checks", "uncommitted").search(output)
    return silent or bool(_COMMITTED.search(output))


def _name(command: Command) -> str:
    """The words of a command that make it a check: `go test`, `npm run build`."""
    kind, all_words = tools.check_of(command), command.words
    openings = (all_words[:count] for count in range(len(all_words)))
    words = next((some for some in openings if tools.check_of(Command(command.program, some)) == kind), all_words)
    # An assignment (`make TOKEN=… test`) may contain a secret.
    return " ".join((command.program, *(word for word in words if "=" not in word)))[:60]


def _by_closing_words(messages: Sequence[Message]) -> Outcome:
    """The outcome according to the user's closing words: up to two messages after the last tool call.

    An approval counts even if calls follow it, because the agent then only tidies up; a complaint does not, because the
    agent went on to work on it.
    """
    closing: list[str] = []
    acted = False
    for message in reversed(messages):
        if message.sidechain:
            continue
        if message.tool_calls or message.tool_results:
            if closing:
                break
            acted = True
        elif text := own_words(message):
            closing.append(text)
            if acted or len(closing) == 2:
                break
    for text in closing:
        evidence = f"the user's closing words: “{' '.join(text.split())[:MAX_QUOTE]}”"
        if complains(text):
            return Outcome() if acted else Outcome("failure", evidence, "words")
        if approves(text):
            return Outcome("success", evidence, "words")
        if len(text.split()) > MAX_TERSE:
            break  # a new request
    return Outcome()
