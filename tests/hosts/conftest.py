from __future__ import annotations

import pytest

from tests.hosts.clients import CLAUDE_VERSIONS


@pytest.fixture(params=CLAUDE_VERSIONS)
def claude_version(request: pytest.FixtureRequest) -> str:
    """Each version of Claude Code that is installed for the tests."""
    return str(request.param)
