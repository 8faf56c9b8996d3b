"""Real agents on a scripted model: no terminal, no way into the network, a home of their own, lists of permissions.

`WARMSTART_TEST_HOSTS` names the folder into which `tests/hosts/install.sh` installed them, `WARMSTART_TEST_CLAUDE` the
versions of Claude Code in it, the main one first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from warmstart.testing.model import ScriptedModel

FOLDER = Path(os.environ.get("WARMSTART_TEST_HOSTS") or ".")
CLAUDE_VERSIONS = os.environ.get("WARMSTART_TEST_CLAUDE", "none").split()
NEWEST = CLAUDE_VERSIONS[0]
MARKS = [
    pytest.mark.hosts,
    pytest.mark.skipif("WARMSTART_TEST_HOSTS" not in os.environ, reason="WARMSTART_TEST_HOSTS names no folder"),
]

_CLOSED = "http://127.0.0.1:9"
OFFLINE = {"HTTP_PROXY": _CLOSED, "HTTPS_PROXY": _CLOSED, "NO_PROXY": "127.0.0.1,localhost"}
WARMSTART = Path(sys.executable).with_name("warmstart")
SECONDS = 120  # enough for a turn on a loaded machine


@dataclass(frozen=True, slots=True)
class Turn:
    """What one run of an agent printed."""

    session_id: str
    text: str
    errors: str


@dataclass
class Client:
    """An agent, the home it runs in, and the project it works on."""

    home: Path
    model: ScriptedModel
    variables: dict[str, str] = field(default_factory=dict)  # more environment, for one test

    @property
    def work(self) -> Path:
        """A project, which is a repository."""
        return self.home / "work"

    @property
    def program(self) -> Path:
        raise NotImplementedError

    @property
    def environment(self) -> dict[str, str]:
        """All that a run sees of the environment."""
        path = f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.home), "TERM": "dumb", **OFFLINE, **self.variables}

    def run(
        self, *arguments: str | Path, cwd: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the agent's program to its end."""
        return self.start([self.program, *arguments], cwd, check)

    def warmstart(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> str:
        """Run our own command in the agent's home, and return what it prints."""
        return self.start([WARMSTART, *arguments], cwd, check).stdout

    def start(self, line: list[Any], cwd: Path | None, check: bool) -> subprocess.CompletedProcess[str]:
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
    name = "claude-code"

    @property
    def program(self) -> Path:
        return FOLDER / f"claude-{self.version}" / "node_modules" / ".bin" / "claude"

    @property
    def environment(self) -> dict[str, str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
        own = {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "scripted", "DISABLE_TELEMETRY": "1"}
        return {**super().environment, **dict.fromkeys(quiet, "1"), **own, **self.variables}

    @property
    def settings(self) -> Path:
        """The file that its hooks are installed in."""
        return self.home / ".claude" / "settings.json"

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        """One turn."""
        done = self.run("-p", prompt, "--output-format", "json", *options, cwd=cwd)
        said = json.loads(done.stdout)
        assert not said["is_error"], done.stdout
        return Turn(said["session_id"], said["result"], done.stderr)

    def log(self, session_id: str) -> Path:
        """The transcript of a session."""
        (path,) = (self.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return path


@dataclass
class Hermes(Client):
    """Hermes Agent; its `config.yaml` lists what may run."""

    name = "hermes"

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
        """Write `config.yaml`: the scripted model, and nothing that would look for the network."""
        endpoint = {"default": "scripted", "provider": "custom", "base_url": f"{self.model.url}/v1", "api_key": "sk-x"}
        config = {
            "model": {**endpoint, "context_length": 128_000},
            "security": {"tirith_enabled": False, "allow_lazy_installs": False},
            **more,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        # A value in JSON is YAML too.
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in config.items())
        (self.folder / "config.yaml").write_text("# my own comment\n" + "".join(lines))

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Turn:
        """One turn."""
        done = self.run("chat", "-q", prompt, "-Q", *options, cwd=cwd)
        found = [line.split()[-1] for line in (done.stdout + done.stderr).splitlines() if "session_id" in line]
        return Turn(found[-1] if found else "", done.stdout, done.stderr)


def create_project(path: Path) -> Path:
    """A repository with nothing in it."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", path], check=True, capture_output=True)
    return path
