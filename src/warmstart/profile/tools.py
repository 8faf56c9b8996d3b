"""Classify tool calls: the kind of work that a call belongs to, and its role.

A table of tool names per agent decides the kind, a shell command is parsed (does it check, commit, edit, read?), and a
tool of an MCP server is classified by its verb. Tools that only plan or ask are `other` and do not count. The user's
own table takes precedence. The tables are in `tables/tools.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from typing import Literal, get_args

from warmstart.errors import ConfigError
from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.rules import load_table, pattern, pattern_rows, word_set
from warmstart.profile.values import Kind, Role, TaskType
from warmstart.text import shell
from warmstart.text.shell import Command, is_scratch, parse_commands

Check = Literal["test", "build", "lint", ""]

VIEW_COMMANDS = ("view", "read", "show")  # of an editor tool; they change nothing
_MIN_SHARE = 0.6  # of a session's calls that must be of one kind for the session to be of that type
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
# Agents that name an MCP tool `server_tool` or `server-tool`, without a distinctive prefix.
_UNMARKED = frozenset(("opencode", "copilot-cli"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Programs at the end of a pipe that practically never fail.
FILTERS = frozenset(("head", "tail", "sort", "uniq", "wc", "cat", "tee", "less", "cut", "tr"))
SEARCHES = frozenset(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "git grep"))
_CHECKS: tuple[Check, ...] = ("test", "lint", "build")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_IN_PLACE = re.compile(r"-[a-hj-zE0-9]*i|--in-place")
tool_names = partial(word_set, "tools")  # the names in a row of a section
_words = partial(tool_names, "commands")

# -- shell commands


@cache
def common_programs() -> frozenset[str]:
    """Programs that anyone may have, under their usual names."""
    rows = ("files", "web", "test", "build", "lint", "runners")
    return frozenset().union(*map(_words, rows), shell.SHELL_PROGRAMS, shell.WRAPPERS)


def kind_of(text: str) -> Kind:
    """The kind of work of a shell command: running programs outweighs fetching, which outweighs viewing files."""
    programs = {command.program for command in parse_commands(text)}
    programs -= _words("files") | shell.SILENT | shell.PREDICATES
    if not programs:
        return "file"
    return "research" if programs <= _words("web") else "code"


def check_of(command: Command) -> Check:
    """Whether a command tests, builds or lints."""
    return _check(command.program, command.words)


@lru_cache(maxsize=512)
def _check(program: str, all_words: tuple[str, ...]) -> Check:
    named = [word for word in all_words if not word.startswith("-")]
    if not _words("show_words").isdisjoint(all_words):
        return ""
    for check in _CHECKS:
        if program in _words(check):
            return check
    if program in shell.SHELL_PROGRAMS:
        program = named[0].rsplit("/", 1)[-1] if named else ""
    script: Check = next((check for name, check in pattern_rows("tools", "scripts") if name.fullmatch(program)), "")
    if script:
        return script
    if program in ("docker", "docker-compose", "podman"):
        return _container_check(named)
    if _PYTHON.fullmatch(program):
        program = "python"
        if "-m" in all_words:
            module = next(iter(all_words[all_words.index("-m") + 1 :]), "")
            return "test" if module == "unittest" else _check(module, ())
    return _task_check(program, all_words, named) if program in _words("runners") else ""


def _container_check(named: list[str]) -> Check:
    """Whether a container is built, or runs a test."""
    if named[:1] == ["build"] or named[:2] == ["compose", "build"]:
        return "build"
    return "test" if any(word.rsplit("/", 1)[-1] in _words("test") for word in named) else ""


def _task_check(program: str, all_words: tuple[str, ...], named: list[str]) -> Check:
    """Whether the task of a runner is a check; `named` are the words that are not options."""
    if program == "node" and "--test" in all_words:
        return "test"
    if program in ("make", "gmake") and all(word.isdigit() or word == "all" for word in named):
        return "build"
    if not named or is_scratch(named[0]):
        return ""
    if program in _words("interpreters") and not {"-c", "-e", "-r"}.isdisjoint(all_words):
        return ""
    if (program in _words("installers") and named[0] in _words("install_words")) or (
        program in _words("compiled") and named[0] == "run"
    ):
        return ""
    if program in ("cargo", "deno") and named[0] == "check":
        return "build"
    if program.startswith("mvn") and not {"install", "package"}.isdisjoint(named):
        return "build"
    # The task follows the package that it runs in: `npm --prefix web run test`, `yarn workspace web test`.
    near = named[: 4 if "run" in named[1:3] or named[0] == "workspace" else 2]
    return next((check for word in near for name, check in pattern_rows("tools", "tasks") if name.search(word)), "")


def commits(command: Command) -> bool:
    """Whether a command makes a commit."""
    return command.program == "git" and subcommand(command) == "commit" and "--dry-run" not in command.words


def subcommand(command: Command) -> str:
    """The subcommand of a program such as git: `restore` in `git -C web restore x`."""
    words = iter(command.words)
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def folder_of(command: Command) -> str:
    """The folder that a command works in, if it is given: by `git -C`, or by the last `cd` before it."""
    words = command.words
    if command.program == "git" and "-C" in words:
        return next(iter(words[words.index("-C") + 1 :]), "")
    return command.folder


def interprets(command: Command) -> bool:
    """Whether a command runs an interpreter such as Python or Node."""
    return command.program in _words("interpreters") or bool(_PYTHON.fullmatch(command.program))


def edits(command: Command) -> bool:
    """Whether a command changes project files: in place, by moving them, or by writing its output to one."""
    words = command.words
    if command.outputs:
        return not all(map(is_scratch, command.outputs))
    if command.program in ("sed", "perl", "gsed"):
        return any(map(_IN_PLACE.match, words[:3]))
    if command.program == "git":
        return _restores(command)
    if command.program not in _words("writers"):
        return False
    named = [word for word in words if not word.startswith("-")]
    return not named or not all(map(is_scratch, named[-1:] if command.program == "cp" else named))


def _restores(command: Command) -> bool:
    name, words = subcommand(command), command.words
    if name == "checkout":
        return "--" in words or "." in words
    if name == "reset":
        return "--hard" in words
    return name in ("apply", "restore", "mv", "rm", "revert", "cherry-pick") and "--check" not in words


def reads(command: Command) -> tuple[str, ...]:
    """The files that a command prints."""
    words = tuple(word for word in command.words if not word.startswith("-"))
    if command.program == "sed" and not edits(command):
        return words[1:]
    return tuple(word for word in words if not word.isdigit()) if command.program in _words("readers") else ()


# -- the kind of work


@cache
def agent_tools() -> dict[str, dict[str, Kind]]:
    """The built-in tools of each agent, with their kinds."""
    return {agent: _kinds(agent, "agents") for agent in load_table("tools")["agents"]}


@cache
def _kinds(row: str, section: str = "any_agent") -> dict[str, Kind]:
    """The kind of each name in a row of a section."""
    kinds = load_table("tools")[section][row]
    return {name: _KINDS[kind] for kind, names in kinds.items() for name in names.split()}


@cache
def known_tools() -> frozenset[str]:
    """The tools that come with an agent or have a common name."""
    return SHELLS.union(*agent_tools().values(), _kinds("common"))


class Tools:
    """The kind of every tool. `extra` maps names, which may contain `*`, to kinds and overrides the tables.

    An exact name takes precedence over a pattern, and the first matching pattern wins.
    """

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        self.extra: dict[str, Kind] = {}
        for name, kind in (extra or {}).items():
            if kind not in _KINDS:
                raise ConfigError(f"the tool {name!r} in `profile.tools` is {kind!r}; write one of {', '.join(_KINDS)}")
            self.extra[name] = _KINDS[kind]

    def kind(self, agent: str, tool: str, arguments: str) -> Kind:
        """The kind of work that a call belongs to."""
        own = self.extra.get(tool) or next((kind for name, kind in self.extra.items() if fnmatchcase(tool, name)), None)
        if own:
            return own
        if tool in SHELLS:
            return kind_of(command_in(arguments))
        if known := agent_tools().get(agent, {}).get(tool) or _kinds("common").get(tool):
            return known
        if tool.startswith(("browser_", "browser.")):
            return "research"
        unmarked = agent in _UNMARKED and ("_" in tool or "-" in tool)
        return _kind_by_verb(tool) if unmarked or tool.startswith("mcp_") else "other"


def _kind_by_verb(tool: str) -> Kind:
    """The kind of an MCP tool by the first verb in its name, after that of the server."""
    own = tool.rsplit("__", 1)[-1] if "__" in tool else tool.removeprefix("mcp_")
    verbs = _kinds("verbs")
    return next((verbs[word.lower()] for word in _WORD.findall(own) if word.lower() in verbs), "other")


def task_type(kinds: Iterable[Kind]) -> TaskType:
    """The kind of more than 60 % of the calls, not counting `other`; otherwise `mixed`."""
    counts = Counter(kinds)
    counted: tuple[Literal["code", "file", "research"], ...] = ("code", "file", "research")
    total = sum(counts[kind] for kind in counted)
    return next((kind for kind in counted if counts[kind] > _MIN_SHARE * total), "mixed")


# -- the role of a call


def role_of(tool: str, arguments: str) -> Role:
    """What a call does."""
    if tool in SHELLS:
        return _shell_role(command_in(arguments)[: shell.MAX_LENGTH])
    role = _tool_role(tool)
    # An editor tool with commands can also view files.
    return "read" if role == "edit" and fields_of(arguments).get("command") in VIEW_COMMANDS else role


@lru_cache(maxsize=1024)
def _tool_role(tool: str) -> Role:
    own = tool.rsplit("__", 1)[-1]
    if pattern("tools", "note", flags=re.IGNORECASE).search(own):
        return "note"
    if own.lower() in tool_names("roles", "delegate"):
        return "read"
    words = [word.lower() for word in _WORD.findall(own)]
    if not tool_names("roles", "edit").isdisjoint(words):
        return "edit"
    return "read" if not tool_names("roles", "read").isdisjoint(words) else "run"


@lru_cache(maxsize=512)
def _shell_role(text: str) -> Role:
    found = parse_commands(text)
    if any(map(commits, found)):
        return "commit"
    scripted = "write" in text and ".write" in text and any(map(interprets, found))
    if scripted or any(map(edits, found)):
        return "edit"
    if any(map(check_of, found)):
        return "check"
    if all(map(_only_looks, found)):
        return "look"
    readers = tool_names("programs", "read")
    return "read" if all(_only_looks(command) or command.program in readers for command in found) else "run"


def _only_looks(command: Command) -> bool:
    if command.program == "git":
        return subcommand(command) in tool_names("programs", "git_look")
    return command.program in tool_names("programs", "look")
