from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.postgres import Server, quick_folder, running_server

# A loaded machine is no fault of an example, and a change is judged by the same examples on every machine.
# `make test-slow` takes `thorough`, which does not shrink for minutes what it finds; `explore` tries other examples.
settings.register_profile(
    "quick",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "thorough", settings.get_profile("quick"), max_examples=1000, phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("explore", settings.get_profile("quick"), max_examples=1000, derandomize=False)
settings.load_profile("quick")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# What could lead a test out of its own folder and into the history of whoever runs it.
VARIABLES = {
    "WARMSTART_HOME",
    "WARMSTART_HOOK",  # a hook that runs in the process of a test sets it
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


def pytest_configure(config: pytest.Config) -> None:
    """Write test files to memory, because there are thousands, and compute on one core, because others run too."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if folder := quick_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)
    if "TESTS_TAKE" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FirstLine(config))


class FirstLine:
    """Says first how many tests there are and how long they take: as long as last time, or what TESTS_TAKE says."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.cache = getattr(config, "cache", None)
        self.key = f"warmstart/seconds {config.option.markexpr}"
        self.usual = os.environ.pop("TESTS_TAKE")
        self.is_said = False
        self.began = time.monotonic()

    def say(self, count: int) -> None:
        if self.is_said:
            return
        self.is_said = True
        self.config.option.verbose += 1
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        last = self.cache.get(self.key, None) if self.cache else None
        tests = "1 test" if count == 1 else f"{count:,} tests"
        if not self.usual:
            reporter.write_line(tests)
        elif last is None:
            reporter.write_line(f"{tests}; usual time: {self.usual}")
        else:
            minutes, seconds = divmod(round(last), 60)
            reporter.write_line(f"{tests}; time of the last run: {minutes}:{seconds:02}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Let pytest and pytest-xdist say nothing before that."""
        self.config.option.verbose -= 1
        if workers := self.config.pluginmanager.getplugin("terminaldistreporter"):
            workers.write_line = workers.rewrite = lambda *_, **__: None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self.config.pluginmanager.hasplugin("dsession"):
            self.say(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.say(len(ids))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.usual and exitstatus == pytest.ExitCode.OK and self.cache:
            self.cache.set(self.key, time.monotonic() - self.began)


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
