"""The skills of a project, as agents list them in their prompts."""

from __future__ import annotations

import re
from pathlib import Path

from warmstart.templates.brief import read_texts

_MAX_HEADER = 4_000  # characters of a skill that are searched for its fields
_SKILLS = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md")
_FIELD = re.compile(r"^(name|description):[ \t]*[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)


def read_skills(folder: Path) -> dict[str, str]:
    """The descriptions of a project's skills by name."""
    paths = sorted(str(path.relative_to(folder)) for pattern in _SKILLS for path in folder.glob(pattern))
    fields = {path: dict(_FIELD.findall(text[:_MAX_HEADER])) for path, text in read_texts(folder, paths)}
    return {each.get("name") or Path(path).parent.name: each.get("description", "") for path, each in fields.items()}
