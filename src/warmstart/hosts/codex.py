"""Codex CLI: the answers to its hooks, and the files to install.

Its hooks are those of Claude Code, with one difference: Codex silently skips a hook that the user has not reviewed.
That is the user's decision, so we never write the hash that marks a hook as trusted; `doctor` says what to do.
"""

from __future__ import annotations

from warmstart.hosts.claude_code import context, start

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place

HOST = "codex"
TITLE = "Codex"
PROGRAM = "codex"
PROMPT = "UserPromptSubmit"  # the event that the user waits for

# The hooks and their timeouts in seconds, after which Codex continues without them.
EVENTS = {
    "SessionStart": 2,
    "SubagentStart": 1,
    "UserPromptSubmit": 2,
    "PostToolUse": 1,
    "Stop": 1,
    "SessionEnd": 1,
}


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event."""
    session, project = str(data.get("session_id") or ""), str(data.get("cwd") or "")
    transcript = str(data.get("transcript_path") or "")
    if event == "SubagentStart":
        return context(event, hook.start_subagent(project, HOST))
    if data.get("agent_id"):
        return None  # a subagent, which has its parent's session id
    if event == "SessionStart":
        return context(event, start(data, hook, session, project, transcript), hook.notice)
    if event == "UserPromptSubmit" and (prompt := str(data.get("prompt") or "")):
        return context(event, hook.before_turn(session, project, prompt), hook.notice)
    output = data.get("tool_response")
    if event == "PostToolUse" and data.get("tool_name") == "Bash" and isinstance(output, str):
        return context(event, hook.after_tool(session, project, "Bash", data.get("tool_input") or {}, output))
    if event in ("Stop", "SessionEnd") and transcript:
        hook.sync(transcript)
    return None


# -- installed files


def folder(place: Place) -> Path:
    """Where Codex keeps its files."""
    return place.folder("CODEX_HOME", ".codex")


def files(place: Place) -> list[HostFile]:
    """Hooks in `hooks.json`, the MCP server in `config.toml` as `codex mcp add` writes it, and the skill `$warm`."""
    from warmstart.hosts.files import OwnFile, ServerTable, hooks_file

    own = folder(place)
    return [
        hooks_file(own / "hooks.json", HOST, place.hook, EVENTS),
        ServerTable(own / "config.toml", place.server()),
        OwnFile(own / "skills" / "warm" / "SKILL.md", place.text("codex_skill.md")),
    ]


def pending(place: Place, last_run: float) -> str:
    """What the user has to do before Codex runs our hooks; `last_run` is when a hook last ran, 0 for never."""
    from contextlib import suppress
    from tomllib import loads

    from warmstart.hosts.files import find_hooks
    from warmstart.hosts.json_text import parse

    path, state = folder(place) / "hooks.json", {}
    with suppress(OSError, ValueError):
        state = loads((path.parent / "config.toml").read_text("utf-8")).get("hooks", {}).get("state", {})
    try:
        ours = list(find_hooks(parse(path.read_text("utf-8")).value, HOST))
        changed_at = path.stat().st_mtime
    except (OSError, ValueError):
        return ""
    keys = [f"{path}:{_snake_case(str(keys[1]))}:{keys[2]}:{keys[4] if len(keys) > 4 else 0}" for keys in ours]
    new = [key for key in keys if not state.get(key, {}).get("trusted_hash")]
    if not new and last_run >= changed_at:
        return ""
    which = f"{len(new)} of {len(ours)} hooks" if new else "hooks that have changed"
    return f"Codex does not run {which} until you review them: start `codex` and type /hooks"


def _snake_case(event: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("_")
