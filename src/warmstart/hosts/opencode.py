"""OpenCode: the answers to the plugin inside OpenCode (`opencode_files/plugin.js`), and the files to install.

The start of a session goes into the system prompt of every request, so it survives a compaction. Where the user's rules
are needed, the plugin sends the user's messages along.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place

HOST = "opencode"
TITLE = "OpenCode"
PROGRAM = "opencode"
PROMPT = "prompt"  # the event that the user waits for

PACKAGE = "@opencode-ai/plugin"
_CONFIGURATIONS = ("opencode.jsonc", "opencode.json", "config.json")  # OpenCode reads them all


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event of the plugin."""
    session, project = str(data.get("session_id") or ""), str(data.get("cwd") or "")
    text: str | None = None
    if event == "start":
        rules = render_rules(data.get("prompts") or ()) if data.get("is_compacted") else ""
        start = hook.start(session, project, HOST, str(data.get("model") or ""))
        text = "\n\n".join(filter(None, (start, rules)))
    elif event == "prompt":
        text = hook.before_turn(session, project, str(data.get("prompt") or ""))
    elif event == "failed":
        text = hook.after_tool(session, project, "bash", data.get("arguments") or {}, str(data.get("output") or ""))
    elif event == "compacting":
        rules = render_rules(data.get("prompts") or ())
        text = f"Quote the user's rules below word for word in the summary.\n\n{rules}" if rules else ""
    elif event == "compacted":
        hook.after_compaction(session)
    elif event == "idle" and (databases := _databases()):
        hook.sync(*databases)
    return {"context": text} if text else None


def render_rules(prompts: Iterable[str]) -> str:
    """The rules in the user's messages, as a note; empty if there are none."""
    from warmstart.config import load_settings
    from warmstart.handoff.ledger import build_ledger
    from warmstart.handoff.packet import render_constraints
    from warmstart.redact.redactor import configured_redactor
    from warmstart.sessions.values import Message, Session

    redactor = configured_redactor(load_settings(os.environ))
    messages = [Message(native_id=str(n), role="user", text=redactor.clean(text)) for n, text in enumerate(prompts)]
    return render_constraints(build_ledger(Session(agent=HOST, native_id="live"), messages), redactor)


def _databases() -> list[str]:
    from pathlib import Path

    from warmstart.sessions.readers.opencode import OpenCodeReader

    reader = OpenCodeReader()
    return [str(path) for root in reader.roots(os.environ, Path.home()) if root.exists() for path in reader.find(root)]


# -- installed files


def folder(place: Place) -> Path:
    """Where OpenCode keeps its configuration."""
    return place.folder("XDG_CONFIG_HOME", ".config") / "opencode"


def files(place: Place) -> list[HostFile]:
    """A plugin, the MCP server in the configuration, and a stub for the package that OpenCode would wait for."""
    from json import dumps
    from pathlib import Path

    from warmstart.hosts.files import OwnFile, member_file
    from warmstart.hosts.hook import CODE

    here, own = Path(__file__).parent / "opencode_files", folder(place)
    home = place.env.get("WARMSTART_HOME")
    environment = {"WARMSTART_HOME": home} if home else {}
    plugin = (here / "plugin.js").read_text("utf-8").replace('"{environment}"', dumps(environment))
    plugin = plugin.replace('"{command}"', dumps([place.python, "-EPc", CODE, "hook", HOST]))
    server = {"type": "local", "command": place.command("mcp"), "enabled": True}
    if home:
        server["environment"] = environment
    first, *others = [name for name in _CONFIGURATIONS if (own / name).exists()] or ["opencode.json"]
    wanted = {first: server, **dict.fromkeys(others)}
    host_files: list[HostFile] = [OwnFile(own / "plugin" / "warmstart.js", plugin)]
    host_files += [member_file(own / name, ("mcp", "warmstart"), value) for name, value in wanted.items()]
    # The stub keeps OpenCode from installing its package, unless it already has. OpenCode looks for `node_modules` and
    # for the package in `package-lock.json`, not for its version.
    package, version = own / "node_modules" / PACKAGE, "0.0.0-warmstart"
    manifest = dumps({"name": PACKAGE, "version": version, "type": "module", "main": "index.js"}) + "\n"
    if not _has_packages(own / "node_modules", package, manifest):
        host_files += [
            OwnFile(package / "package.json", manifest),
            OwnFile(package / "index.js", (here / "stand_in.js").read_text("utf-8")),
            member_file(
                own / "package-lock.json",
                ("packages", "", "dependencies", PACKAGE),
                version,
                lambda value: value == version,
            ),
        ]
    return host_files


def _has_packages(modules: Path, stub: Path, manifest: str) -> bool:
    """Whether packages are installed, other than the stub or a part of it that an interrupted command left."""
    from warmstart.hosts.files import read_file

    if read_file(stub / "package.json") not in (None, manifest.encode()):
        return True
    return any(path.parent != stub and not path.is_dir() for path in modules.rglob("*"))
