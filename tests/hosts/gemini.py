"""The real Gemini CLI on a scripted model."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.hosts.clients import FOLDER, Client, Turn


@dataclass
class GeminiCLI(Client):
    """Gemini CLI. What may run is said in a policy; without one there is no shell in a run without a terminal."""

    name: ClassVar[str] = "gemini-cli"
    config: ClassVar[tuple[str, ...]] = (".gemini/settings.json", ".gemini/commands/**/*", ".gemini/policies/*")

    @property
    def program(self) -> Path:
        return FOLDER / "gemini" / "node_modules" / ".bin" / "gemini"

    @property
    def environment(self) -> dict[str, str]:
        own = {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": self.model.url, "GEMINI_TELEMETRY_ENABLED": "0"}
        return {**super().environment, **own, **self.variables}

    def configure(self) -> None:
        folder = self.home / ".gemini"
        (folder / "policies").mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_text(_SETTINGS)
        (folder / "policies" / "mine.toml").write_text(_POLICY)

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "run_shell_command", {"command": line, "description": "run"}

    def arguments(self, prompt: str, *options: str) -> list[str]:
        # Another model would be asked first which model to ask.
        return ["-m", "gemini-2.5-pro", "-o", "json", *options, "-p", prompt]

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run(*self.arguments(prompt, *options), cwd=cwd)
        said = json.loads(done.stdout[done.stdout.index("{") :])
        requests = [request for request in self.model.requests[before:] if request.tools]
        return Turn(said["session_id"], said["response"], done.stderr, requests, time.monotonic() - began)

    fork = None  # it has none
    compact = None  # it compacts by itself when its context is full

    def subagent(self, task: str) -> tuple[str, dict[str, Any]]:
        """A call that sends a subagent."""
        return "invoke_agent", {"agent_name": "codebase_investigator", "prompt": task}

    def denied(self) -> tuple[str, dict[str, Any]]:
        """A call that the policy denies."""
        return self.shell("rm x")

    def stop(self) -> None:
        """Nothing of it goes on."""


_SETTINGS = """\
{ // mine
  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled":   false}},
  "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
  "hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "true"}]}]}
}"""
_POLICY = """\
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["make", "yarn", "cat", "echo", "exit"]
decision = "allow"
priority = 100

[[rule]]
toolName = "run_shell_command"
commandPrefix = "rm"
decision = "deny"
priority = 200
"""
