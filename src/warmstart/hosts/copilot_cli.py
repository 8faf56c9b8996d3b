"""GitHub Copilot CLI: the answers to its hooks, and the files to install.

It reads only `additionalContext` at the top level of an answer. Text added by `sessionStart` is not part of the
conversation: a resumed process asks for it again, and a compaction drops it, so we repeat it with the next prompt. Text
added to a prompt stays with the prompt.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place

HOST = "copilot-cli"
TITLE = "Copilot CLI"
PROGRAM = "copilot"
PROMPT = "userPromptSubmitted"  # the event that the user waits for

# The hooks and their timeouts in seconds, after which Copilot continues without them.
EVENTS = {"sessionStart": 2, "userPromptSubmitted": 2, "postToolUse": 1, "preCompact": 1, "agentStop": 1}


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event."""
    if data.get("agentId"):
        return None  # a subagent
    session, project = str(data.get("sessionId") or ""), str(data.get("cwd") or "")
    texts: list[str | None] = []
    if event == "sessionStart" and hook.last_note(session) != "restart":
        hook.note(session, "start")
        texts = [hook.start(session, project, HOST)]
    elif event == "userPromptSubmitted" and (prompt := str(data.get("prompt") or "")):
        if hook.last_note(session) == "compaction":
            hook.note(session, "restart")
            texts = [hook.start(session, project, HOST)]
        texts.append(hook.before_turn(session, project, prompt))
    elif event == "postToolUse" and data.get("toolName") == "bash":
        # A command that failed counts as a success; its text ends with the exit code.
        output = str((data.get("toolResult") or {}).get("textResultForLlm") or "")
        texts = [hook.after_tool(session, project, "bash", data.get("toolArgs") or {}, output)]
    elif event == "preCompact":
        hook.after_compaction(session)
    elif event == "agentStop" and (transcript := str(data.get("transcriptPath") or "")):
        hook.sync(transcript)
    text = "\n\n".join(filter(None, texts))
    return {"additionalContext": text} if text else None


# -- installed files


def folder(place: Place) -> Path:
    """Where Copilot CLI keeps its files."""
    return place.folder("COPILOT_HOME", ".copilot")


def files(place: Place) -> list[HostFile]:
    """Hooks in our own file, and the MCP server in `mcp-config.json`."""
    from json import dumps

    from warmstart.hosts.files import OwnFile, member_file

    hooks = {
        event: [{"type": "command", "bash": place.hook(HOST, event), "timeoutSec": timeout}]
        for event, timeout in EVENTS.items()
    }
    server = {"type": "local", **place.server(), "tools": ["*"]}
    return [
        OwnFile(folder(place) / "hooks" / "warmstart.json", dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"),
        member_file(folder(place) / "mcp-config.json", ("mcpServers", "warmstart"), server),
    ]
