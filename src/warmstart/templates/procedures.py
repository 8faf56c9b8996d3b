"""Procedures: how a sub-task was done, as a few calls that worked.

A sub-task is a user request and everything up to the next request. It is carried if it ended well and can be shown in
full: every call that changed or ran something must be known to be safe. For coding agents these are the commands of the
project; edits are never shown, only the names of the edited files. For agents that call APIs, a customer's values turn
into placeholders (`{{reservation_id}}`), and results are reduced to their shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from warmstart.profile.feedback import agrees, approves, complains, corrects, count_words, is_request
from warmstart.profile.outcome import judge_calls
from warmstart.profile.output import unwrap
from warmstart.profile.tools import SHELLS, command_in
from warmstart.profile.values import AnnotatedStep
from warmstart.templates.commands import shell_commands
from warmstart.templates.item import Call, Item
from warmstart.templates.rules import pattern
from warmstart.templates.safety import is_known, is_safe_call
from warmstart.templates.session_view import SessionView
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection

MIN_CALLS, MAX_CALLS = 2, 6
_MAX_TEXT, _MAX_FILES = 160, 3  # characters of the request, and files named beside it
_MAX_GO_AHEAD = 8  # words of a message that only agrees
_MAX_NUMBER = 10_000  # a larger number identifies something
_MAX_JSON = 200_000  # characters of a result that are read
_WEIGHTS = {"edit": 3, "run": 2, "check": 2, "read": 1}  # which calls to keep if there are too many

_MCP_TOOL = re.compile(r"mcp__[\w-]+?__[a-z]+(?:[_-][a-z]+){0,4}", re.IGNORECASE)
_FIELD_NAME = re.compile(r"[A-Za-z_](?:[A-Za-z_-]|\d(?!\d)){0,40}")
_CONVENTION = re.compile(r"[a-z]+(?:[ _-][a-z]+){0,4}")  # `round_trip`, `no longer needed`
_OF_PERSON = frozenset(("email", "phone", "dob", "address", "first_name", "last_name", "user_id", "customer_id"))
_PARTICULAR = re.compile(r"#+\w+#+|\S*\d\S*|\S+@\S+")
_PROPER_NAMES = re.compile(r"(?<=[a-z,;:] )(?!I\b)[A-Z][\w'’-]*(?:[ ,]+(?!I\b)[A-Z][\w'’-]*)*")
_QUOTED = re.compile(r"[\"“«„`][^\"“”«»„`\n]{12,400}[\"”»`]")
_PASSED = re.compile(r"\b(\d+) (?:tests? )?passed\b")


def extract_procedures(view: SessionView) -> Iterator[Item]:
    """The sub-tasks that ended well; for agents that call APIs, only if the session succeeded or the user approved."""
    if view.session.outcome == "failure":
        return
    values = Values(view)
    for task in _sub_tasks(view):
        calls = _calls(task, view, values) if _ended_well(task, view) else []
        text = values.hide(_request(task))
        if len(calls) < MIN_CALLS or not text or find_injection(text):
            continue
        ids = (task.message_id, *(step.message_id for step, _ in calls))
        yield view.item(
            "procedure",
            one_line(text, _MAX_TEXT) + _changed_files(task, view),
            calls[0][0],
            calls[-1][0],
            calls=tuple(call for _, call in calls),
            worked=1,
            sources=tuple(dict.fromkeys(source for id_ in ids for source in view.source(id_))),
        )


@dataclass(slots=True)
class _SubTask:
    message_id: str = ""
    requests: list[str] = field(default_factory=list)
    steps: list[AnnotatedStep] = field(default_factory=list)
    refused: bool = False
    approved: bool = False


def _sub_tasks(view: SessionView) -> list[_SubTask]:
    """The requests with the calls that follow; an answer or a go-ahead belongs to the request before it.

    An agent that talks to a customer goes back and forth until it changes something; only then can a new request start.
    """
    user_texts = {message.native_id: (text, answers) for message, text, answers in view.said}
    steps = {step.call.id: step for step in view.steps}
    tasks = [_SubTask()]
    for message in view.messages:
        last = tasks[-1]
        if message.native_id in user_texts:
            text, answers = user_texts[message.native_id]
            last.refused |= corrects(text, answers=answers) or complains(text)
            last.approved |= approves(text)
            if last.requests and not last.refused and _goes_on(text, answers or not view.is_host, last):
                last.requests.append(text)
            else:
                tasks.append(_SubTask(message.native_id, [text]))
        elif is_request(message):
            tasks.append(_SubTask())  # a request by a machine has no words to quote
        last = tasks[-1]
        last.steps += (steps[call.id] for call in message.tool_calls if call.id in steps)
    return [task for task in tasks if task.requests and task.steps]


def _goes_on(text: str, answers: bool, task: _SubTask) -> bool:
    if not task.steps or (agrees(text) and count_words(text) <= _MAX_GO_AHEAD):
        return True
    return answers and not any(step.role in ("edit", "commit") for step in task.steps)


def _ended_well(task: _SubTask, view: SessionView) -> bool:
    """Whether there is evidence beyond the agent's word, every tool that failed worked later, and nobody objected."""
    works: set[str] = set()
    for step in reversed(task.steps):
        if step.outcome == "ok":
            works.add(step.call.name)
        elif step.call.name not in works:
            return False
    if task.refused or task.steps[-1].outcome != "ok":
        return False
    session = view.session
    if not view.is_host:
        return session.outcome == "success" or task.approved
    return task.approved or judge_calls(task.steps, session.directory or session.project).value == "success"


def _request(task: _SubTask) -> str:
    """The first line of the request that says more than a greeting, with quotations removed."""
    lines = (subject_of(line) for text in task.requests for line in text.strip().splitlines())
    return next((_QUOTED.sub("…", line) for line in lines if count_words(line) > 3 and not line.endswith(":")), "")


def subject_of(text: str) -> str:
    """The subject of a request: without a greeting or a leading `can you`; for a plan its heading."""
    plan = pattern("plan").match(text.strip())
    return pattern("greeting").sub("", plan[1] if plan else text.strip())


def _changed_files(task: _SubTask, view: SessionView) -> str:
    places = {step.position for step in task.steps}
    paths = dict.fromkeys(path for step, role, path in view.files if role == "edit" and step.position in places)
    return f" (changed {', '.join([*paths][:_MAX_FILES])})" if paths else ""


def _calls(task: _SubTask, view: SessionView, values: Values) -> list[tuple[AnnotatedStep, Call]]:
    """The calls that worked, in order: the last of equivalent calls, and if there are too many, the most important.

    None at all if a call that ran or changed something may not be shown. For coding agents, checks alone are not a
    procedure: in 322 real sessions, 46 of 47 procedures were only checks, which are command items anyway.
    """
    kept: dict[tuple[str, str], tuple[AnnotatedStep, Call]] = {}
    for step in task.steps:
        name, is_shell = step.call.name, step.call.name in SHELLS
        if step.outcome != "ok" or step.role == "note" or (is_shell and step.role not in ("run", "check")):
            continue
        if view.is_host and not (is_shell or _MCP_TOOL.fullmatch(name)):
            continue  # edited files are named in the text
        arguments = _commands(step, view) if is_shell else values.arguments(step.call.arguments)
        call = Call(name, arguments, _result_shape(step))
        if arguments and (is_shell or is_safe_call(call)):
            kept[name, re.sub(r"_\d+(?=\}\})", "", arguments)] = (step, call)
        elif is_shell or (step.role not in ("read", "look") and not view.is_host):
            return []
    if view.is_host and all(step.role == "check" for step, _ in kept.values()):
        return []
    best = sorted(kept.values(), key=lambda pair: (-_WEIGHTS.get(pair[0].role, 0), -pair[0].position))[:MAX_CALLS]
    values.numbers.clear()  # count placeholders from 1 again
    return [
        (step, call if call.tool in SHELLS else call._replace(arguments=values.arguments(step.call.arguments)))
        for step, call in sorted(best, key=lambda pair: pair[0].position)
    ]


def _commands(step: AnnotatedStep, view: SessionView) -> str:
    """The normalized commands of a shell call; empty if one of them may not be shown."""
    every = shell_commands(command_in(step.call.arguments), view.roots)
    commands = [one for one in every if one.purpose != "other"]  # `make test | tail` is `make test`
    if not all(is_known(one.text, view.typed) for one in every):
        return ""
    if not all(view.may_show(one.text, step.position) for one in commands):
        return ""
    return msgspec.json.encode({"command": " && ".join(one.text for one in commands)}).decode() if commands else ""


class Values:
    """The values in a session that identify somebody or something, and their placeholders."""

    def __init__(self, view: SessionView) -> None:
        self._keep = view.keep_values
        self._typed = view.typed if view.is_host else ""
        self._is_host = view.is_host
        self._known: dict[str, str] = {}  # value in lower case -> name of its placeholder
        self._policy = "\n".join(one.text for one in view.messages if one.role == "system").lower()
        self.numbers: dict[str, dict[str, int]] = {}
        if not self._keep and not view.is_host:
            for step in view.steps:
                self._collect(_decode(step.call.arguments), "")
                self._collect(_decode(step.result.text) if step.result else None, "")

    def _collect(self, value: object, name: str, depth: int = 100) -> None:  # 3.13 decodes deeper than it recurses
        if isinstance(value, dict) and depth:
            is_person = not _OF_PERSON.isdisjoint(value)
            for key, part in value.items():
                if any(map(str.isdigit, key)) and not _FIELD_NAME.fullmatch(key):
                    self._known.setdefault(key.lower(), f"{_singular(name)}_id")
                if key != "name" or is_person:  # products have names too
                    self._collect(part, key, depth - 1)
        elif isinstance(value, list) and depth:
            for part in value:
                self._collect(part, name, depth - 1)
        elif isinstance(value, str) and 1 < len(value) <= 100 and identifies(name):
            self._known.setdefault(value.lower(), _singular(name))

    def arguments(self, arguments: str) -> str:
        """The arguments as JSON, with placeholders; empty if they cannot be shown."""
        fields = _decode(arguments)
        if not isinstance(fields, dict):
            return ""
        try:
            return msgspec.json.encode(fields if self._keep else self._shown(fields, "")).decode()
        except (ValueError, RecursionError):
            return ""

    def _shown(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            if not all(_FIELD_NAME.fullmatch(key) for key in value):
                raise ValueError("a field name is a value")
            return {key: self._shown(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [self._shown(part, name) for part in value]
        if isinstance(value, bool) or value is None:
            return value
        if not isinstance(value, str):  # a placeholder would not be a number
            return type(value)(1) if abs(value) >= _MAX_NUMBER or identifies(name) else value
        is_plain = len(value) <= 40 and _CONVENTION.fullmatch(value) and (" " not in value or value in self._policy)
        is_convention = is_plain and not identifies(name) and value not in self._known
        return value if (value in self._typed if self._is_host else is_convention) else self._placeholder(value, name)

    def _placeholder(self, value: str, name: str) -> str:
        name = _singular(name)
        numbers = self.numbers.setdefault(name, {})
        number = numbers.setdefault(value, len(numbers) + 1)
        return f"{{{{{name}}}}}" if number == 1 else f"{{{{{name}_{number}}}}}"

    def hide(self, text: str) -> str:
        """A customer's text without names and identifiers."""
        if self._keep or self._is_host:
            return text
        values = sorted((value for value in self._known if value in text.lower()), key=len, reverse=True)
        if values:
            pattern = "|".join(map(re.escape, values))
            text = re.sub(
                rf"(?<!\w)(?:{pattern})(?!\w)",
                lambda found: f"{{{{{self._known[found[0].lower()]}}}}}",
                text,
                flags=re.IGNORECASE,
            )
        text = " ".join(_PARTICULAR.sub("{{value}}", text).split())
        return _PROPER_NAMES.sub("{{name}}", text)


@lru_cache(maxsize=1024)
def identifies(name: str) -> bool:
    return pattern("identifying").search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def _singular(name: str) -> str:
    plain = re.sub(r"\W", "_", name) or "value"
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") else plain


def _result_shape(step: AnnotatedStep) -> str:
    """The shape of a result. Its text is never carried."""
    text = unwrap(step.result.text).text.strip() if step.result else ""
    if not text:
        return "ok, no output"
    if passed := _PASSED.search(text[-4_000:]):
        return f"{passed[1]} passed"
    data = _decode(text)
    if isinstance(data, (list, dict)):
        fields = f"an object with {len(data)} field{'s' * (len(data) != 1)}"
        return f"ok, {fields if isinstance(data, dict) else f'a list of {len(data)}'}"
    lines = text.count("\n") + 1
    return f"ok, {lines} line{'s' * (lines != 1)}"


def _decode(text: str) -> object:
    if text[:1] not in ("{", "[") or len(text) > _MAX_JSON:
        return None
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
