"""The simple commands in a shell command, parsed with tree-sitter-bash.

The parser recovers from errors: for an incomplete command it returns what it recognises. A command may contain a
megabyte of input, so only its beginning is parsed, and only short commands are cached.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

MAX_LENGTH = 16_384  # characters of a command that are parsed; the longest of 3,793 real ones has 8,994
_MAX_CACHED = 4_096  # characters of a command that is cached

SHELL_PROGRAMS = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
# Programs that run the program in their arguments, with the options that take a value.
WRAPPERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("time", "nohup", "command", "exec", "builtin", "cross-env", "rtk", "nyc", "c8"), ()),
    **dict.fromkeys(("bunx", "pipx", "poetry", "bundle", "pipenv"), ()),
    **dict.fromkeys(("timeout", "gtimeout"), ("-k", "-s")),
    "sudo": ("-u", "-g"),
    "env": ("-u", "-C"),
    "nice": ("-n",),
    "stdbuf": ("-o", "-e", "-i"),
    "xargs": ("-n", "-I", "-P", "-L", "-d"),
    "npx": ("-p", "--package"),
    "uvx": ("--from", "--with"),
    "uv": ("--with", "--extra", "--python", "-p", "--group"),
    "conda": ("-n", "--name", "-p"),
    "coverage": ("--source", "--rcfile"),
}
# Wrappers only when this word follows: `uv run ...`.
_RUN_WORD = {
    **dict.fromkeys(("poetry", "pipx", "uv", "pipenv", "conda", "coverage"), "run"),
    "bundle": "exec",
}
_CHANGES_FOLDER = frozenset(("cd", "pushd"))
# Commands that only prepare for others, or print.
SILENT = _CHANGES_FOLDER | frozenset(
    ("popd", "export", "set", "source", ".", "true", ":", "echo", "printf", "sleep", "exit")
)
# Commands that test a condition for another command.
PREDICATES = frozenset(("[", "[[", "((", "test", "which", "type"))

# Prefixes of paths outside the project. They are only compared with, never opened.
_SCRATCH = ("/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/", "/dev/", "$")  # noqa: S108
_OPERATORS = frozenset(("&&", "||", "|", "|&", ";", ";;", "&"))
_WRITES = frozenset((">", ">>", ">|", "&>", "&>>"))
_BUILTINS = frozenset(("test_command", "declaration_command", "unset_command"))
# Nodes without commands inside. A substitution is part of a word.
_LEAVES = frozenset(
    ("comment", "heredoc_body", "herestring_redirect", "variable_assignment", "variable_assignments", "word", "string")
)
_PLAIN = re.compile(r"[\w./:=@%,+ -]+").fullmatch
_QUOTES = re.compile(r"""'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_RUNS_TEXT = re.compile(r"-[a-z]*c")
_ERREXIT = re.compile(r"\bset -[a-z]*e")
_PIPEFAIL = re.compile(r"\bset -[a-z]*o pipefail")
_IN_ASCII = bytes(range(128)) + b"." * 128  # the parser reads outside its memory after `{` and, for example, 𱡠

Cut = Callable[[slice], str]  # returns the text of a node


class Command(NamedTuple):
    """A simple command: the program without its folder, its words, and the operator that follows it.

    `masked` means that the exit code of the whole says nothing about this command: its output is piped, another
    command runs after it regardless, or it runs in the background. `folder` is the working directory after the `cd`s
    before it. `outputs` are the files to which its output is redirected. `argv` are the words as written, with
    assignments, wrappers and the folder of the program.
    """

    program: str
    words: tuple[str, ...] = ()
    then: str = ""
    masked: bool = False
    folder: str = ""
    outputs: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()


def parse_commands(text: str) -> tuple[Command, ...]:
    """The simple commands in a shell command, in order, without those that only prepare (`cd`, `export`).

    Wrappers (`sudo`, `timeout`, `uv run`, `bash -c`) are removed. Predicates (`[ -f x ]`, `which x`) are left out
    unless there is nothing else.
    """
    return _parse_cached(text) if len(text) <= _MAX_CACHED else _parse(text[:MAX_LENGTH])


def _parse(text: str) -> tuple[Command, ...]:
    parts = _flatten(text)
    if len(parts) > 1 or (parts and parts[0].then):
        strict = "set -" in text
        _mask(parts, strict and bool(_ERREXIT.search(text)), strict and bool(_PIPEFAIL.search(text)))
        _set_folders(parts)
    parts = [part for part in parts if part.program not in SILENT or not all(map(is_scratch, part.outputs))]
    actions = [part for part in parts if part.program not in PREDICATES or not all(map(is_scratch, part.outputs))]
    return tuple([part.command() for part in actions or parts])


_parse_cached = lru_cache(maxsize=4096)(_parse)


def is_scratch(path: str) -> bool:
    """Whether a path is outside the project: a temporary file, a device, a log, or a variable."""
    return path.startswith(_SCRATCH) or path.endswith(".log")


@dataclass(slots=True)
class _Part:
    """A command under construction."""

    program: str
    words: list[str]
    argv: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    then: str = ""
    masked: bool = False
    folder: str = ""

    def command(self) -> Command:
        outputs, argv = tuple(self.outputs), tuple(self.argv)
        return Command(self.program, tuple(self.words), self.then, self.masked, self.folder, outputs, argv)


def _set_folders(parts: list[_Part]) -> None:
    """Set the folder of each command from the `cd`s before it."""
    folder = ""
    for part in parts:
        if part.program in _CHANGES_FOLDER:
            folder = posixpath.join(folder, next((word for word in part.words if not word.startswith("-")), ""))
        part.folder = folder


def _mask(parts: list[_Part], errexit: bool, pipefail: bool) -> None:
    """Set `masked`, starting from the last command, because it depends on what follows."""
    lost = False
    after: _Part | None = None
    for part in reversed(parts):
        if after and part.then in (";", "\n"):
            lost = lost or not errexit
        elif part.then == "&":
            lost = True
        elif after and part.then == "||":
            lost = lost or not (after.program in ("exit", "return", "false") and after.words != ["0"])
        part.masked = lost or (part.then in ("|", "|&") and not pipefail)
        after = part


# -- the syntax tree


@lru_cache(maxsize=1)
def _parser() -> Callable[[bytes], Tree]:
    import tree_sitter_bash  # deferred: saves 5 ms in a hook without commands
    from tree_sitter import Language, Parser

    parse, lock = Parser(Language(tree_sitter_bash.language())).parse, Lock()

    def locked(source: bytes) -> Tree:
        with lock:
            return parse(source)

    return locked


def _flatten(text: str) -> list[_Part]:
    """All simple commands in a text, including nested ones, each with the operator that follows it."""
    if _PLAIN(text):  # a third of real commands need no parser
        return _unwrap(text.split())
    source = text.encode(errors="replace")
    # The parser's offsets are bytes; in ASCII they equal character offsets.
    cut: Cut = text.__getitem__ if text.isascii() else lambda span: source[span].decode(errors="replace")
    parts: list[_Part] = []
    stack = [_parser()(source.translate(_IN_ASCII)).root_node]
    while stack:
        node = stack.pop()
        kind = node.type
        if kind == "command" or kind in _BUILTINS:
            _set_operator(parts, "\n")  # without an operator, the line ended
            parts += _simple(node, cut) if kind == "command" else _builtin(node, cut)
        elif kind in _OPERATORS:
            _set_operator(parts, kind)
        elif kind == "file_redirect":
            if parts:
                _redirect(parts[-1], node, cut)
        elif kind not in _LEAVES:
            stack += reversed(node.children)
    return parts or _unwrap(_unquote(text).split())


def _set_operator(parts: list[_Part], operator: str) -> None:
    if parts and not parts[-1].then:
        parts[-1].then = operator


def _builtin(node: Node, cut: Cut) -> list[_Part]:
    """A test (`[ -f x ]`) or a declaration (`export A=1`)."""
    program, *words = cut(slice(node.start_byte, node.end_byte)).split()
    return [_Part(program, words)]


def _simple(node: Node, cut: Cut) -> list[_Part]:
    words: list[str] = []
    redirects: list[Node] = []
    for child in node.children:
        kind = child.type
        if kind == "file_redirect":
            redirects.append(child)
        elif kind == "subshell":  # `time (...)`
            return _flatten(cut(slice(child.start_byte, child.end_byte)))
        elif kind != "herestring_redirect" and kind != "ERROR":
            words.append(_unquote(cut(slice(child.start_byte, child.end_byte))))
    parts = _unwrap(words)
    for each in redirects if parts else ():
        _redirect(parts[-1], each, cut)
    return parts


def _redirect(part: _Part, node: Node, cut: Cut) -> None:
    """Add the file that a redirection writes to. Words after it belong to the command: `echo > file text`."""
    operator, descriptor = "", ""
    words: list[str] = []
    for child in node.children:
        text = cut(slice(child.start_byte, child.end_byte))
        if child.type == "file_descriptor":
            descriptor = text
        elif child.is_named:
            words.append(_unquote(text))
        else:
            operator = text
    if operator in _WRITES and descriptor in ("", "1"):
        part.outputs += words[:1]
    part.words += words[1:]
    part.argv += words[1:]


def _unquote(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    return _QUOTES.sub(lambda found: found[1] or found[2] or (found[3] or "").strip("\n"), word)


def _unwrap(words: list[str]) -> list[_Part]:
    """The command in these words, without its wrappers; the argument of `sh -c` is parsed too."""
    at = 0
    while at < len(words):
        name = words[at].rsplit("/", 1)[-1]
        if not name or _ASSIGNMENT.match(words[at]):
            at += 1
        elif name == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
            return [_Part("which", words[at + 2 :], words)]
        elif name in WRAPPERS and (name not in _RUN_WORD or words[at + 1 : at + 2] == [_RUN_WORD[name]]):
            at = _skip_wrapper(name, words, at + 1)
            if at >= len(words):
                return [_Part(name, [], words)]
        elif name in SHELL_PROGRAMS and len(words) > at + 2 and _RUNS_TEXT.fullmatch(words[at + 1]):
            return _flatten(words[at + 2])
        else:
            return [_Part(name, words[at + 1 :], words)]
    return []


def _skip_wrapper(name: str, words: list[str], at: int) -> int:
    """The index of the program that a wrapper runs, after the wrapper's own words."""
    if name in _RUN_WORD:
        at += 1
    while at < len(words):
        word = words[at]
        if word in WRAPPERS[name]:
            at += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word) or (name.endswith("timeout") and word[:1].isdigit()):
            at += 1
        else:
            break
    return at
