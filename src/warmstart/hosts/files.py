"""An agent's files with our entries: pure functions on their text, and how they are read and replaced."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import tempfile
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from warmstart.errors import ConfigError
from warmstart.hosts import json_text
from warmstart.hosts.hook_tool import is_tool_hook
from warmstart.hosts.json_text import Insertion, Keys

State = Literal["absent", "outdated", "current"]

_SERVERS_TABLE, _NAME = "mcp_servers", "warmstart"
_COPY = ".warmstart-"  # in the name of a file that replaces another one
_END = r"[ \t]*(?:#.*)?(?:\r?\n|\Z)"
_COMMENTS = r"(?:[ \t]*(?:#.*)?\r?\n)*"
_SERVER_LINES = re.compile(
    rf"^(?:[ \t]*\r?\n)?[ \t]*\[[ \t]*{_SERVERS_TABLE}[ \t]*\.[ \t]*(['\"]?){_NAME}\1[ \t]*(?:\..*)?\]{_END}"
    rf"(?:{_COMMENTS}[ \t]*[^\s#\[].*(?:\n|\Z))*",
    re.MULTILINE,
)
_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|\Z)", re.MULTILINE)  # of YAML
_PLUGINS = re.compile(rf"^plugins:{_END}(?P<body>(?:(?:[ #].*|\r?)\n|[ #].*\Z)*)", re.MULTILINE)
_CHILD = re.compile(r"^( +)[^\s#]", re.MULTILINE)
_PLUGIN_LIST = rf"enabled:[ \t]*(?P<row>\[[^][{{}}#]*\])?{_END}(?P<items>(?:(?: *(?:-.*|#.*)?)\r?(?:\n|(?<=.)\Z))*)"
_PLUGIN_ITEM = re.compile(rf"^( *)- +(['\"]?){_NAME}\2{_END}", re.MULTILINE)


class Edit(NamedTuple):
    """A text with our entries: the insertions in order, and the containers that had to be created."""

    text: str
    insertions: tuple[Insertion, ...]
    created: tuple[Keys, ...] = ()


@dataclass(frozen=True, slots=True)
class HostFile(ABC):
    """A file with our entries. The methods raise `ValueError` for a text that they cannot parse."""

    path: Path
    is_ours: ClassVar[bool] = False  # whether the whole file is ours, not just entries in it

    @abstractmethod
    def state(self, text: str) -> State:
        """Whether our entries are in the text and up to date."""

    @abstractmethod
    def add(self, text: str) -> Edit:
        """The text with our entries, which it does not have yet. Only inserts. An empty text is a new file."""

    @abstractmethod
    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        """The text without our entries, and without those of the `created` containers that become empty.

        `None` means any container, if it is not known who created them.
        """

    def conflicts(self, text: str) -> list[str]:
        """The names of our entries that cannot be added, because the user has others of the same name."""
        return []

    def is_empty(self, text: str) -> bool:
        """Whether the text has no content, so that a file we created can be deleted."""
        return not text.strip()


@dataclass(frozen=True, slots=True)
class OwnFile(HostFile):
    """A file that is ours alone."""

    text: str
    is_ours: ClassVar[bool] = True

    def state(self, text: str) -> State:
        return "current" if text == self.text else "outdated"

    def add(self, text: str) -> Edit:
        return Edit(self.text, (Insertion(0, len(self.text)),))

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        return ""


class JSONEntry(NamedTuple):
    """The member at `keys`, or an item of the list there."""

    keys: tuple[str, ...]
    value: Any
    item: bool = False


@dataclass(frozen=True, slots=True)
class JSONFile(HostFile):
    """A JSON file; `find` locates our entries in its data, whichever version of Warmstart wrote them."""

    entries: tuple[JSONEntry, ...]
    find: Callable[[Any], Iterable[Keys]]

    def state(self, text: str) -> State:
        data = _data(text)
        ours = [(keys[:-1] if isinstance(keys[-1], int) else keys, _at(data, keys)) for keys in self.find(data)]
        if not ours:
            return "absent"
        wanted = (entry[:2] for entry in self.entries if not self._is_taken(entry, data))
        return "current" if sorted(map(_canonical, ours)) == sorted(map(_canonical, wanted)) else "outdated"

    def add(self, text: str) -> Edit:
        insertions: list[Insertion] = []
        created: list[Keys] = []
        for entry in reversed(self.entries):  # each is inserted at the front of its container
            data = _data(text)
            if self._is_taken(entry, data):
                continue
            keys, value, item = entry
            created += [keys[:end] for end in range(1, len(keys) + item) if _at(data, keys[:end]) is None]
            text, insertion = json_text.insert(text, keys, value, item=item)
            insertions.append(insertion)
        return Edit(text, tuple(insertions), tuple(created))

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        while keys := next(iter(self.find(_data(text))), ()):
            text = json_text.remove(text, keys)
            for end in range(len(keys) - 1, 0, -1):
                if _at(_data(text), keys[:end]) or (created is not None and keys[:end] not in created):
                    break
                text = json_text.remove(text, keys[:end])
        return text

    def conflicts(self, text: str) -> list[str]:
        data = _data(text)
        return [".".join(entry.keys) for entry in self.entries if self._is_taken(entry, data)]

    def _is_taken(self, entry: JSONEntry, data: Any) -> bool:
        return not entry.item and _at(data, entry.keys) is not None and entry.keys not in self.find(data)

    def is_empty(self, text: str) -> bool:
        return not _data(text)


def runs_server(server: Any) -> bool:
    """Whether an MCP server runs `warmstart mcp`, in any of the formats of the agents."""
    command, arguments = _at(server, ("command",)), _at(server, ("args",))
    line = command if isinstance(command, list) else [command]
    line = line + arguments if isinstance(arguments, list) else line
    return len(line) > 1 and line[-1] == "mcp" and Path(str(line[-2])).stem == _NAME


def member_file(
    path: Path, keys: tuple[str, ...], value: Any, is_ours: Callable[[Any], bool] = runs_server
) -> JSONFile:
    """A JSON file with one member, by default an MCP server; `value` is `None` if it should not be there.

    A value that is not ours is left alone.
    """
    entries = () if value is None else (JSONEntry(keys, value),)
    return JSONFile(path, entries, lambda data: [keys] if is_ours(_at(data, keys)) else [])


def hooks_file(
    path: Path,
    host: str,
    command: Callable[[str, str], str],
    timeouts: Mapping[str, int],
    background: Collection[str] = (),
    served: Mapping[str, Any] | None = None,
    matchers: Mapping[str, str] | None = None,
    **more: str,
) -> JSONFile:
    """A JSON file with hooks by event, each in its own group, as in Claude Code, Codex and Gemini CLI.

    `command` returns the command for an event of a host. The agent does not wait for events in `background`, and
    starts those with a matcher for these tools only. `served` has hooks that our MCP server answers.
    """
    entries = []
    for event, timeout in timeouts.items():
        hook = {"type": "command", **more, "command": command(host, event), "timeout": timeout}
        if event in background:
            hook["async"] = True
        group = [hook, served[event]] if served and event in served else [hook]
        matcher = {"matcher": matchers[event]} if matchers and event in matchers else {}
        entries.append(JSONEntry(("hooks", event), {**matcher, "hooks": group}, item=True))
    return JSONFile(path, tuple(entries), lambda data: find_hooks(data, host))


def find_hooks(data: Any, host: str) -> Iterator[Keys]:
    """Our hooks: the whole group if it has no others, otherwise each hook."""
    events = _at(data, ("hooks",))
    for event, groups in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            hooks = _at(group, ("hooks",))
            hooks = hooks if isinstance(hooks, list) else []
            ours = [at for at, hook in enumerate(hooks) if _is_our_hook(hook, host)]
            if ours and len(ours) == len(hooks):
                yield "hooks", event, number
            else:
                yield from (("hooks", event, number, "hooks", at) for at in ours)


def _is_our_hook(hook: Any, host: str) -> bool:
    line = _at(hook, ("command",))
    return (isinstance(line, str) and "warmstart" in line and f" hook {host} " in line) or is_tool_hook(hook)


def _data(text: str) -> Any:
    return json_text.parse(text).value


def _at(data: Any, keys: Keys) -> Any:
    """The value at the keys, or `None`."""
    for key in keys:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _canonical(entry: tuple[Keys, Any]) -> str:
    return json.dumps(entry, sort_keys=True)


@dataclass(frozen=True, slots=True)
class ServerTable(HostFile):
    """Codex's `config.toml` with our MCP server at its end; `server` is `None` if it should not be there."""

    server: Mapping[str, Any] | None

    def state(self, text: str) -> State:
        current = _servers(text).get(_NAME)
        if current is None or not runs_server(current):
            return "absent"
        # Codex also stores in this table which of our tools the user allows.
        wanted = self.server or {}
        return "current" if wanted and {key: current.get(key) for key in wanted} == wanted else "outdated"

    def add(self, text: str) -> Edit:
        if self.server is None or self.conflicts(text):
            return Edit(text, ())
        import tomlkit

        newline = "\r\n" if "\r\n" in text else "\n"
        gap = newline * ((not text.endswith("\n")) + 1) if text else ""
        piece = gap + tomlkit.dumps({_SERVERS_TABLE: {_NAME: self.server}}).replace("\n", newline)
        servers = _servers(text)
        if _servers(text + piece) != {**servers, _NAME: self.server}:
            raise ValueError(f"{_SERVERS_TABLE!r} is not a table")
        return Edit(text + piece, (Insertion(len(text), len(piece)),))

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        """Cut our lines, from a header to the last line with a key: comments below them are the user's."""
        if not runs_server(_servers(text).get(_NAME)):
            return text
        left = _SERVER_LINES.sub("", text)
        wanted = tomllib.loads(text)
        del wanted[_SERVERS_TABLE][_NAME]
        if tomllib.loads(left) | {_SERVERS_TABLE: _servers(left)} != wanted:
            raise ValueError(f"cannot remove {_SERVERS_TABLE}.{_NAME}")
        return left

    def conflicts(self, text: str) -> list[str]:
        server = _servers(text).get(_NAME)
        return [] if server is None or runs_server(server) else [f"{_SERVERS_TABLE}.{_NAME}"]


def _servers(text: str) -> dict[str, Any]:
    servers = tomllib.loads(text).get(_SERVERS_TABLE, {})
    if not isinstance(servers, dict):
        raise ValueError(f"{_SERVERS_TABLE!r} is not a table")
    return servers


@dataclass(frozen=True, slots=True)
class PluginList(HostFile):
    """Hermes' `config.yaml` with our name in `plugins.enabled`, added and removed as text.

    Parsing and rewriting the file would drop its comments, as Hermes' own writer does. So we insert or remove a few
    lines and leave every other byte alone. A file in a form that we do not recognise is refused.
    """

    def state(self, text: str) -> State:
        return "absent" if self.remove(text, ()) == text else "current"

    def add(self, text: str) -> Edit:
        newline = "\r\n" if "\r\n" in text else "\n"
        if text and not text.endswith("\n"):
            edit = self.add(text + newline)
            return edit._replace(insertions=(Insertion(len(text), len(newline)), *edit.insertions))
        plugins, enabled, indent = _find_plugins(text)
        created: tuple[Keys, ...] = ()
        if enabled and enabled["row"]:
            at, piece = enabled.start("row") + 1, f"{_NAME}, " if enabled["row"][1:-1].strip() else _NAME
        elif enabled:
            first = _CHILD.search(enabled["items"])
            at, piece = enabled.start("items"), f"{first[1] if first else indent}- {_NAME}{newline}"
        else:
            end = _DOCUMENT_END.search(text)
            at, piece = end.start() if end else len(text), f"{indent}enabled:{newline}{indent}- {_NAME}{newline}"
            created = (("plugins", "enabled"),)
            if plugins:
                at = plugins.start("body")
            else:
                piece, created = f"plugins:{newline}{piece}", (("plugins",), *created)
        return Edit(text[:at] + piece + text[at:], (Insertion(at, len(piece)),), created)

    def remove(self, text: str, created: Collection[Keys] | None) -> str:
        plugins, enabled, _ = _find_plugins(text)
        if not plugins or not enabled:
            return text
        row, items = enabled["row"] or "", _PLUGIN_ITEM.sub("", enabled["items"])
        names = [name.strip() for name in row[1:-1].split(",") if name.strip()]
        others = [name for name in names if name.strip("'\"") != _NAME]
        if others == names and items == enabled["items"]:
            return text
        key = text[enabled.start() : enabled.start("items")].replace(row, f"[{', '.join(others)}]" if row else "")
        if not others and not _CHILD.search(items):
            if created is None or ("plugins", "enabled") in created:
                key = ""
            elif not row:
                key = key.replace(":", ": []", 1)
        start, end = enabled.span()
        if not key and not (text[plugins.start("body") : start] + items + text[end : plugins.end()]).strip():
            start = plugins.start() if created is None or ("plugins",) in created else start
        return text[:start] + key + items + text[end:]


def _find_plugins(text: str) -> tuple[re.Match[str] | None, re.Match[str] | None, str]:
    """The section `plugins`, the list `enabled` in it, and the indentation there."""
    plugins = _PLUGINS.search(text)
    child = _CHILD.search(plugins["body"]) if plugins else None
    indent = child[1] if child else "  "
    where = re.compile(f"^{indent}{_PLUGIN_LIST}", re.MULTILINE)
    enabled = where.search(text, plugins.start("body"), plugins.end()) if plugins else None
    if not plugins and re.search(r"^(?:[\"']?plugins\b|\ufeff?\{)", text, re.MULTILINE):
        raise ValueError("'plugins' is not a block of lines")
    if plugins and not enabled and re.search(rf"^{indent}[\"']?enabled\b", plugins["body"], re.MULTILINE):
        raise ValueError("'enabled' is not a list of names")
    return plugins, enabled, indent


def read_file(path: Path) -> bytes | None:
    """The bytes of an agent's file, or `None` if it does not exist."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{str(path)!r} is not a file; move it away")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r} ({error.strerror}); fix its permissions") from error


def check_replaceable(path: Path, home: Path) -> None:
    """Raise `ConfigError` if the file, which need not exist, cannot be replaced."""
    target = path.resolve()
    if path.is_symlink() and not (target.exists() and target.is_relative_to(home.resolve())):
        where = f"a symbolic link to {str(path.readlink())!r}, which is not a file in your home directory"
        raise ConfigError(f"{str(path)!r} is {where}; replace the link with the file first")
    folder = next(folder for folder in target.parents if folder.exists())
    effective = os.access in os.supports_effective_ids
    if not all(os.access(each, os.W_OK, effective_ids=effective) for each in (folder, target) if each.exists()):
        raise ConfigError(f"{str(path)!r} is not writable; fix its permissions and those of its folder")


def replace_file(path: Path, data: bytes | None) -> None:
    """Replace a file atomically, or delete it. Its mode and owner stay; a new file is private to its owner.

    A link is followed. What an interruption leaves behind, `delete_copies` deletes.
    """
    target = path.resolve()
    if data is None:
        path.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        return
    path = target
    handle, name = tempfile.mkstemp(prefix=f".{path.name}{_COPY}", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            with suppress(FileNotFoundError):
                old = path.stat()
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):  # only root can give a file away
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def delete_copies(path: Path) -> None:
    """Delete the copies of a file that an interrupted `replace_file` left."""
    target = path.resolve()
    for copy in target.parent.glob(f".{glob.escape(target.name)}{_COPY}*"):
        copy.unlink(missing_ok=True)


def missing_folders(folder: Path) -> list[Path]:
    """The folder and its parents, if they do not exist, outermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()][::-1]


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents, private to their owner."""
    for each in missing_folders(folder):
        each.mkdir(mode=0o700, exist_ok=True)
