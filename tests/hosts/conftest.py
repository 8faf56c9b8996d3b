from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.clients import CLAUDE_VERSIONS, NEWEST, OTHERS, ClaudeCode, Client, create_project
from tests.hosts.gemini import GeminiCLI
from warmstart.testing.model import ScriptedModel

AGENTS: dict[str, type[Client]] = {**OTHERS, "Gemini": GeminiCLI}


@contextmanager
def ready(home: Path, name: str) -> Iterator[Client]:
    """An agent with its model, a project, and a configuration without anything of ours."""
    kind, _, version = name.partition(" ")
    # Some ask for titles without offering tools.
    with ScriptedModel(errand=None if kind in ("Claude", "Codex") else "A title.") as model:
        client = ClaudeCode(home, model, version=version) if kind == "Claude" else AGENTS[kind](home, model)
        create_project(client.work)
        client.configure()
        # The load of this machine must not decide what a test sees.
        (home / ".warmstart").mkdir()
        (home / ".warmstart" / "config.toml").write_text("context_preflight.deadline_ms = 2000\n")
        # A tool that this machine does not have, whatever machine it is.
        (home / "bin").mkdir()
        yarn = home / "bin" / "yarn"
        yarn.write_text("#!/bin/sh\necho 'sh: 1: yarn: not found' >&2\nexit 127\n")
        yarn.chmod(0o755)
        yield client


@pytest.fixture(params=[*(f"Claude {version}" for version in CLAUDE_VERSIONS), *AGENTS])
def client(request: pytest.FixtureRequest, home: Path) -> Iterator[Client]:
    """Each agent, in each version."""
    with ready(home, request.param) as client:
        yield client


@pytest.fixture(params=[f"Claude {NEWEST}", *AGENTS])
def newest(request: pytest.FixtureRequest, home: Path) -> Iterator[Client]:
    """Each agent in its newest version."""
    with ready(home, request.param) as client:
        yield client


@pytest.fixture(params=CLAUDE_VERSIONS)
def claude(request: pytest.FixtureRequest, home: Path) -> Iterator[Client]:
    """Claude Code in each version."""
    with ready(home, f"Claude {request.param}") as client:
        yield client


@pytest.fixture
def hermes(home: Path) -> Iterator[Client]:
    with ready(home, "Hermes") as client:
        yield client


@pytest.fixture
def codex(home: Path) -> Iterator[Client]:
    with ready(home, "Codex") as client:
        yield client


@pytest.fixture
def copilot(home: Path) -> Iterator[Client]:
    with ready(home, "Copilot") as client:
        yield client


@pytest.fixture
def opencode(home: Path) -> Iterator[Client]:
    with ready(home, "OpenCode") as client:
        yield client


@pytest.fixture
def gemini(home: Path) -> Iterator[Client]:
    with ready(home, "Gemini") as client:
        yield client
