"""A session as the extractors see it: what the user typed, what was run and how it went, what was changed.

It also knows which words of a command have a clean source: a word that first appeared in tool output has none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.failures import HIDDEN_FAILURES
from warmstart.profile.feedback import own_words
from warmstart.profile.outcome import has_passed
from warmstart.profile.output import unwrap
from warmstart.profile.tools import reads
from warmstart.profile.values import AnnotatedStep
from warmstart.sessions.marks import is_marked_call, is_ours, without_ours
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.values import Message, Session
from warmstart.templates.commands import ShellCommand, is_project_file, relative_path, shell_commands, with_folders
from warmstart.templates.item import Item, Kind, Source
from warmstart.templates.rules import MANIFESTS
from warmstart.templates.safety import has_source, has_word, own_words_of
from warmstart.text.shell import parse_commands

_PATCHED_FILE = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\"\\]+)")
_EXPANDED = re.compile(r"^(?:---|#{1,4} |\|)", re.MULTILINE)  # front matter, headings, tables: a file, not a person
_SUMMARY = ("This session is being continued from", "Summary of the conversation")
_MAX_MACHINE_LINES = 30
_PART = re.compile(r"[a-z0-9]{2,}")
_ESCAPE = re.compile(r"\\[nrt]")  # in JSON
PLAN = "Implement the following plan:"  # Claude Code writes the accepted plan as the person's message
_ELSEWHERE = re.compile(r"^[/~$]|^\w:|\.\.|(?:^|/)(?:node_modules|vendor|site-packages|third_party)/")
_MANIFEST = re.compile(rf"(?:^|[/\s'\"])(?:{'|'.join(map(re.escape, MANIFESTS))})(?=$|[\s'\"|;&)])")


@dataclass(slots=True)
class Shell:
    """A shell call and its outcome: `passed` is `None` if a pipe hides it."""

    step: AnnotatedStep
    commands: tuple[ShellCommand, ...]
    passed: bool | None


class SessionView:
    """A session as the extractors see it. Commands in `allowed` count as typed by the user.

    `declared` are the manifests and docs of its project, if that is on this machine.
    """

    def __init__(
        self,
        session: Session,
        messages: Sequence[Message],
        steps: Sequence[AnnotatedStep],
        *,
        allowed: Sequence[str] = (),
        keep_values: bool = False,
        declared: str = "",
    ) -> None:
        self.session = session
        self.declared = declared
        self.allowed = allowed
        self.keep_values = keep_values
        self.messages = [message for message in messages if not is_ours(message)]
        self.steps = [step for step in steps if not is_marked_call(step.call.id)]
        self.roots = tuple(
            dict.fromkeys(root.replace("\\", "/").rstrip("/") for root in (session.directory, session.project) if root)
        )
        self._began = session.started_at or next((one.timestamp for one in messages if one.timestamp), None)
        # The user of a coding agent comes back; the user of an agent built on the library may be a customer, whose
        # words are about one case.
        reader = readers().get(session.agent)
        self.is_host = reader is not None and reader.has_system_prompt_of_vendor
        self.has_own_user = self.is_host or bool(session.project)
        self._steps_at = {step.position: step for step in self.steps}

    def step_at(self, position: int) -> AnnotatedStep | None:
        """The step at a position in the session; `None` for one of our own calls."""
        return self._steps_at.get(position)

    @cached_property
    def policy(self) -> str:
        """The program's own system messages; empty for an agent whose vendor writes them."""
        if self.is_host:
            return ""
        return "\n".join(without_ours(message.text) for message in self.messages if message.role == "system")

    def when(self, step: AnnotatedStep) -> datetime | None:
        return self._began + timedelta(seconds=step.at) if self._began and step.at is not None else self._began

    def source(self, message_id: str) -> tuple[Source, ...]:
        return (Source(self.session.id, message_id),)

    def item(self, kind: Kind, text: str, first: AnnotatedStep, last: AnnotatedStep | None = None, **more: Any) -> Item:
        """An item seen at these steps; the first is its source unless `more` says otherwise."""
        more.setdefault("sources", self.source(first.message_id))
        return Item(kind=kind, text=text, first_seen=self.when(first), last_seen=self.when(last or first), **more)

    @cached_property
    def said(self) -> list[tuple[Message, str, bool]]:
        """The user's messages with their text, without pasted parts, and whether it answers a question."""
        texts, asked = [], False
        for message in self.messages:
            if message.role == "assistant" and message.text and not message.sidechain:
                asked = message.text[-40:].rstrip(" \n*_)").endswith("?")
            elif text := own_words(message):
                if not _is_machine_written(text):
                    texts.append((message, text, asked))
                asked = False
        return texts

    @cached_property
    def typed(self) -> str:
        return "\n".join((*(text for _, text, _ in self.said), *self.allowed))

    @cached_property
    def shells(self) -> list[Shell]:
        shells = []
        for step in self.steps:
            if step.call.name in SHELLS and step.outcome in ("ok", "error") and step.result:
                commands = shell_commands(command_in(step.call.arguments), self.roots)
                shells.append(Shell(step, commands, _has_passed(step, commands)))
        return shells

    @cached_property
    def files(self) -> list[tuple[AnnotatedStep, str, str]]:
        """The project files that were changed (`edit`) or read: the step, the role and the path."""
        files = []
        for step in self.steps:
            if step.outcome != "ok":
                continue
            role, paths = _paths(step)
            relative = (relative_path(path.strip(), self.roots) for path in paths)
            files += [(step, role, path.removeprefix("./")) for path in relative if is_project_file(path)]
        return files

    def is_clean_command(self, command: str, position: int) -> bool:
        """Whether no word of a command first appeared in tool output. The user's words and manifests are clean.

        So is a word that the agent used first: a "command not found" error repeats the name. A manifest does not
        vouch for a word that other output showed earlier: the agent may have put it there.
        """
        for word in own_words_of(command):
            if word in self.typed or word.removeprefix("./").removesuffix("/...") in self._paths:
                continue
            if any(word in message.text for message, text, _ in self.said if text != PLAN):
                return False  # pasted by the user
            steps = (step for step in self.steps if step.position < position)
            shown = next((one for one in steps if one.result and has_word(one.result.text, word)), None)
            if shown and not (_shows_manifest(shown, self.roots) or self._has_used(word, shown.position)):
                return False
        return True

    @cached_property
    def _first_shown(self) -> dict[str, int]:
        """The position of the first step whose output has a word, or a user message with text they did not type.

        The errors of an application's functions are the program's own words.
        """
        first: dict[str, int] = {}
        for message in self.messages:
            if message.role == "user":
                first.update(dict.fromkeys(_words_of(message.text), -1))
        for step in self.steps:
            is_own = step.outcome == "error" and not self.is_host
            if step.result and not is_own and not _shows_manifest(step, self.roots):
                for word in _words_of(step.result.text):
                    first.setdefault(word, step.position)
        return first

    @cached_property
    def _first_used(self) -> dict[str, int]:
        """The position of the first call that has a word in its arguments."""
        first: dict[str, int] = {}
        for step in self.steps:
            for word in _words_of(step.call.arguments):
                first.setdefault(word, step.position)
        return first

    def was_shown(self, text: str, position: int) -> bool:
        """Whether output before this position showed a word of a text before the agent used it.

        Other scripts do not separate words, so that a text in one of them may always have been shown.
        """
        return not text.isascii() or any(self._was_word_shown(word, position) for word in _words_of(text))

    def _was_word_shown(self, word: str, position: int) -> bool:
        shown = self._first_shown.get(word, position)
        return shown < min(position, self._first_used.get(word, position))

    def was_printed(self, text: str, position: int) -> bool:
        """Whether output before this position has exactly this text."""
        earlier = (step for step in self.steps if step.position < position and step.result)
        return any(text in step.result.text for step in earlier if step.result)

    def is_typed_word(self, word: str) -> bool:
        """Whether the user typed a word."""
        return has_word(self.typed, word, r"\w-")

    def is_own(self, text: str, position: int) -> bool:
        """Whether every word of a text is the user's, the project's or the agent's own."""
        unknown = _words_of(text) - self._known_words
        return text.isascii() and not any(self._was_word_shown(word, position) for word in unknown)

    @cached_property
    def _known_words(self) -> set[str]:
        """The words that the user typed, and those in the paths of the project."""
        return _words_of("\n".join((self.typed, *self._paths)))

    def used_path(self, path: str) -> bool:
        """Whether the session read or changed a file, or one in this folder."""
        return path in self._paths

    def knows_path(self, path: str) -> bool:
        """Whether a relative path is one that the session worked with, or a file in such a folder."""
        folder, _, name = path.rpartition("/")
        return path in self._paths or (folder.partition("/")[0] in self._paths and "." in name)

    def may_show(self, command: str, position: int) -> bool:
        """Whether a command is clean, and all its words have a source in this session."""
        return self.is_clean_command(command, position) and has_source(command, self.sources, self._paths)

    @cached_property
    def sources(self) -> str:
        """The text the user typed, what the project declares, and the manifests that were read."""
        return "\n".join(
            (
                self.typed,
                self.declared,
                *(one.result.text for one in self.steps if one.result and _shows_manifest(one, self.roots)),
            )
        )

    @cached_property
    def _paths(self) -> set[str]:
        return with_folders(path for *_, path in self.files)

    def _has_used(self, word: str, position: int) -> bool:
        """Whether a shell call up to this position contains a word."""
        calls = (shell.step for shell in self.shells if shell.step.position <= position)
        return any(word in command_in(step.call.arguments) for step in calls)


def _words_of(text: str) -> set[str]:
    """The words of a text in lower case, without numbers; the parts of a name with underscores are words."""
    text = text.lower()
    words = set(_PART.findall(text))
    if "\\" in text:
        words.update(_PART.findall(_ESCAPE.sub(" ", text)))
    return {word for word in words if not word.isdigit()}


def _is_machine_written(text: str) -> bool:
    """Whether a user message is an expanded file, a summary or an orchestrator's prompt, not something typed."""
    return text.startswith(_SUMMARY) or len(_EXPANDED.findall(text)) >= 4 or text.count("\n") > _MAX_MACHINE_LINES


def _shows_manifest(step: AnnotatedStep, roots: tuple[str, ...]) -> bool:
    """Whether a step only shows manifests of the project, not those of somebody else's code."""
    if step.call.name not in SHELLS:
        return step.role in ("read", "look") and _is_manifest(path_in(step.call.arguments), roots)
    parsed = parse_commands(command_in(step.call.arguments))
    return bool(parsed) and all(
        any(_is_manifest(posixpath.join(command.folder, path), roots) for path in reads(command)) for command in parsed
    )


def _is_manifest(path: str, roots: tuple[str, ...]) -> bool:
    return bool(_MANIFEST.search(path)) and not _ELSEWHERE.search(relative_path(path, roots))


def _has_passed(step: AnnotatedStep, commands: Sequence[ShellCommand]) -> bool | None:
    """Whether a shell call worked, judging by exit code and output; `None` if a pipe hides both."""
    output = unwrap(step.result.text).text if step.result else ""
    if step.outcome == "error" or any(phrase in output[:400] for phrase in HIDDEN_FAILURES):
        return False
    return has_passed(output) if any(command.masked for command in commands) else True


def _paths(step: AnnotatedStep) -> tuple[str, tuple[str, ...]]:
    arguments = step.call.arguments
    if step.call.name in SHELLS:
        command = command_in(arguments)
        if "*** Begin Patch" in command:
            return "edit", tuple(_PATCHED_FILE.findall(command))
        if any(one.purpose != "other" for one in shell_commands(command)):
            return "", ()
        shown = (path for one in parse_commands(command) for path in reads(one))
        return "read", tuple(path for path in shown if "." in path)
    if step.role == "edit":
        fields = fields_of(arguments)
        patch = fields.get("patchText") or fields.get("input") or arguments
        return "edit", tuple(_PATCHED_FILE.findall(patch if isinstance(patch, str) else "")) or (path_in(arguments),)
    return ("read", (path_in(arguments),)) if step.role == "read" else ("", ())
