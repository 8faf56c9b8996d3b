"""What a shell command does: which programs it runs, what for, and whether it checks, commits, edits or reads.

A tolerant reading, not a parser: half a command in an argument gives what can be told. Hundreds of thousands of
commands are looked at, so one regular expression does the splitting.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from warmstart.profile.values import Kind

Check = Literal["test", "build", "lint", ""]


class Command(NamedTuple):
    """One simple command: the program without its folder, its words, and the operator that follows it.

    `masked` says that the exit code of the whole is no word about this one: it ends in a pipe, something runs after it
    whatever came of it, or it runs in the background.
    """

    program: str
    words: tuple[str, ...] = ()
    then: str = ""
    masked: bool = False


_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_UNCLOSED = 40  # marks of heredocs that are looked for in vain before the rest is taken for commands
_TOKEN = re.compile(
    r"""
      (?P<op>&&|\|\||\|&|;;|[;|&\n])
    | (?P<redirect>(?:\d*|&)(?:>>|>\||<<<|<|>)&?\s*)
    | (?P<comment>(?<![^\s;|&(]) \#[^\n]*)
    | (?P<word>(?: \\\n | \\. | '[^']*'? | "(?:\\.|[^"\\])*"? | \$\((?:[^()]|\([^()]*\))*\)? | `[^`]*`?
               | [^\s;|&<>'"`\\$()] | \$ )+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ERREXIT = re.compile(r"\bset -[a-z]*e")
_PIPEFAIL = re.compile(r"\bset -[a-z]*o pipefail")
_QUOTES = re.compile(r"""'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "(", ")", "[[", "fi", "done")
)
# Programs that run the program in their arguments, with the options of theirs that take a value.
_WRAPPERS = {
    "sudo": ("-u", "-g"),
    "env": ("-u", "-C"),
    "time": (),
    "timeout": ("-k", "-s"),
    "gtimeout": ("-k", "-s"),
    "nohup": (),
    "nice": ("-n",),
    "command": (),
    "exec": (),
    "builtin": (),
    "stdbuf": ("-o", "-e", "-i"),
    "xargs": ("-n", "-I", "-P", "-L", "-d"),
    "npx": ("-p", "--package"),
    "bunx": (),
    "uvx": ("--from", "--with"),
    "pipx": (),
    "poetry": (),
    "uv": ("--with", "--extra", "--python", "-p", "--group"),
    "rtk": (),
    "bundle": (),
    "pipenv": (),
    "conda": ("-n", "--name", "-p"),
    "coverage": ("--source", "--rcfile"),
    "cross-env": (),
    "nyc": (),
    "c8": (),
}
# Wrappers only with this word: `uv run …`.
_RUNS = {
    **dict.fromkeys(("poetry", "pipx", "uv", "pdm", "hatch", "rye", "pipenv", "conda", "coverage"), "run"),
    "bundle": "exec",
}
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_SILENT = frozenset(
    ("cd", "pushd", "popd", "export", "set", "source", ".", "true", ":", "echo", "printf", "sleep", "exit")
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILE = _set(
    "cat head tail less more bat ls ll tree find fd fdfind grep egrep fgrep rg ag ack sed awk cut sort uniq wc diff "
    "cmp cp mv rm rmdir mkdir touch ln chmod chown stat file du df tar zip unzip gzip gunzip xxd od hexdump strings "
    "tee nl realpath readlink basename dirname pwd jq yq column tr comm paste split patch nano vim vi"
)
_RESEARCH = _set("curl wget http https xh lynx w3m links dig nslookup host whois ping traceroute aria2c")
_TESTS = _set(
    "pytest py.test tox nox nose2 jest vitest mocha ava jasmine cypress rspec phpunit pest ctest gotestsum behave bats "
    "karma prove busted"
)
_BUILDS = _set(
    "tsc vue-tsc svelte-check webpack vite rollup esbuild cmake ninja gcc g++ cc clang clang++ rustc javac kotlinc "
    "swiftc msbuild xcodebuild bazel"
)
_LINTS = _set(
    "ruff mypy pyright flake8 pylint black isort eslint prettier biome golangci-lint gofmt shellcheck rubocop clippy "
    "stylelint oxlint ty pre-commit"
)
_RUNNERS = _set(
    "npm pnpm yarn bun make gmake mise just task go cargo gradle gradlew mvn mvnw dotnet swift mix rake rails deno "
    "turbo nx lerna composer zig stack cabal sbt python node ant meson hatch pdm php ruby manage.py flutter dart gleam "
    "lein forge hardhat playwright ng next nuxt astro"
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SCRIPT = re.compile(r"(?:run[-_])?(?:all[-_])?(?:(tests?|check|ci)|(build)|(lint))\.(?:sh|py)")
# What a task is called in a script file. A style check (`lint:check`) is one before it is a test; Gradle writes
# `testDebug`.
_VERBS: tuple[tuple[re.Pattern[str], Check], ...] = (
    (re.compile(r"(?:^|[:_\-])(?:lint|fmt|format|clippy|style|prettier|eslint)(?:$|[:_\-])"), "lint"),
    (
        re.compile(
            r"(?:^|[:_\-/.])(?:tests?|nextest|spec|e2e|unittest|pytest|phpunit|pest|check|ci|verify|jest|vitest)"
            r"(?:$|[:_\-.A-Z])"
        ),
        "test",
    ),
    (re.compile(r"(?:^|[:_\-])(?:build|compile|assemble|typecheck|tsc|vet)(?:$|[:_\-A-Z])"), "build"),
)
_MAVEN = re.compile(r"install|package")
# What a package manager is told that makes it no runner: `npm install jest` tests nothing.
_INSTALLERS = _set("npm pnpm yarn bun composer cargo go deno dotnet flutter dart")
_INSTALLS = _set(
    "install i ci add remove rm uninstall update upgrade require init create get view info list ls publish dlx"
)
_INTERPRETERS = _set("python node ruby php deno bun")
_COMPILED = _set("go cargo dotnet swift zig")  # their `run` starts the program, whatever it is called
_SHOWN = _set("--version -version --help -h --collect-only --listTests --showConfig --init")
_READERS = _set("cat head tail less more bat nl")
# Places that commands name, not ones that are used here.
_SCRATCH = ("/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")  # noqa: S108
_WRITERS = _set("mv cp rm touch tee patch apply_patch applypatch Set-Content Add-Content Out-File")
_IN_PLACE = re.compile(r"-[a-hj-zE0-9]*i|--in-place")


@lru_cache(maxsize=4096)
def commands(text: str) -> tuple[Command, ...]:
    """The simple commands in a shell command, in order; those that only prepare (`cd`, `export`) left out.

    A program in a wrapper (`sudo`, `timeout`, `uv run`, `bash -c`) counts as itself.
    """
    found = _split(_without_heredocs(text) if "<<" in text else text)
    if found and found[0].then:
        strict = "set -" in text
        found = _marked(found, strict and bool(_ERREXIT.search(text)), strict and bool(_PIPEFAIL.search(text)))
    return tuple(command for command in found if command.program not in _SILENT or edits(command))


def _without_heredocs(text: str) -> str:
    """The text without the lines that are input of a command; a mark that never comes is looked for once only."""
    kept: list[str] = []
    unclosed: set[str] = set()
    place = line = 0
    for opened in _HEREDOC.finditer(text):
        if opened.start() < place or opened[2] in unclosed:
            continue
        if line < opened.end():
            line = text.find("\n", opened.end()) + 1
            if not line:
                break
        closed = re.compile(rf"^[ \t]*{opened[2]}(?=\s|$)", re.MULTILINE).search(text, line)
        if closed is None:
            unclosed.add(opened[2])
            if len(unclosed) > _UNCLOSED:
                break
            continue
        kept += (text[place : opened.start()], " ", text[opened.end() : line])
        place = closed.end()
    return "".join((*kept, text[place:]))


def _marked(found: list[Command], errexit: bool, pipefail: bool) -> list[Command]:
    """The commands with `masked` set: from the last to the first, because what follows decides."""
    lost = False
    after: Command | None = None
    marked: list[Command] = []
    for command in reversed(found):
        if after and command.then in (";", "\n"):
            lost = lost or not errexit
        elif command.then == "&":
            lost = True
        elif after and command.then == "||":
            lost = lost or not (after.program in ("exit", "return", "false") and after.words != ("0",))
        after = command
        marked.append(command._replace(masked=lost or (command.then in ("|", "|&") and not pipefail)))
    return marked[::-1]


def _split(text: str) -> list[Command]:
    found: list[Command] = []
    words: list[str] = []
    skip = False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            if skip:
                words.append("\0" + _unquoted(token[0]))  # where output goes: no word of the command
                skip = False
            else:
                words.append(_unquoted(token[0]))
        elif kind == "redirect":
            skip = True
            if ">" in token[0] and not token[0].startswith("2") and not token[0].endswith("&"):
                words.append("\0>")
        elif kind == "op":
            found += _simple(words, token[0])
            words, skip = [], False
    return found + _simple(words, "")


def _unquoted(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    return _QUOTES.sub(lambda found: found[1] or found[2] or (found[3] or "").strip("\n"), word)


def _simple(words: list[str], then: str) -> list[Command]:
    """The command in these words, unwrapped; the words of a shell in a shell are commands again."""
    rest = list(words)
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if name in ("for", "case", "select", "function"):
            return []
        if rest[0].startswith("\0") or name in _KEYWORDS or _ASSIGNMENT.match(rest[0]):
            del rest[0]
        elif name in _WRAPPERS and (name not in _RUNS or rest[1:2] == [_RUNS[name]]):
            rest = _unwrapped(name, rest[1:])
            if not rest:
                return [Command(name, (), then)]
        elif name in _SHELLS and len(rest) > 2 and re.fullmatch(r"-[a-z]*c", rest[1]):
            inner = _split(rest[2])
            return [*inner[:-1], inner[-1]._replace(then=then)] if inner else []
        else:
            return [Command(name, tuple(rest[1:]), then)]
    return []


def _unwrapped(name: str, words: list[str]) -> list[str]:
    if name in _RUNS:
        words = words[1:]
    while words:
        if words[0] in _WRAPPERS[name]:
            words = words[2:]
        elif (
            words[0].startswith("-")
            or _ASSIGNMENT.match(words[0])
            or (name.endswith("timeout") and words[0][:1].isdigit())
        ):
            words = words[1:]
        else:
            break
    return words


def kind_of(text: str) -> Kind:
    """What a shell command is for: running programs outweighs fetching, which outweighs looking at files."""
    kinds = {_kind(command) for command in commands(text)}
    for kind in ("code", "research"):
        if kind in kinds:
            return kind
    return "file"


def _kind(command: Command) -> Kind:
    if command.program in _FILE or command.program in _SILENT:
        return "file"
    return "research" if command.program in _RESEARCH else "code"


@lru_cache(maxsize=4096)
def check_of(command: Command) -> Check:
    """Whether a command tests, builds or lints."""
    program, words = command.program, [word for word in command.words if not word.startswith(("-", "\0"))]
    if not _SHOWN.isdisjoint(command.words):
        return ""
    if program in _TESTS:
        return "test"
    if program in _LINTS:
        return "lint"
    if program in _BUILDS:
        return "build"
    if program in _SHELLS:
        program = words[0].rsplit("/", 1)[-1] if words else ""
    if script := _SCRIPT.fullmatch(program):
        return "test" if script[1] else "build" if script[2] else "lint"
    if program in ("docker", "docker-compose", "podman"):
        return _contained(words)
    if _PYTHON.fullmatch(program):
        program = "python"
        if "-m" in command.words:
            module = next(iter(command.words[command.words.index("-m") + 1 :]), "")
            return "test" if module == "unittest" else check_of(Command(module))
    return _task(program, command.words, words) if program in _RUNNERS else ""


def _contained(words: list[str]) -> Check:
    """What a container is made or started for."""
    if words[:1] == ["build"] or words[:2] == ["compose", "build"]:
        return "build"
    return "test" if any(word.rsplit("/", 1)[-1] in _TESTS for word in words) else ""


def _task(program: str, all_words: tuple[str, ...], words: list[str]) -> Check:
    """Whether the task that a runner is given checks; `words` are those that are no options."""
    if program == "node" and "--test" in all_words:
        return "test"
    if program in ("make", "gmake") and all(word.isdigit() or word == "all" for word in words):
        return "build"
    if not words or words[0].startswith(_SCRATCH):
        return ""
    if program in _INTERPRETERS and not {"-c", "-e", "-r"}.isdisjoint(all_words):
        return ""
    if (program in _INSTALLERS and words[0] in _INSTALLS) or (program in _COMPILED and words[0] == "run"):
        return ""
    if program in ("cargo", "deno") and words[0] == "check":
        return "build"
    if program.startswith("mvn") and any(map(_MAVEN.fullmatch, words)):
        return "build"
    # The task follows the package it is run in: `npm --prefix web run test`, `yarn workspace web test`.
    near = words[: 4 if "run" in words[1:3] or words[0] == "workspace" else 2]
    return next((check for word in near for pattern, check in _VERBS if pattern.search(word)), "")


def commits(command: Command) -> bool:
    """Whether a command makes a commit."""
    return command.program == "git" and _subcommand(command) == "commit" and "--dry-run" not in command.words


def _subcommand(command: Command) -> str:
    words = iter(command.words)
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def edits(command: Command) -> bool:
    """Whether a command changes files of the work: in place, by moving them, or by writing its output to one."""
    words = command.words
    if "\0>" in words:
        target = words[words.index("\0>") + 1 :][:1]
        return bool(target) and not _aside(target[0][1:])
    if command.program in ("sed", "perl", "gsed"):
        return any(map(_IN_PLACE.match, words[:3]))
    if command.program == "git":
        return _restores(command)
    if command.program not in _WRITERS:
        return False
    named = [word for word in words if not word.startswith(("-", "\0"))]
    return not named or not all(map(_aside, named[-1:] if command.program == "cp" else named))


def _aside(path: str) -> bool:
    """Whether a file is none of the work: scratch, a log, a place only known when the command runs."""
    return path.startswith(("/dev/", "$", *_SCRATCH)) or path.endswith(".log")


def _restores(command: Command) -> bool:
    name, words = _subcommand(command), command.words
    if name == "checkout":
        return "--" in words or "." in words
    if name == "reset":
        return "--hard" in words
    return name in ("apply", "restore", "mv", "rm", "revert", "cherry-pick") and "--check" not in words


def reads(command: Command) -> tuple[str, ...]:
    """The files that a command shows."""
    words = tuple(word for word in command.words if not word.startswith(("-", "\0")))
    if command.program == "sed" and not edits(command):
        return words[1:]
    return tuple(word for word in words if not word.isdigit()) if command.program in _READERS else ()
