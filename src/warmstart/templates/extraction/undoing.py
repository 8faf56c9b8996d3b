"""Which changes were taken back later: by git, by removing the file, or by writing it as it was before.

What was taken back did not end well, whatever its exit code said. A change that is stashed and fetched again stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warmstart.profile.shell import commits, edits, subcommand
from warmstart.profile.tools import SHELLS, command_in, fields_of, path_in
from warmstart.templates.extraction.walk import Taken
from warmstart.text.shell import Command, parse_commands

_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$|^\+\+\+ b/(\S+)", re.MULTILINE)
_PATCH = 65_536  # characters of a patch in which files are looked for
_OLD, _NEW = ("old_string", "old_str", "oldString"), ("new_string", "new_str", "newString")
_SCRATCH = ("/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")  # noqa: S108 - to be thrown away
_TOLD = 2_000  # characters of what git says of a commit
_COMMITTED = re.compile(r"^\[[^\]\n]{1,120} ([0-9a-f]{4,40})\]", re.MULTILINE)
_BACK = re.compile(r"[~^](\d{0,3})")
_REVISION = re.compile(r"(?:HEAD|@)[~^\d]*|[0-9a-f]{7,40}")
_CONTENT = ("content", "file_text", "contents")


@dataclass(slots=True)
class _Change:
    """A change that stands: which call made it, of which files (none: not known), and in which commit it is."""

    place: int
    paths: tuple[str, ...]
    commit: int = 0


class _Edit(NamedTuple):
    path: str
    old: str
    new: str


@dataclass(slots=True)
class _Tree:
    """The work as it stands after a call."""

    standing: list[_Change] = field(default_factory=list)
    stashed: list[_Change] = field(default_factory=list)
    undone: dict[int, int] = field(default_factory=dict)
    edits: dict[_Edit, int] = field(default_factory=dict)
    written: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)  # their hashes, as far as git told them

    def take_back(self, by: int, paths: Sequence[str] = (), *, commits: Collection[int] = ()) -> list[_Change]:
        """Undo the changes of these files, or all, that are not committed yet or in one of these commits."""
        gone = [
            change
            for change in self.standing
            if (not change.commit or change.commit in commits) and _touches(change, paths)
        ]
        return self._drop(gone, by)

    def revert(self, by: int, commit: int) -> None:
        """Undo the changes of one commit."""
        self._drop([change for change in self.standing if commit and change.commit == commit], by)

    def _drop(self, gone: list[_Change], by: int) -> list[_Change]:
        places = {change.place for change in gone}
        self.standing = [change for change in self.standing if change.place not in places]
        self.undone.update(dict.fromkeys(places, by))
        return gone

    def commit(self, told: str) -> None:
        found = _COMMITTED.search(told[:_TOLD])
        self.commits.append(found[1] if found else "")
        for change in self.standing:
            change.commit = change.commit or len(self.commits)

    def named(self, name: str) -> int:
        """The number of the commit that git knows by a name; 0 for one that was there before."""
        if name.startswith(("HEAD", "@")):
            steps = sum(int(found[1] or 1) for found in _BACK.finditer(name))
            return max(0, len(self.commits) - steps)
        known = (number for number, told in enumerate(self.commits, 1) if told and _same_hash(told, name))
        return next(known, 0)


def undone(taken: Sequence[Taken]) -> dict[int, int]:
    """The places of the calls whose change was taken back, each with the place of the call that did it."""
    tree = _Tree()
    for step in taken:
        if step.outcome != "ok":
            continue
        if step.call.name in SHELLS:
            _follow_shell(tree, step)
        elif step.role == "edit":
            _follow_edit(tree, step)
    return tree.undone


def _follow_edit(tree: _Tree, step: Taken) -> None:
    fields, path = fields_of(step.call.arguments), path_in(step.call.arguments)
    old, new = _first(fields, _OLD), _first(fields, _NEW)
    if path and old is not None and new is not None:
        if (earlier := tree.edits.pop(_Edit(path, new, old), None)) is not None:
            tree.undone[earlier] = tree.undone[step.place] = step.place
            return
        tree.edits[_Edit(path, old, new)] = step.place
    content = _first(fields, _CONTENT)
    if path and content is not None and _written_back(tree, path, content, step.place):
        return
    if not path.startswith(_SCRATCH):
        tree.standing.append(_Change(step.place, tuple(paths_of(step))))


def _written_back(tree: _Tree, path: str, content: str, place: int) -> bool:
    """Whether a file is written as it was written before, with something else in between."""
    versions = tree.written.setdefault(path, [])
    same = next((order for order, (_, text) in enumerate(versions) if text == content), None)
    if same is None or same == len(versions) - 1:
        versions.append((place, content))
        return False
    for earlier, _ in versions[same + 1 :]:
        tree.undone[earlier] = place
    tree.undone[place] = place
    del versions[same + 1 :]
    return True


def _first(fields: dict[str, object], names: Sequence[str]) -> str | None:
    return next((value for name in names if isinstance(value := fields.get(name), str)), None)


def paths_of(step: Taken) -> Iterator[str]:
    """The files that a call names as changed."""
    if path := path_in(step.call.arguments):
        yield path
    elif step.call.name not in SHELLS:
        text = step.call.arguments[:_PATCH].replace("\\n", "\n")
        yield from (found[1] or found[2] for found in _PATCHED.finditer(text))


def _follow_shell(tree: _Tree, step: Taken) -> None:
    text = command_in(step.call.arguments)
    for command in parse_commands(text):
        if command.program == "git":
            _follow_git(tree, step, command)
        elif command.program == "rm":
            every = range(1, len(tree.commits) + 1)
            tree.take_back(step.place, _named(command) or ("\0",), commits=every)
        elif edits(command):
            tree.standing.append(_Change(step.place, tuple(_written(command))))
    if "*** Begin Patch" in text:
        files = tuple(found[1] or found[2] for found in _PATCHED.finditer(text[:_PATCH]))
        tree.standing.append(_Change(step.place, files))


def _follow_git(tree: _Tree, step: Taken, command: Command) -> None:
    verb, words, place = subcommand(command), command.words, step.place
    if commits(command):
        tree.commit(step.text)
    elif verb == "stash":
        if {"pop", "apply"} & set(words):
            tree.standing += tree.stashed
            for change in tree.stashed:
                tree.undone.pop(change.place, None)
            tree.stashed = []
        elif not {"list", "show", "drop", "clear", "branch"} & set(words):
            tree.stashed += tree.take_back(place)
    elif verb == "reset" and "--hard" in words:
        back = next((word for word in _operands(command) if _REVISION.fullmatch(word)), "HEAD")
        tree.take_back(place, commits=range(tree.named(back) + 1, len(tree.commits) + 1))
    elif verb == "revert" and not {"--abort", "--quit"} & set(words):
        for name in _operands(command) or ("HEAD",):
            tree.revert(place, tree.named(name))
    elif verb == "restore":
        if "--staged" not in words or "--worktree" in words:
            tree.take_back(place, _restored(command))
    elif verb == "checkout" and not {"-b", "-B", "--orphan"} & set(words):
        tree.take_back(place, _restored(command))


def _operands(command: Command) -> tuple[str, ...]:
    return tuple(word for word in _named(command) if word != subcommand(command))


def _restored(command: Command) -> tuple[str, ...]:
    """What git is told to restore, among it what is no file; nothing where it is all of them."""
    words = command.words[command.words.index("--") + 1 :] if "--" in command.words else command.words[1:]
    named = tuple(word for word in words if not word.startswith("-"))
    return () if "." in named else named or ("\0",)


def _same_hash(one: str, other: str) -> bool:
    return len(other) > 3 and (one.startswith(other) or other.startswith(one))


def _named(command: Command) -> tuple[str, ...]:
    return tuple(word for word in command.words if not word.startswith("-"))


def _written(command: Command) -> Iterator[str]:
    yield from command.outputs or _named(command)


def _touches(change: _Change, paths: Sequence[str]) -> bool:
    """Whether a change is of one of these files or folders; without any, of anything."""
    return not paths or any(_is_in(own, path) for own in change.paths for path in paths)


def _is_in(own: str, path: str) -> bool:
    own, path = own.removeprefix("./").rstrip("/"), path.removeprefix("./").rstrip("/")
    if own == path or own.startswith(f"{path}/"):
        return True
    return own.endswith(f"/{path}") or f"/{path}/" in own or path.endswith(f"/{own}")
