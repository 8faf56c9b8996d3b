"""Hooks that an agent sends to our MCP server, which runs anyway, instead of starting a process.

The server does not list the tool, so no model sees it; agents call it all the same. While the server is connected, the
file `$WARMSTART_HOME/hosts/server.PID` with the process id of the agent exists, and the command of the same hook does
nothing. Without the server, the command answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from json import dumps, loads
from pathlib import Path
from typing import Any

NAME = "hook"

# The events of each host, with their fields. Subagents and folders are in every event.
EVENTS = {
    "claude-code": {
        "UserPromptSubmit": ("prompt",),
        "PostToolUseFailure": ("tool_name", "tool_input", "error", "is_interrupt"),
        "PostToolBatch": ("tool_calls",),
    },
}
_COMMON = ("session_id", "cwd", "agent_id")
_AS_JSON = ("is_interrupt", "tool_calls", "tool_input")  # an agent fills in text; these it encodes


def tool_hook(host: str, event: str, timeout: int) -> dict[str, Any]:
    """The hook for an agent's configuration."""
    fields = {name: f"${{{name}}}" for name in (*_COMMON, *EVENTS[host][event])}
    call = {"server": "warmstart", "tool": NAME, "input": {"host": host, "event": event, **fields}}
    return {"type": "mcp_tool", **call, "timeout": timeout}


def is_tool_hook(hook: object) -> bool:
    """Whether a hook in an agent's configuration is ours."""
    return isinstance(hook, dict) and hook.get("server") == "warmstart" and hook.get("tool") == NAME


def unless_connected(command: str, home: str) -> str:
    """A shell command that runs only while the agent's server is not connected; `home` may contain shell syntax."""
    return f'w={home}; [ -e "$w/hosts/server.$PPID" ] || {command}'


def answer_call(arguments: Mapping[str, Any]) -> str:
    """The text of the tool: what the command would print, or an empty object. Never raises."""
    from warmstart.hosts.hook import answer

    host, event = str(arguments.get("host")), str(arguments.get("event"))
    data = dict(arguments)
    for name in _AS_JSON:
        with suppress(ValueError, TypeError):
            data[name] = loads(data.get(name) or "null")
    output: list[bytes] = []
    if event in EVENTS.get(host, ()):
        answer(host, event, lambda: dumps(data).encode(), output.append)
    return b"".join(output).decode() or "{}"


def connect() -> Path:
    """Leave the file that says that the agent's server is connected; the server removes it at its end."""
    folder = Path(os.environ.get("WARMSTART_HOME") or "~/.warmstart").expanduser() / "hosts"
    marker = folder / f"server.{os.getppid()}"
    with suppress(OSError):  # not installed
        for old in folder.glob("server.*"):
            if not _is_running(int(old.suffix[1:])):
                old.unlink()
        marker.touch(0o600)
    return marker


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
