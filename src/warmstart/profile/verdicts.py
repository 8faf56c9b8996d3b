"""How a session ended: by the user's word, a reward, a commit, a test or build, or the user's closing words.

Never by the assistant's claim. The environment speaks only about what came after the last edit: a test that passed
before it says nothing about the work as it was left. Where the exit code is no word about the check (a pipe, `|| true`,
a background run), the runner's own summary in the output is read; where that is not to be seen either, there is no
evidence, and the verdict is `unknown`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warmstart.profile import shell
from warmstart.profile.arguments import command_in, fields_of, path_in
from warmstart.profile.patterns import TERSE, own
from warmstart.profile.phrases import approves, complains
from warmstart.profile.summaries import exit_shown, passed_in
from warmstart.profile.tasks import SHELLS
from warmstart.profile.values import Verdict
from warmstart.sessions.values import Message, Session, Step, ToolResult

QUOTE = 80  # characters of the user's words in the evidence
_EDITORS = frozenset(
    (
        *("edit", "write", "multiedit", "notebookedit", "apply_patch", "patch", "write_file", "writefile", "replace"),
        *("create", "create_file", "edit_file", "delete_file", "file_write", "insert", "str_replace_editor"),
        *("str_replace_based_edit_tool", "str_replace", "text_editor", "search_replace", "write_to_file"),
        *("replace_in_file", "apply_diff", "insert_content", "edit_notebook", "file_editor", "str_replace_edit"),
    )
)
_LOOKS = frozenset(("view", "read", "show"))  # what an editor with commands does besides editing
_NOTES = re.compile(
    r"^(?:/private)?/(?:tmp|var/folders)/|/\.(?:claude|codex|gemini|copilot|hermes)/(?!skills/|commands/)"
)
# A script that writes files: `python - <<EOF … Path(x).write_text(…)`.
_SCRIPTED = re.compile(
    r"\.write_text\(|\.write\(|open\([^()\n]{1,200}['\"][wa]b?\+?['\"]|writeFileSync|fs\.write|File\.write"
)
_RUNNING = re.compile(
    r"(?:running with session ID|running in (?:the )?background with ID|started in background with (?:shell)?Id|"
    r"background with (?:shell)?ID)[:\s]+([\w-]+)",
    re.IGNORECASE,
)
_BACKGROUND = ("run_in_background", "background", "is_background", "detach")
_RUN_IDS = ("session_id", "bash_id", "task_id", "shellId", "shell_id", "shell", "process_id")
_EXIT = re.compile(r"<exit_code>(\d+)</exit_code>|exited with (?:exit )?code (\d+)")
_COMMITTED = re.compile(r"^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] ", re.MULTILINE)
_UNCOMMITTED = re.compile(
    r"nothing to commit|no changes added to commit|nothing added to commit|no changes to commit|Aborting commit"
)
_HOME = re.compile(r"/root\b|/(?:home|Users)/[^/]+")
# Another repository or another state of the work: what is checked or committed there says nothing about this one.
_ELSEWHERE = re.compile(
    r"\bgit init\b|\b(?:cd|git -C) [\"']?(?:/private)?/tmp/|\bcd \"?\$\(mktemp|\bgit stash(?! pop| list)"
)
# A check that could not run has neither passed nor failed.
_BROKEN = re.compile(
    r"command not found|No such file or directory|not recognized as|timed out|interrupted|no tests (?:ran|found|to run)"
    r"|unrecognized arguments|unknown (?:flag|option|command)|Missing script|No rule to make target|permission denied",
    re.IGNORECASE,
)
# What the output of a check goes through: when a pipe fails, it was the check.
_PIPED = shell.FILTERS | {"grep", "egrep", "rg", "sed", "awk"}
# Calls that only keep book: a check that nothing else follows has the last word.
_BOOKKEEPING = re.compile(
    r"to_?do|^task(?:update|create|list|get)$|update_plan|report_intent|plan_?mode", re.IGNORECASE
)


class _Check(NamedTuple):
    place: int
    name: str
    passed: bool


@dataclass(slots=True)
class _Trail:
    """What is known of the work as it stands after a call; an edit makes all of it void."""

    project: str = ""
    edited: int = 0
    path: str = ""  # the file of the last edit, where it is known
    committed: int = 0
    checks: dict[str, _Check] = field(default_factory=dict)
    running: dict[str, tuple[int, str, shell.Command]] = field(default_factory=dict)

    def edit(self, place: int, path: str = "") -> None:
        self.edited, self.committed = place, 0
        self.path = path or self.path
        self.checks.clear()
        self.running.clear()

    def check(self, place: int, command: shell.Command, passed: bool | None) -> None:
        if passed is not None:
            kind = shell.check_of(command)
            self.checks.pop(kind, None)
            self.checks[kind] = _Check(place, _name(command), passed)


def verdict(session: Session, messages: Sequence[Message], calls: Sequence[Step]) -> Verdict:
    """How the session ended, with the evidence for it; `unknown` where nothing but the assistant says so."""
    if session.judge == "user":
        return Verdict(session.outcome, session.evidence or "the user said so", "user")
    if session.judge == "log" and session.outcome != "unknown":
        return Verdict(session.outcome, session.evidence or "a reward in the log", "reward")
    found = _by_environment(calls, session.project)
    said = _by_words(messages)
    if found.outcome == "unknown":
        return found if said.outcome == "unknown" else said
    if found.outcome == "success" and said.outcome == "failure":
        return Verdict("unknown", f"{found.evidence}, but {said.evidence}", found.source)
    return found


def _by_environment(calls: Sequence[Step], project: str) -> Verdict:
    trail = _Trail(project)
    for place, step in enumerate(calls, 1):
        _follow(trail, place, step)
    since = "after the last edit " if trail.edited else ""
    test, last = trail.checks.get("test"), next(reversed(trail.checks.values()), None)
    # A build that passes does not undo a test that failed.
    check = test if test and last and last.passed and not test.passed else last
    # What fails is not mended by a commit, before or after it: work in progress is committed too.
    if trail.committed and (check is None or check.passed):
        return Verdict("success", f"committed {since}(call {trail.committed} of {len(calls)})", "commit")
    # Without an edit only a check that nothing follows is what the session was for, not a look at how things stand.
    if not check or not (trail.edited or trail.committed or _is_last(check.place, calls)):
        return Verdict()
    ended = "passed" if check.passed else "failed"
    evidence = f"`{check.name}` {ended} {since}(call {check.place} of {len(calls)})"
    if trail.committed:
        return Verdict("unknown", f"committed {since}(call {trail.committed}), but {evidence}", "check")
    return Verdict("success" if check.passed else "failure", evidence, "check")


def _is_last(place: int, calls: Sequence[Step]) -> bool:
    return all(_BOOKKEEPING.search(step.call.name) for step in calls[place:])


def _follow(trail: _Trail, place: int, step: Step) -> None:
    """Note what a call did to the work."""
    name, arguments = step.call.name, step.call.arguments
    if step.outcome == "rejected":
        return
    if name in SHELLS:
        _follow_shell(trail, place, step)
    elif name.rsplit("__", 1)[-1].lower() in _EDITORS:
        if (
            step.outcome != "error"
            and str(fields_of(arguments).get("command")) not in _LOOKS
            and not _NOTES.search(path_in(arguments))
        ):
            trail.edit(place, path_in(arguments))
    elif trail.running and step.result:
        _finish(trail, step.result, fields_of(arguments))


def _follow_shell(trail: _Trail, place: int, step: Step) -> None:
    text = command_in(step.call.arguments)
    commands = shell.commands(text)
    checked: shell.Command | None = None
    for command in commands:
        kind = shell.check_of(command)
        if kind in ("test", "build"):
            # One call, one result: of several checks the test, and of several tests the last.
            if not (checked and kind == "build" and shell.check_of(checked) == "test"):
                checked = command
        elif shell.commits(command):
            if _committed(command, step) and not _is_elsewhere(trail, text, command):
                trail.committed = place
        elif (shell.edits(command) and not (checked and checked.then == "|")) or _scripted(command, text):
            trail.edit(place)
            checked = None
    if checked and not _is_elsewhere(trail, text, checked):
        _note(trail, place, text, checked, step)


def _is_elsewhere(trail: _Trail, text: str, command: shell.Command) -> bool:
    """Whether a command works on something else than the project and the file that was last edited."""
    if _ELSEWHERE.search(text):
        return True
    folder = shell.folder_of(command)
    home = _HOME.match(trail.project)
    if folder.startswith("~/") and home:
        folder = home[0] + folder[1:]
    if not (folder.startswith("/") and trail.project.startswith("/")):
        return False  # a folder inside, or one that nobody can place
    if "worktree" in folder and posixpath.basename(trail.project.rstrip("/")) in folder:
        return False  # beside the project, and the same repository
    return not (_holds(folder, trail.project) or _holds(trail.project, folder) or _holds(folder, trail.path))


def _holds(folder: str, path: str) -> bool:
    folder, path = (posixpath.normpath(each).removeprefix("/private") for each in (folder, path))
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _scripted(command: shell.Command, text: str) -> bool:
    return shell.interprets(command) and bool(_SCRIPTED.search(text)) and "/tmp/" not in text  # noqa: S108


def _note(trail: _Trail, place: int, text: str, checked: shell.Command, step: Step) -> None:
    result = step.result
    if result is None or result.outcome == "unknown":
        return
    if running := _RUNNING.search(result.text[:2000]):
        if result.exit_code is None:
            trail.running[running[1]] = (place, text, checked)
            return
    else:
        fields = fields_of(step.call.arguments)
        if any(fields.get(name) is True for name in _BACKGROUND):
            return
    if result.outcome == "ok" and result.flag is None and result.exit_code is None and passed_in(result.text) is False:
        # Nothing but the absence of an error made it `ok`.
        trail.check(place, checked, False)
        return
    trail.check(place, checked, _passed(text, checked, result.outcome == "ok", result.text))


def _finish(trail: _Trail, result: ToolResult, fields: dict[str, object]) -> None:
    """Note how a check in the background came out, when a call that asked after it says so."""
    run = next((str(fields[name]) for name in _RUN_IDS if name in fields), "")
    if run not in trail.running:
        return
    code = result.exit_code
    if code is None and (shown := _EXIT.search(result.text)):
        code = int(shown[1] or shown[2])
    if code is not None:
        place, text, checked = trail.running.pop(run)
        trail.check(place, checked, _passed(text, checked, code == 0, result.text))


def _passed(text: str, checked: shell.Command, ok: bool, output: str) -> bool | None:
    """Whether a check passed; `None` when neither the exit code nor the output can tell."""
    if ok and not checked.masked:
        return True
    commands = shell.commands(text)
    asked = "$?" in text and checked == commands[-1] and checked.then in (";", "\n")
    if asked and (code := exit_shown(output)) is not None:
        return code == 0
    alone = all(command == checked or command.program in _PIPED for command in commands)
    silent = ok and alone and shell.check_of(checked) == "build" and "2>&1" in text
    shown = passed_in(output, _filter(commands, checked), alone=alone, silent=silent)
    if shown is not None or ok or checked.masked:
        return shown
    # It failed without a word: the check did, if nothing else could have.
    return False if alone and not _BROKEN.search(output[-2000:]) else None


def _filter(commands: Sequence[shell.Command], checked: shell.Command) -> str:
    """What the output of a check goes through: `tail -5`, `grep FAIL`, empty if all of it is shown."""
    place = commands.index(checked)
    if checked.then != "|" or place + 1 >= len(commands):
        return ""
    after = commands[place + 1]
    return " ".join((after.program, *after.words))


def _committed(command: shell.Command, step: Step) -> bool:
    output = step.result.text if step.result else ""
    if _COMMITTED.search(output):
        return True
    return step.outcome == "ok" and not command.masked and not _UNCOMMITTED.search(output)


def _name(command: shell.Command) -> str:
    """A check by the words that make it one: `go test`, `npm run build`."""
    kind, words = shell.check_of(command), command.words
    for count in range(len(words)):
        if shell.check_of(shell.Command(command.program, words[:count])) == kind:
            words = words[:count]
            break
    # An assignment (`make TOKEN=… test`) may hold what nobody should see.
    return " ".join((command.program, *(word for word in words if "=" not in word and "\0" not in word)))[:60]


def _by_words(messages: Sequence[Message]) -> Verdict:
    """What the user's last words say: the last two messages after the last tool call.

    The very last message may also stand before it, if it approves: what the agent tidies up afterwards takes nothing
    back, while a complaint that the agent went on to work at is not the end.
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
        elif text := own(message):
            closing.append(text)
            if acted or len(closing) == 2:
                break
    for text in closing:
        evidence = f"the user's closing words: “{' '.join(text.split())[:QUOTE]}”"
        if complains(text):
            return Verdict() if acted else Verdict("failure", evidence, "words")
        if approves(text):
            return Verdict("success", evidence, "words")
        if len(text.split()) > TERSE:
            break  # a new request: what stood before it is no last word
    return Verdict()
