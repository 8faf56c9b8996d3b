"""What a project brings to a prompt: its instruction files and its skills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from warmstart.templates.rules import DOCS

_MAX_BYTES = 200_000
_MAX_HEADER = 4_000  # characters of a skill in which its fields are
_SKILLS = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md")
_FIELD = re.compile(r"^(name|description):[ \t]*[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)


def read_context_files(folder: Path) -> dict[str, str]:
    """The instruction files of a project, which agents read at every start, by their path."""
    return _read(folder, DOCS)


def read_skills(folder: Path) -> dict[str, str]:
    """What each skill of a project is for, by its name."""
    paths = sorted(path for pattern in _SKILLS for path in folder.glob(pattern))
    texts = _read(folder, [str(path.relative_to(folder)) for path in paths])
    found = {path: dict(_FIELD.findall(text[:_MAX_HEADER])) for path, text in texts.items()}
    return {each.get("name") or Path(path).parent.name: each.get("description", "") for path, each in found.items()}


def _read(folder: Path, names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                found[name] = file.read(_MAX_BYTES)
        except OSError:
            continue
    return found
