"""Import the agents' own logs: find them, read what is new, write it, and save how far each was read.

A batch of messages and the new position in its log are written in one transaction. Whatever happens in between, the
store has a prefix of the log and knows where that prefix ends, so the next sync completes it. Two processes may sync at
once: a batch is dropped if the log's position has moved since this process read it, because then the other process has
written it.

A reader's state must match the rest of the log. So a state that contains a secret is not redacted: the position is
saved without it, and the log is read from its start when it grows.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warmstart.config import SETTINGS, Settings, load_settings
from warmstart.errors import ConfigError, LogError, WarmstartError
from warmstart.redact.redactor import Redactor
from warmstart.sessions.projects import repository_of
from warmstart.sessions.readers.base import Malformed, Reader, Reading, files_below
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.redaction import Group, Scan, group_messages, redacted_log, redacted_name, scan, strings_in
from warmstart.sessions.snapshot import NAME, describe, folder_times, signature, stat_log
from warmstart.sessions.store import Position, SessionStore
from warmstart.sessions.text_worker import TextWorker
from warmstart.sessions.values import Message, Session
from warmstart.storage.files import write_private

_BATCH_CHARACTERS = 1_000_000  # written in one transaction
_MAX_WAITING = 8_000_000  # characters that may wait for the worker while the next logs are read
_CONTINUES = "sync.continues"
_FORCED = "sync.forced"
_HEAD = 64 * 1024
_MAX_KIND, _MAX_REASON = 40, 160
_MIN_LARGE = 1_000_000  # characters after which a worker process scans the rest of an import


class Source(NamedTuple):
    """A log to import, and its reader if that is known without opening it; `forced` if the user named the format."""

    path: Path
    reader: Reader | None
    forced: bool = False


@dataclass(slots=True)
class Tally:
    """What one sync imported from the logs of one agent."""

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
    """The result of a sync: a tally per agent, what could not be read, and files in unknown formats."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    problems: list[Malformed] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def changed(self) -> int:
        return sum(tally.messages for tally in self.tallies.values())


Progress = Callable[[int, int, str], None]


def default_sources(env: Mapping[str, str], home: Path, agents: Sequence[str] = ()) -> list[Source]:
    """The logs of these agents (or of all) in their default locations."""
    found: dict[Path, Source] = {}
    for reader in readers().values():
        if not agents or reader.agent in agents:
            for root in reader.roots(env, home):
                found.update((path, Source(path, reader)) for path in _find(reader, root))
    return list(found.values())


def path_sources(paths: Iterable[Path], format: str | None = None) -> list[Source]:
    """The logs at `paths`, files or folders. Without a format, each file is recognised by its content."""
    found: dict[Path, Source] = {}
    for path in paths:
        if not path.exists():
            raise LogError(f"{str(path)!r} does not exist; check the path")
        if format is not None:
            reader = readers()[format]
            found.update((each, Source(each, reader, forced=True)) for each in _find(reader, path))
        elif path.is_file():
            found[path] = Source(path, None)
        else:
            found.update((each, Source(each, None)) for each in _logs_below(path) if each not in found)
    return list(found.values())


def _logs_below(folder: Path) -> Iterator[Path]:
    """The logs of all readers below a folder. Readers that go by names alone share one walk."""
    by_name = [reader for reader in readers().values() if type(reader).find is Reader.find]
    yield from files_below(folder, lambda name: any(reader.is_log(name) for reader in by_name))
    for reader in readers().values():
        if reader not in by_name:
            yield from _find(reader, folder)


def _find(reader: Reader, root: Path) -> list[Path]:
    """The logs of a reader below `root`; if that cannot be read, `root` itself, so that it is reported."""
    try:
        return list(reader.find(root)) if root.exists() else []
    except OSError:
        return [root]


class SnapshotWriter:
    """Writes the snapshot of one sync. Create it before the sync looks for logs.

    `is_complete` if the sync reads all logs in the default locations. If not, what is known about them stays.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str], home: Path, *, is_complete: bool) -> None:
        self._path, self._store = settings.home / NAME, settings.store_path
        self._env, self._home = env, home
        self._is_complete = is_complete
        self._is_usual = False  # a program may have chosen other settings than those of the command line
        with suppress(ConfigError):
            self._is_usual = not settings.store_url and settings == load_settings(env, home=settings.home)
        variables = [variable for setting in SETTINGS for variable in (setting.variable, *setting.also.split())]
        self._found: dict[str, Any] = {"settings": describe(str(settings.home), env, filter(None, variables))}
        if self._is_usual and is_complete:
            used = _UsedVariables(env)
            roots = [(reader, root) for reader in readers().values() for root in reader.roots(used, home)]
            folders = [str(folder) for reader, root in roots for folder in (root, *reader.folders(root))]
            self._found["roots"] = describe(str(settings.home), env, {"HOME", *used.names})
            self._found["folders"] = folder_times(folders)

    def save(self, store: SessionStore, sessions: Sequence[int]) -> None:
        """Write it, once all data derived from these sessions is up to date."""
        if not self._is_usual:
            return
        if self._is_complete:
            positions = store.positions()
            paths = [str(source.path) for source in default_sources(self._env, self._home)]
            if not positions.keys() >= set(paths):
                return  # a log could not be read
            self._found["logs"] = {path: positions[path].agent for path in paths}
        else:
            with suppress(OSError, msgspec.DecodeError):
                self._found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any]) | self._found
        snapshot = {**self._found, "store": str(self._store), "sessions": sessions}
        with suppress(OSError, UnicodeError):  # the next sync looks at everything
            write_private(self._path, [msgspec.json.encode(snapshot).decode()])


class _UsedVariables(Mapping[str, str]):
    """An environment that knows which of its variables were asked for."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def sync(
    store: SessionStore,
    sources: Iterable[Source],
    *,
    agents: Sequence[str] = (),
    redact: bool = True,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
) -> SyncReport:
    """Import what is new in `sources`, only from `agents` if any are given.

    Unless `redact` is false, secrets are replaced before anything is written, by `redactor` or by the built-in rules. A
    log that cannot be read is reported and does not stop the others.
    """
    began = time.monotonic()
    redactor = (redactor or Redactor()) if redact else None
    sources = list(sources)
    known = (*readers().values(), *(source.reader for source in sources if source.reader))
    report = SyncReport({reader.agent: Tally(reader.agent) for reader in known})
    job = _Sync(store, agents, redactor, report)
    progress = progress or (lambda done, total, name: None)
    # Older logs first, so that the session that a resumed one continues is already there.
    logs = deque(sorted(job.changed(sources), key=lambda log: (log.modified, log.source.path)))
    total, done = sum(log.size for log in logs), 0
    job.scanned = sum(log.size - log.position.offset for log in logs if log.source.path.suffix != ".db")
    try:
        while logs:
            log = logs.popleft()
            for offset in job.take(log):
                progress(min(done + offset, total), total, log.source.path.name)
            done += log.size
        while job.pending:
            job.flush()
        with store.transaction():  # waits for the last write
            for position in job.foreign:
                store.save_position(position)
    finally:
        if job.worker:
            job.worker.close()
    progress(total, total, "")
    # Problems and the kinds of skipped records may quote a log.
    clean = redactor.clean if redactor else str
    report.problems = [Malformed(clean(path), line, clean(why)[:_MAX_REASON]) for path, line, why in report.problems]
    report.tallies = {agent: tally for agent, tally in report.tallies.items() if tally != Tally(agent)}
    for tally in report.tallies.values():
        kinds, tally.skipped = tally.skipped, Counter()
        for kind, number in kinds.items():
            tally.skipped[clean(kind)[:_MAX_KIND]] += number
    report.seconds = time.monotonic() - began
    return report


@dataclass(slots=True)
class _Sync:
    store: SessionStore
    agents: Sequence[str]
    redactor: Redactor | None
    report: SyncReport
    readers: Mapping[str, Reader] = field(default_factory=readers)
    pending: list[_Batch] = field(default_factory=list)
    scanned: int = 0  # characters, including those still to come
    worker: TextWorker | None = None
    foreign: list[Position] = field(default_factory=list)

    @property
    def unknown(self) -> str:
        """The agent of a file that no reader recognises. It is opened again only if the file or the readers change."""
        return "?" + ",".join(self.readers)

    def changed(self, sources: Sequence[Source]) -> Iterator[_Log]:
        """The logs that must be read. The write-ahead log of a database counts as part of it."""
        positions = self.store.positions()
        # The name of each log in the store: unique, and text that every store can hold.
        names = {each.path: os.fsencode(each.path).decode("utf-8", "backslashreplace") for each in sources}
        if self.redactor and self.redactor.find("\n".join(names.values())):
            names = {path: redacted_name(name, self.redactor) for path, name in names.items()}
        for source in sources:
            name = names[source.path]
            known = positions.get(name)
            try:
                parts = stat_log(str(source.path))
                if not all(stat.S_ISREG(part.st_mode) for part in parts):
                    raise OSError(errno.EINVAL, "not a regular file")  # reading a pipe would block
            except OSError as error:
                self._report_problem(source, name, error.strerror or str(error))
                continue
            current = signature(parts)
            modified, size = max(part.st_mtime_ns for part in parts), sum(part.st_size for part in parts)
            if not (known and known.signature == current and self._is_settled(source, known)):
                yield _Log(self, source, known or Position(name, "", ""), current, modified, size)

    def _is_settled(self, source: Source, known: Position) -> bool:
        """Count an unchanged file; `False` if it must be read anyway."""
        agent = known.agent
        if source.reader is None and known.state.get(_FORCED):
            return False  # the format that the user named may have been a mistake
        if agent == self.unknown and source.reader is None:
            self.report.foreign.append(known.path)
            return True
        if agent in self.readers and agent == (source.reader.agent if source.reader else agent):
            if not self.agents or agent in self.agents:
                self.report.tallies[agent].files += 1
                self.report.tallies[agent].unchanged += 1
            return True
        return False

    def take(self, log: _Log) -> Iterator[int]:
        """Read one log into chunks, and yield the progress."""
        source, known, name = log.source, log.position, log.position.path
        yield 0
        try:
            log.grew = _mark(source.path, known.offset) == known.mark
            reader = source.reader
            if reader is None and log.grew and known.mark and not known.state.get(_FORCED):
                reader = self.readers.get(known.agent)
            if reader is None:
                with source.path.open("rb") as file:
                    head = file.read(_HEAD)
                reader = next((each for each in self.readers.values() if each.claims(source.path, head)), None)
            if reader is None:
                self.report.foreign.append(name)
                self.foreign.append(Position(name, self.unknown, log.signature))
                return
            if self.agents and reader.agent not in self.agents:
                return
            log.reader, log.tally = reader, self.report.tallies[reader.agent]
            for chunk in log.chunks():
                if not self.pending or self.pending[-1].characters >= _BATCH_CHARACTERS:
                    self.pending.append(_Batch())
                self.pending[-1].chunks.append(chunk)
                self.pending[-1].characters += chunk.characters
                first, waiting = self.pending[0], sum(batch.characters for batch in self.pending)
                is_scanned = first.chunks[-1].scans.done()
                if waiting >= _MAX_WAITING or (is_scanned and first.characters >= _BATCH_CHARACTERS):
                    self.flush()
                yield log.reading.offset
            self.report.problems.extend(log.reading.problems)
        except OSError as error:
            self._report_problem(source, name, error.strerror or str(error))
        except LogError as error:
            self._report_problem(source, name, str(error))
        except WarmstartError:
            raise
        except Exception as error:  # a bug in one reader must not stop the other logs
            reason = f"the reader failed ({type(error).__name__}: {error}); please report this"
            self._report_problem(source, name, reason)

    def flush(self) -> None:
        """Write the oldest pending batch in one transaction."""
        chunks = self.pending[0].chunks
        # Before the store is locked.
        scans = [chunk.scans.result() for chunk in chunks]
        stems: dict[str, str] = {}
        # The next logs are read while this is indexed and committed.
        with self.store.transaction(wait=False, stems=stems):
            saved = self.store.positions({chunk.log.position.path for chunk in chunks})
            for log in (chunk.log for chunk in chunks):
                path = log.position.path
                log.overtaken |= log.position.revision != (saved[path].revision if path in saved else 0)
            for chunk, scanned in zip(chunks, scans, strict=True):
                if not chunk.log.overtaken:
                    chunk.log.write(chunk, scanned, stems)
        del self.pending[0]

    def _report_problem(self, source: Source, name: str, reason: str) -> None:
        self.report.problems.append(Malformed(name, 0, reason))
        if source.reader:
            self.report.tallies[source.reader.agent].malformed += 1


class _Chunk(NamedTuple):
    """A section of one log, ready to be written, and the position after it."""

    log: _Log
    sessions: list[tuple[Session, list[Group]]]
    position: Position
    characters: int
    scans: Future[list[Scan]]  # of all groups


@dataclass(slots=True)
class _Batch:
    """Chunks that are written in one transaction, perhaps of several logs. They are scanned in their order."""

    chunks: list[_Chunk] = field(default_factory=list)
    characters: int = 0


@dataclass(slots=True)
class _Log:
    """A changed log on its way into the store."""

    job: _Sync
    source: Source
    position: Position  # the last one in the store
    signature: str
    modified: int
    size: int
    reader: Reader = field(init=False)
    tally: Tally = field(init=False)
    reading: Reading = field(init=False)
    grew: bool = False  # and did not change otherwise
    overtaken: bool = False  # by another process
    # The session that each session of this log continues, which may be known before it has a message of its own.
    continues: dict[str, str] = field(default_factory=dict)

    def chunks(self) -> Iterator[_Chunk]:
        """Read the log from its last position, or from the start unless it only grew."""
        known, path = self.position, self.source.path
        self.reading = Reading(path)
        if known.agent == self.reader.agent and self.grew:
            state = {key: value for key, value in known.state.items() if key not in (_CONTINUES, _FORCED)}
            self.continues = known.state.get(_CONTINUES, {})
            self.reading = Reading(path, offset=known.offset, line=known.line, state=state)
        self.tally.files += 1
        began = time.monotonic()
        sessions: dict[str, tuple[Session, dict[str, Message]]] = {}
        characters = 0
        for session, message in self.reader.read(path, self.reading):
            messages = sessions[session.native_id][1] if session.native_id in sessions else {}
            sessions[session.native_id] = session, messages
            if message is None:
                continue
            messages[message.native_id] = message
            characters += len(message.text) + len(message.reasoning)
            for call in message.tool_calls:
                characters += len(call.arguments)
            for result in message.tool_results:
                characters += len(result.text)
            if characters >= _BATCH_CHARACTERS:
                chunk = self._chunk(sessions, characters, "")
                self.tally.seconds += time.monotonic() - began
                yield chunk
                if self.overtaken:
                    return
                began, sessions, characters = time.monotonic(), {}, 0
        self.tally.skipped.update(self.reading.skipped)
        self.tally.malformed += self.reading.malformed
        chunk = self._chunk(sessions, characters, self.signature)
        self.tally.seconds += time.monotonic() - began
        yield chunk

    def _chunk(
        self, read: Mapping[str, tuple[Session, Mapping[str, Message]]], characters: int, signature: str
    ) -> _Chunk:
        path, reading = self.source.path, self.reading
        # A copy, because the reader changes its state before this is written.
        state = msgspec.json.decode(msgspec.json.encode(reading.state))
        mark = _mark(path, reading.offset)
        position = Position(self.position.path, self.reader.agent, signature, mark, reading.offset, reading.line, state)
        sessions: list[tuple[Session, list[Group]]] = []
        for session, messages in read.values():
            # A reader's `project` is a working tree of the repository.
            session = replace(session, project=repository_of(session.project), directory=session.project)
            sessions.append((session, list(group_messages(messages.values(), session))))
        job, texts = self.job, [group.texts for _, groups in sessions for group in groups]
        if job.redactor and job.redactor.find("\n".join(strings_in(state))):
            position = _from_start(position)
        if job.scanned > _MIN_LARGE:
            job.worker = job.worker or TextWorker(job.redactor)
            scans = job.worker.submit(texts)
        else:
            job.scanned += characters
            scans = Future()
            scans.set_result([scan(each, job.redactor) for each in texts])
        return _Chunk(self, sessions, position, characters, scans)

    def write(self, chunk: _Chunk, scans: Iterable[Scan], stems: dict[str, str]) -> None:
        """Write a chunk and the position after it."""
        began = time.monotonic()
        store, redactor, rest = self.job.store, self.job.redactor, iter(scans)
        sessions: list[tuple[Session, list[Message]]] = []
        for session, groups in chunk.sessions:
            scanned = list(islice(rest, len(groups)))
            for group, each in zip(groups, scanned, strict=True):
                stems.update(zip(group.texts.bodies, each.stems, strict=False))
            if redactor and any(each.has_secret for each in scanned):
                sessions.append(redacted_log(session, groups, scanned, redactor))
            else:
                sessions.append((session, [message for group in groups for message in group.messages]))
        is_deleted = bool(sessions)
        for session, messages in sessions:
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
            if appended.deleted:
                self.tally.skipped["deleted"] += appended.deleted
            is_deleted = is_deleted and appended.deleted >= max(1, len(messages))
        # Nothing of a deleted session is stored, not even in its reader's state.
        position = _from_start(chunk.position) if is_deleted else chunk.position
        if self.continues:
            position.state[_CONTINUES] = self.continues
        if self.source.forced:
            position.state[_FORCED] = True
        self.position = replace(self.position, revision=store.save_position(position))
        self.tally.seconds += time.monotonic() - began


def _from_start(position: Position) -> Position:
    """The position without a state: if the log grows, it is read from its start."""
    return replace(position, state={}, mark="", offset=0, line=0)


def _mark(path: Path, offset: int) -> str:
    """A fingerprint of the start and the end of the part that was read; it does not change if the log only grows."""
    if not offset:
        return ""
    with path.open("rb") as file:
        head = file.read(min(offset, 1024))
        file.seek(max(0, offset - 256))
        tail = file.read(min(offset, 256))
    return blake2b(head + tail, digest_size=8).hexdigest()
