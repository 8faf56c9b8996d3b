"""Real agents on a scripted model: no terminal, no way into the network, a home of their own, lists of permissions.

`WARMSTART_TEST_HOSTS` names the folder into which `tests/hosts/install.sh` installed them, `WARMSTART_TEST_CLAUDE` the
versions of Claude Code in it, the main one first.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any, ClassVar

import pytest

import warmstart
from warmstart.app import Warmstart
from warmstart.testing.model import Request, ScriptedModel

FOLDER = Path(os.environ.get("WARMSTART_TEST_HOSTS") or ".")
CLAUDE_VERSIONS = os.environ.get("WARMSTART_TEST_CLAUDE", "none").split()
NEWEST = CLAUDE_VERSIONS[0]
MARKS = [
    pytest.mark.hosts,
    pytest.mark.skipif("WARMSTART_TEST_HOSTS" not in os.environ, reason="WARMSTART_TEST_HOSTS names no folder"),
]

_CLOSED = "http://127.0.0.1:9"
OFFLINE = {"HTTP_PROXY": _CLOSED, "HTTPS_PROXY": _CLOSED, "NO_PROXY": "127.0.0.1,localhost"}
SECONDS = 300  # enough for a turn on a loaded machine


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of an agent: what it printed, and what the model was sent, first request first."""

    session_id: str
    text: str
    errors: str
    requests: list[Request]
    seconds: float


@dataclass
class Client(ABC):
    """An agent, the home it runs in, and the project it works on."""

    name: ClassVar[str]
    config: ClassVar[tuple[str, ...]]  # patterns of the files that it is configured with, below its home
    home: Path
    model: ScriptedModel
    python: str = sys.executable  # of our own installation
    variables: dict[str, str] = field(default_factory=dict)  # more environment

    @property
    def work(self) -> Path:
        """A project, which is a repository."""
        return self.home / "work"

    @property
    @abstractmethod
    def program(self) -> Path:
        """What starts it."""

    @abstractmethod
    def configure(self) -> None:
        """Write its configuration by hand, as a person would, without anything of ours."""

    @abstractmethod
    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        """A call that runs a line in a shell."""

    @abstractmethod
    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        """One turn."""

    def resume(self, session_id: str, prompt: str) -> Turn:
        """One more turn of a session."""
        return self.ask(prompt, "--resume", session_id)

    @property
    def environment(self) -> dict[str, str]:
        """All that a run sees of the environment."""
        folders = self.home / "bin", self.program.parent, FOLDER / "node" / "node_modules" / ".bin"
        path = os.pathsep.join((*map(str, folders), os.environ["PATH"]))
        return {"PATH": path, "HOME": str(self.home), "TERM": "dumb", **OFFLINE, **self.variables}

    def run(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the agent's program to its end."""
        return self._run([str(self.program), *arguments], cwd, check)

    def warmstart(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run our own command in the agent's home, and return what it prints."""
        return self._run([self.python, "-m", "warmstart", *arguments], cwd).stdout

    def install(self) -> None:
        """Install Warmstart in the agent."""
        self.warmstart("install", self.name, "--yes")

    def config_files(self) -> dict[str, str]:
        """The files that it is configured with: not those it writes about its sessions."""
        found = (path for pattern in self.config for path in self.home.glob(pattern) if path.is_file())
        names = {path: str(path.relative_to(self.home)) for path in found if "__pycache__" not in path.parts}
        return {name: path.read_text() for path, name in names.items()}

    def open(self) -> Warmstart:
        """Our store in the agent's home."""
        return warmstart.open(home=self.variables.get("WARMSTART_HOME", self.home / ".warmstart"))

    def _run(self, line: list[str], cwd: Path | None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            line,
            env=self.environment,
            cwd=cwd or self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


class RPC:
    """An agent that serves a terminal or an editor: JSON-RPC, one message per line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._id = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": parameters}
        assert self._process.stdin
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = next(each for each in self.messages() if each.get("id") == self._id and "method" not in each)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it says, as it comes."""
        assert self._process.stdout
        return map(json.loads, self._process.stdout)


@contextmanager
def rpc_server(client: Client, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The agent as a server."""
    pipe, line = subprocess.PIPE, [client.program, *arguments]
    with subprocess.Popen(
        line, env=client.environment, cwd=client.work, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        deadline = Timer(SECONDS, process.kill)
        deadline.start()
        yield process
        assert process.stdin
        process.stdin.close()
        process.wait(SECONDS)
        deadline.cancel()


@dataclass
class ClaudeCode(Client):
    """Claude Code, whose permissions are those of `settings.json` and of `--allowedTools`."""

    version: str = NEWEST
    name: ClassVar[str] = "claude-code"
    config = (".claude.json", ".claude/settings.json", ".claude/*/*.md")

    @property
    def program(self) -> Path:
        return FOLDER / f"claude-{self.version}" / "node_modules" / ".bin" / "claude"

    @property
    def environment(self) -> dict[str, str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
        own = {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "scripted", "DISABLE_TELEMETRY": "1"}
        return {**super().environment, **dict.fromkeys(quiet, "1"), **own, **self.variables}

    def configure(self) -> None:
        """What may run, and a hook of somebody else."""
        settings = self.home / ".claude" / "settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(_CLAUDE_SETTINGS)

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "Bash", {"command": line, "description": "run"}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run("-p", prompt, "--output-format", "json", *options, cwd=cwd)
        said = json.loads(done.stdout)
        assert not said["is_error"], done.stdout
        return Turn(
            said["session_id"], said["result"], done.stderr, self.model.requests[before:], time.monotonic() - began
        )

    def log(self, session_id: str) -> Path:
        """The transcript of a session."""
        (path,) = (self.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return path


_CLAUDE_SETTINGS = """\
{
  "permissions": {"allow": ["Bash(make:*)", "Bash(yarn:*)", "Bash(cat:*)", "Bash(echo:*)", "Bash(exit:*)"],
                  "deny":  ["WebFetch"]},
    "hooks": { "Stop": [{"hooks": [{"type": "command", "command": "true"}]}] },
  "cleanupPeriodDays":   90
}"""


@dataclass
class Hermes(Client):
    """Hermes Agent."""

    name: ClassVar[str] = "hermes"
    config = (".hermes/config.yaml", ".hermes/plugins/**/*", ".hermes/shell-hooks-allowlist.json")

    @property
    def program(self) -> Path:
        return FOLDER / "hermes" / "bin" / "hermes"

    @property
    def folder(self) -> Path:
        """`$HERMES_HOME`."""
        return self.home / ".hermes"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "HERMES_HOME": str(self.folder), **self.variables}

    def configure(self, **more: Any) -> None:
        """The scripted model, and nothing that would look for the network."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A value in JSON is YAML too.
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in more.items())
        (self.folder / "config.yaml").write_text(_HERMES_CONFIG.format(url=self.model.url) + "".join(lines))

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "terminal", {"command": line}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        """Requests without tools are Hermes' own errands."""
        before, began = len(self.model.requests), time.monotonic()
        done = self.run("chat", "-q", prompt, "-Q", *options, cwd=cwd)
        found = re.findall(r"session_id:\s*(\S+)", done.stdout + done.stderr)
        requests = [request for request in self.model.requests[before:] if request.tools]
        return Turn(found[-1] if found else "", done.stdout, done.stderr, requests, time.monotonic() - began)


_HERMES_CONFIG = """\
# My own model.
model: {{default: scripted, provider: custom, base_url: "{url}/v1", api_key: sk-x, context_length: 128000}}
security:
    tirith_enabled: false       # it would be downloaded
    allow_lazy_installs: false
"""


@dataclass
class Codex(Client):
    """Codex CLI. Its hooks run without a review: that is a person's, in a terminal."""

    name: ClassVar[str] = "codex"
    config = (".codex/config.toml", ".codex/hooks.json", ".codex/skills/warm/*", ".codex/prompts/*")

    @property
    def program(self) -> Path:
        return FOLDER / "codex" / "node_modules" / ".bin" / "codex"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "CODEX_HOME": str(self.home / ".codex"), "KEY": "scripted", **self.variables}

    def configure(self) -> None:
        path = self.home / ".codex" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_CODEX_CONFIG.format(url=self.model.url))

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "exec_command", {"cmd": line}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run("exec", *options, "--json", "--dangerously-bypass-hook-trust", prompt, cwd=cwd)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        (session_id,) = [event["thread_id"] for event in events if event["type"] == "thread.started"]
        texts = [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"]
        taken = time.monotonic() - began
        return Turn(session_id, texts[-1] if texts else "", done.stderr, self.model.requests[before:], taken)

    def resume(self, session_id: str, prompt: str) -> Turn:
        return self.ask(prompt, "resume", session_id)


_CODEX_CONFIG = """\
model = "gpt-5.2-codex"     # scripted
model_provider = "scripted"
check_for_update_on_startup = false
sandbox_mode = "workspace-write"
approval_policy = "never"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
[feedback]
enabled = false"""


@dataclass
class Copilot(Client):
    """GitHub Copilot CLI with a model of one's own, which needs no account."""

    name: ClassVar[str] = "copilot-cli"
    config = (".copilot/mcp-config.json", ".copilot/hooks/*")

    @property
    def program(self) -> Path:
        return FOLDER / "copilot" / "node_modules" / ".bin" / "copilot"

    @property
    def environment(self) -> dict[str, str]:
        model = {"BASE_URL": f"{self.model.url}/v1", "API_KEY": "scripted"}
        own = {f"COPILOT_PROVIDER_{name}": value for name, value in model.items()} | {"COPILOT_MODEL": "gpt-4.1"}
        return {**super().environment, **own, **self.variables}

    def configure(self) -> None:
        """A server of somebody else, which does not start."""
        path = self.home / ".copilot" / "mcp-config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            '{"mcpServers": {\n\t"mine": {"type": "local", "command": "false", "args": [], "tools": ["*"]}}}'
        )

    @property
    def options(self) -> list[str]:
        """What may run, and no way into the network."""
        allowed = [f"--allow-tool=shell({program}:*)" for program in ("make", "yarn", "cat", "echo", "exit")]
        return [*allowed, "--disable-builtin-mcps", "--no-auto-update", "--no-color", "--silent"]

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "bash", {"command": line, "description": "run"}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        logs = self.home / ".copilot" / "session-state"
        done = self.run("-p", prompt, *options, *self.options, cwd=cwd)
        newest = max(logs.glob("*/events.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        requests = [request for request in self.model.requests[before:] if request.tools]
        return Turn(newest.parent.name, done.stdout, done.stderr, requests, time.monotonic() - began)


@dataclass
class OpenCode(Client):
    """OpenCode. It asks for titles without offering tools."""

    name: ClassVar[str] = "opencode"
    config = (".config/opencode/*.json*", ".config/opencode/plugin/*", ".config/opencode/node_modules/**/*")

    @property
    def program(self) -> Path:
        return FOLDER / "opencode" / "node_modules" / ".bin" / "opencode"

    @property
    def environment(self) -> dict[str, str]:
        quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {**super().environment, **{f"OPENCODE_DISABLE_{name}": "1" for name in quiet}, **self.variables}

    def configure(self) -> None:
        path = self.home / ".config" / "opencode" / "opencode.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_OPENCODE_CONFIG.replace("ENDPOINT", self.model.url))

    def shell(self, line: str) -> tuple[str, dict[str, Any]]:
        return "bash", {"command": line, "description": "run"}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        before, began = len(self.model.requests), time.monotonic()
        done = self.run("run", "--format", "json", *options, *prompt.split(" "), cwd=cwd)  # it quotes words with spaces
        events = [json.loads(line) for line in done.stdout.splitlines()]
        texts = [event["part"]["text"] for event in events if event["type"] == "text"]
        requests = [request for request in self.model.requests[before:] if request.tools]
        taken = time.monotonic() - began
        return Turn(events[0]["sessionID"], texts[-1] if texts else "", done.stderr, requests, taken)

    def resume(self, session_id: str, prompt: str) -> Turn:
        return self.ask(prompt, "--session", session_id)


_OPENCODE_CONFIG = """\
{ // mine
  "$schema": "https://opencode.ai/config.json",
  "model":    "scripted/scripted",
  "small_model": "scripted/scripted",
  "permission": {"bash": {"*": "deny", "make *": "allow", "yarn *": "allow", "cat *": "allow", "echo *": "allow",
    "exit *": "allow"}},
  "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "ENDPOINT/v1", "apiKey": "x"},
    "models": {"scripted": {"limit": {"context": 60000, "output": 4000}}}}},
}
"""


OTHERS: dict[str, type[Client]] = {"Codex": Codex, "Copilot": Copilot, "Hermes": Hermes, "OpenCode": OpenCode}


def create_project(path: Path) -> Path:
    """A repository whose tests run with `make test`."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", path], check=True, capture_output=True)
    (path / "Makefile").write_text("test:\n\t@echo 3 tests passed\n")
    return path
