"""Show what changed in the hooks of the installed agents since `hooks.txt` was written: their events and fields.

    python -m tests.hosts.hook_changes FOLDER [--write]

Each agent describes its hooks in another way: in the schemas inside its program, in its types, or in its documents. A
line of `hooks.txt` is an agent, an event, a direction (`in` is what the hook gets, `out` what it may answer) and the
fields.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

KNOWN = Path(__file__).with_name("hooks.txt")
MAX_OBJECT = 50_000  # characters

Field = tuple[str, str, str]  # event, direction, name


def main(folder: Path, *, write: bool) -> int:
    """Print the changes of the agents that are installed in a folder; with `write`, they are known from now on."""
    known = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    found: list[str] = []
    for agent, (pattern, find) in AGENTS.items():
        programs = sorted(folder.glob(pattern))
        if programs:
            found += _lines(agent, find(programs[-1]))
        else:
            print(f"{agent} is not installed in {folder}", file=sys.stderr)
            found += [line for line in known if line.startswith(f"{agent} ")]
    if write:
        KNOWN.write_text("".join(f"{line}\n" for line in found))
    changes = list(difflib.unified_diff(known, found, "known", "installed", n=0, lineterm=""))
    print("\n".join(changes) or "No hook has changed.")
    return 1 if changes and not write else 0


def _lines(agent: str, fields: Iterator[Field]) -> list[str]:
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event, direction, name in fields:
        names[event, direction].add(name)
    return [f"{agent} {event} {way}: {' '.join(sorted(names[event, way]))}" for event, way in sorted(names)]


def find_in_claude_code(program: Path) -> Iterator[Field]:
    """Schemas in JavaScript: `c({hook_event_name:T("Stop"),stop_hook_active:O()})`."""
    for found, text in _objects(program, rb'\{(hook_event_name|hookEventName):[\w$.]+\("(\w+)"\)'):
        direction = "in" if found[1] == b"hook_event_name" else "out"
        for name in _keys(text):
            yield found[2].decode(), direction, name


def find_in_codex(program: Path) -> Iterator[Field]:
    """JSON schemas with titles such as `post-tool-use.command.input`."""
    for _, text in _objects(program, rb'\{\n  "\$schema"'):
        schema = json.JSONDecoder().raw_decode(text)[0]
        event, _, direction = schema.get("title", "").partition(".command.")
        if not direction:
            continue
        parts = [schema, *schema.get("definitions", {}).values()]
        for part in parts:
            for name in part.get("properties", ()):
                yield event, "in" if direction == "input" else "out", name


def find_in_copilot(types: Path) -> Iterator[Field]:
    """Types in TypeScript."""
    interface = re.compile(r"^export interface (\w+)Hook(Input|Output)\b[^{]*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
    for event, direction, body in interface.findall(types.read_text("utf-8")):
        for name in re.findall(r"^    (\w+)\??:", body, re.MULTILINE):
            yield event, "in" if direction == "Input" else "out", name


def find_in_gemini_cli(document: Path) -> Iterator[Field]:
    """Its reference of hooks."""
    for section in re.split(r"^### ", document.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        event = re.match(r"`(\w+)`", section)
        if not event:
            continue
        inputs, outputs = (*re.split(r"output fields", section, maxsplit=1, flags=re.IGNORECASE), "")[:2]
        for direction, text in (("in", inputs), ("out", outputs)):
            for name in re.findall(r"^  - `([\w.]+)`", text, re.MULTILINE):
                yield event[1], direction, name


def find_in_opencode(program: Path) -> Iterator[Field]:
    """Calls: `trigger("chat.message",{sessionID:…},{message:…})`."""
    for found, text in _objects(program, rb'yield\*[\w$.]+\.trigger\("([\w.]+)",(?=\{)'):
        for name in _keys(text) or ("nothing",):
            yield found[1].decode(), "in", name


def find_in_hermes(module: Path) -> Iterator[Field]:
    """The names in `VALID_HOOKS`; a hook gets keyword arguments that are listed nowhere."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.AnnAssign | ast.Assign) and "VALID_HOOKS" in ast.unparse(node).partition("=")[0]:
            for name in ast.literal_eval(node.value) if node.value else ():
                yield name, "in", "…"


AGENTS: dict[str, tuple[str, Callable[[Path], Iterator[Field]]]] = {
    "claude-code": ("claude-*/node_modules/@anthropic-ai/claude-code-*/claude", find_in_claude_code),
    "codex": ("codex/node_modules/@openai/codex-*/vendor/*/bin/codex", find_in_codex),
    "copilot-cli": ("copilot/home/.cache/copilot/pkg/*/*/copilot-sdk/types.d.ts", find_in_copilot),
    "gemini-cli": ("gemini/node_modules/@google/gemini-cli/bundle/docs/hooks/reference.md", find_in_gemini_cli),
    "hermes": ("hermes/lib/python*/site-packages/hermes_cli/plugins.py", find_in_hermes),
    "opencode": ("opencode/node_modules/opencode-*/bin/opencode", find_in_opencode),
}


def _objects(program: Path, pattern: bytes) -> Iterator[tuple[re.Match[bytes], str]]:
    """Each match in a program, and the text from the object that begins there or after it."""
    with program.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for found in re.finditer(pattern, data):
            start = found.start() if found[0].startswith(b"{") else found.end()
            yield found, data[start : start + MAX_OBJECT].decode("utf-8", "replace")


def _keys(text: str) -> list[str]:
    """The keys of the JavaScript object at the beginning of a text."""
    depth, keys = 0, []
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[{(\[]|[})\]]|(?<=[{,])[A-Za-z_]\w*(?=[:,}])', text):
        if token[0] in "{([":
            depth += 1
        elif token[0] in "})]":
            depth -= 1
            if not depth:
                break
        elif depth == 1 and not token[0].startswith('"'):
            keys.append(token[0])
    return keys


def _unpack_copilot(folder: Path) -> None:
    """Copilot CLI is one file, which unpacks itself into its home when it runs."""
    program, home = folder / "copilot" / "node_modules" / ".bin" / "copilot", folder / "copilot" / "home"
    if program.exists() and not home.exists():
        home.mkdir()
        subprocess.run([program, "--version"], env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, check=True)


if __name__ == "__main__":
    installed = Path(sys.argv[1])
    _unpack_copilot(installed)
    sys.exit(main(installed, write="--write" in sys.argv))
