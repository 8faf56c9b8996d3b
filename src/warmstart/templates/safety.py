"""Which commands may be carried: those whose program, subcommand and options are known.

A script of the project (`npm run x`, `make x`) is known by its name: a common verb, with or without a suffix. Any other
command is carried only if the user typed it. How often a command occurred never matters: what a poisoned repository
makes agents run occurs often too.
"""

from __future__ import annotations

import re

from warmstart.profile.tools import SHELLS, agent_tools, command_in
from warmstart.templates.allowlist import is_safe, is_safe_command
from warmstart.templates.item import Call
from warmstart.templates.rules import load_table

_OPERATOR = re.compile(r"\s*(?:&&|\|\||[;|&\n])\s*")
_FOLDER = re.compile(r"cd (\S+) && ")
_WRAPPED = re.compile(r"^(?:rtk (?:(?:test|err|summary|lint) )?|(?:npx|bunx|uvx) )")  # what they run must be known
_SCRIPT_OF = re.compile(
    r"(?:(?:npm|pnpm|yarn|bun)(?: -[\w-]+(?:[= ][\w./-]+)?)* run(?:-script)?|(?:mise|turbo|nx) run|deno task"
    r"|make|just|task|rake) ([\w:./-]+)"
)
_VERBS = "|".join(load_table("allowlist")["script_verbs"].split())
_KNOWN_SCRIPT = re.compile(rf"(?:[\w-]+[:/])?(?:{_VERBS})(?:[:_.-][\w:.-]+)?", re.IGNORECASE)
_PLAIN = re.compile(rf"(?:{_VERBS}|all|run|exec|check|tool|vet|mod|\.|\./\.\.\.)", re.IGNORECASE)
_READS = re.compile(r"(?:get|list|search|find|read|show|describe|lookup|query|count|view|fetch)(?![a-z])")
HOST_TOOLS = frozenset(name for table in agent_tools().values() for name in table)


def is_known(command: str, typed: str = "") -> bool:
    """Whether a command may be shown to a new session; `typed` is what the user wrote."""
    if command in typed:
        return True
    parts = [_WRAPPED.sub("", part) for part in _OPERATOR.split(command)]
    scripts = [script[1] for part in parts if (script := _SCRIPT_OF.match(part))]
    folder = _FOLDER.match(command)
    plain = _WRAPPED.sub("", command[folder.end() :] if folder else command)
    return is_safe_command(f"{folder[0] if folder else ''}{plain}") and all(map(_KNOWN_SCRIPT.fullmatch, scripts))


def own_words_of(command: str) -> list[str]:
    """The words of a known command that its program does not define: names of scripts, folders and packages."""
    folder = _FOLDER.match(command)
    words = _WRAPPED.sub("", command[folder.end() :] if folder else command).split()[1:]
    own = [word for word in words if not word.startswith("-") and not _PLAIN.fullmatch(word)]
    return [folder[1], *own] if folder else own


def is_safe_call(call: Call, project: str = "") -> bool:
    """Whether a call is known to be safe, whoever made it.

    Of MCP servers only readers are, by the verb in their name. A placeholder belongs into a call of an API, and never
    into a command or the text of a file.
    """
    if call.tool in SHELLS:
        return (
            "{{" not in call.arguments and is_known(command_in(call.arguments)) and is_safe(*call[:2], project=project)
        )
    server, _, name = call.tool.rpartition("__")
    if server and not _READS.match(name):
        return False
    return not (call.tool in HOST_TOOLS and "{{" in call.arguments) and is_safe(*call[:2], project=project)
