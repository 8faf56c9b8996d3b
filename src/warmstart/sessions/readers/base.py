"""The contract of a reader, and how logs are found.

A reader turns one log (a file or a database) into a stream of `(Session, Message)` pairs. The session has what is known
about it so far; the pair `(Session, None)` updates the session without a message, for example with a title that comes
last.

Reading can stop anywhere and resume later. `Reading` has the position to resume from. One invariant makes sync safe
against crashes: resuming from `reading.offset` and `reading.state`, as they are after a pair was yielded, yields every
message not yielded before. It may repeat some; stores ignore repeats.
"""

from __future__ import annotations

import os
import re
import sqlite3
from codecs import BOM_UTF8
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.parse import quote

from warmstart.errors import LogError
from warmstart.sessions.values import CallOutcome, Message, Session, ToolResult

MAX_PROBLEMS = 20
MAX_QUOTE = 1000  # characters; sync truncates further after redacting

SQLITE = b"SQLite format 3\0"  # the first bytes of a database

Pair = tuple[Session, Message | None]


class Malformed(NamedTuple):
    """A place in a log that could not be read."""

    path: str
    line: int
    reason: str


@dataclass(slots=True)
class Reading:
    """The position to resume a log from, and what was skipped so far. msgspec must be able to encode `state`."""

    path: Path
    offset: int = 0
    line: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    problems: list[Malformed] = field(default_factory=list)

    def skip(self, kind: object) -> None:
        """Count a record that is not a message, or is of an unknown kind."""
        self.skipped[str(kind)[:MAX_QUOTE]] += 1

    def report(self, line: int, reason: object, *, once: bool = False) -> None:
        """Count a malformed record, and keep the first few to show to the user.

        Lines after the last valid one are read again when the log grows. With `once`, they count only the first time.
        """
        if once:
            if line <= self.state.get("reported", 0):
                return
            self.state["reported"] = line
        self.malformed += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Malformed(str(self.path), line, " ".join(str(reason).split())[:MAX_QUOTE]))


class Log(Protocol):
    """One log while it is being read; `pairs` yields its content from `reading` on."""

    agent: ClassVar[str]  # the name of the agent and of the format, e.g. `claude-code`

    def __init__(self, path: Path, reading: Reading) -> None: ...

    def pairs(self) -> Iterator[Pair]: ...

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome: ...


class Reader:
    """Knows one agent's logs: where they are and what they look like. `log` reads and judges them."""

    agent: ClassVar[str]  # that of `log`, unless set
    log: ClassVar[type[Log]]
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    head: ClassVar[re.Pattern[bytes]]  # matches the beginning of a log
    # Whether the agent's vendor writes the system prompt and its users are developers. If false, the system prompt is
    # the program's own, and its users may be customers.
    has_system_prompt_of_vendor: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if "log" in vars(cls) and "agent" not in vars(cls):
            cls.agent = cls.log.agent

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        """The folders (or files) where this agent stores its history. They need not exist."""
        return []

    def is_log(self, name: str) -> bool:
        """Whether a file with this name below a root is a log."""
        return name.endswith(self.suffixes)

    def find(self, root: Path) -> Iterable[Path]:
        """The logs below `root`, which may itself be a log. Goes by names only: no file is opened.

        Symbolic links to folders are followed. A folder that cannot be listed is yielded like a log, so that opening
        it reports why.
        """
        return files_below(root, self.is_log)

    def folders(self, root: Path) -> Iterable[Path]:
        """The folders below `root` in which a new log may appear."""
        return (folder for folder, _ in _walk(root))

    def claims(self, path: Path, head: bytes) -> bool:
        """Whether a file that begins with `head` (up to 64 KB) is a log of this agent."""
        return self.head.match(head.removeprefix(BOM_UTF8)) is not None

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """The outcome of a stored result by the current rules; `tool` is empty if the call is unknown."""
        return self.log.outcome_of(tool, result)

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        """Stream the content of `path` from `reading` on. All messages of a subagent are marked `sidechain`.

        Raises `LogError` if the log cannot be read at all.
        """
        try:
            for session, message in self.log(path, reading).pairs():
                if message and session.parent_kind == "subagent" and not message.sidechain:
                    message = replace(message, sidechain=True)
                yield session, message
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            # `UnicodeDecodeError`: SQLite may quote a damaged schema in its message.
            raise LogError(self.explain(path, error)) from error

    def explain(self, path: Path, error: Exception) -> str:
        """Why a log cannot be read, and what to do about it."""
        return f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"


def files_below(root: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The files below `root` with a wanted name, folder by folder, sorted by name; `root` itself if it is a file.

    Links to folders are followed last, so that a log is found under its real path if that is below `root`. No folder is
    entered twice. A folder that cannot be listed is itself yielded.
    """
    if root.is_file():
        yield root
        return
    unlistable: list[OSError] = []
    for folder, files in _walk(root, unlistable.append):
        yield from (folder / each for each in sorted(files) if is_wanted(each))
    for error in unlistable:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            yield Path(os.fsdecode(error.filename))


def _walk(root: Path, onerror: Callable[[OSError], None] | None = None) -> Iterator[tuple[Path, list[str]]]:
    """The folders below `root`, each with the names of its files."""
    entered: set[tuple[int, int]] = set()
    tops = deque([root])
    while tops:
        for name, folders, files in os.walk(tops.popleft(), onerror=onerror):
            folder = Path(name)
            with suppress(OSError):  # the folder was deleted meanwhile
                status = folder.stat()
                if (status.st_dev, status.st_ino) in entered:
                    folders.clear()
                    continue
                entered.add((status.st_dev, status.st_ino))
            folders.sort()
            tops.extend(link for each in folders if (link := folder / each).is_symlink())
            yield folder, files


def open_database(path: Path) -> sqlite3.Connection:
    """Open an agent's SQLite database read-only. `mode=ro` also reads the write-ahead log; `immutable` does not."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=10, check_same_thread=False)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def table_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}


_SKIP_REASONS = {
    "the session was deleted with `warmstart sessions delete`": ("deleted",),
    "undone in the agent": ("undone", "$rewindTo"),
    "a copy of a message in another session": ("copy", "copied message"),
    "repeats another record": (
        *("restated message", "tool response", "user_message", "agent_message", "token_count", "web_search_end"),
        *("mcp_tool_call_end", "exec_command_end", "patch_apply_end", "dynamic_tool_call_response", "item_completed"),
        "tool.execution_start",
    ),
    "a placeholder: the model did not answer": ("assistant/filler",),
    "the title of another session": ("summary", "custom-title", "ai-title"),
    "empty": ("empty message", "no messages"),
}
_SKIP_REASON = {kind: reason for reason, kinds in _SKIP_REASONS.items() for kind in kinds}


def skip_reason(kind: str) -> str:
    """Why records of a kind that `Reading.skip` counted were skipped."""
    return _SKIP_REASON.get(kind, "not a known kind of message")
