"""Which files a tool call read, created, changed or deleted, from its annotated step."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.tools import edits, reads, subcommand, tool_names
from warmstart.profile.values import AnnotatedStep
from warmstart.text.shell import Command, is_scratch, parse_commands

Operation = Literal["read", "created", "changed", "deleted", "written"]  # `written`: created or changed

_PATCHED = re.compile(r"^\*\*\* (?:(Update|Add|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_PATCHES: dict[str, Operation] = {"Add": "created", "Delete": "deleted", "Update": "changed"}
_CREATES = frozenset(("write", "write_file", "create", "create_file", "write_to_file", "file_write", "writefile"))
_CREATED = re.compile(r"\bcreated\b|\bnew file\b", re.IGNORECASE)
_PLAIN = re.compile(r"(?:~?/|\./|\.\./)?[\w@+%\[\](),.-]+(?:/[\w@+%\[\](), .-]+)*", re.ASCII)
_RECURSIVE = re.compile(r"-[a-z]*[rR]|--recursive")


class FileOperation(NamedTuple):
    """An operation on a file. A `folder` was deleted with its contents."""

    operation: Operation
    path: str
    folder: bool = False


def file_operations(step: AnnotatedStep, directory: str) -> Iterator[FileOperation]:
    """The file operations of a successful call; paths are absolute if the directory is."""
    if step.outcome == "ok":
        base = _join(str(fields_of(step.call.arguments).get("workdir") or ""), directory)
        for done in _shell(step, base) if step.call.name in SHELLS else _tool(step):
            yield done._replace(path=_join(done.path, base))


def _tool(step: AnnotatedStep) -> Iterator[FileOperation]:
    own, fields, path = step.call.name.rsplit("__", 1)[-1], fields_of(step.call.arguments), path_in(step.call.arguments)
    is_editor = own.lower() in tool_names("files", "edit")
    patch = fields.get("patchText") or fields.get("patch") or fields.get("input") or step.call.arguments
    if own == "read_many_files":
        paths = fields.get("paths") or fields.get("include") or ()
        yield from (FileOperation("read", path) for path in map(str, paths) if _is_file(path))
    elif step.role == "edit" and is_editor and isinstance(patch, str) and "*** Begin Patch" in patch:
        yield from _patch(patch)
    elif step.role == "read" and path and (is_editor or own in tool_names("files", "read")):
        yield FileOperation("read", path)
    elif step.role == "edit" and path and is_editor:
        creates = own.lower() in _CREATES or fields.get("command") == "create"
        is_new = creates and step.result and _CREATED.search(step.result.text[:300])
        deletes = own.lower() == "delete_file"
        kind: Operation = "deleted" if deletes else "created" if is_new else "written" if creates else "changed"
        yield FileOperation(kind, path)


def _patch(text: str) -> Iterator[FileOperation]:
    return (FileOperation(_PATCHES.get(kind, "written"), path) for kind, path in _PATCHED.findall(text))


def _shell(step: AnnotatedStep, base: str) -> Iterator[FileOperation]:
    text = command_in(step.call.arguments)
    if "*** Begin Patch" in text:
        yield from _patch(text)
        return
    for command in parse_commands(text):
        outputs = (FileOperation("written", path) for path in command.outputs)
        for operation, path, recursive in (*outputs, *_program(command)):
            whole = _join(path, _join(command.folder, base))
            is_aside = is_scratch(whole) and relative_to(whole, base) == whole
            is_named = recursive or operation == "written" or _is_file(path)
            if is_named and _PLAIN.fullmatch(path) and not is_aside:
                yield FileOperation(operation, whole, recursive)


def _program(command: Command) -> Iterator[FileOperation]:
    """The operations of a program on the files in its arguments."""
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


def _is_file(word: str) -> bool:
    """Whether an argument looks like a file: it has an extension or a folder."""
    return bool(_PLAIN.fullmatch(word)) and ("." in word or "/" in word) and word.strip("./") != ""


def _join(path: str, directory: str) -> str:
    path = path.strip().replace("\\", "/")
    if path.startswith("~"):
        return path
    return posixpath.normpath(posixpath.join(directory, path)) if path else directory


def relative_to(path: str, root: str) -> str:
    """The path relative to a folder, if it is inside."""
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path
