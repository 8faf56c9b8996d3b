"""What a call is for within its sub-task: it changes, checks, runs, reads, only looks, or only keeps notes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from warmstart.profile.arguments import command_in, fields_of
from warmstart.profile.shell import Command, check_of, commands, commits, edits, interprets
from warmstart.profile.tasks import SHELLS
from warmstart.templates.extraction.listed import listed
from warmstart.templates.extraction.walk import Taken

Role = Literal["change", "check", "run", "read", "look", "note"]

# Tools with which an agent talks to itself, to the person or to its own machinery.
_NOTES = re.compile(
    r"to_?dos?|^task(?:update|create|list|get|output|stop)$|update_plan|report_intent|plan_?(?:mode|enter|exit)|^think"
    r"|sequentialthinking|askuserquestion|ask_user|^question$|request_(?:user_input|permissions)|^skill$|activate_skill"
    r"|slashcommand|tool_?search|save_memory|store_memory|update_topic|complete_task|^wait|^(?:bashoutput|killshell)"
    r"|^killbash|^(?:read|stop|list|write)_(?:bash|powershell)$|write_stdin|sendmessage|send_input|(?:close|resume)_agent"
    r"|list_agents|^cron|(?:enter|exit)worktree",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CHANGES = listed(
    "edit write patch replace create insert delete remove update modify book cancel send add set save move copy rename "
    "return exchange submit post put commit push merge close refund pay order schedule assign approve enable disable "
    "transfer upload apply append install register reply"
)
_READS = listed(
    "read view get list search find fetch query show describe grep glob lookup look retrieve open browse navigate "
    "snapshot screenshot resolve check status count"
)
_DELEGATES = listed("task agent spawn_agent delegate delegate_task invoke_agent codebase_investigator")
_EDITOR_LOOKS = frozenset(("view", "read", "show"))  # what an editor with commands does besides editing
_LOOKS = listed("ls ll pwd cd echo tree date whoami which type stat wc file du df env printenv sleep true")
_GIT_LOOKS = listed("status log diff show branch remote rev-parse describe ls-files")
_READERS = listed("cat head tail less more bat nl sed awk grep egrep fgrep rg ag ack find fd jq yq diff")


def role_of(step: Taken) -> Role:
    """What a call is for."""
    return _role(step.call.name, step.call.arguments) if len(step.call.arguments) < 4096 else _told(step)


@lru_cache(maxsize=4096)
def _role(tool: str, arguments: str) -> Role:
    if tool in SHELLS:
        return _of_shell(command_in(arguments))
    own = tool.rsplit("__", 1)[-1]
    if _NOTES.search(own):
        return "note"
    if own.lower() in _DELEGATES:
        return "read"
    words = [word.lower() for word in _WORD.findall(own)]
    if not _CHANGES.isdisjoint(words):
        return "read" if str(fields_of(arguments).get("command")) in _EDITOR_LOOKS else "change"
    return "read" if not _READS.isdisjoint(words) else "run"


def _told(step: Taken) -> Role:
    return _role.__wrapped__(step.call.name, step.call.arguments)


def _of_shell(text: str) -> Role:
    found = commands(text)
    if any(commits(command) or edits(command) for command in found) or _writes(found, text):
        return "change"
    if any(check_of(command) for command in found):
        return "check"
    if all(_is_look(command) for command in found):
        return "look"
    return "read" if all(_is_look(command) or command.program in _READERS for command in found) else "run"


def _writes(found: tuple[Command, ...], text: str) -> bool:
    return "write" in text and any(interprets(command) for command in found) and ".write" in text


def _is_look(command: Command) -> bool:
    return command.program in _LOOKS or (command.program == "git" and verb_of(command) in _GIT_LOOKS)


def verb_of(command: Command) -> str:
    """The subcommand of a program such as git: `git -C web restore x` restores."""
    words = iter(command.words)
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith(("-", "\0")):
            return word
    return ""
