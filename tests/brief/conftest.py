"""The fixtures of preflight: a project with a few sessions."""

from __future__ import annotations

from tests.preflight.conftest import project

__all__ = ["project"]
