"""What a project says about itself on disk: its instruction files, its manifests, and which files there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAX_BYTES = 200_000
DOCS = ("CLAUDE.md", "AGENTS.md", "GEMINI.md", ".github/copilot-instructions.md")
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
    return ProjectFiles("\n".join(_texts(folder, DOCS)), "\n".join(_texts(folder, _MANIFESTS)), folder)


def _texts(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                yield file.read(_MAX_BYTES)
        except OSError:
            continue
