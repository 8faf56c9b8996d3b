"""Gemini CLI: the answers to its hooks, and the files to install.

Four pitfalls. Timeouts are in milliseconds. `--resume` forgets what hooks added before, so the session gets it again.
The prompt of BeforeAgent starts with what SessionStart added. And Gemini CLI deletes chats: after `--resume` there may
be two files for one session, and the next start removes both, so every turn imports them all.

The hook for tools also runs in subagents, and does not say so: they get the fix for a failed command too.
"""

from __future__ import annotations

import os

from warmstart.hosts.claude_code import context

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place

HOST = "gemini-cli"
TITLE = "Gemini CLI"
PROGRAM = "gemini"
PROMPT = "BeforeAgent"  # the event that the user waits for

# The hooks and their timeouts in milliseconds, after which Gemini CLI continues without them.
EVENTS = {"SessionStart": 2_000, "BeforeAgent": 2_000, "AfterTool": 1_000, "AfterAgent": 1_000, "SessionEnd": 1_000}
_SHELL = "run_shell_command"

_ADDED, _END_ADDED = "<hook_context>", "</hook_context>"


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event."""
    session, text = str(data.get("session_id") or ""), ""
    # `cwd` follows the shell.
    project = os.environ.get("GEMINI_PROJECT_DIR") or str(data.get("cwd") or "")
    if event == "SessionStart":
        if data.get("source") == "resume":
            hook.after_compaction(session)  # what was shown may be shown again
        text = hook.start(session, project, HOST)
    elif event == "BeforeAgent" and (prompt := _typed(str(data.get("prompt") or ""))):
        text = hook.before_turn(session, project, prompt) or ""
    elif event == "AfterTool" and data.get("tool_name") == _SHELL:
        response = data.get("tool_response") or {}
        output = str(response.get("llmContent") or "")
        text = hook.after_tool(session, project, _SHELL, data.get("tool_input") or {}, output) or ""
    elif event in ("AfterAgent", "SessionEnd") and (transcript := str(data.get("transcript_path") or "")):
        hook.sync(transcript, *_more_logs(transcript, session))
    return context(event, text, hook.notice)


def _typed(prompt: str) -> str:
    """The prompt without the text that hooks put before it."""
    while prompt.startswith(_ADDED) and _END_ADDED in prompt:
        prompt = prompt.partition(_END_ADDED)[2].lstrip()
    return prompt


def _more_logs(transcript: str, session: str) -> list[str]:
    """Other files of the session, and the folder of its subagents."""
    from pathlib import Path

    paths = Path(transcript).parent.glob(f"*{session[:8]}*") if session else ()
    return sorted(str(path) for path in paths if path.suffix in (".jsonl", "") and str(path) != transcript)


# -- installed files


def folder(place: Place) -> Path:
    """Where Gemini CLI keeps its files."""
    return place.folder("GEMINI_CLI_HOME", "") / ".gemini"


def files(place: Place) -> list[HostFile]:
    """Hooks and the MCP server in `settings.json`, and the commands `/warm:recall`, `:remember` and `:pause`."""
    from warmstart.hosts.files import JSONFile, OwnFile, hooks_file, member_file

    path = folder(place) / "settings.json"
    hooks = hooks_file(path, HOST, place.hook, EVENTS, matchers={"AfterTool": _SHELL}, name="warmstart")
    member = member_file(path, ("mcpServers", "warmstart"), place.server())
    return [
        JSONFile(path, hooks.entries + member.entries, lambda data: [*hooks.find(data), *member.find(data)]),
        *(
            OwnFile(folder(place) / "commands" / "warm" / f"{name}.toml", place.text(f"gemini_{name}.toml"))
            for name in ("pause", "recall", "remember")
        ),
    ]
