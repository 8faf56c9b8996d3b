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
from dataclasses import dataclass, field
from pathlib import Path
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
SECONDS = 120  # enough for a turn on a loaded machine


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

    @property
    def environment(self) -> dict[str, str]:
        """All that a run sees of the environment."""
        path = os.pathsep.join((str(self.home / "bin"), str(self.program.parent), os.environ["PATH"]))
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


@dataclass
class ClaudeCode(Client):
    """Claude Code, whose permissions are those of `settings.json` and of `--allowedTools`."""

    version: str = NEWEST
    name: ClassVar[str] = "claude-code"

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
  "permissions": {"allow": ["Bash(make:*)", "Bash(yarn:*)", "Bash(cat:*)"],
                  "deny":  ["WebFetch"]},
    "hooks": { "Stop": [{"hooks": [{"type": "command", "command": "true"}]}] },
  "cleanupPeriodDays":   90
}"""


@dataclass
class Hermes(Client):
    """Hermes Agent."""

    name: ClassVar[str] = "hermes"

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


def create_project(path: Path) -> Path:
    """A repository whose tests run with `make test`."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", path], check=True, capture_output=True)
    (path / "Makefile").write_text("test:\n\t@echo 3 tests passed\n")
    return path
