"""Real agents whose logs we read, but which we do not set up: Qwen Code, pi and Cline, on a scripted model."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.hosts.clients import FOLDER, RPC, Client, Turn, rpc_server

SUMMARY = "<state_snapshot>They counted. " + " ".join(f"Item {number} was seen." for number in range(20))
SUMMARY += "</state_snapshot>"


@dataclass
class QwenCode(Client):
    """Qwen Code. What may run is said in its settings."""

    name: ClassVar[str] = "qwen-code"

    @property
    def program(self) -> Path:
        return FOLDER / "qwen" / "node_modules" / ".bin" / "qwen"

    @property
    def environment(self) -> dict[str, str]:
        own = {"OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_MODEL": "scripted"}
        return {**super().environment, **own, **self.variables}

    def configure(self) -> None:
        folder = self.home / ".qwen"
        folder.mkdir(parents=True, exist_ok=True)
        allowed = [f"run_shell_command({program} *)" for program in ("echo", "exit", "cat", "make")]
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"disableAutoUpdate": True},
            "permissions": {"allow": allowed, "deny": ["run_shell_command(rm *)"]},
        }
        (folder / "settings.json").write_text(json.dumps(settings))

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "run_shell_command", {"command": line, "description": "run", "is_background": False}

    def arguments(self, prompt: str, *options: str) -> list[str]:
        return [prompt, "-o", "json", *options]

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run(*self.arguments(prompt, *options), cwd=cwd)
        said = json.loads(done.stdout[done.stdout.index("[") :])[-1]
        requests = self.model.requests[before:]
        return Turn(said["session_id"], said.get("result", ""), done.stderr, requests, time.monotonic() - began)

    def resume(self, session_id: str, prompt: str) -> None:
        self.ask(prompt, "--resume", session_id)

    def fork(self, session_id: str, prompt: str) -> None:
        self.ask(prompt, "--resume", session_id, "--fork-session")

    def compact(self, session_id: str) -> None:
        self.ask("/compress", "--resume", session_id)

    def subagent(self, task: str) -> tuple[str, dict[str, Any]]:
        given = {"description": "look", "prompt": task, "subagent_type": "general-purpose"}
        return "agent", {**given, "run_in_background": False}

    def denied(self) -> tuple[str, dict[str, Any]]:
        return self.shell("rm x")

    def stop(self) -> None:
        """Nothing of it goes on."""


@dataclass
class Pi(Client):
    """pi, which has neither subagents nor permissions."""

    name: ClassVar[str] = "pi"

    @property
    def program(self) -> Path:
        return FOLDER / "pi" / "node_modules" / ".bin" / "pi"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", **self.variables}

    def configure(self) -> None:
        folder = self.home / ".pi" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        provider = {"baseUrl": f"{self.model.url}/v1", "api": "openai-completions", "apiKey": "scripted"}
        provider["models"] = [{"id": "scripted", "contextWindow": 60_000}]  # type: ignore[assignment]
        (folder / "models.json").write_text(json.dumps({"providers": {"own": provider}}))
        compaction = {"enabled": True, "reserveTokens": 10_000, "keepRecentTokens": 10}
        (folder / "settings.json").write_text(json.dumps({"compaction": compaction}))

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "bash", {"command": line}

    def arguments(self, prompt: str, *options: str) -> list[str]:
        return ["--provider", "own", "--model", "scripted", *options, "-p", prompt]

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run(*self.arguments(prompt, *options), cwd=cwd)
        newest = max((self.home / ".pi").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        native_id = newest.stem.partition("_")[2]
        return Turn(native_id, done.stdout, done.stderr, self.model.requests[before:], time.monotonic() - began)

    def resume(self, session_id: str, prompt: str) -> None:
        self.ask(prompt, "--session", session_id)

    def fork(self, session_id: str, prompt: str) -> None:
        self.ask(prompt, "--fork", session_id)

    compact = None  # it compacts by itself when its context is full
    subagent = None
    denied = None

    def stop(self) -> None:
        """Nothing of it goes on."""


@dataclass
class Cline(Client):
    """Cline's command line. It leaves a daemon behind."""

    name: ClassVar[str] = "cline"

    @property
    def program(self) -> Path:
        return FOLDER / "cline" / "node_modules" / ".bin" / "cline"

    @property
    def environment(self) -> dict[str, str]:
        own = {"CLINE_API_KEY": "scripted", "CLINE_PROVIDER": "openai-compatible"}
        return {**super().environment, **own, **self.variables}

    @property
    def sessions(self) -> Path:
        return self.home / ".cline" / "data" / "sessions"

    def configure(self) -> None:
        own = ("-p", "openai-compatible", "-k", "scripted", "-m", "scripted", "-b", f"{self.model.url}/v1")
        self.run("auth", *own)

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "run_commands", {"commands": [line]}

    def arguments(self, prompt: str, *options: str) -> list[str]:
        return ["--json", *options, prompt]

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run(*self.arguments(prompt, *options), cwd=cwd)
        newest = max(self.sessions.glob("*_*"), key=lambda path: path.name)
        return Turn(newest.name, done.stdout, done.stderr, self.model.requests[before:], time.monotonic() - began)

    def resume(self, session_id: str, prompt: str) -> None:
        """Without a terminal, it resumes a session only for an editor, over the Agent Client Protocol."""
        with rpc_server(self, "--auto-approve", "true", "--acp") as process:
            editor = RPC(process)
            editor.call("initialize", protocolVersion=1, clientCapabilities={})
            editor.call("session/load", sessionId=session_id, cwd=str(self.work), mcpServers=[])
            editor.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": prompt}])

    fork = None  # only in a dialog of its terminal
    compact = None

    def subagent(self, task: str) -> tuple[str, dict[str, Any]]:
        return "spawn_agent", {"task": task, "systemPrompt": "You look."}

    denied = None  # it refuses all calls or none: see `--auto-approve`

    def stop(self) -> None:
        """End its daemon."""
        lock = self.home / ".cline" / "data" / "locks" / "hub" / "production.json"
        with suppress(OSError, ValueError, ProcessLookupError):
            os.kill(json.loads(lock.read_text())["pid"], signal.SIGTERM)
