"""What a tool call is: its command or file, the kind of work it belongs to, and the role it plays.

A table of tool names per agent decides the kind, a shell command is looked into, and a tool of an MCP server is judged
by its verb. Tools that only plan or ask are `other` and do not count. A user's own table comes first. The tables are in
`tables/tools.toml`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any, Literal, get_args

import msgspec

import warmstart.profile.shell as shell
from warmstart.errors import ConfigError
from warmstart.profile.rules import load_table
from warmstart.profile.values import Kind, Role, TaskType
from warmstart.text.shell import SHELL_PROGRAMS, Command, parse_commands

# The tools that run a shell command.
SHELLS = frozenset(
    (
        *("Bash", "PowerShell", "bash", "powershell", "bash_tool", "execute_bash", "shell", "shell_command"),
        *("local_shell", "exec_command", "container.exec", "run_shell_command", "ShellTool", "terminal"),
        *("run_command", "execute_command", "run_terminal_cmd"),
    )
)
VIEW_COMMANDS = ("view", "read", "show")  # of an editor, which change nothing
_MIN_SHARE = 0.6  # of a session's calls: then it is of their kind
_MAX_CACHED = 4_096  # characters of arguments
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
# Agents that call a tool of an MCP server `server_tool` or `server-tool`, without a prefix to recognise it by.
_UNMARKED = frozenset(("opencode", "copilot-cli"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COMMAND = ("command", "cmd", "script", "code")
_PATH = ("file_path", "path", "filePath", "absolute_path", "filename", "file", "notebook_path", "target_file")
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode

# -- arguments


@lru_cache(maxsize=64)
def fields_of(arguments: str) -> dict[str, Any]:
    """The arguments by name; empty if they are not a JSON object."""
    try:
        return _DECODE(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}


def command_in(arguments: str) -> str:
    """The shell command in the arguments: Codex gives it as a list, some tools give nothing but the command."""
    fields = fields_of(arguments)
    for name in _COMMAND:
        value = fields.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            # `["bash", "-lc", "cd src && make"]`: the last word is a command itself.
            if len(value) == 3 and value[1] in ("-lc", "-c") and value[0].rsplit("/", 1)[-1] in SHELL_PROGRAMS:
                return str(value[2])
            return shlex.join(value)
    return "" if fields or arguments.lstrip()[:1] in ("{", "[") else arguments


def path_in(arguments: str) -> str:
    """The file that a call names, if any."""
    fields = fields_of(arguments)
    return next((fields[name] for name in _PATH if isinstance(fields.get(name), str)), "")


# -- the kind of work


@cache
def agent_tools() -> dict[str, dict[str, Kind]]:
    """The tools that each agent brings along, with their kinds."""
    return {agent: _by_name(kinds) for agent, kinds in load_table("tools")["agents"].items()}


@cache
def _kinds(table: str) -> dict[str, Kind]:
    return _by_name(load_table("tools")[table])


def _by_name(kinds: Mapping[str, str]) -> dict[str, Kind]:
    return {name: _KINDS[kind] for kind, names in kinds.items() for name in names.split()}


@cache
def tool_names(table: str, row: str) -> frozenset[str]:
    """A list of names in the tables."""
    return frozenset(load_table("tools")[table][row].split())


class Tools:
    """The kind of every tool. `extra` maps names, which may hold `*`, to a kind and comes before the tables.

    A whole name comes before a pattern, and of patterns the first that fits counts.
    """

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        self.extra: dict[str, Kind] = {}
        for name, kind in (extra or {}).items():
            if kind not in _KINDS:
                raise ConfigError(f"the tool {name!r} in `profile.tools` is {kind!r}; write one of {', '.join(_KINDS)}")
            self.extra[name] = _KINDS[kind]

    def kind(self, agent: str, tool: str, arguments: str) -> Kind:
        """The kind of work that a call belongs to."""
        if tool in self.extra:
            return self.extra[tool]
        for name, kind in self.extra.items():
            if "*" in name and fnmatchcase(tool, name):
                return kind
        if tool in SHELLS:
            return shell.kind_of(command_in(arguments))
        if known := agent_tools().get(agent, {}).get(tool) or _kinds("common").get(tool):
            return known
        if tool.startswith(("browser_", "browser.")):
            return "research"
        unmarked = agent in _UNMARKED and ("_" in tool or "-" in tool)
        return _kind_by_verb(tool) if unmarked or tool.startswith("mcp_") else "other"


def _kind_by_verb(tool: str) -> Kind:
    """The kind of an MCP tool by the first verb in its own name, which follows the server's."""
    own = tool.rsplit("__", 1)[-1] if "__" in tool else tool.removeprefix("mcp_")
    verbs = _kinds("verbs")
    return next((verbs[word.lower()] for word in _WORD.findall(own) if word.lower() in verbs), "other")


def task_type(kinds: Iterable[Kind]) -> TaskType:
    """The kind of more than 60 % of the calls that have one, otherwise `mixed`."""
    counts = Counter(kinds)
    counted: tuple[Literal["code", "file", "research"], ...] = ("code", "file", "research")
    total = sum(counts[kind] for kind in counted)
    return next((kind for kind in counted if counts[kind] > _MIN_SHARE * total), "mixed")


# -- the role of a call


def role_of(tool: str, arguments: str) -> Role:
    """What a call does."""
    if tool in SHELLS:
        text = command_in(arguments)
        return _cached_shell_role(text) if len(text) < _MAX_CACHED else _shell_role(text)
    role = _tool_role(tool)
    # An editor with commands also shows files.
    return "read" if role == "edit" and fields_of(arguments).get("command") in VIEW_COMMANDS else role


@lru_cache(maxsize=1024)
def _tool_role(tool: str) -> Role:
    own = tool.rsplit("__", 1)[-1]
    if _note_tools().search(own):
        return "note"
    if own.lower() in tool_names("roles", "delegate"):
        return "read"
    words = [word.lower() for word in _WORD.findall(own)]
    if not tool_names("roles", "edit").isdisjoint(words):
        return "edit"
    return "read" if not tool_names("roles", "read").isdisjoint(words) else "run"


@cache
def _note_tools() -> re.Pattern[str]:
    return re.compile(load_table("tools")["roles"]["note"], re.IGNORECASE)


def _shell_role(text: str) -> Role:
    found = parse_commands(text)
    if any(map(shell.commits, found)):
        return "commit"
    scripted = "write" in text and ".write" in text and any(map(shell.interprets, found))
    if scripted or any(map(shell.edits, found)):
        return "edit"
    if any(map(shell.check_of, found)):
        return "check"
    if all(map(_only_looks, found)):
        return "look"
    readers = tool_names("programs", "read")
    return "read" if all(_only_looks(command) or command.program in readers for command in found) else "run"


_cached_shell_role = lru_cache(maxsize=4096)(_shell_role)


def _only_looks(command: Command) -> bool:
    if command.program == "git":
        return shell.subcommand(command) in tool_names("programs", "git_look")
    return command.program in tool_names("programs", "look")
