"""The plan of the house: which room may use which, and what is public."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import warmstart

SOURCE = Path(warmstart.__file__).parent

# One row a line; a room imports only from the rows above its own, and from itself. (The errors stand on a row of their
# own: everything raises them.)
ROWS = (
    ("errors",),
    ("config", "tokens"),
    ("storage",),
    ("redact",),
    ("sessions",),
    ("profile",),
    ("memory",),
    ("recall",),
    ("templates",),
    ("preflight",),
    ("handoff",),
    ("experiments",),
    ("continuity",),
    ("hosts",),
    ("cli", "mcp", "web"),
    ("testing",),
)
ORDER = {room: number for number, row in enumerate(ROWS) for room in row}


def imports(path: Path) -> Iterator[str]:
    """The modules of this package that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [
                f"{node.module}.{alias.name}" if node.module == "warmstart" else str(node.module)
                for alias in node.names
            ]
        yield from (name for name in names if name.split(".")[0] == "warmstart")


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    return module.split(".")[1]


def files() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or not path.name.startswith("__")]


def test_every_room_is_on_the_plan() -> None:
    assert {room_of(module_of(path)) for path in files()} <= set(ORDER)


def test_a_room_imports_only_from_the_rows_above_it() -> None:
    upward = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in files()
        for name in imports(path)
        if room_of(name) != room_of(module_of(path)) and ORDER[room_of(name)] >= ORDER[room_of(module_of(path))]
    ]
    assert upward == []


def test_no_module_imports_itself_in_a_circle() -> None:
    known = {module_of(path): path for path in files()}
    graph = {module: {name for name in imports(path) if name in known} for module, path in known.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for name in graph[module]:
                visit(name, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_public_names_are_exactly_those_declared() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    typed = {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("warmstart.")
        for alias in node.names
    }
    assert warmstart.__all__ == sorted(warmstart.__all__)
    assert set(typed) == set(warmstart.__all__) == set(dir(warmstart))
    for name, module in typed.items():
        public = getattr(warmstart, name)
        assert public.__module__ == module, name


def test_modules_read_no_environment_except_at_the_edge() -> None:
    reads = re.compile(r"os\.environ|os\.getenv")
    readers = {room_of(module_of(path)) for path in files() if reads.search(path.read_text(encoding="utf-8"))}
    assert readers <= {"config", "cli", "mcp", "web", "hosts"}  # `ambient_settings`, for a library without an edge
