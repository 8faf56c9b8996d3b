"""A session as the extractors see it: what the user typed, what was run and how it went, what was changed.

It also knows which words of a command have a clean source: a word that first appeared in tool output has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from warmstart.profile.feedback import own_words
from warmstart.profile.outcome import has_passed
from warmstart.profile.output import unwrap
from warmstart.profile.tools import SHELLS, agent_tools, command_in, fields_of, path_in, reads
from warmstart.profile.values import AnnotatedStep
from warmstart.sessions.marks import is_marked_call, is_ours
from warmstart.sessions.values import Message, Session
from warmstart.templates.commands import ShellCommand, is_project_file, relative_path, shell_commands, with_folders
from warmstart.templates.item import Item, Kind, Source
from warmstart.templates.rules import MANIFESTS, load_table
from warmstart.templates.safety import has_source, has_word, own_words_of
from warmstart.text.shell import parse_commands

_PATCHED_FILE = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\"\\]+)")
_EXPANDED = re.compile(r"^(?:---|#{1,4} |\|)", re.MULTILINE)  # front matter, headings, tables: a file, not a person
_SUMMARY = ("This session is being continued from", "Summary of the conversation")
_MAX_MACHINE_LINES = 30
PLAN = "Implement the following plan:"  # Claude Code writes the accepted plan as the person's message
_MANIFEST = re.compile(rf"(?:^|[/\s'\"])(?:{'|'.join(map(re.escape, MANIFESTS))})(?=$|[\s'\"|;&)])")


@dataclass(slots=True)
class Shell:
    """A shell call and its outcome: `passed` is `None` if a pipe hides it."""

    step: AnnotatedStep
    commands: tuple[ShellCommand, ...]
    passed: bool | None


class SessionView:
    """A session as the extractors see it. Commands in `allowed` count as typed by the user."""

    def __init__(
        self,
        session: Session,
        messages: Sequence[Message],
        steps: Sequence[AnnotatedStep],
        *,
        allowed: Sequence[str] = (),
        keep_values: bool = False,
    ) -> None:
        self.session = session
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
        self.is_host = session.agent in agent_tools()
        self.has_own_user = self.is_host or bool(session.project)

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
            if word in self.typed:
                continue
            if any(word in message.text for message, text, _ in self.said if text != PLAN):
                return False  # pasted by the user
            steps = (step for step in self.steps if step.position < position)
            shown = next((one for one in steps if one.result and has_word(one.result.text, word)), None)
            if shown and not (_shows_manifest(shown) or self._has_used(word, shown.position)):
                return False
        return True

    def may_show(self, command: str, position: int) -> bool:
        """Whether a command is clean, and all its words have a source in this session."""
        return self.is_clean_command(command, position) and has_source(command, self.sources, self._paths)

    @cached_property
    def sources(self) -> str:
        """The text the user typed and the manifests that were read."""
        return "\n".join((self.typed, *(one.result.text for one in self.steps if one.result and _shows_manifest(one))))

    @cached_property
    def _paths(self) -> set[str]:
        return with_folders(path for *_, path in self.files)

    def _has_used(self, word: str, position: int) -> bool:
        """Whether a shell call up to this position contains a word."""
        calls = (shell.step for shell in self.shells if shell.step.position <= position)
        return any(word in command_in(step.call.arguments) for step in calls)


def _is_machine_written(text: str) -> bool:
    """Whether a user message is an expanded file, a summary or an orchestrator's prompt, not something typed."""
    return text.startswith(_SUMMARY) or len(_EXPANDED.findall(text)) >= 4 or text.count("\n") > _MAX_MACHINE_LINES


def _shows_manifest(step: AnnotatedStep) -> bool:
    if step.call.name not in SHELLS:
        return step.role in ("read", "look") and bool(_MANIFEST.search(path_in(step.call.arguments)))
    parsed = parse_commands(command_in(step.call.arguments))
    return bool(parsed) and all(any(map(_MANIFEST.search, reads(command))) for command in parsed)


def _has_passed(step: AnnotatedStep, commands: Sequence[ShellCommand]) -> bool | None:
    """Whether a shell call worked, judging by exit code and output; `None` if a pipe hides both."""
    output = unwrap(step.result.text).text if step.result else ""
    if step.outcome == "error" or any(phrase in output[:400] for phrase in load_table("rules")["hidden_failures"]):
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
