"""Claude Code: the answers to its hooks, and the files to install.

A hook prints JSON or nothing, because Claude Code puts anything else into the conversation. Two pitfalls: text from
Stop forces another model turn, and PreCompact accepts only plain text and may fire without a compaction.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place

HOST = "claude-code"
TITLE = "Claude Code"
PROGRAM = "claude"
PROMPT = "UserPromptSubmit"  # the event that the user waits for

# The hooks and their timeouts in seconds, after which Claude Code continues without them.
EVENTS = {
    "SessionStart": 2,
    "SubagentStart": 1,
    "UserPromptSubmit": 2,
    "PostToolUseFailure": 1,
    "PostToolBatch": 1,
    "PreCompact": 2,  # reads the whole log, for a compaction that takes many seconds
    "PostCompact": 1,
    "Stop": 1,
    "SessionEnd": 1,
}
# Claude Code does not wait for these, and ends them when it exits: a hook that adds no text, and commands whose text
# our server adds in time. Theirs would come one request late.
ASYNC = ("PostCompact",)
ASYNC_IF_SERVED = ("PostToolUseFailure", "PostToolBatch")

CALLS_SERVERS = (2, 1, 118)  # the first version with hooks that call a tool of a server

_KEEP = "Quote the user's rules below word for word in the summary.\n\n"


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | str | None:
    """Answer one event: JSON as an object, plain text for PreCompact, `None` for no answer."""
    session = str(data.get("session_id") or "")
    project = os.environ.get("CLAUDE_PROJECT_DIR") or str(data.get("cwd") or "")  # `cwd` follows the shell
    transcript = str(data.get("transcript_path") or "")
    if event == "SubagentStart":
        return context(event, hook.start_subagent(project, HOST))
    if data.get("agent_id"):
        return None  # a subagent
    if event == "SessionStart":
        return context(event, start(data, hook, session, project, transcript), hook.notice)
    if event == "UserPromptSubmit":
        prompt = str(data.get("prompt") or "")
        if not prompt or prompt.lstrip().startswith("<task-notification>"):
            return None  # a background task has ended
        return context(event, hook.before_turn(session, project, prompt), hook.notice)
    if event in ("PostToolUseFailure", "PostToolBatch"):
        fixes = [hook.after_tool(session, project, *call) for call in _calls(event, data)]
        return context(event, "\n\n".join(filter(None, fixes)))
    if event == "PreCompact":
        rules = hook.constraints(transcript, HOST) if transcript else ""
        return _KEEP + rules if rules else None
    if event == "PostCompact":
        hook.after_compaction(session)
    elif event in ("Stop", "SessionEnd") and transcript:
        hook.sync(transcript)
    return None


def start(data: dict[str, Any], hook: Hook, session: str, project: str, transcript: str) -> str | None:
    """The start of a new session, or after a compaction what the summary may have lost; `None` if it is resumed."""
    source = data.get("source")
    if source == "compact":
        hook.after_compaction(session)
        return hook.note_after_compaction(transcript, hook.host) if transcript else None
    if source in ("resume", "fork"):
        return None  # the conversation still has its start
    return hook.start(session, project, hook.host, str(data.get("model") or ""))


def _calls(event: str, data: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The calls that may have failed: tool, arguments and output."""
    if event == "PostToolUseFailure":
        if not data.get("is_interrupt"):
            yield str(data.get("tool_name") or ""), data.get("tool_input") or {}, str(data.get("error") or "")
        return
    for call in data.get("tool_calls") or ():
        output = call.get("tool_response")
        # A failed call has its own event. These are the hidden failures: `npm run missing | tail` exits with 0.
        if call.get("tool_name") == "Bash" and isinstance(output, str):
            yield "Bash", call.get("tool_input") or {}, output


def context(event: str, text: str | None, notice: str = "") -> dict[str, Any] | None:
    """The answer to an event that adds text to the conversation, and a notice that only the user sees."""
    answer: dict[str, Any] = {"systemMessage": notice} if notice else {}
    if text:
        answer["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": text}
    return answer or None


# -- installed files


def folder(place: Place) -> Path:
    """Where Claude Code keeps its files."""
    return place.folder("CLAUDE_CONFIG_DIR", ".claude")


def _hooks(place: Place, server: HostFile) -> HostFile:
    """Our hooks, some of which our server answers, unless this Claude Code cannot call it.

    A version that does not know such hooks ignores all of `settings.json`, without a word.
    """
    from warmstart.hosts import hook_tool
    from warmstart.hosts.files import hooks_file

    can_call = place.version(PROGRAM) >= CALLS_SERVERS and not _is_taken(server)
    served = {event: hook_tool.tool_hook(HOST, event, EVENTS[event]) for event in hook_tool.EVENTS[HOST] if can_call}

    def command(host: str, event: str) -> str:
        line = place.hook(host, event)
        return hook_tool.unless_connected(line, place.shell_home) if event in served else line

    background = (*ASYNC, *ASYNC_IF_SERVED) if can_call else ASYNC
    return hooks_file(folder(place) / "settings.json", HOST, command, EVENTS, background, served)


def _is_taken(server: HostFile) -> bool:
    """Whether the user has another server with our name."""
    try:
        return bool(server.conflicts(server.path.read_text("utf-8")))
    except (OSError, ValueError):
        return False


def files(place: Place) -> list[HostFile]:
    """Hooks in `settings.json`, the MCP server in `.claude.json`, and the commands `/warm` and `/warm-handoff`."""
    from warmstart.hosts.files import OwnFile, member_file

    own = folder(place)
    # Without `alwaysLoad` the first request of a session has no tools of ours: the server starts in the background.
    value = {"type": "stdio", **place.server(), "alwaysLoad": True}
    configuration = (own if place.env.get("CLAUDE_CONFIG_DIR") else place.home) / ".claude.json"
    server = member_file(configuration, ("mcpServers", "warmstart"), value)
    return [
        _hooks(place, server),
        server,
        OwnFile(own / "commands" / "warm.md", place.text("claude_warm.md")),
        OwnFile(own / "commands" / "warm-handoff.md", place.text("claude_handoff.md")),
    ]
