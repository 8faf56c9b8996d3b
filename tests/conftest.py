from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.postgres import Server, quick_folder, running_server

# A loaded machine is no fault of an example, and a change is judged by the same examples on every machine.
# `pytest --hypothesis-profile explore` tries others.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# What could lead a test out of its own folder and into the history of whoever runs it.
VARIABLES = {
    "WARMSTART_HOME",
    "WARMSTART_STORE",
    "WARMSTART_TENANT",
    "WARMSTART_MEMORY_BACKEND",
    "WARMSTART_MEMORY_REDACT",
    "HERMES_MEMORY_BACKEND",
    "WARMSTART_TEMPLATES_ENDPOINT",
    "WARMSTART_TEMPLATES_KEY",
    "WARMSTART_TEMPLATES_MODEL",
    "PGHOST",
    "PGPORT",
    "PGUSER",
    "PGPASSWORD",
    "PGSERVICE",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "HERMES_HOME",
    "CLAUDE_CODE_SESSION_ID",
    "HONCHO_API_KEY",
    "HONCHO_URL",
    "HONCHO_WORKSPACE_ID",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "OPENCODE_DB",
}


def pytest_configure() -> None:
    """Write test files to memory, because there are thousands, and compute on one core, because others run too."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if folder := quick_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Report at the end what was skipped because the benchmark data is missing."""
    yield
    skipped = [report for report in terminalreporter.getreports("skipped") if "corpus" in report.keywords]
    if skipped:
        said = f"{len(skipped)} corpus tests SKIPPED: there is no benchmark data at {DATA}"
        terminalreporter.write_line(said, red=True, bold=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own home directory."""
    home = tmp_path / "home"
    home.mkdir()
    for variable in VARIABLES & os.environ.keys():
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    # MiniLM takes a hundred times as long; it has tests of its own.
    monkeypatch.setattr("warmstart.memory.sql.installed_embedder", lambda: "wordllama")
    return home


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real sessions to measure with, which are not part of the project."""
    if not DATA.is_dir():
        pytest.skip("the benchmark data is not here")
    return DATA


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real server for this process."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """The test's own database, for a store."""
    with postgres.database() as name:
        yield postgres.url(name)
