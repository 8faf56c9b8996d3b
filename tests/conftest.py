from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# What could lead a test out of its own folder and into the history of whoever runs it.
VARIABLES = (
    "WARMSTART_HOME",
    "WARMSTART_STORE",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "HERMES_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "OPENCODE_DB",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real sessions to measure with, which are not part of the project."""
    if not DATA.is_dir():
        pytest.skip("the measuring data is not here")
    return DATA
