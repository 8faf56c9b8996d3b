"""What a session did, as facts that earlier sessions could have predicted: commands, errors with their fixes, files.

Shared by `foresight.py` and `turns.py`. Reads sessions through the library; no model and no randomness.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import warmstart.profile.tools as shell
from warmstart import Filter, Message, Session, SessionStore, Step
from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import SENTENCE, corrects, own_words, standing_instructions
from warmstart.profile.signatures import error_signature
from warmstart.sessions.values import steps
from warmstart.text.shell import Command, parse_commands

# -- commands

MAX_COMMAND = 4000  # characters
MAX_WORDS = 40
CHECKS = ("test", "build", "lint")


class Invocation(NamedTuple):
    """A shell command without the parts that change from run to run. `family` is its program and subcommand."""

    text: str
    family: str
    kind: str  # test, build, lint, format, run, other


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OPERATOR = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|(?P<end>(?<!>)&&?|\|[|&]?|;;?|\n|(?<![^\s;|&(])\#[^\n]*)""", re.DOTALL
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*\n).*?^[ \t]*\2(?=\s|$)", re.DOTALL | re.MULTILINE)
_REDIRECT = re.compile(r"(?<!\S)(?:[\d&]?>>?|<)\s*\S+|\d>&\d")
_PREFIX = re.compile(
    r"[A-Za-z_]\w*=.*|sudo|time|nohup|nice|command|exec|g?timeout|\d+[smh]?|-[knsu]|[&!{]|if|then|do", re.DOTALL
)
SILENT = word_set("cd pushd popd export set source . true : echo printf sleep exit ]]")
_SCRATCH = ("$", "/dev/", "/private/", "/tmp/", "/var/", "C:/Users/", "~/.claude")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SCRIPT_SHELLS = word_set("bash sh zsh tsx ts-node pwsh")
_INTERPRETERS = _SCRIPT_SHELLS | word_set("node deno ruby php")
_EXTRA_RUNNERS = word_set(
    "docker-compose supabase wrangler vercel terraform pulumi flyctl fly act tauri expo electron prisma drizzle-kit "
    "alembic uvicorn hugo"
)
_RUNNERS = _EXTRA_RUNNERS | word_set(
    "npm pnpm yarn bun make gmake mise just task go cargo gradle gradlew mvn mvnw dotnet swift mix rake rails deno "
    "turbo nx lerna composer zig stack cabal sbt python node ant meson hatch pdm php ruby manage.py flutter dart gleam "
    "lein forge hardhat playwright ng next nuxt astro"
)
_EXEC = word_set(
    "uv-run poetry-run pipenv-run rye-run hatch-run pdm-run bundle-exec pnpm-exec npm-exec pnpm-dlx yarn-dlx"
)
_EXEC_OPTIONS = word_set("--with --extra --python -p --group --from --filter -C")
# A package is installed once and by name, and a listing builds nothing: neither is worth predicting.
_ONCE = word_set("create init add get install i remove uninstall pack publish")
_LISTS = word_set("list ls env version doc view info why config search --version prefix root whoami help")
_LISTING = word_set("go cargo npm pnpm yarn bun")
_FORMATTERS = word_set("black fmt format gofmt gofumpt goimports prettier")
# Options that differ from run to run; first those that take a value.
_VALUE_OPTIONS = word_set(
    "-run -k -t --grep -g --testNamePattern --test-name-pattern -timeout --timeout -count --reporter --max-warnings "
    "--port -p --testPathPattern -o --output -m --message -bench --name --plain-name"
)
_RUN_OPTIONS = _VALUE_OPTIONS | word_set(
    "-v -vv -vvv -q -x -s -n -j -ra -rA -race -cpu -parallel -benchtime --verbose --silent --quiet --color --colors "
    "--no-color --nocapture --bail --no-coverage --coverage --tb --maxfail --durations --maxWorkers --outDir "
    "--testPathPatterns"
)
_FILE_NAME = re.compile(
    r"\S*\.(?:go|pyi?|[cm]?[jt]s|[jt]sx|rs|java|kt|swift|dart|rb|php|exs?|c|h|cc|cpp|cs|mdx?|jsonl?|ya?ml|toml|lock|txt"
    r"|log|html?|s?css|sql|sh|ps1|png|svg|csv|feature|proto)(?::\d+)*$"
)
_BARE_PROGRAM = re.compile(
    r"(?:npx |bunx )?(?:node|npm|npx|pnpm|yarn|bun|deno|python[\d.]*|next|tsx|uv|mix|rails|php|ruby|swift|dart|flutter"
    r"|go|cargo|docker|pip3?|mise|just|task|vite|mocha|jest|vitest|astro|composer|turbo|nx|forge|stack|act|hatch"
    r"|bash|sh|zsh)"
)


def invocations(text: str, roots: tuple[str, ...] = (), *, every: bool = False) -> tuple[Invocation, ...]:
    """The test, build, lint, format and run commands in a shell command; with `every`, all other commands too."""
    return _invocations(text[:MAX_COMMAND], roots, every)


@lru_cache(maxsize=100_000)
def _invocations(text: str, roots: tuple[str, ...], every: bool) -> tuple[Invocation, ...]:
    if "<<" in text:
        text = _HEREDOC.sub(r" \3", text)
    text = text.replace("\\\n", " ")
    if ":\\" in text:  # Windows
        text = text.replace("\\", "/")
    found = (_invocation(part.strip(), roots, every) for part in _simple_commands(text) if "REDACTED" not in part)
    return tuple(dict.fromkeys(one for one in found if one))


def _simple_commands(text: str) -> Iterator[str]:
    start = 0
    for token in _OPERATOR.finditer(text):
        if token["end"]:
            yield text[start : token.start()]
            start = token.end()
    yield text[start:]


def _invocation(part: str, roots: tuple[str, ...], every: bool) -> Invocation | None:
    try:
        words = shlex.split(_REDIRECT.sub(" ", part).strip().strip("()`"))
    except ValueError:  # an open quote
        return None
    while words and _PREFIX.fullmatch(words[0]):
        words = words[1:]
    words = [relative_path(word, roots) if "/" in word else word for word in words]
    if not 0 < len(words) <= MAX_WORDS or words[0].startswith(_SCRATCH):
        return None
    wrapper, words = _split_wrapper(words)
    if not words:
        return None
    program = words[0].rsplit("/", 1)[-1] if words[0].startswith("/") else words[0]
    kind = _kind(program, words)
    if not kind and every and re.fullmatch(r"(?:\./)?[\w.+/-]{2,40}", program) and program not in SILENT:
        kind = "other"
    if not kind:
        return None
    arguments, subcommands = _main_arguments(program.rsplit("/", 1)[-1], words[1:])
    full = " ".join((*wrapper, program, *arguments))
    return (
        None if _BARE_PROGRAM.fullmatch(full) else Invocation(full, " ".join((*wrapper, program, *subcommands)), kind)
    )


def _split_wrapper(words: list[str]) -> tuple[list[str], list[str]]:
    """A wrapper and the command it runs: `uv run --with x pytest` is (`uv run`, `pytest`)."""
    if "-".join(words[:2]) in _EXEC or words[:2] in (["mise", "exec"], ["mise", "x"], ["bun", "x"]):
        start = 2
        while start < len(words) and words[start].startswith("-"):
            start += 2 if words[start] in _EXEC_OPTIONS else 1
        return words[:2], words[start:]
    if words[0] == "rtk":  # kept, because it fails for programs that it does not know
        start = 2 if len(words) > 2 and words[1] in ("test", "err", "summary", "proxy", "lint") else 1
        return words[:start], words[start:]
    if words[0] in ("npx", "bunx", "uvx", "pipx"):
        return words[:1], [word for word in words[1:] if word not in ("-y", "--yes", "--no-install", "--bun")]
    return [], words


def _kind(program: str, words: list[str]) -> str:
    """What a command is for; empty if it only inspects something or runs once."""
    name, arguments = program.rsplit("/", 1)[-1], words[1:]
    first = arguments[0] if arguments else ""
    if not re.fullmatch(r"(?:\./)?[\w.@+/-]{1,80}", program) or {"--version", "--help", "-h", "-version"} & {
        *words[1:3]
    }:
        return ""
    check = shell.check_of(Command(name, tuple(arguments)))
    known = bool(name in _RUNNERS or check or program.startswith("./") or _PYTHON.fullmatch(name))
    if name in _SCRIPT_SHELLS:
        known = "/" in first and not first.startswith(_SCRATCH)
    elif name in ("docker", "kubectl"):
        known = first in ("compose", "build", "run", "up")
    elif name in ("pip", "pip3", "brew", "apt-get"):
        known = first == "install"
    by_name = first in _ONCE and any(not word.startswith("-") for word in arguments[1:])
    inline = first in ("-c", "-e", "-") and name not in ("cargo", "go", "make")
    evaluates = name == "node" and not {"-e", "-p", "--input-type=module", "--eval", "--print"}.isdisjoint(words)
    if not known or by_name or inline or evaluates or (name in _LISTING and first in _LISTS):
        return ""
    start = " ".join(words[:6])
    formats = "--fix" in start or "--write" in start or not _FORMATTERS.isdisjoint(re.split(r"[\s:_-]", start))
    if formats and check in ("", "lint"):
        return "format"
    return check or "run"


def _main_arguments(name: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments that stay the same from run to run, and the subcommands among them."""
    kept: list[str] = []
    subcommands: list[str] = []
    interpreter = name in _INTERPRETERS - {"pwsh"} or bool(_PYTHON.fullmatch(name))
    depth = 2 if words[:1] in (["run"], ["compose"], ["mod"], ["tool"]) or name in ("mise", "docker", "kubectl") else 1
    depth = 0 if name in ("bd", "gh") else depth
    rest = iter(words)
    for word in rest:
        if word in _VALUE_OPTIONS and not (interpreter and word == "-m"):
            next(rest, None)
        elif not _is_volatile(word, script=interpreter and not subcommands):
            if not word.startswith("-") and len(subcommands) < depth:
                subcommands.append(word)
            kept.append(word if word == "/" else word.rstrip("/"))
            if len(kept) == 10:
                break
    return kept, subcommands


def _is_volatile(word: str, *, script: bool) -> bool:
    if word == "--" or len(word) > 80 or word.isdigit() or word.startswith(_SCRATCH):
        return True
    if word.partition("=")[0].rstrip("0123456789") in _RUN_OPTIONS:
        return True
    if ("=" in word and not word.startswith("--")) or ("=" not in word and set(word) & set("\n $`\"'{}<>*()")):
        return True
    is_file = bool(_FILE_NAME.match(word)) and not script and not word.startswith("-")
    return is_file or bool(re.search(r"[0-9a-f]{10,}", word))


# -- paths


def relative_path(path: str, roots: tuple[str, ...]) -> str:
    """A path relative to its working tree; a path outside is returned unchanged."""
    path = path.replace("\\", "/")
    if path in roots:
        return "."
    for root in roots:
        if path.startswith(f"{root}/"):
            return path.removeprefix(f"{root}/")
    folders = path.split("/")
    worktrees = next((place for place, name in enumerate(folders[:-2]) if name.endswith("worktrees")), None)
    return path if worktrees is None else "/".join(folders[worktrees + 2 :])


def working_trees(folders: Iterable[str]) -> tuple[str, ...]:
    """The roots to remove from paths, worktrees first. A folder inside a root is not a root."""
    kept: list[str] = []
    for folder in sorted({folder.replace("\\", "/").rstrip("/") for folder in folders if folder}, key=len):
        if "worktrees" in folder or not any(folder.startswith(root + "/") for root in kept):
            kept.append(folder)
    return tuple(sorted(kept, key=lambda folder: ("worktrees" not in folder, -len(folder))))


def in_project(path: str) -> bool:
    elsewhere = path.startswith(("/", "~", "..", ".git/", ".claude/plans")) or ":/" in path or "/.git/" in path
    return 0 < len(path) < 200 and not elsewhere and "REDACTED" not in path and "\n" not in path


# -- sentences

WORD = re.compile(r"[A-Za-z][A-Za-z_-]{2,}")
STOPWORDS = word_set(
    "the and for with you that this not are use make sure please also have has been from then than was were will can "
    "all any should would could when into out its it's but don't dont just let there here what which your our they them"
)


def stems(text: str) -> frozenset[str]:
    return frozenset(word[:6] for word in map(str.lower, WORD.findall(text)) if word not in STOPWORDS)


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences mean the same, by their stems."""
    return len(one & other) >= max(3, 0.6 * min(len(one), len(other)), 0.35 * len(one | other))


# -- events

_EDIT_TOOLS = word_set(
    "Edit MultiEdit Write NotebookEdit edit write multiedit patch create str_replace_editor replace write_file "
    "apply_patch WriteFile"
)
_READ_TOOLS = word_set("Read read view read_file ReadFile NotebookRead")
_LIST_TOOLS = word_set("Glob LS glob list list_directory list_dir")
_SEARCH_TOOLS = _LIST_TOOLS | word_set("Grep grep rg search_file_content grep_files")
_SEARCH_PROGRAMS = word_set("grep rg find fd ls tree ag which egrep")
_LOCATES = re.compile(r"(?:^|[;&|]\s*)(?:ls|find|fd|fdfind|tree)\b|\brg\s[^|;&]*(?:--files|-l\b)|\bgrep\s+-\w*l")
_PATCHED_FILE = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\"\\]+)")
# A pipe hides the exit code of `rtk bun run test 2>&1 | tail`, but not these words.
_HIDDEN_FAILURES = (
    *("command not found", "Script not found", "issing script", "No such file or directory", "ERR_PNPM_"),
    *("unrecognized subcommand", "unknown command", "unknown option", "unknown flag", "cannot find main module"),
)
# Errors that are part of the work: a failing test says nothing about how to work in this project.
_WORK = (
    *("test failed", "tests failed", "no tests ran", "a check failed", "build failed", "compile error", "pending"),
    *("lint", "biome", "prettier", "mypy", "ruff", "not formatted", "error ts", "error[e", "rust ", "panic"),
    *("syntaxerror", "typeerror", "assertionerror", "referenceerror", "indentationerror", "grep: "),
    *("merge conflict", "fatal: ", "git commit: ", "git diff: ", "rejected", "sibling tool call"),
    *("could not resolve", "temporarily unavailable", "no access to"),
)
_EXIT = re.compile(r"(?:^|: )exit \d+$|exit \d+, no output|: failed$|HTTP \d", re.IGNORECASE)
# If tests ran, the command was not wrong, even if a test says that it cannot find a module.
_TESTS_RAN = re.compile(r"^(?:bun test v\d|\s*[1-9]\d* (?:pass(?:ed|ing)?|tests? passed)\b)", re.MULTILINE)
_EVERYDAY = word_set(
    "git gh echo python3 python node sqlite3 which zsh bash sh shell Select-Object Write-Host kill pkill lsof ps sleep "
    "for ssh"
)
_MANIFESTS = word_set(
    "agents.md cargo.toml claude.md contributing.md docker-compose.yaml docker-compose.yml go.mod justfile makefile "
    "mise.toml package.json pubspec.yaml pyproject.toml readme.md taskfile.yaml taskfile.yml"
)


def is_manifest(path: str) -> bool:
    """Whether a file defines how a project is built and checked."""
    return path.lower().rsplit("/", 1)[-1] in _MANIFESTS or ".github/workflows/" in path


def has_phrase(text: str, phrases: Iterable[str]) -> bool:
    small = text.lower()
    return any(phrase in small for phrase in phrases)


@dataclass(slots=True)
class Event:
    """One tool call. `trap` is the cause of an error: project, tool, work (a failing test) or slip (a typo)."""

    place: int
    kind: str = "other"  # run, read, edit, search
    ok: bool = False
    invocations: tuple[Invocation, ...] = ()
    every: tuple[Invocation, ...] | None = None  # all commands of a shell call
    files: tuple[str, ...] = ()
    family: str = ""
    error: str = ""
    trap: str = ""
    locates: bool = False  # asks where files are, not what they contain
    fix: Invocation | None = None

    @property
    def failed(self) -> set[str]:
        """The commands that may have failed."""
        return {one.text for one in self.invocations or self.every or ()}

    @property
    def remedy(self) -> str:
        """The other command that finally worked, if there is one."""
        return self.fix.text if self.fix and self.fix.text not in self.failed else ""


def read_event(place: int, step: Step, roots: tuple[str, ...]) -> Event:
    arguments, name = step.call.arguments, step.call.name
    output = step.result.text if step.result else ""
    event = Event(place, ok=step.outcome == "ok", family=name)
    if name in SHELLS:
        _read_shell_call(event, command_in(arguments), output, roots)
    elif name in _EDIT_TOOLS:
        fields = fields_of(arguments)
        patch = fields.get("patchText") or fields.get("input") or arguments
        event.kind = "edit"
        event.files = tuple(_PATCHED_FILE.findall(patch if isinstance(patch, str) else "")) or (path_in(arguments),)
    elif name in _READ_TOOLS:
        event.kind, event.files = "read", (path_in(arguments),)
    elif name in _SEARCH_TOOLS:
        event.kind = "search"
        mode = fields_of(arguments).get("output_mode", "files_with_matches") if name == "Grep" else ""
        event.locates = name in _LIST_TOOLS or mode == "files_with_matches"
    event.files = tuple(
        path for path in (relative_path(path.strip(), roots) for path in event.files) if in_project(path)
    )
    if step.result and step.outcome == "error":
        event.error = error_signature(name, output, arguments=arguments)
        event.trap = "work" if _TESTS_RAN.search(output) else _whose_fault(event)
    return event


def _read_shell_call(event: Event, command: str, output: str, roots: tuple[str, ...]) -> None:
    event.kind, event.invocations = "run", invocations(command, roots)
    event.every = invocations(command, roots, every=True)
    if event.invocations and any(phrase in output[:400] for phrase in _HIDDEN_FAILURES):
        event.ok = False
    programs = parse_commands(command)
    if "*** Begin Patch" in command:
        event.kind, event.files = "edit", tuple(_PATCHED_FILE.findall(command))
    elif programs and not event.invocations:
        if shown := [path for one in programs for path in shell.reads(one)]:
            event.kind, event.files = "read", tuple(path for path in shown if "." in path)
        elif any(one.program in _SEARCH_PROGRAMS for one in programs):
            event.kind, event.locates = "search", bool(_LOCATES.search(command[:600]))
    if event.invocations:
        event.family = event.invocations[-1].family
    else:
        event.family = programs[-1].program if programs else "shell"


def _whose_fault(event: Event) -> str:
    if event.every is None:
        return "tool"
    if has_phrase(event.error, _WORK) or _EXIT.search(event.error):
        return "work"
    missing = has_phrase(event.error, ("not found", "could not be found"))
    return "slip" if is_everyday(event.family) and not event.invocations and not missing else "project"


def is_everyday(program: str) -> bool:
    """Whether a program is used the same way in every project."""
    return program in _EVERYDAY or shell.kind_of(program) != "code"


def find_fixes(events: Sequence[Event]) -> None:
    """Set the fix of each trap: the next working command of the same program or purpose, within six shell calls.

    If the same command soon works again, the error was work in progress, not a trap.
    """
    for place, event in enumerate(events):
        if event.trap != "project":
            continue
        kinds = {one.kind for one in event.invocations} - {"run"}
        programs = {word for one in event.invocations for word in one.family.split()[:2]} or {event.family.split()[0]}
        later = [one.every for one in events[place + 1 :] if one.ok and one.every is not None][:6]
        again = any(one.text in event.failed for every in later[:4] for one in every)
        if again and "not found" not in event.error:
            event.trap = "work"
            continue
        event.fix = next(
            (
                one
                for every in later
                for one in every
                if (one.kind in kinds or programs & set(one.family.split()[:2])) and one.text not in event.failed
            ),
            None,
        )


# -- sessions

MAX_HEAD = 1_000_000  # characters of a log that are searched for its first branch
_BRANCH = re.compile(r'"(?:gitBranch|branch)"\s*:\s*"([^"]*)"')


@dataclass(slots=True)
class Activity:
    """What one session did. `project` is one person's repository: all its clones and worktrees."""

    session: Session
    project: str
    task: str = ""  # the first message
    requests: list[str] = field(default_factory=list)  # the person's own words
    instructions: list[str] = field(default_factory=list)
    final: str = ""
    events: list[Event] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def started(self) -> float:
        return self.session.started_at.timestamp() if self.session.started_at else 0.0

    @property
    def ended(self) -> float:
        return self.session.ended_at.timestamp() if self.session.ended_at else 0.0

    @property
    def is_subagent(self) -> bool:
        return self.session.parent_kind == "subagent"

    @property
    def first_branch(self) -> str:
        """The branch that the session started on, from its log; the store has the last one."""
        try:
            with Path(self.session.source).open(encoding="utf-8", errors="replace") as log:
                found = _BRANCH.search(log.read(MAX_HEAD))
        except OSError:
            return ""
        return found[1] if found else ""

    def commands(self) -> dict[str, tuple[int, Invocation]]:
        """The commands that worked, each with the index of its first use."""
        found: dict[str, tuple[int, Invocation]] = {}
        for event in self.events:
            for one in event.invocations if event.ok else ():
                found.setdefault(one.text, (event.place, one))
        return found

    def files(self, kind: str) -> dict[str, int]:
        """The files of all successful events of a kind (`edit`, `read`), each with the index of the first one."""
        found: dict[str, int] = {}
        for event in self.events:
            for path in event.files if event.ok and event.kind == kind else ():
                found.setdefault(path, event.place)
        return found

    def read_first(self) -> set[str]:
        """The files that are read before the first edit."""
        first_edit = min(self.files("edit").values(), default=len(self.events))
        return {path for path, place in self.files("read").items() if place < first_edit}

    def orientation(self) -> list[Event]:
        """The calls before the first edit or the first passing check."""
        for place, event in enumerate(self.events):
            if event.ok and (event.kind == "edit" or any(one.kind in CHECKS for one in event.invocations)):
                return self.events[:place]
        return self.events

    def errors(self) -> list[Event]:
        """The errors, one per kind of mistake, with the fix if there is one."""
        found: dict[tuple[str, str], Event] = {}
        for event in self.events:
            mistake = (event.family, event.error)
            if event.error and (mistake not in found or (event.fix and not found[mistake].fix)):
                found[mistake] = event
        return list(found.values())


def read_activity(session: Session, messages: Sequence[Message], roots: tuple[str, ...], project: str) -> Activity:
    activity = Activity(session, project)
    asked = False
    for message in messages:
        if is_reply(message):
            activity.final, asked = message.text, asks(message)
        elif text := own_words(message):
            if not activity.requests:
                activity.task = message.text[:12_000]
            elif corrects(text, answers=asked):
                sentences = (sentence.strip() for sentence in SENTENCE.split(text))
                activity.instructions += [one for one in sentences if 4 <= len(one.split()) <= 40][:4]
            activity.instructions += standing_instructions(text)
            activity.requests.append(text)
            asked = False
    activity.task = activity.task or session.title
    activity.instructions = list(dict.fromkeys(activity.instructions))
    activity.events = [read_event(place, step, roots) for place, step in enumerate(steps(messages))]
    find_fixes(activity.events)
    return activity


def is_reply(message: Message) -> bool:
    return message.role == "assistant" and bool(message.text) and not message.sidechain


def asks(message: Message) -> bool:
    return message.text.rstrip(" \n*_)").endswith("?")


def project_name(session: Session) -> str:
    """The benchmark data has logs by repository; the home directory shows whose clone it is."""
    parts = session.project.replace("\\", "/").split("/")
    home = next((place for place, part in enumerate(parts[:-1]) if part in ("Users", "home")), None)
    user = parts[home + 1] if home is not None else ""
    return f"{Path(session.source).parent.name}@{user}"


class Project(NamedTuple):
    """The sessions of a project, oldest first."""

    name: str
    roots: tuple[str, ...]
    sessions: list[Activity]


def read_projects(store: SessionStore) -> list[Project]:
    groups: dict[str, list[Session]] = {}
    for summary in store.list(Filter()):
        groups.setdefault(project_name(summary.session), []).append(summary.session)
    projects = []
    for name, sessions in sorted(groups.items()):
        roots = working_trees(folder for one in sessions for folder in (one.project, one.directory))
        read = (read_activity(one, list(store.messages(one.id)), roots, name) for one in sessions)
        known = [activity for activity in read if activity.started and activity.events]
        projects.append(Project(name, roots, sorted(known, key=lambda one: (one.started, one.id))))
    return projects


MIN_EARLIER = 3  # sessions that had ended before


def cases(project: Project) -> Iterator[tuple[Activity, list[Activity]]]:
    """Each session that starts after enough others, with the sessions that had ended before it."""
    for activity in project.sessions:
        if activity.session.parent_kind is not None:
            continue
        if not (activity.commands() or activity.files("edit") or activity.errors()):
            continue
        earlier = [one for one in project.sessions if one.ended < activity.started and one.id != activity.id]
        if sum(not one.is_subagent for one in earlier) >= MIN_EARLIER:
            yield activity, earlier
