"""The skills of a project, which its agents list in their prompts."""

from __future__ import annotations

import re
from pathlib import Path

from warmstart.templates.brief import read_texts

_MAX_HEADER = 4_000  # characters of a skill in which its fields are
_SKILLS = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md")
_FIELD = re.compile(r"^(name|description):[ \t]*[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)


def read_skills(folder: Path) -> dict[str, str]:
    """What each skill of a project is for, by its name."""
    paths = sorted(str(path.relative_to(folder)) for pattern in _SKILLS for path in folder.glob(pattern))
    found = {path: dict(_FIELD.findall(text[:_MAX_HEADER])) for path, text in read_texts(folder, paths)}
    return {each.get("name") or Path(path).parent.name: each.get("description", "") for path, each in found.items()}
