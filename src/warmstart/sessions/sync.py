"""Bring the agents' own logs into the store: find them, read what is new, write it, remember where each was left.

A batch of messages and the new position of its log are written in one transaction. Whatever happens in between, the
store holds a true prefix of the log and knows where that prefix ends, so the next sync completes it. Two processes may
sync at once: a batch is dropped when the log's position has moved since this process read it, because then the other
process has written it.

What a reader remembers must match what the log says next. So a position whose state holds a secret is not saved with
the secret replaced: it is saved without the state, and the log is read from its start when it grows.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from warmstart.errors import LogError, WarmstartError
from warmstart.redact.redactor import Redactor
from warmstart.sessions.projects import project_by_name, repository_of
from warmstart.sessions.readers.base import Malformed, Reader, Reading
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.redaction import redacted_log, redacted_name
from warmstart.sessions.rewrite import strings_in
from warmstart.sessions.store import Position, SyncStore
from warmstart.sessions.values import Message, Session, session_id

_BATCH_CHARACTERS = 8_000_000
_CONTINUES = "sync.continues"
_FORCED = "sync.forced"
_HEAD = 64 * 1024
_MAX_KIND, _MAX_REASON = 40, 160


class Source(NamedTuple):
    """A log to look at, and its reader if that is known without opening it; `forced` if a user said what it is."""

    path: Path
    reader: Reader | None
    forced: bool = False


@dataclass(slots=True)
class Tally:
    """What one agent's logs came to in one sync."""

    agent: str
    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    tool_calls: int = 0
    errors: int = 0
    rejected: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class SyncReport:
    """What a sync came to: a tally by agent, what could not be read, and files that are nobody's log."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    problems: list[Malformed] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def changed(self) -> int:
        return sum(tally.messages for tally in self.tallies.values())

    def tally(self, agent: str) -> Tally:
        return self.tallies.setdefault(agent, Tally(agent))


Progress = Callable[[int, int, str], None]


def default_sources(env: Mapping[str, str], home: Path, agents: Sequence[str] = ()) -> list[Source]:
    """The logs of these agents (or of all) in their default places."""
    found: dict[Path, Source] = {}
    for reader in readers().values():
        if agents and reader.agent not in agents:
            continue
        for root in reader.roots(env, home):
            try:
                if root.exists():
                    found.update((path, Source(path, reader)) for path in reader.find(root))
            except OSError:
                found[root] = Source(root, reader)  # to be reported, like a log that cannot be read
    return list(found.values())


def path_sources(paths: Iterable[Path], format: str | None = None) -> list[Source]:
    """The logs at `paths`, files or folders. Without a format each file is recognised by its content."""
    found: dict[Path, Source] = {}
    for path in paths:
        if not path.exists():
            raise LogError(f"there is nothing at {str(path)!r}; check the path")
        try:
            if format is not None:
                reader = readers()[format]
                found.update((each, Source(each, reader, forced=True)) for each in reader.find(path))
            elif path.is_file():
                found[path] = Source(path, None)
            else:
                for reader in readers().values():
                    found.update((each, Source(each, None)) for each in reader.find(path) if each not in found)
        except OSError:
            found[path] = Source(path, None)  # to be reported
    return list(found.values())


def sync(
    store: SyncStore,
    sources: Iterable[Source],
    *,
    agents: Sequence[str] = (),
    redact: bool = True,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
) -> SyncReport:
    """Import what is new in `sources`, of these agents only if any are named.

    Secrets are replaced before anything is written, by `redactor` or else by the rules that Warmstart ships, unless
    `redact` is false. A log that cannot be read is reported and does not stop the others.
    """
    chosen = (redactor or Redactor()) if redact else None
    return _Sync(store, agents, chosen, progress or (lambda done, total, name: None)).run(sources)


class _Sync:
    def __init__(self, store: SyncStore, agents: Sequence[str], redactor: Redactor | None, progress: Progress) -> None:
        self.store = store
        self.agents = agents
        self.redactor = redactor
        self.progress = progress
        self.report = SyncReport()
        self.readers = readers()
        # A file that no reader knows is not opened again until it changes or there are other readers.
        self.unknown = "?" + ",".join(self.readers)
        self.pending: list[_Chunk] = []
        self.waiting = 0  # characters in `pending`

    def run(self, sources: Iterable[Source]) -> SyncReport:
        began = time.monotonic()
        self.store.map_projects(_project)
        self.positions = self.store.positions()
        sources = list(sources)
        self.names = self._names(sources)
        todo = list(self._changed(sources))
        # Older logs first: a resumed session then finds the one it continues already there.
        todo.sort(key=lambda item: (item.modified, item.source.path))
        total, done = sum(item.size for item in todo), 0
        for item in todo:
            for offset in self._take(item):
                self.progress(min(done + offset, total), total, item.source.path.name)
            done += item.size
        self._flush()
        with self.store.transaction():
            pass  # waits for the last write
        self.progress(total, total, "")
        tallies = self.report.tallies
        self.report.tallies = {agent: tallies[agent] for agent in self.readers if agent in tallies}
        self._redact_report()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _names(self, sources: Sequence[Source]) -> dict[Path, str]:
        """What each log is called in the store."""
        names = {source.path: _name(source.path) for source in sources}
        if self.redactor and self.redactor.find("\n".join(names.values())):
            names = {path: redacted_name(name, self.redactor) for path, name in names.items()}
        return names

    def _redact_report(self) -> None:
        """What could not be read or was skipped may be quoted from a log."""
        report, clean = self.report, self.redactor.clean if self.redactor else str
        report.problems = [
            Malformed(clean(path), line, clean(why)[:_MAX_REASON]) for path, line, why in report.problems
        ]
        for tally in report.tallies.values():
            kinds, tally.skipped = tally.skipped, Counter()
            for kind, number in kinds.items():
                tally.skipped[clean(kind)[:_MAX_KIND]] += number

    def _changed(self, sources: Iterable[Source]) -> Iterator[_Item]:
        for source in sources:
            known = self.positions.get(self.names[source.path])
            try:
                item = _item(source)
            except OSError as error:
                self._problem(source, error.strerror or str(error))
                continue
            if not (known and known.signature == item.signature and self._settled(source, known)):
                yield item

    def _settled(self, source: Source, known: Position) -> bool:
        """Count a file that did not change; `False` when it must be looked at all the same."""
        agent = known.agent
        if source.reader is None and known.state.get(_FORCED):
            return False  # what it was said to be then may have been a mistake
        if agent == self.unknown and source.reader is None:
            self.report.foreign.append(self.names[source.path])
            return True
        if agent in self.readers and agent == (source.reader.agent if source.reader else agent):
            if not self.agents or agent in self.agents:
                self.report.tally(agent).files += 1
                self.report.tally(agent).unchanged += 1
            return True
        return False

    def _take(self, item: _Item) -> Iterator[int]:
        """Read one log into chunks, and yield how far it got."""
        source, name = item.source, self.names[item.source.path]
        yield 0
        try:
            reader = source.reader or self._recognised(source.path)
            if reader is None:
                self.report.foreign.append(name)
                self.store.save_position(Position(path=name, agent=self.unknown, signature=item.signature))
                return
            if self.agents and reader.agent not in self.agents:
                return
            position = self.positions.get(name) or Position(path=name, agent="", signature="")
            log = _Log(reader, item, position, self.report.tally(reader.agent), self.redactor)
            for chunk in log.chunks():
                self.pending.append(chunk)
                self.waiting += chunk.characters
                if self.waiting >= _BATCH_CHARACTERS:
                    self._flush()
                yield log.reading.offset
            self.report.problems.extend(log.reading.problems)
        except OSError as error:
            self._problem(source, error.strerror or str(error))
        except LogError as error:
            self._problem(source, str(error))
        except WarmstartError:
            raise
        except Exception as error:  # one log that no reader foresaw must not keep the others out
            self._problem(source, f"cannot be understood ({type(error).__name__}: {error}); please report this")

    def _flush(self) -> None:
        """Write the chunks that were read, of however many logs, in one transaction."""
        if self.pending:
            # The next logs are read while this is indexed and committed.
            with self.store.transaction(wait=False):
                deleted = self.store.deleted()
                for chunk in self.pending:
                    chunk.log.write(self.store, chunk, deleted)
            self.pending, self.waiting = [], 0

    def _recognised(self, path: Path) -> Reader | None:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        return next((reader for reader in self.readers.values() if reader.claims(path, head)), None)

    def _problem(self, source: Source, reason: str) -> None:
        self.report.problems.append(Malformed(self.names[source.path], 0, reason))
        if source.reader:
            self.report.tally(source.reader.agent).malformed += 1


class _Item(NamedTuple):
    """A log that changed: what tells its state, the time of the change, and its size."""

    source: Source
    signature: str
    modified: int
    size: int


class _Chunk(NamedTuple):
    """A stretch of one log, ready to be written, and the position after it."""

    log: _Log
    sessions: list[tuple[Session, list[Message]]]
    position: Position
    characters: int


class _Log:
    """One log on its way into the store."""

    def __init__(
        self, reader: Reader, item: _Item, position: Position, tally: Tally, redactor: Redactor | None
    ) -> None:
        self.reader = reader
        self.redactor = redactor
        self.path, self.name = item.source.path, position.path
        self.signature = item.signature
        self.tally = tally
        self.revision = position.revision
        self.overtaken = False
        self.forced = item.source.forced
        self.reading = Reading(self.path)
        # Which session each session of this log turned out to continue; it may become known before it has a message.
        self.continues: dict[str, str] = {}
        if position.agent == reader.agent and _mark(self.path, position.offset) == position.mark:
            state = dict(position.state)
            self.continues = state.pop(_CONTINUES, {})
            state.pop(_FORCED, None)
            self.reading = Reading(self.path, offset=position.offset, line=position.line, state=state)
        tally.files += 1

    def chunks(self) -> Iterator[_Chunk]:
        began = time.monotonic()
        facts: dict[str, Session] = {}
        messages: dict[str, dict[str, Message]] = {}
        characters = 0
        for session, message in self.reader.read(self.path, self.reading):
            facts[session.native_id] = session
            held = messages.setdefault(session.native_id, {})
            if message is not None:
                held[message.native_id] = message
                characters += _size(message)
            if characters >= _BATCH_CHARACTERS:
                self.tally.seconds += time.monotonic() - began
                yield self._chunk(facts, messages, characters, "")
                if self.overtaken:
                    return
                began, facts, messages, characters = time.monotonic(), {}, {}, 0
        self.tally.skipped.update(self.reading.skipped)
        self.tally.malformed += self.reading.malformed
        self.tally.seconds += time.monotonic() - began
        yield self._chunk(facts, messages, characters, self.signature)

    def _chunk(
        self, facts: dict[str, Session], messages: dict[str, dict[str, Message]], characters: int, signature: str
    ) -> _Chunk:
        # The reader goes on changing its state before this is written.
        state = msgspec.json.decode(msgspec.json.encode(self.reading.state))
        sessions = [
            (_with_repository(session), list(messages[native_id].values())) for native_id, session in facts.items()
        ]
        position = Position(
            path=self.name,
            agent=self.reader.agent,
            signature=signature,
            mark=_mark(self.path, self.reading.offset),
            offset=self.reading.offset,
            line=self.reading.line,
            state=state,
        )
        if redactor := self.redactor:
            sessions = [redacted_log(session, said, redactor) for session, said in sessions]
            if redactor.find("\n".join(strings_in(state))):
                position = _from_start(position)
        return _Chunk(self, sessions, position, characters)

    def write(self, store: SyncStore, chunk: _Chunk, deleted: frozenset[str]) -> None:
        """Write a chunk and the position after it, unless another process has been here meanwhile."""
        began = time.monotonic()
        if self.overtaken or store.revision(self.name) != self.revision:
            self.overtaken = True
            return
        sessions = self._wanted(chunk.sessions, deleted) if deleted else chunk.sessions
        for session, messages in sessions:
            self._append(store, session, messages)
        position = chunk.position
        if chunk.sessions and not sessions:
            # Nothing of a deleted session is kept, not even in what its reader remembers.
            position = _from_start(position)
        if self.continues:
            position.state[_CONTINUES] = self.continues
        if self.forced:
            position.state[_FORCED] = True
        self.revision = store.save_position(position)
        self.tally.seconds += time.monotonic() - began

    def _wanted(
        self, sessions: list[tuple[Session, list[Message]]], deleted: frozenset[str]
    ) -> list[tuple[Session, list[Message]]]:
        """The sessions without those that a person deleted, and without messages copied from such."""
        wanted = []
        for session, messages in sessions:
            if session.id in deleted or (session.parent_kind == "subagent" and session.parent_id in deleted):
                self.tally.skipped["deleted"] += max(1, len(messages))
                continue
            kept = [m for m in messages if not (m.origin and session_id(session.agent, m.origin) in deleted)]
            self.tally.skipped["deleted"] += len(messages) - len(kept)
            wanted.append((session, kept))
        self.tally.skipped += Counter()  # drops the kinds that count nothing
        return wanted

    def _append(self, store: SyncStore, session: Session, messages: list[Message]) -> None:
        if session.parent_id is None and session.native_id in self.continues:
            session = replace(session, parent_id=self.continues[session.native_id], parent_kind="resume")
        appended = store.append(session, messages)
        if appended.continues:
            self.continues[session.native_id] = appended.continues
        self.tally.sessions += appended.created
        self.tally.messages += appended.new
        self.tally.tool_calls += appended.tool_calls
        self.tally.errors += appended.errors
        self.tally.rejected += appended.rejected


def _with_repository(session: Session) -> Session:
    """The session with its repository as its project: a reader states a folder of it."""
    return replace(session, project=repository_of(session.project), directory=session.project)


def _project(folder: str, source: str) -> str:
    """The repository of a session that was imported without it; empty where only the machine with its log can tell."""
    if os.path.exists(source):  # noqa: PTH110 - `Path` raises where a folder may not be looked into
        return repository_of(folder)
    named = project_by_name(folder)
    return "" if named == folder else named


def _name(path: Path) -> str:
    """A path as text that every store can hold, and that no other path has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _from_start(position: Position) -> Position:
    """Nothing is remembered of the log but that it was read; if it grows, it is read from its start."""
    return replace(position, state={}, mark="", offset=0, line=0)


def _item(source: Source) -> _Item:
    """How a log stands now; a database's write-ahead log counts as part of it."""
    parts, modified, size = [], 0, 0
    path = source.path
    for each in (path, path.with_name(path.name + "-wal")) if path.suffix == ".db" else (path,):
        try:
            found = each.stat()
        except FileNotFoundError:
            if each is path:
                raise
            continue
        if not stat.S_ISREG(found.st_mode):
            # Reading a pipe would wait for ever.
            raise OSError(errno.EINVAL, "not a regular file")
        parts.append(f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")
        modified, size = max(modified, found.st_mtime_ns), size + found.st_size
    return _Item(source, "/".join(parts), modified, size)


def _mark(path: Path, offset: int) -> str:
    """A fingerprint of how the part already read begins and ends; the same when the log only grew."""
    if not offset:
        return ""
    with path.open("rb") as file:
        head = file.read(min(offset, 1024))
        file.seek(max(0, offset - 256))
        tail = file.read(min(offset, 256))
    return blake2b(head + tail, digest_size=8).hexdigest()


def _size(message: Message) -> int:
    return (
        len(message.text)
        + len(message.reasoning)
        + sum(len(call.arguments) for call in message.tool_calls)
        + sum(len(result.text) for result in message.tool_results)
    )
