"""Our MCP server in Codex's `config.toml`, added as text and removed without touching anything else."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from warmstart.hosts.files import Edit, HostFile, State
from warmstart.hosts.json_text import Insertion, Keys

TABLE, NAME = "mcp_servers", "warmstart"


@dataclass(frozen=True, slots=True)
class ServerTable(HostFile):
    """`config.toml` with our table at its end; `server` is `None` if it should not be there."""

    server: Mapping[str, Any] | None

    def state(self, text: str) -> State:
        current = _servers(text).get(NAME)
        if current is None:
            return "absent"
        # Codex also stores in this table which of our tools the user allows.
        wanted = self.server or {}
        return "current" if wanted and {key: current.get(key) for key in wanted} == wanted else "outdated"

    def add(self, text: str) -> Edit:
        if self.server is None:
            return Edit(text, ())
        import tomlkit

        newline = "\r\n" if "\r\n" in text else "\n"
        gap = newline * ((not text.endswith("\n")) + 1) if text else ""
        piece = gap + tomlkit.dumps({TABLE: {NAME: self.server}}).replace("\n", newline)
        servers = _servers(text)
        if _servers(text + piece) != {**servers, NAME: self.server}:
            raise ValueError(f"{TABLE!r} is not a table")
        created = () if TABLE in tomllib.loads(text) else ((TABLE,),)
        return Edit(text + piece, (Insertion(len(text), len(piece)),), created)

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        servers = _servers(text)
        if NAME not in servers:
            return text
        import tomlkit

        document: Any = tomlkit.parse(text)
        del document[TABLE][NAME]
        if not document[TABLE] and (created is None or (TABLE,) in created):
            del document[TABLE]
        left = tomlkit.dumps(document)
        if _servers(left) != {name: server for name, server in servers.items() if name != NAME}:
            raise ValueError(f"cannot remove {TABLE}.{NAME}")
        return left


def _servers(text: str) -> dict[str, Any]:
    servers = tomllib.loads(text).get(TABLE, {})
    if not isinstance(servers, dict):
        raise ValueError(f"{TABLE!r} is not a table")
    return servers
