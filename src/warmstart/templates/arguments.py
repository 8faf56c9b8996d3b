"""What a call example shows of the arguments of a call.

A value is shown if its source is known: the user typed it, it is a path in the project, a number, a switch, or plain
words of which no tool output showed one before. This holds for the value of a shell option too. Everything else becomes
a placeholder named for its argument, such as `{{message}}`, and a patch or a program is reduced to its first line. For
agents that call APIs, whose users are customers, only switches, small numbers and the conventions of the program are
shown.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.tools import common_programs, interprets, known_tools
from warmstart.profile.values import AnnotatedStep
from warmstart.templates.commands import is_plain_path, relative_path
from warmstart.templates.rules import pattern
from warmstart.templates.safety import (
    has_subcommands,
    has_word,
    is_known,
    is_option,
    is_plain_mistake,
    is_safe_text,
    is_vocabulary,
    own_options_of,
    task_of,
)
from warmstart.templates.session_view import SessionView
from warmstart.text.shell import SHELL_PROGRAMS, Command, parse_commands

MAX_VALUE = 160  # characters of a value
MAX_COMMAND = 300  # characters of a shell command
_MAX_LINE = 4_000  # characters of the first line of a program that are read
_MIN_LIKENESS = 0.75  # of a mistaken word to the right one
_MAX_LIST = 3  # elements of a list
_MAX_NUMBER = 10_000  # a larger number identifies something in an application's data
_MAX_COUNT = 100  # a larger number is somebody's, such as a price, unless it is round
_MAX_LETTERS = 4  # characters of an option such as `-xvs`; a longer one holds a value: `-kround`
_MAX_LIMIT = 10_000_000  # a larger number is no limit or timeout
_MAX_JSON = 200_000  # characters of a result that are read

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_FIELD_NAME = re.compile(r"-?[A-Za-z_](?:[A-Za-z_-]|\d(?!\d)){0,40}")
_WORD = re.compile(r"[A-Za-z_][\w.:-]{0,40}")
_CONVENTION = re.compile(r"[a-z]+(?:[ _-][a-z]+){0,4}")  # `round_trip`, `no longer needed`
_GLOB = re.compile(r"[\w@./*{},\[\]!?^|-]{1,80}")
_REF = re.compile(r"(?:(?:origin/)?(?:main|master|HEAD)(?:[~^]\d*)?(?:\.{2,3})?){1,2}")
_CHOICE = re.compile(r"(?:^|_)(?:mode|type|format|operation|kind|verb)$")  # fields with a fixed set of values
_MESSAGES = frozenset(("-m", "--message", "-am"))  # options of git
_OPTION_VALUE = re.compile(r"[\w@./:%+,*? -]{1,80}", re.ASCII)
_CHOSEN = re.compile(r"[a-z]+(?:_[a-z]+){0,2}")
_REFUSED_OPTION = re.compile(
    r"(?:unrecogni[sz]ed|unknown|unexpected|no such) (?:argument|option|flag|switch)", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d{1,6}(?:[,:.-]\d{1,6})?[smhkMG]?p?|\d{1,6}(?:,\d{1,6})p")
_PATCH_FILE = re.compile(r"^\*\*\* (Update|Add|Delete) File: ([^\n]+)$", re.MULTILINE)
_STRING = re.compile(
    r"(?:[\"']?\b(\w+)[\"']?\s*[:=]\s*)?(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)"
)
_REMARKS = frozenset(("description", "justification", "explanation"))  # fields that only explain a shell call
_OF_PERSON = frozenset(("email", "phone", "dob", "address", "first_name", "last_name", "user_id", "customer_id"))
_PARTICULAR = re.compile(r"#+\w+#+|\S*\d\S*|\S+@\S+")
_PROPER_NAMES = re.compile(r"(?<=[a-z,;:] )(?!I\b)[A-Z][\w'’-]*(?:[ ,]+(?!I\b)[A-Z][\w'’-]*)*")


class Shown(NamedTuple):
    """The arguments as JSON, and whether any value in them is worth showing."""

    arguments: str
    has_values: bool


class Values:
    """The values in a session, and what may be shown of them."""

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._known: dict[str, str] = {}  # a customer's value in lower case -> the name of its placeholder
        self._policy = view.policy.lower()
        self._numbers: dict[str, dict[str, int]] = {}
        self._position = 0
        self._has_values = False
        self._right_words: list[str] = []
        self._is_mistake = False
        self._refuses_option = False
        self._result_fields: Counter[str] = Counter()  # an application's fields; a name once is perhaps a value
        self._is_foreign = True  # whether the tool takes any words, such as an MCP server's or a shell
        if not view.keep_values and not view.is_host:
            for step in view.steps:
                self._position = step.position
                self._collect(decode(step.result.text) if step.result else None, "")
                self._collect(decode(step.call.arguments), "", is_call=True)

    def _collect(self, value: object, name: str, depth: int = 100, *, is_call: bool = False) -> None:
        """Note the values that are a customer's. The depth is limited: 3.13 decodes deeper than it recurses."""
        if isinstance(value, dict) and depth:
            is_person = not _OF_PERSON.isdisjoint(value)
            for key, part in value.items():
                self._result_fields[key] += not is_call
                if any(map(str.isdigit, key)) and not _FIELD_NAME.fullmatch(key):
                    self._known.setdefault(key.lower(), f"{_singular(name)}_id")
                if key != "name" or is_person or is_call:  # products have names too
                    self._collect(part, key, depth - 1, is_call=is_call)
        elif isinstance(value, list) and depth:
            for part in value:
                self._collect(part, name, depth - 1, is_call=is_call)
        elif isinstance(value, str) and 1 < len(value) <= 100 and self._is_private(value, name, is_call=is_call):
            self._known.setdefault(value.lower(), _singular(name))

    def _is_private(self, value: str, name: str, *, is_call: bool) -> bool:
        return identifies(name) or (is_call and not self._is_convention(value))

    def restart(self) -> None:
        """Count placeholders from 1 again."""
        self._numbers.clear()

    def show(self, step: AnnotatedStep, *, right: str = "") -> Shown | None:
        """What may be shown of a call's arguments; `None` if a field's name is itself a value.

        `right` is what is shown of the call that worked instead of a failed one: a mistaken word is shown if it
        resembles a word of that.
        """
        self._position, self._has_values = step.position, False
        self._right_words = PLACEHOLDER.sub("x", command_in(right)).split() if right else []
        self._is_mistake = bool(right)
        self._refuses_option = bool(right and _REFUSED_OPTION.search(step.signature))
        self._is_foreign = step.call.name not in known_tools() or step.call.name in SHELLS
        fields = fields_of(step.call.arguments)
        if not fields and step.call.arguments.strip() not in ("", "{}"):
            fields = {"command" if step.call.name in SHELLS else "input": step.call.arguments}
        try:
            shown = fields if self._view.keep_values else self._fields(fields, is_shell=step.call.name in SHELLS)
            arguments = msgspec.json.encode(shown).decode()
        except (ValueError, RecursionError):
            return None
        return Shown(arguments, self._has_values or not self._view.is_host)

    def _fields(self, fields: dict[str, Any], *, is_shell: bool = False) -> dict[str, Any]:
        command, has_values = "", False
        if is_shell:
            arguments = msgspec.json.encode(fields).decode()
            command = self._command(command_in(arguments))
            has_values = self._has_values
        shown: dict[str, Any] = {}
        for name, value in fields.items():
            if not _FIELD_NAME.fullmatch(name):
                raise ValueError("a field name is a value")
            if is_shell and name in _REMARKS:
                shown[name] = "Run " + (family_of(command) or "a command")
            elif is_shell and value == command_in(msgspec.json.encode({name: value}).decode()) != "":
                shown[name] = command or "{{command}}"
            else:
                shown[name] = self._value(value, name)
        if is_shell:
            self._has_values = has_values  # a folder or a timeout alone teaches nothing
        return shown

    def _is_field_name(self, name: str) -> bool:
        """Whether the name of a field inside another is no value itself; tools check only those of their arguments."""
        if not _FIELD_NAME.fullmatch(name) or name.lower() in self._known:
            return False
        if self._view.is_host:
            return not self._is_foreign or not self._was_shown(name)
        return (
            self._result_fields[name] > 1
            or identifies(name)
            or self._is_in_policy(name)
            or not self._view.was_shown(name, 0)
        )  # said by the user

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            is_plain = all(map(self._is_field_name, value))
            return self._fields(value) if is_plain else self._placeholder(str(value), name)
        if isinstance(value, list):
            shown: list[Any] = []
            for part in value:
                if len(shown) < _MAX_LIST or not self._view.is_host:
                    shown.append(self._value(part, name))
            return shown
        if isinstance(value, bool) or value is None:
            return value
        if not isinstance(value, str):
            return type(value)(1) if identifies(name) or not self._is_limit(value) else value
        if self._view.is_host:
            text = self._host_text(value, name)
        else:
            text = value if self._is_convention(value) and not identifies(name) else None
        return self._placeholder(value, name) if text is None else text

    def _is_limit(self, value: float) -> bool:
        """Whether a number is a limit, a timeout or a count; in an application's data any other is somebody's."""
        if self._view.is_host:
            return abs(value) < _MAX_LIMIT
        return value in range(-_MAX_COUNT, _MAX_COUNT) or value in range(0, _MAX_NUMBER, _MAX_COUNT)

    def _is_convention(self, value: str) -> bool:
        """Whether a value of an application's call is the program's or the model's own, and not somebody's."""
        if len(value) > 40 or not _CONVENTION.fullmatch(value) or value in self._known:
            return False
        return self._is_in_policy(value) or (" " not in value and not self._was_shown(value))

    def _is_in_policy(self, text: str) -> bool:
        return has_word(self._policy, text) or has_word(self._policy, text.replace("_", " "))

    def _was_shown(self, text: str) -> bool:
        return self._view.was_shown(text, self._position)

    def _host_text(self, value: str, name: str) -> str | None:
        """A value of a coding agent's call, if its source is known."""
        if "*** Begin Patch" in value:
            return self._patch(value)
        if "\n" in value.strip() or len(value) > MAX_VALUE:
            return self._code(value) if name in ("code", "script", "input", "javascript", "python") else None
        path = self._path(value)
        is_choice = not self._is_foreign and _CHOICE.search(name) and _CHOSEN.fullmatch(value)
        is_shown = path or is_choice or self._is_typed(value) or self._is_plain_word(value) or self._is_glob(value)
        if not is_shown or not is_safe_text(value):
            return None
        if value != path and _GLOB.fullmatch(value):
            path = relative_path(value, self._view.roots)
        self._has_values = self._has_values or path not in ("", ".") or not (path or _WORD.fullmatch(value))
        return path or value

    def _is_typed(self, value: str) -> bool:
        return len(value) > 1 and self._view.is_typed_word(value)

    def _is_plain_word(self, value: str) -> bool:
        return bool(_WORD.fullmatch(value)) and self._is_own(value)

    def _is_glob(self, value: str) -> bool:
        """Whether a value is a pattern of file names whose words are the project's or the agent's own."""
        return "*" in value and bool(_GLOB.fullmatch(value)) and self._is_own(value)

    def _is_own(self, text: str) -> bool:
        return self._view.is_own(text, self._position)

    def _path(self, value: str) -> str:
        """The value as a path in the project, as it was written but relative; empty if it is none."""
        path = relative_path(value, self._view.roots)
        if path.rstrip("/") in (".", "./..."):
            return path
        plain = path.removeprefix("./").removesuffix("/...").rstrip("/")
        is_inside = value.replace("\\", "/").startswith(tuple(f"{root}/" for root in self._view.roots))
        if self._is_mistake and not self._view.used_path(plain) and self._was_shown(plain):
            return ""  # nobody knows whether the project has it
        is_inside = is_inside or self._view.knows_path(plain)
        return path if is_inside and is_plain_path(plain) else ""

    def _patch(self, text: str) -> str | None:
        """The head of a patch: which file it changes."""
        for verb, path in _PATCH_FILE.findall(text):
            if relative := self._path(path.strip()):
                self._has_values = True
                return f"*** Begin Patch\n*** {verb} File: {relative}\n…"
        return None

    def _code(self, text: str) -> str | None:
        """The first line of a program, with its texts shown as other values are."""
        before = self._has_values
        line = next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MAX_LINE]

        def show(found: re.Match[str]) -> str:
            name, quoted = found[1] or "text", found[2]
            start = f"{found[1]}: " if found[1] else ""
            value = quoted[1:-1]
            command = self._command(value) if name in ("cmd", "command") else ""
            return f'{start}"{command or self._value(value, name)}"'

        shown = _STRING.sub(show, line)
        if len(shown) > MAX_VALUE or not is_safe_text(shown) or not self._is_own(PLACEHOLDER.sub(" ", shown)):
            self._has_values = before
            return None
        return shown if line == text.strip() else f"{shown}\n…"

    # -- shell commands

    def _command(self, text: str) -> str:
        """A shell command with the words that may be shown; empty if it may not be shown at all."""
        if "*** Begin Patch" in text:
            return ""
        plain = text.strip()
        is_short = len(plain) <= MAX_COMMAND and "\n" not in plain
        if is_short and len(plain.split()) > 1 and self._is_typed(plain):
            self._has_values = True
            return plain
        commands = parse_commands(text)
        shown = self._join(commands)
        is_short = 0 < len(shown) <= MAX_COMMAND
        if is_short and self._is_showable(shown):
            self._has_values = True
            return shown
        return _form_of(commands)

    def _is_showable(self, command: str) -> bool:
        """Whether a command may be shown: it is known or typed, or a mistake that looks like what worked instead."""
        plain = PLACEHOLDER.sub("x", command)
        if is_known(plain, self._view.typed):
            return True
        words = [word for word in own_options_of(plain) if word != "x" and not self._path(word)]
        return bool(self._right_words) and is_plain_mistake(plain) and all(map(self._is_mistaken, words))

    def _simple_command(self, command: Command) -> str:
        """One command: its words, with placeholders for those that may not be shown."""
        argv = list(command.argv) or [command.program, *command.words]
        words = [argv[0]]
        before = argv[0]
        for word in argv[1:]:
            is_option = word.startswith("-") and word != "-"
            words.append(self._option(word, command) if is_option else self._operand(word, before, command))
            before = word
        return " ".join(words)

    def _option(self, word: str, command: Command) -> str:
        """An option, with its value if that may be shown."""
        name, sign, value = word.partition("=")
        if not sign and not word.startswith("--") and len(word) > _MAX_LETTERS and not is_option(word):
            name, value = word[:2], word[2:]
        if not value:
            return word
        is_message = command.program == "git" and name in _MESSAGES
        if _OPTION_VALUE.fullmatch(value) and self._is_own(value) and not is_message:
            return f"{name}{sign}{shlex.quote(value)}"
        return f"{name}{sign}{self._operand(value, name, command)}"

    def _join(self, commands: Sequence[Command]) -> str:
        """The commands in one line, with the operators and the changes of folder between them."""
        line = operator = folder = ""
        for command in commands:
            text = self._simple_command(command)
            if command.folder != folder:
                folder = command.folder
                path = self._path(folder).removeprefix("./") or "{{path}}"
                text = text if path == "." else f"cd {path} && {text}"
            line += f" {operator} {text}" if line else text
            operator = command.then if command.then in ("|", "||") else "&&"
        return line

    def _is_mistaken(self, word: str) -> bool:
        """Whether a word of a failed command looks like one of the command that worked, or is an option refused."""
        resembles = get_close_matches(word, self._right_words, 1, _MIN_LIKENESS)
        if word.startswith("-") and self._refuses_option:
            return not self._view.was_printed(word, self._position)
        return bool(resembles) and not self._was_shown(word)

    def _operand(self, word: str, before: str, command: Command) -> str:
        view = self._view
        if _NUMBER.fullmatch(word) or is_vocabulary(word) or word == command.program:
            return word
        if path := self._path(word):
            return path
        if len(word) == 1 or _REF.fullmatch(word):
            return word
        if self._is_glob(word):
            return f"'{word}'"
        if view.is_typed_word(word) and re.fullmatch(r"[\w@./:=+-]+", word):
            return word
        is_task = word == task_of(" ".join((command.program, *command.words)))
        if word and is_task and has_word(view.sources, word, r"\w-") and self._is_own(word):
            return word
        return word if self._is_mistaken(word) else self._operand_placeholder(word, before, command)

    def _operand_placeholder(self, word: str, before: str, command: Command) -> str:
        name = "path" if "/" in word or re.search(r"\.\w{1,5}$", word) else "text"
        if before in _MESSAGES and command.program == "git":
            name = "message"
        elif interprets(command) or command.program in SHELL_PROGRAMS:
            name = "script"
        elif command.program in ("rg", "grep", "egrep"):
            name = "pattern" if name == "text" else name
        return f"{{{{{name}}}}}"

    # -- placeholders

    def _placeholder(self, value: str, name: str) -> str:
        name = _singular(name)
        numbers = self._numbers.setdefault(name, {})
        number = numbers.setdefault(value, len(numbers) + 1)
        return f"{{{{{name}}}}}" if number == 1 else f"{{{{{name}_{number}}}}}"

    def hide(self, text: str) -> str:
        """A customer's text without names and identifiers."""
        if self._view.keep_values or self._view.is_host:
            return text
        values = sorted((value for value in self._known if value in text.lower()), key=len, reverse=True)
        if values:
            alternatives = "|".join(map(re.escape, values))
            text = re.sub(
                rf"(?<!\w)(?:{alternatives})(?!\w)",
                lambda found: f"{{{{{self._known[found[0].lower()]}}}}}",
                text,
                flags=re.IGNORECASE,
            )
        text = " ".join(_PARTICULAR.sub("{{value}}", text).split())
        return _PROPER_NAMES.sub("{{name}}", text)


def _form_of(commands: Sequence[Command]) -> str:
    """The programs of a command that may not be shown; empty if anyone may not have one of them."""
    programs = list(dict.fromkeys(command.program for command in commands))[:_MAX_LIST]
    if not programs or not common_programs().difference(SHELL_PROGRAMS, ("rm",)).issuperset(programs):
        return ""
    return " && ".join(f"{program} {{{{arguments}}}}" for program in programs)


def family_of(command: str) -> str:
    """The program of a command and its subcommand, such as `go test`; empty if there is none."""
    parsed = parse_commands(PLACEHOLDER.sub("", command))
    if not parsed:
        return ""
    program = parsed[0].program
    words = [word for word in parsed[0].words if not word.startswith("-")]
    task = task_of(" ".join((program, *words)))
    if not task and words and has_subcommands(program):
        task = words[0]
    return f"{program} {task}".strip()


@lru_cache(maxsize=1024)
def identifies(name: str) -> bool:
    """Whether a field of this name identifies somebody or something."""
    return pattern("identifying").search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def _singular(name: str) -> str:
    plain = re.sub(r"\W", "_", name).strip("_") or "value"
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") else plain


def decode(text: str) -> object:
    """A JSON object or list; `None` if the text is none, or very long."""
    if text[:1] not in ("{", "[") or len(text) > _MAX_JSON:
        return None
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
