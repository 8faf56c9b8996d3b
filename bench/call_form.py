"""What two tool calls have in common: their form and the project files they name.

The form of a shell call is what each of its commands is: program, subcommand and option names. The form of any other
call is its tool and the names of its arguments. Values do not count, so a placeholder or a shortened text changes
nothing. Paths are relative to the project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from activity import in_project, relative_path, word_set
from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.tools import FILTERS, edits, reads, role_of
from warmstart.text.shell import Command, parse_commands

# Programs whose first word is a subcommand.
_WITH_SUBCOMMAND = word_set(
    "git gh cargo go npm pnpm yarn bun docker docker-compose kubectl uv pip pip3 poetry make just task mise terraform "
    "dotnet mix deno brew apt-get supabase vercel wrangler turbo nx gradle gradlew mvn mvnw swift rtk entire bd fly "
    "act composer rails php zig flutter dart hatch pdm conda systemctl"
)
_TWO_WORDS = word_set("run compose mod tool pr issue exec worktree stash remote")  # `npm run test`, `gh pr view`
_WORD = re.compile(r"[A-Za-z][\w:-]{0,30}")
_CODE_MODE = re.compile(r"""exec_command\(\{\s*"?cmd"?:\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)""")
_PATCHED_FILE = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\"\\]+)")
_PATH = re.compile(r"[\w@.+()\[\]/-]*[\w)\]]\.[A-Za-z]\w{0,9}|[\w@.+()\[\]-]+(?:/[\w@.+()\[\]-]+)+/?|/[\w@.+ /-]+")
_LOCATION = re.compile(r"(?<=\w):\d+(?:[:-]\d+)*$")  # `main.go:12`
_NOT_PATHS = word_set("e.g i.e application/json text/html text/plain")
# Look-arounds: what anyone runs first, whatever the project.
_LOOKS = word_set("ls pwd cat head tail less more tree whoami date wc file stat which type echo true nl")
_STATUS_OPTIONS = word_set("--short --branch -s -b -sb --porcelain")
_LIST_TOOLS = word_set("LS ls list list_dir list_directory")
_RANGE = re.compile(r"-?\d+(?:,\d+)?p?|\d+(?:,\$)?p|-[a-zA-Z]{1,4}\d*")


class Form(NamedTuple):
    """`tool` is the program for a shell command, `names` are options or arguments."""

    tool: str
    subcommand: str = ""
    names: frozenset[str] = frozenset()


def commands_in(tool: str, arguments: str) -> str:
    """The shell commands of a call, also those in the JavaScript of Codex' code mode; empty for other tools."""
    if tool in SHELLS:
        return command_in(arguments)
    if tool == "exec" and "exec_command" in arguments:
        code = str(fields_of(arguments).get("input") or arguments)
        return "\n".join(map(_unquote, _CODE_MODE.findall(code)))
    return ""


def _unquote(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        return quoted[1:-1].replace('\\"', '"').replace("\\n", "\n")


@lru_cache(maxsize=100_000)
def forms(tool: str, arguments: str) -> frozenset[Form]:
    """The form of a call; for a shell, one for each of its commands. Filters at the end of a pipe do not count."""
    if commands := commands_in(tool, arguments):
        return frozenset(_command_form(command) for command in _main_commands(commands))
    return frozenset((Form(tool, "", frozenset(fields_of(arguments))),))


def arguments_form(tool: str, arguments: str) -> Form:
    """The coarse form: the tool and its argument names, also for a shell."""
    return Form(tool, "", frozenset(fields_of(arguments)))


def _main_commands(text: str) -> list[Command]:
    parsed = parse_commands(text)
    before = ["", *(command.then for command in parsed)]
    main = [command for command, pipe in zip(parsed, before, strict=False) if pipe not in ("|", "|&")]
    return main or list(parsed)


def _command_form(command: Command) -> Form:
    words = command.words
    program = command.program
    if program.startswith("python") and words[:1] == ("-m",):
        program, words = f"python -m {' '.join(words[1:2])}", words[2:]
    plain = [word for word in words if not word.startswith("-")]
    subcommand = ""
    if program in _WITH_SUBCOMMAND and plain and _WORD.fullmatch(plain[0]):
        several = plain[0] in _TWO_WORDS and len(plain) > 1 and _WORD.fullmatch(plain[1])
        subcommand = " ".join(plain[: 2 if several else 1])
    options = (word.partition("=")[0] for word in words if len(word) > 1 and word.startswith("-"))
    return Form(program, subcommand, frozenset(re.sub(r"\d+", "N", option) for option in options))


def paths(tool: str, arguments: str, roots: tuple[str, ...]) -> frozenset[str]:
    """The files and folders of the project that a call names."""
    return frozenset(path for path in map(_tidy, _named_paths(tool, arguments, roots)) if _is_path(path))


def _named_paths(tool: str, arguments: str, roots: tuple[str, ...]) -> Iterator[str]:
    commands = commands_in(tool, arguments)
    if "*** Begin Patch" in arguments[:4000]:
        for path in _PATCHED_FILE.findall(arguments.replace("\\n", "\n")):
            yield relative_path(path.strip(), roots)
        return
    for command in parse_commands(commands):
        for word in (*command.words, *command.outputs):
            yield from _paths_in_word(word, roots)
    if not commands:
        for name, value in fields_of(arguments).items():
            if name.lower().endswith(("path", "file", "filename", "paths", "dir", "directory", "uri")):
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str):
                        yield relative_path(text.removeprefix("file://"), roots)


def _paths_in_word(word: str, roots: tuple[str, ...]) -> Iterator[str]:
    if "\n" in word or len(word) > 300:
        return  # a script or a message
    value = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    path = relative_path(_LOCATION.sub("", value), roots)
    if not value.startswith("-") and _PATH.fullmatch(path):
        yield path


def _tidy(path: str) -> str:
    return path.removeprefix("./").rstrip("/")


def _is_path(path: str) -> bool:
    known = path not in ("", ".", "..", *_NOT_PATHS) and "{{" not in path and "…" not in path and "..." not in path
    return known and "*" not in path and not path.startswith(("origin/", "http:")) and in_project(path)


def is_look_around(tool: str, arguments: str) -> bool:
    """Whether a call only looks around: it lists a folder, shows the state of the tree or one file, and has no option
    or limit that says how this is done here.
    """
    if commands := commands_in(tool, arguments):
        parsed = parse_commands(commands)
        return bool(parsed) and all(map(_only_looks, parsed))
    if tool in _LIST_TOOLS:
        return True
    fields = fields_of(arguments)
    return role_of(tool, arguments) == "read" and len(fields) == 1 and _is_file_argument(next(iter(fields)))


def _is_file_argument(name: str) -> bool:
    return name.lower() in ("file_path", "filepath", "path", "filename", "file", "dir_path", "absolute_path")


def _only_looks(command: Command) -> bool:
    if edits(command) or command.outputs:
        return False
    options = [word for word in command.words if word.startswith("-")]
    telling = [word for word in options if not _RANGE.fullmatch(word)]
    if command.program == "git":
        return [word for word in command.words if word not in _STATUS_OPTIONS] == ["status"]
    if command.program == "sed":
        return len(reads(command)) <= 1 and not telling
    return (command.program in _LOOKS or command.program in FILTERS) and not telling
