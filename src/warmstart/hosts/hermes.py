"""Hermes Agent: what our process answers to the plugin inside Hermes (`hermes_plugin`)."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from warmstart.hosts.hook import Hook

AGENT = "hermes"


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event of the plugin."""
    session, folder = str(data.get("session_id") or ""), str(data.get("cwd") or ".")
    if event == "turn":
        return _context(_turn(data, hook, session, folder))
    if event == "tool_failed":
        return _context(hook.after_tool(session, folder, data["tool"], data["arguments"], data["output"]))
    if event == "end":
        hook.sync(f"{data['hermes_home']}/state.db")
        return None
    if event == "block":
        return {"block": _block(data["mode"])}
    if event == "tool":
        return {"result": _call(data["tool"], data["arguments"], session, folder)}
    return _seed(data, session, folder) if event == "seed" else None


def _context(text: str | None) -> dict[str, Any] | None:
    return {"context": text} if text else None


def _turn(data: dict[str, Any], hook: Hook, session: str, folder: str) -> str:
    if data["compacted"]:
        hook.after_compaction(session)
    start = hook.start(session, folder, AGENT, data["model"]) if data["first"] else ""
    return "\n\n".join(filter(None, (start, hook.before_turn(session, folder, data["message"]))))


def _block(mode: object) -> str:
    from warmstart.preflight.prompt import block

    return block("full" if mode == "full" else "short")


def _call(tool: str, arguments: dict[str, Any], session: str, folder: str) -> str:
    """The result of one of our tools, for the model."""
    if tool == "memory_backend":
        from warmstart.memory.tool import MEMORY_BACKEND_SCHEMA, memory_backend

        known = MEMORY_BACKEND_SCHEMA["parameters"]["properties"]
        return memory_backend(**{name: value for name, value in arguments.items() if name in known})
    import json

    from warmstart.app import open

    project = None if arguments.get("all_projects") else folder
    limit = min(int(arguments.get("limit") or 5), 20)
    with open() as app:
        found = app.recall(str(arguments.get("query")), project=project, limit=limit, exclude_session=session)
    ...


def _seed(data: dict[str, Any], session: str, folder: str) -> dict[str, Any]:
    """The rows of a new session that begins with the brief and a template."""
