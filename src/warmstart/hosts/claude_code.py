"""Claude Code: what its hooks get from us, and what is installed.

A hook prints JSON or nothing, because Claude Code puts anything else into the conversation. Two traps: text from Stop
forces another turn of the model, and PreCompact takes plain text only and may fire without a compaction.
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
PROMPT = "UserPromptSubmit"  # the event that the user waits for

# The hooks, with the seconds after which Claude Code goes on without them.
EVENTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 5,
    "PostToolUseFailure": 5,
    "PostToolBatch": 5,
    "PreCompact": 10,
    "PostCompact": 5,
    "Stop": 5,
    "SessionEnd": 5,
}

_KEEP = "Quote the user's rules below word for word in the summary.\n\n"


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | str | None:
    """Answer one event: JSON as an object, plain text for PreCompact, `None` for no answer."""
    if data.get("agent_id"):
        return None  # a subagent
    session = str(data.get("session_id") or "")
    project = os.environ.get("CLAUDE_PROJECT_DIR") or str(data.get("cwd") or "")  # `cwd` follows the shell
    transcript = str(data.get("transcript_path") or "")
    if event == "SessionStart":
        return _context(event, _start(data, hook, session, project, transcript))
    if event == "UserPromptSubmit":
        prompt = str(data.get("prompt") or "")
        if not prompt or prompt.lstrip().startswith("<task-notification>"):
            return None  # a background task has ended
        return _context(event, hook.before_turn(session, project, prompt))
    if event in ("PostToolUseFailure", "PostToolBatch"):
        fixes = [hook.after_tool(session, project, *call) for call in _calls(event, data)]
        return _context(event, "\n\n".join(filter(None, fixes)))
    if event == "PreCompact":
        rules = _constraints(hook, transcript)
        return _KEEP + rules if rules else None
    if event == "PostCompact":
        hook.after_compaction(session)
    elif event in ("Stop", "SessionEnd") and transcript:
        hook.sync(transcript)
    return None


def _start(data: dict[str, Any], hook: Hook, session: str, project: str, transcript: str) -> str | None:
    source = data.get("source")
    if source == "compact":
        hook.after_compaction(session)
        return hook.note_after_compaction(transcript, HOST) if transcript else None
    if source in ("resume", "fork"):
        return None  # the conversation has what the session started with
    return hook.start(session, project, HOST, str(data.get("model") or ""))


def _constraints(hook: Hook, transcript: str) -> str:
    found = hook.constraints(transcript, HOST) if transcript else ()
    if not found:
        return ""
    from warmstart.handoff.constraints import render_constraints

    return render_constraints(found)


def _calls(event: str, data: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The calls that may have failed: tool, arguments and output."""
    if event == "PostToolUseFailure":
        if not data.get("is_interrupt"):
            yield str(data.get("tool_name") or ""), data.get("tool_input") or {}, str(data.get("error") or "")
        return
    for call in data.get("tool_calls") or ():
        output = call.get("tool_response")
        # A failing call has an event of its own. Here are those that hide it: `npm run missing | tail` exits with 0.
        if call.get("tool_name") == "Bash" and isinstance(output, str):
            yield "Bash", call.get("tool_input") or {}, output


def _context(event: str, text: str | None) -> dict[str, Any] | None:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else None


# -- what is installed


def is_present(place: Place) -> bool:
    """Whether Claude Code is on this machine: its folder or its program."""
    from shutil import which

    return _folder(place).is_dir() or which("claude") is not None


def files(place: Place) -> list[HostFile]:
    """Hooks in `settings.json`, the MCP server in `.claude.json`, and the commands `/warm` and `/warm-handoff`."""
    from warmstart.hosts.files import OwnFile, hooks_file, member_file

    folder = _folder(place)
    hooks = {event: {"command": place.hook(HOST, event), "timeout": timeout} for event, timeout in EVENTS.items()}
    script, *arguments = place.command("mcp")
    # Without `alwaysLoad` the first request of a session has no tools of ours: the server starts in the background.
    server: dict[str, Any] = {"type": "stdio", "command": script, "args": arguments, "alwaysLoad": True}
    if home := place.env.get("WARMSTART_HOME"):
        server["env"] = {"WARMSTART_HOME": home}
    configuration = (folder if place.env.get("CLAUDE_CONFIG_DIR") else place.home) / ".claude.json"
    return [
        hooks_file(folder / "settings.json", HOST, hooks),
        member_file(configuration, ("mcpServers", "warmstart"), server if place.mcp else None),
        OwnFile(folder / "commands" / "warm.md", _warm_command(place)),
        OwnFile(folder / "commands" / "warm-handoff.md", _handoff_command(place)),
    ]


def _folder(place: Place) -> Path:
    from pathlib import Path

    return Path(place.env.get("CLAUDE_CONFIG_DIR") or place.home / ".claude")


def _warm_command(place: Place) -> str:
    from shlex import join

    brief, recall = join(place.command("brief")), join(place.command("recall"))
    return f"""---
description: Show what Warmstart knows about this project, or find where something was said in past sessions
argument-hint: "[question]"
allowed-tools: Bash({brief}:*), Bash({recall}:*)
---
What Warmstart knows about this project from earlier sessions:

!`{brief}`

Question: $ARGUMENTS

If there is a question, run `{recall} "the question"` and answer from what it prints, with dates and session ids. If it
prints nothing, say that earlier sessions say nothing about it. Without a question, show the notes above as they are.
"""


def _handoff_command(place: Place) -> str:
    from shlex import join

    packet, resume = join(place.command("handoff", "packet")), join(place.command("handoff", "resume"))
    return f"""---
description: Make the packet that hands this session over to a fresh one
argument-hint: "[note]"
allowed-tools: Bash({packet}:*)
---
Run `{packet}` and tell the user the id in its first lines, how many constraints and files it names, and that
`{resume} ID --host claude-code --run` starts a fresh session with it (also `hermes` or `codex`). If there is a note
here, add `--note` with it, quoted for the shell. Change nothing, and do not go on with the work.

Note: $ARGUMENTS
"""
