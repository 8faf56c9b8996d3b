"""Which commands and calls may be carried: only those known to be safe.

A shell command has to be plain: programs and options from the allowlist, joined by `&&`, `||`, `;`, `|` or in a
subshell. An assignment, a variable, a substitution, a heredoc, a path outside the project, a host or an image makes the
whole command unsafe, and so does any syntax that we do not understand. A script of the project (`npm run x`, `make x`)
is recognised by its name: a common verb, with or without a suffix. Other tools are recognised by name or by the verb
that their name starts with. Any other command is carried only if the user typed it. How often a command occurred never
matters: commands planted by a poisoned repository occur often too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache, partial
from typing import NamedTuple

from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.tools import agent_tools, known_tools
from warmstart.templates.item import ToolCallExample
from warmstart.templates.rules import load_table, pattern, word_set

_words = partial(word_set, "allowlist")
_REACHES, _HOST = (partial(pattern, row, "allowlist") for row in ("reaches", "host"))

_MAX_COMMAND, _MAX_ARGUMENTS = 2_000, 20_000  # characters; anything longer is not a plain example
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
# Where a project's own tools are installed.
_INSTALLED = re.compile(
    r"(?:\./)?(?:(?:[\w-]+/)*(?:\.?venv/(?:bin|Scripts)|node_modules/\.bin|vendor/bin)/([\w.-]+)|(gradlew|mvnw))"
)
_WORD = r"(?:'[^']*'|\"(?:\\[^\n]|\$(?=[?\"|)\s])|[^\"\\$`])*\"|\\[^\n]|\$\?|[^\s;|&<>()'\"`\\$])+"
_TOKEN = re.compile(
    rf"(?P<end>&&|\|\|?|;|&(?!>)|[()\n])|(?P<closed>\d?>&[\d-])|(?P<redirect>\d?>>?|&>)|(?P<word>{_WORD})"
    r"|[ \t]+(?:\\\n[ \t]*)?",
    re.DOTALL,
)
_QUOTES = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
# A comment, or what the shell expands: into options, assignments, the parent folder. `*.{ts,tsx}` is harmless.
_EXPANDED = re.compile(r"#|(?:(?!\*\.\{[\w,]+\}).)*?\{.*(?:,|\.\.)|(?:.*/)?\.[?*\[]")
_SED = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OUTSIDE = re.compile(r"/(?!dev/null$)|~|[A-Za-z]:[\\/]|(?:.*[/=:])?\.\.(?:[/\\]|$)|-\w?[/~]|-[^=]*=(?:\w+:)?[/~]")
_HIDDEN = re.compile(r"(?:.*/)?\.(?!/|$)")
# Files that a command may write: none that a later command executes.
_OUTPUT = re.compile(r"/dev/null|(?!.*(?:CMakeLists|requirements))[^.~/][^~]*\.(?:txt|log|out|csv|html|diff|patch)")
_SCRIPT = re.compile(r"/|\.\w+$")
# Options whose value may come before the subcommand. With other options, that word may be the subcommand itself.
_FIRST = frozenset(("-C", "--prefix", "-w", "--workspace", "-F", "--filter", "-pl"))
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,200}\w")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'`]*)[ \t]+[a-z./]")
_CODE = re.compile(r"`([^`\n]+[ \t][^`\n]+)`")

_PLACEHOLDER = re.compile(r"\{\{\w+\}\}")
_MAX_SHOWN, _MAX_SHOWN_LINES = 400, 4  # characters and lines of a value in somebody else's example
_MISTAKEN = re.compile(r"-{0,2}[\w@./:+-]{1,60}(?:=[\w./:-]{0,40})?")  # a word of a mistake

_CODE_FIELDS = frozenset(("input", "javascript", "python"))  # the `input` of a tool for files may be a patch
_KNOWN_TOOLS = frozenset(name for table in agent_tools().values() for name, kind in table.items() if kind == "file")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DURATION = re.compile(r"\d[\d.]*[smh]?")

_OPERATOR = re.compile(r"\s*(?:&&|\|\||[;|&\n])\s*")
_FOLDER = re.compile(r"cd (\S+) && ")
_WRAPPED = re.compile(r"^(?:rtk (?:(?:test|err|summary|lint) )?|(?:npx|bunx|uvx) )")  # what they run must be known
_SCRIPT_OF = re.compile(
    r"(?:(?:npm|pnpm|yarn|bun)(?: -[\w-]+(?:[= ][\w./-]+)?)* run(?:-script)?|(?:mise|turbo|nx) run|deno task"
    r"|make|just|task|rake) ([\w:./-]+)"
)
_VERBS = "|".join(load_table("allowlist")["script_verbs"].split())
_NAMES = "|".join(load_table("allowlist")["script_names"].split())
_KNOWN_SCRIPT = re.compile(rf"(?:[\w-]+[:/])?(?:{_VERBS})(?:[:_.-][\w:.-]+)?|{_NAMES}", re.IGNORECASE)
_PLAIN = re.compile(rf"(?:{_VERBS}|all|run|exec|check|tool|vet|mod|\.|\./\.\.\.)", re.IGNORECASE)
_READS = re.compile(r"(?:get|list|search|find|read|show|describe|lookup|query|count|view|fetch)(?![a-z])")
_HOST_TOOLS = frozenset(name for table in agent_tools().values() for name in table)


def is_known(command: str, typed: str = "") -> bool:
    """Whether a command may be shown to a new session; `typed` is the text that the user wrote."""
    if command in typed:
        return True
    parts = [_WRAPPED.sub("", part) for part in _OPERATOR.split(command)]
    scripts = [script[1] for part in parts if (script := _SCRIPT_OF.match(part))]
    folder = _FOLDER.match(command)
    plain = _WRAPPED.sub("", command[folder.end() :] if folder else command)
    return is_safe_command(f"{folder[0] if folder else ''}{plain}") and all(map(_KNOWN_SCRIPT.fullmatch, scripts))


def task_of(command: str) -> str:
    """The script or task of the project that a command runs, such as `lint` in `npm run lint`; empty if none."""
    match = _SCRIPT_OF.match(_WRAPPED.sub("", command))
    return match[1] if match else ""


def has_subcommands(program: str) -> bool:
    """Whether a known program has subcommands."""
    known = _table().programs.get(program)
    return known is not None and bool(known.subcommands)


def own_words_of(command: str) -> list[str]:
    """The words of a command that its program does not define: names of scripts, folders and packages."""
    folder = _FOLDER.match(command)
    words = _WRAPPED.sub("", command[folder.end() :] if folder else command).split()[1:]
    own = [word for word in words if not (word.startswith("-") or _PLAIN.fullmatch(word) or word in _vocabulary())]
    return [folder[1], *own] if folder else own


def has_source(command: str, text: str, paths: Collection[str]) -> bool:
    """Whether each of a command's own words occurs in `text`, by the user or the project, or is a path in the project.

    Any other word may have come from tool output in another session. The name of a script does not count as a path.
    """
    matches = (_SCRIPT_OF.match(_WRAPPED.sub("", part)) for part in _OPERATOR.split(command))
    scripts = {script[1] for script in matches if script}
    return all(
        has_word(text, word, r"\w-")
        or (word not in scripts and word.removeprefix("./").removesuffix("/...").rstrip("/") in paths)
        for word in own_words_of(command)
    )


def has_word(text: str, word: str, inside: str = r"^\W_") -> bool:
    """Whether a text has a word with no character of the class `inside` (by default letters and digits) next to it."""
    return word in text and bool(re.search(rf"(?<![{inside}]){re.escape(word)}(?![{inside}])", text))


def is_safe_call(call: ToolCallExample, project: str = "") -> bool:
    """Whether a call is known to be safe, whoever made it.

    MCP tools must be read-only, judging by the verb in their name. A placeholder may stand in an API call or in a path
    to read, but never in a command or the text of a file.
    """
    if call.tool_name in SHELLS:
        return (
            "{{" not in call.arguments and is_known(command_in(call.arguments)) and is_safe(*call[:2], project=project)
        )
    is_edit = call.tool_name in _HOST_TOOLS and not _READS.match(call.tool_name)
    return not (is_edit and "{{" in call.arguments) and is_safe(*call[:2], project=project)


def is_plain_mistake(command: str) -> bool:
    """Whether a failed command may be shown as a mistake: known programs with plain words, whatever these mean."""
    if not command.strip() or len(command) > _MAX_COMMAND or not is_safe_text(command):
        return False
    simple = _simple_commands(command)
    if not simple:
        return False
    return all(_is_plain_mistake(words) for words in simple if words)


def _is_plain_mistake(words: list[str]) -> bool:
    name, *rest = words
    table = _table()
    is_program = name in table.programs or name in table.wrappers or _PYTHON.fullmatch(name)
    return bool(is_program) and not any(map(_is_far, rest)) and all(map(_MISTAKEN.fullmatch, rest))


def _is_far(word: str) -> bool:
    """Whether a word names a place outside the project, a host, or sets a variable."""
    return any((_OUTSIDE.match(word), _HOST().search(word), _ASSIGNMENT.match(word), _REACHES().search(word)))


def own_options_of(command: str) -> list[str]:
    """The options and subcommands of a command that its program does not define."""
    words = [word for part in _OPERATOR.split(command) for word in part.split()[1:]]
    return [word for word in words if not is_vocabulary(word)]


def is_verb(word: str) -> bool:
    """Whether a word is one with which the names of harmless tools start."""
    return word in _words("verbs")


@lru_cache(maxsize=1024)
def is_option(word: str) -> bool:
    """Whether a known program has this option."""
    table = _table()
    return any(
        word in known.options for known in (*table.programs.values(), *(known for _, known in table.wrappers.values()))
    )


def is_vocabulary(word: str) -> bool:
    """Whether a word is the name of a known program or subcommand, or as general as `all`."""
    return word in _vocabulary() or bool(_PLAIN.fullmatch(word))


def is_safe_example(call: ToolCallExample) -> bool:
    """Whether a call of somebody else's example may be shown; a placeholder stands for a plain word."""
    fields = fields_of(call.arguments) or {"command": call.arguments}
    for text in _strings(fields):
        plain = _PLACEHOLDER.sub("x", text)
        if not is_safe_text(plain) or len(plain) > _MAX_SHOWN or plain.count("\n") >= _MAX_SHOWN_LINES:
            return False
    if call.tool_name not in known_tools() and not _is_harmless_tool(call.tool_name):
        return False
    names = _words("command_fields") if call.tool_name in _KNOWN_TOOLS else _words("command_fields") | _CODE_FIELDS
    commands = [value for name, value in fields.items() if names.intersection(name.split("_"))]
    return all(_is_safe_example_command(str(value), failed=not call.success) for value in commands)


def _is_safe_example_command(text: str, *, failed: bool) -> bool:
    command = _PLACEHOLDER.sub("x", text)
    words = [word for part in _OPERATOR.split(command) for word in part.split()[1:]]
    is_form = all(word == "x" for word in words) and is_plain_mistake(command)
    if not command.strip():
        return False
    return command == "x" or is_form or is_known(command) or (failed and is_plain_mistake(command))


class _Words(NamedTuple):
    subcommands: frozenset[str]
    options: frozenset[str]  # without the `=` of those that take a value
    valued: frozenset[str]


class _Table(NamedTuple):
    programs: dict[str, _Words]
    wrappers: dict[str, tuple[str, _Words]]
    modules: frozenset[str]


def is_safe(tool: str, arguments: str, *, project: str = "") -> bool:
    """Whether a call is known to be safe. Absolute paths inside `project` are allowed, if it is given."""
    if project.count("/") > 1:
        arguments = re.sub(rf"{re.escape(project.rstrip('/'))}(?![\w.+@~-])", "{{project}}", arguments)
    return len(arguments) <= _MAX_ARGUMENTS and _is_safe(tool, arguments)


@lru_cache(maxsize=1024)
def _is_safe(tool: str, arguments: str) -> bool:
    fields = fields_of(arguments)
    if not all(is_safe_text(_EMAIL.sub("", text)) for text in _strings(fields or arguments)):
        return False
    if tool in SHELLS:
        # Other fields of a shell call (a folder, an environment) can change what the command does.
        others = [field for field in fields.items() if field[0] not in _words("command_fields")]
        return (
            len(fields) - len(others) <= 1 and is_safe_command(command_in(arguments)) and all(map(_is_remark, others))
        )
    if tool not in _KNOWN_TOOLS and not _is_harmless_tool(tool):
        return False
    commands = (value for name, value in fields.items() if _words("command_fields").intersection(name.split("_")))
    return all(isinstance(each, str) and (each.isidentifier() or is_safe_command(each)) for each in commands)


def _is_harmless_tool(tool: str) -> bool:
    """Whether the name of a tool starts with a harmless verb; that of a server's tool must be one that reads."""
    server, _, name = tool.rpartition("__")
    words = [word.lower() for word in _NAME_PART.findall(re.split(r"__|[.:/]", tool)[-1])]
    is_harmless = bool(words) and words[0] in _words("verbs") and _words("reaching").isdisjoint(words)
    return is_harmless and (not server or bool(_READS.match(name)))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _is_remark(field: tuple[str, object]) -> bool:
    name, value = field
    if not isinstance(value, str):
        return value is None or isinstance(value, bool | int | float)
    if name in _words("folders"):
        return not _OUTSIDE.match(value)
    return name in _words("remarks")


def is_safe_text(text: str) -> bool:
    """Whether a text names no host or image, and has no line that sets a variable for a command."""
    return _REACHES().search(text) is None


def names_host(text: str) -> bool:
    """Whether a text has the name of a host, an address or a package with its version."""
    return _HOST().search(text) is not None


def is_safe_rule(text: str) -> bool:
    """Whether a standing instruction may be shown. One from a system prompt may really come from a repository."""
    return is_safe_text(text) and not _VARIABLE.search(text) and all(map(is_safe_command, _CODE.findall(text)))


def is_safe_command(text: str) -> bool:
    """Whether a shell command consists of programs, subcommands and options that are known to be safe."""
    if not text.strip() or len(text) > _MAX_COMMAND or not is_safe_text(text):
        return False
    simple = _simple_commands(text)
    return simple is not None and any(simple) and all(_is_safe_simple(words) for words in simple if words)


def _simple_commands(text: str) -> list[list[str]] | None:
    """The words of each simple command; `None` if the syntax is not understood or output leaves the project."""
    commands: list[list[str]] = [[]]
    place, redirected = 0, False
    text = text.strip()
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or (redirected and token.lastgroup not in ("word", None)):
            return None
        place = token.end()
        if token.lastgroup == "word":
            if _EXPANDED.match(_QUOTES.sub("", token[0])):
                return None
            word = _QUOTES.sub(lambda quoted: quoted[1] or quoted[2] or quoted[3] or "", token[0])
            if not redirected:
                commands[-1].append(word)
            elif not _is_output(word):
                return None
            redirected = False
        elif token.lastgroup == "end":
            commands.append([])
        redirected = redirected or token.lastgroup == "redirect"
    return None if redirected else commands


def _is_output(path: str) -> bool:
    return _OUTPUT.fullmatch(path) is not None and not (_OUTSIDE.match(path) or _HIDDEN.match(path))


def _is_safe_simple(words: list[str]) -> bool:
    table = _table()
    name, *rest = words
    if by_path := _INSTALLED.fullmatch(name):
        name = by_path[1] or by_path[2]
    if _PYTHON.fullmatch(name):
        return rest[:1] == ["-m"] and rest[1:2] != [] and rest[1] in table.modules and _is_safe_simple(rest[1:])
    if name in table.wrappers and (inner := _wrapped(rest, *table.wrappers[name])) is not None:
        return bool(inner) and _is_safe_simple(inner)
    return name in table.programs and _are_harmless(name, rest) and _are_plain(rest, table.programs[name])


def _are_harmless(name: str, words: list[str]) -> bool:
    """Whether a program that could do harm through its plain arguments gets only harmless ones."""
    match name:
        case "cd":
            return len(words) == 1 and words != ["-"] and not _HIDDEN.match(words[0])
        case "tee":
            return all(_is_output(word) for word in words if not word.startswith("-"))
        case "sed":
            return words[:1] == ["-n"] and len(words) > 1 and _SED.fullmatch(words[1]) is not None
        case "bun" | "mise":
            return {"run", "r"}.isdisjoint(words) or not any(map(_SCRIPT.search, words))
        case "make" | "just" | "task":  # these have operators of their own: `X != evil`
            return not any("=" in word for word in words if not word.startswith("-"))
    return True


def _wrapped(words: list[str], subcommand: str, known: _Words) -> list[str] | None:
    """The command that a wrapper runs; `None` if it runs none, empty if its options are unknown."""
    if subcommand:
        if words[:1] != [subcommand]:
            return None
        words = words[1:]
    place = 0
    while place < len(words) and (words[place].startswith("-") or _DURATION.fullmatch(words[place])):
        if words[place].startswith("-") and not _is_known_option(words[place], known):
            return []
        has_value = words[place] in known.valued and not "".join(words[place + 1 : place + 2]).startswith("-")
        place += 2 if has_value else 1
    return words[place:]


def _are_plain(words: list[str], known: _Words) -> bool:
    """Whether the arguments of a program are known subcommands and options, and plain words."""
    first, valued = bool(known.subcommands), ""  # whether the subcommand is still to come; the option awaiting a value
    for word in words:
        if _is_far(word):
            return False
        if word.startswith("-") and word not in ("-", "--"):  # also after an option whose value is optional
            if not _is_known_option(word, known):
                return False
            valued = word if word in known.valued else ""
        elif valued:
            if first and valued not in _FIRST:
                return False
            valued = ""
        elif word.startswith("@"):  # a file with more options
            return False
        elif first and word != "--":
            if word not in known.subcommands:
                return False
            first = False
    return not first or words[:1] == ["--version"]


def _is_known_option(option: str, known: _Words) -> bool:
    name = option.partition("=")[0]
    if name in known.options or option == "--version" or re.fullmatch(r"-\d+", option):
        return True
    if option.startswith("--"):
        return False
    if any(len(each) > 3 and each[1] != "-" for each in known.options):  # go and find do not combine short options
        return False
    # `-xq` is `-x -q`, and `-n4` is `-n 4`.
    return option[:2] in known.valued or all(f"-{letter}" in known.options - known.valued for letter in option[1:])


@cache
def _table() -> _Table:
    data = load_table("allowlist")
    return _Table(
        {name: _parse(row) for name, row in data["programs"].items()},
        {name: (subcommand, _parse(row)) for name, (subcommand, row) in data["wrappers"].items()},
        frozenset(data["python"]["modules"].split()),
    )


@cache
def _vocabulary() -> frozenset[str]:
    """The names of all known programs, modules and subcommands."""
    table = _table()
    subcommands = (word for program in table.programs.values() for word in program.subcommands)
    return frozenset((*table.programs, *table.wrappers, *table.modules, *subcommands))


def _parse(row: str) -> _Words:
    options = [word for word in row.split() if word.startswith("-")]
    return _Words(
        frozenset(row.split()).difference(options),
        frozenset(option.rstrip("=") for option in options),
        frozenset(option[:-1] for option in options if option.endswith("=")),
    )
