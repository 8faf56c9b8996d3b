"""What a shell command does: which programs it runs, what for, and whether it checks, commits, edits or reads.

A tolerant reading, not a parser: half a command in an argument gives what can be told. Hundreds of thousands of
commands are looked at, so one regular expression does the splitting. What a command is fed may be a megabyte: only its
beginning is looked at, and only a short one is remembered.
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
    whatever came of it, or it runs in the background. `folder` is where a `cd` before it went, if there is one.
    """

    program: str
    words: tuple[str, ...] = ()
    then: str = ""
    masked: bool = False
    folder: str = ""


LONGEST = 65_536  # characters of a command that are looked at
_REMEMBERED = 4_096  # characters of a command that is kept in memory with what was found in it


_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_UNCLOSED = 40  # marks of heredocs that are looked for in vain before the rest is taken for commands
_TOKEN = re.compile(
    r"""
      (?P<op>&&|\|\||\|&|;;|[;|&\n])
    | (?P<redirect>(?:\d*|&)(?:>>|>\||<<<|<|>)&?\s*)
    | (?P<comment>(?<![^\s;|&(]) \#[^\n]*)
    | (?P<close>\))
    | (?P<word>(?: \\\n | \\. | '[^']*'? | "(?:\\.|[^"\\])*"? | \$\((?:[^()]|\([^()]*\))*\)? | `[^`]*`?
               | [^\s;|&<>'"`\\$()] | \$ )+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ERREXIT = re.compile(r"\bset -[a-z]*e")
_PIPEFAIL = re.compile(r"\bset -[a-z]*o pipefail")
_QUOTES = re.compile(r"""'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_RUN_TEXT = re.compile(r"-[a-z]*c")
_FRAMES = frozenset(("[[", "]]", "case", "esac"))
_KEYWORDS = frozenset(("if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac"))
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
SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_MOVES = frozenset(("cd", "pushd"))
_SILENT = _MOVES | frozenset(
    ("popd", "export", "set", "source", ".", "true", ":", "echo", "printf", "sleep", "exit", "]]")
)
# They ask whether something is there before the command that matters.
_PREDICATES = frozenset(("[", "[[", "test", "which", "type"))
# What output goes through without being judged: that one of these fails is unheard of.
FILTERS = frozenset(("head", "tail", "sort", "uniq", "wc", "cat", "tee", "less", "cut", "tr"))


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
# Programs that anybody may have, by the names that everybody gives them.
KNOWN = _FILE | _RESEARCH | _TESTS | _BUILDS | _LINTS | _RUNNERS | SHELLS | _WRAPPERS.keys()
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
_INTERPRETERS = _set("python node ruby perl php deno bun")
_COMPILED = _set("go cargo dotnet swift zig")  # their `run` starts the program, whatever it is called
_SHOWN = _set("--version -version --help -h --collect-only --listTests --showConfig --init")
_READERS = _set("cat head tail less more bat nl")
# Places that commands name, not ones that are used here.
_SCRATCH = ("/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")  # noqa: S108
_WRITERS = _set("mv cp rm touch tee patch apply_patch applypatch Set-Content Add-Content Out-File")
_IN_PLACE = re.compile(r"-[a-hj-zE0-9]*i|--in-place")


def commands(text: str) -> tuple[Command, ...]:
    """The simple commands in a shell command, in order; those that only prepare (`cd`, `export`) left out.

    A program in a wrapper (`sudo`, `timeout`, `uv run`, `bash -c`) counts as itself. What only asks (`[ -f x ]`,
    `which x`) is left out unless there is nothing else.
    """
    return _remembered(text) if len(text) <= _REMEMBERED else _commands(text[:LONGEST])


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[Command, ...]:
    return _commands(text)


def _commands(text: str) -> tuple[Command, ...]:
    found = _split(_without_heredocs(text) if "<<" in text else text)
    if found and found[0].then:
        strict = "set -" in text
        found = _marked(found, strict and bool(_ERREXIT.search(text)), strict and bool(_PIPEFAIL.search(text)))
        if any(command.program in _MOVES for command in found):
            found = _placed(found)
    kept = tuple(command for command in found if command.program not in _SILENT or edits(command))
    return tuple(command for command in kept if command.program not in _PREDICATES or edits(command)) or kept


def _placed(found: list[Command]) -> list[Command]:
    """The commands with the folder that the last `cd` before them went to."""
    folder = ""
    placed: list[Command] = []
    for command in found:
        if command.program in _MOVES:
            folder = next((word for word in command.words if not word.startswith(("-", "\0"))), "")
        placed.append(command._replace(folder=folder) if folder else command)
    return placed


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


class _Reader:
    """Gathers the words of one simple command after the other."""

    def __init__(self) -> None:
        self.found: list[Command] = []
        self._words: list[str] = []
        self._skip = False  # the next word is where output goes
        self._tested = False  # inside `[[ … ]]`, where `&&` and `<` are words
        self._cases = 0
        self._pattern = False  # before the `)` of a pattern in `case … esac`

    def word(self, text: str) -> None:
        if self._skip:
            self._words.append("\0" + _unquoted(text))  # where output goes: no word of the command
            self._skip = False
            return
        if text in _FRAMES:
            self._frame(text)
        self._words.append(_unquoted(text))

    def _frame(self, text: str) -> None:
        """Note where `[[` and `case` begin and end."""
        if text == "]]":
            self._tested = False
        elif text == "esac":
            self._cases, self._pattern = max(0, self._cases - 1), False
        elif all(word in _KEYWORDS for word in self._words):  # only a first word begins something
            if text == "[[":
                self._tested = True
            else:
                self._cases, self._pattern = self._cases + 1, True

    def redirect(self, text: str) -> None:
        if self._tested:
            self._words.append(text.strip())
            return
        self._skip = True
        if ">" in text and not text.startswith("2") and not text.endswith("&"):
            self._words.append("\0>")

    def close(self) -> None:
        if self._pattern:
            self._words, self._skip, self._pattern = [], False, False

    def end(self, operator: str) -> None:
        if self._tested and operator not in (";", "\n", ""):
            self._words.append(operator)
            return
        if not self._pattern:
            self.found += _simple(self._words, operator)
        self._words, self._skip, self._tested = [], False, False
        self._pattern = self._pattern or (operator == ";;" and self._cases > 0)


def _split(text: str) -> list[Command]:
    reader = _Reader()
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            reader.word(token[0])
        elif kind == "redirect":
            reader.redirect(token[0])
        elif kind == "op":
            reader.end(token[0])
        elif kind == "close":
            reader.close()
    reader.end("")
    return reader.found


def _unquoted(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    return _QUOTES.sub(lambda found: found[1] or found[2] or (found[3] or "").strip("\n"), word)


def _simple(words: list[str], then: str) -> list[Command]:
    """The command in these words, unwrapped; the words of a shell in a shell are commands again."""
    place = 0
    while place < len(words):
        word = words[place]
        name = word.rsplit("/", 1)[-1]
        if name in ("for", "select", "function"):
            return []
        if word.startswith("\0") or name in _KEYWORDS or _ASSIGNMENT.match(word):
            place += 1
        elif name == "command" and words[place + 1 : place + 2] in (["-v"], ["-V"]):
            return [Command("which", tuple(words[place + 2 :]), then)]
        elif name in _WRAPPERS and (name not in _RUNS or words[place + 1 : place + 2] == [_RUNS[name]]):
            place = _unwrapped(name, words, place + 1)
            if place >= len(words):
                return [Command(name, (), then)]
        elif name in SHELLS and len(words) > place + 2 and _RUN_TEXT.fullmatch(words[place + 1]):
            inner = _split(words[place + 2])
            return [*inner[:-1], inner[-1]._replace(then=then)] if inner else []
        else:
            return [Command(name, tuple(words[place + 1 :]), then)]
    return []


def _unwrapped(name: str, words: list[str], place: int) -> int:
    """The place of the program that a wrapper runs, after the wrapper's own words."""
    if name in _RUNS:
        place += 1
    while place < len(words):
        word = words[place]
        if word in _WRAPPERS[name]:
            place += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word) or (name.endswith("timeout") and word[:1].isdigit()):
            place += 1
        else:
            break
    return place


def kind_of(text: str) -> Kind:
    """What a shell command is for: running programs outweighs fetching, which outweighs looking at files."""
    kinds = {_kind(command) for command in commands(text)}
    for kind in ("code", "research"):
        if kind in kinds:
            return kind
    return "file"


def _kind(command: Command) -> Kind:
    if command.program in _FILE or command.program in _SILENT or command.program in _PREDICATES:
        return "file"
    return "research" if command.program in _RESEARCH else "code"


def check_of(command: Command) -> Check:
    """Whether a command tests, builds or lints."""
    program, words = command.program, command.words
    return _remembered_check(program, words) if sum(map(len, words)) <= _REMEMBERED else _check(program, words)


@lru_cache(maxsize=4096)
def _remembered_check(program: str, words: tuple[str, ...]) -> Check:
    return _check(program, words)


def _check(program: str, all_words: tuple[str, ...]) -> Check:
    words = [word for word in all_words if not word.startswith(("-", "\0"))]
    if not _SHOWN.isdisjoint(all_words):
        return ""
    if program in _TESTS:
        return "test"
    if program in _LINTS:
        return "lint"
    if program in _BUILDS:
        return "build"
    if program in SHELLS:
        program = words[0].rsplit("/", 1)[-1] if words else ""
    if script := _SCRIPT.fullmatch(program):
        return "test" if script[1] else "build" if script[2] else "lint"
    if program in ("docker", "docker-compose", "podman"):
        return _contained(words)
    if _PYTHON.fullmatch(program):
        program = "python"
        if "-m" in all_words:
            module = next(iter(all_words[all_words.index("-m") + 1 :]), "")
            return "test" if module == "unittest" else _check(module, ())
    return _task(program, all_words, words) if program in _RUNNERS else ""


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


def folder_of(command: Command) -> str:
    """Where a command works, as far as it says so: `git -C`, or the last `cd` before it."""
    words = command.words
    if command.program == "git" and "-C" in words:
        return next(iter(words[words.index("-C") + 1 :]), "")
    return command.folder


def interprets(command: Command) -> bool:
    """Whether a command runs a program text: Python, Node and the like."""
    return command.program in _INTERPRETERS or bool(_PYTHON.fullmatch(command.program))


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
