"""What a project says about itself on disk: its instruction files, its manifests, and which files there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_MAX_BYTES = 200_000
_MAX_HEADER = 4_000  # characters of a skill in which its fields are
_SKILLS = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md")
_FIELD = re.compile(r"^(name|description):[ \t]*[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)
_DOCS = ("CLAUDE.md", "AGENTS.md", "GEMINI.md", ".github/copilot-instructions.md")
_MANIFESTS = (
    *("package.json", "Makefile", "makefile", "justfile", "Justfile", "mise.toml", ".mise.toml", "pyproject.toml"),
    *("Taskfile.yml", "Taskfile.yaml", "Cargo.toml"),
)


class ProjectFiles(NamedTuple):
    """`docs` are what agents read anyway, `manifests` define the project's scripts; `folder` is `None` if unknown."""

    docs: str = ""
    manifests: str = ""
    folder: Path | None = None

    def exists(self, path: str) -> bool:
        """Whether a file is still there, as far as anybody can tell."""
        return self.folder is None or (self.folder / path).exists()


def read_project_files(folder: Path) -> ProjectFiles:
    """The files of a project that is on this machine."""
    if not folder.is_dir():
        return ProjectFiles()
    return ProjectFiles(
        "\n".join(read_context_files(folder).values()), "\n".join(_read(folder, _MANIFESTS).values()), folder
    )


def read_context_files(folder: Path) -> dict[str, str]:
    """The instruction files of a project, which agents read at every start, by their path."""
    return _read(folder, _DOCS)


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
