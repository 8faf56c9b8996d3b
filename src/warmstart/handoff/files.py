"""Which files a tool call read, created, changed or deleted, from its annotated step."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from warmstart.profile.tools import SHELLS, command_in, edits, fields_of, path_in, reads, subcommand, tool_names
from warmstart.profile.values import AnnotatedStep
from warmstart.text.shell import Command, is_scratch, parse_commands

Operation = Literal["read", "created", "changed", "deleted", "written"]  # `written`: created or changed

_PATCHED = re.compile(r"^\*\*\* (?:(Update|Add|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_PATCHES: dict[str, Operation] = {"Add": "created", "Delete": "deleted"}
_CREATES = frozenset(
    ("write", "write_file", "create", "create_file", "write_to_file", "file_write", "writefile", "delete_file")
)
_CREATED = re.compile(r"\bcreated\b|\bnew file\b", re.IGNORECASE)
_PLAIN = re.compile(r"(?:~?/|\./|\.\./)?[\w@+%\[\](),.-]+(?:/[\w@+%\[\](), .-]+)*", re.ASCII)
_RECURSIVE = re.compile(r"-[a-z]*[rR]|--recursive")


class FileOperation(NamedTuple):
    """What was done with a file. A `folder` was deleted with all that is in it."""

    operation: Operation
    path: str
    folder: bool = False


def file_operations(step: AnnotatedStep, directory: str) -> Iterator[FileOperation]:
    """What a call that worked did with files; their paths are absolute where the directory is."""
    if step.outcome != "ok":
        return
    name, arguments = step.call.name, step.call.arguments
    if name in SHELLS:
        text = command_in(arguments)
        base = _join(str(fields_of(arguments).get("workdir") or ""), directory)
        yield from _patch(text, base) if "*** Begin Patch" in text else _shell(text, base)
        return
    own = name.rsplit("__", 1)[-1]
    if step.role == "edit" and own.lower() in tool_names("files", "edit"):
        yield from _edit(step, own.lower(), directory)
    elif step.role == "read" and (own in tool_names("files", "read") or own.lower() in tool_names("files", "edit")):
        if path := path_in(arguments):
            yield FileOperation("read", _join(path, directory))
    elif own == "read_many_files":
        paths = fields_of(arguments).get("paths") or fields_of(arguments).get("include") or ()
        yield from (FileOperation("read", _join(path, directory)) for path in paths if _is_file(str(path)))


def _edit(step: AnnotatedStep, tool: str, directory: str) -> Iterator[FileOperation]:
    arguments = step.call.arguments
    fields = fields_of(arguments)
    patch = fields.get("patchText") or fields.get("patch") or fields.get("input") or arguments
    if isinstance(patch, str) and "*** Begin Patch" in patch:
        yield from _patch(patch, directory)
    elif path := path_in(arguments):
        operation: Operation = "changed"
        if tool == "delete_file":
            operation = "deleted"
        elif tool in _CREATES or fields.get("command") == "create":
            output = step.result.text[:300] if step.result else ""
            operation = "created" if _CREATED.search(output) else "written"
        yield FileOperation(operation, _join(path, directory))


def _patch(text: str, base: str) -> Iterator[FileOperation]:
    for kind, path in _PATCHED.findall(text):
        yield FileOperation(_PATCHES.get(kind, "written" if not kind else "changed"), _join(path, base))


def _shell(text: str, base: str) -> Iterator[FileOperation]:
    for command in parse_commands(text):
        folder = _join(command.folder, base)
        outputs = (FileOperation("written", path) for path in command.outputs if _is_path(path))
        for operation, path, recursive in (*outputs, *_program(command)):
            whole = _join(path, folder)
            if (recursive or operation == "written" or _is_file(path)) and _is_path(path) and not is_scratch(whole):
                yield FileOperation(operation, whole, recursive)


def _program(command: Command) -> Iterator[FileOperation]:
    """What a program does with the files in its words."""
    program, words = command.program, tuple(word for word in command.words if not word.startswith("-"))
    if program == "git":
        program, words = subcommand(command), words[1:]
        if program in ("checkout", "restore") and edits(command):
            yield from (FileOperation("changed", word) for word in words)
        if program not in ("rm", "mv"):
            return
    if program in ("rm", "unlink"):
        recursive = any(map(_RECURSIVE.match, command.words))
        yield from (FileOperation("deleted", word, recursive) for word in words)
    elif program in ("mv", "cp") and len(words) == 2:
        name, target = words[0].rsplit("/", 1)[-1], words[1]
        is_folder = "." not in name and "." not in target.rsplit("/", 1)[-1]
        if not is_folder:
            yield FileOperation("written", f"{target.rstrip('/')}/{name}" if target.endswith(("/", ".")) else target)
        if program == "mv":
            yield FileOperation("deleted", words[0], is_folder)
    elif program in ("touch", "tee"):
        yield from (FileOperation("written", word) for word in words)
    elif program in ("sed", "gsed", "perl") and edits(command) and not command.outputs:
        yield from (FileOperation("changed", word) for word in words[1:])
    else:
        yield from (FileOperation("read", word) for word in reads(command))


def _is_path(word: str) -> bool:
    return bool(_PLAIN.fullmatch(word))


def _is_file(word: str) -> bool:
    """Whether a word of a command is the name of a file of the work: it has an ending or a folder."""
    return _is_path(word) and ("." in word or "/" in word) and word.strip("./") != ""


def _join(path: str, directory: str) -> str:
    path = path.strip().replace("\\", "/")
    if path.startswith("~"):
        return path
    return posixpath.normpath(posixpath.join(directory, path)) if path else directory


def relative_to(path: str, root: str) -> str:
    """The path relative to a folder, if it is in there."""
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path
