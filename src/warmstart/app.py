"""`Warmstart`, the object that a program opens: one store and everything you can do with it.

Each part is loaded on first use, because an agent's hook starts a process on every turn. Use it from one thread at a
time.
"""

from __future__ import annotations

import builtins
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self

from warmstart.config import Settings, ambient_settings, expand_user
from warmstart.errors import (
    ConfigError,
    EntryNotFound,
    SessionNotFound,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
    WarmstartError,
)
from warmstart.memory.authors import AUTHOR, USER
from warmstart.memory.backend import NullBackend, local_copy
from warmstart.redact.redactor import Redactor, configured_redactor
from warmstart.sessions.projects import branch_of, project_of_log, resolve_project
from warmstart.sessions.sql_store import BAD_SESSION, SQLSessionStore, open_store
from warmstart.sessions.store import Filter, SessionSummary
from warmstart.sessions.values import Message, Session, SessionOutcome, Step, clean, steps
from warmstart.storage.outbox import deliver

if TYPE_CHECKING:
    from warmstart.experiments.store import Experiments
    from warmstart.handoff.compress import Compressed
    from warmstart.handoff.store import Handoffs
    from warmstart.memory.backend import MemoryBackend
    from warmstart.memory.values import MemoryEntry
    from warmstart.preflight.overlay import Overlay
    from warmstart.profile.corpus import Report
    from warmstart.profile.values import Profile
    from warmstart.recall.evidence import Evidence
    from warmstart.recall.recall import Recall
    from warmstart.recall.semantic import SemanticIndex
    from warmstart.run import Run
    from warmstart.sessions.sync import SyncReport
    from warmstart.templates.brief import Brief
    from warmstart.templates.item_store import ItemStore
    from warmstart.templates.manager import SessionTemplates
    from warmstart.templates.memory_lines import Remembered
    from warmstart.templates.template import WarmTemplate

_log = logging.getLogger("warmstart")
_ALL = Filter()

HANDOFF = "handoff/0001_tables"  # a store without it has no packets
MEMORY = "memory/0005_entries"  # a store without it has no memories
PREFLIGHT = "preflight/0002_memories"  # a store without it has nothing to show yet

_MAX_MEMORIES, _MAX_NOTES = 1_000, 200  # newest entries that a brief chooses from

StepProgress = Callable[..., None]
Bar = Callable[[str], AbstractContextManager[StepProgress | None]]


def open(store: str | Path | None = None, *, home: str | Path | None = None) -> Warmstart:
    """Open Warmstart. `store` is a path or a `postgresql://` URL; the default comes from the settings.

    Settings come from the arguments, then the environment, then `config.toml` in `home` (default `~/.warmstart`).
    """
    return Warmstart(
        ambient_settings(home=None if home is None else Path(home), store=None if store is None else str(store))
    )


class Warmstart:
    """An open store. Use it as a context manager, or call `close`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self.store: SQLSessionStore = self._stack.enter_context(open_store(settings))
        self.lock = RLock()  # runs in several threads share the connection

    def close(self) -> None:
        """Close the store and the memory backend."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def redactor(self) -> Redactor:
        """Replaces secrets according to the built-in rules and the user's own."""
        return configured_redactor(self.settings)

    # -- sessions

    def sync(
        self,
        paths: Sequence[str | Path] = (),
        *,
        agents: Sequence[str] = (),
        format: str | None = None,
        redact: bool = True,
        progress: Bar = lambda _: nullcontext(),
    ) -> SyncReport:
        """Import new sessions from the agents' logs, or from the logs at `paths`, and update all derived data.

        Secrets are replaced before anything is stored, unless `redact` is false. `progress` is called with the name of
        a step and returns a context manager, whose value is called with (done, total), and with the name of a log.
        """
        from warmstart.sessions.snapshot import SESSIONS
        from warmstart.sessions.sync import SnapshotWriter

        is_complete = not paths and not agents
        snapshot = SnapshotWriter(self.settings, os.environ, expand_user(Path("~")), is_complete=is_complete)
        with progress("Reading") as step:
            report = self.import_logs(paths, agents=agents, format=format, redact=redact, progress=step)
        (sessions,) = self.store.fetch(SESSIONS)
        self.update(progress=progress)
        snapshot.save(self.store, sessions)
        return report

    def import_logs(
        self,
        paths: Sequence[str | Path] = (),
        *,
        agents: Sequence[str] = (),
        format: str | None = None,
        redact: bool = True,
        progress: StepProgress | None = None,
    ) -> SyncReport:
        """The first half of `sync`: import, without updating derived data."""
        from warmstart.sessions.sync import default_sources, path_sources, sync

        sources = (
            path_sources([Path(path).absolute() for path in paths], format)
            if paths
            else default_sources(os.environ, expand_user(Path("~")), agents)
        )
        redactor = self.redactor if redact else None
        return sync(self.store, sources, agents=agents, redact=redact, redactor=redactor, progress=progress)

    def import_running(self, native_id: str, *, wait_seconds: float = 0.0) -> None:
        """Import new messages of a running session, if the name of its log or the log's folder contains its id.

        Agents write their logs with a delay, so the user's latest message may still be missing. If a tool call of the
        session is what calls this, wait up to `wait_seconds` until that call is in the log too.
        """
        from warmstart.sessions.sync import default_sources

        deadline = monotonic() + wait_seconds
        while True:
            logs = (source.path for source in default_sources(os.environ, expand_user(Path("~"))))
            if matching := [path for path in logs if native_id in f"{path.parent.name}/{path.name}"]:
                self.import_logs(matching)
            if monotonic() >= deadline or self._is_calling(native_id):
                return
            sleep(0.05)

    def _is_calling(self, native_id: str) -> bool:
        """Whether the last tool call of a session has no result yet."""
        with suppress(SessionNotFound):
            return any(step.result is None for step in list(self.sessions.steps(native_id))[-1:])
        return False

    def update(self, *, progress: Bar = lambda _: nullcontext()) -> None:
        """The second half of `sync`: update the search index, the profiles, the items and the vectors.

        Sessions that cannot be read are skipped and logged.
        """
        from warmstart.recall.index import Index

        with progress("Indexing") as step:
            self.store.map_projects(project_of_log)
            self.store.index.fill(step)
            Index(self.store).update(step)
        if HANDOFF in self.store.database.applied():
            self.handoffs.link_sessions()
        with progress("Profiling") as step:
            changed = self.update_profiles(progress=step)
        if changed or self._has_unread_sessions():
            from warmstart.preflight.index import update_turns

            with progress("Extracting") as step:
                self._items.update(progress=step)
                update_turns(self.store, self.redactor)
                self._store_briefs()
        if PREFLIGHT in self.store.database.applied():
            from warmstart.preflight.index import record_turns

            deliver(str(self.settings.home), lambda rows: record_turns(self.store, rows))
        if MEMORY in self.store.database.applied():
            self.memory.screen()
        try:
            with progress("Embedding") as step:
                self.update_vectors(step)
        except StoreUnreachable:
            raise
        except WarmstartError as error:
            _log.warning("the vectors were not updated: %s", error)

    def _store_briefs(self) -> None:
        """Build the briefs of the projects whose sessions changed. Beside a server, each start has its own built."""
        from warmstart.brief.brief_store import outdated_folders

        if not self.settings.store_url:
            for folder in outdated_folders(self.store):
                self.store_brief(folder)

    def _has_unread_sessions(self) -> bool:
        """Whether some sessions have no items yet, for example after an interrupted update."""
        if PREFLIGHT not in self.store.database.applied():
            return True
        sql = "SELECT 1 FROM sessions WHERE pk NOT IN (SELECT session FROM preflight_sessions) LIMIT 1"
        return bool(self.store.fetch(sql))

    def update_profiles(self, filter: Filter = _ALL, *, progress: StepProgress | None = None) -> bool:
        """Profile the sessions that changed, which also determines their outcomes. Returns whether any did."""
        from warmstart.profile.rules import rules_version
        from warmstart.profile.store import SQLProfileStore

        profiles = SQLProfileStore(self.store)
        tools = self.settings.profile_tools
        if not profiles.stale(rules_version(tools), filter):
            return False
        # Loading these takes longer than the check above, and there is rarely anything to do.
        from warmstart.profile.profiler import Profiler, update

        update(self.store, profiles, Profiler(tools), filter=filter, progress=progress)
        return True

    def update_vectors(self, progress: StepProgress | None = None) -> None:
        """Embed new messages if the store has vectors from a local embedder. No text leaves the machine."""
        from warmstart.embedding import has_vectors

        if has_vectors(self.store.database):
            from warmstart.recall import open_semantic_index

            with open_semantic_index(self.store, self.settings) or nullcontext() as semantic:
                if semantic and semantic.embedder.local:
                    semantic.update(progress)

    def report(
        self,
        *,
        project: str | None = ".",
        agent: str = "",
        since: datetime | None = None,
        progress: StepProgress | None = None,
    ) -> Report:
        """Statistics over many sessions. `project=None` covers all projects."""
        from warmstart.profile.corpus import summarize
        from warmstart.profile.profiler import profiled

        chosen = Filter(agent=agent, project="" if project is None else resolve_project(project), since=since)
        profiles = profiled(self.store, tools=self.settings.profile_tools, filter=chosen, progress=progress)
        return summarize(list(profiles), redact=self.redactor.clean)

    @cached_property
    def sessions(self) -> Sessions:
        """The sessions in the store."""
        return Sessions(self)

    # -- recall

    @cached_property
    def searcher(self) -> Recall:
        """The search behind `recall`, for options that `recall` does not have."""
        from warmstart.recall import Recall, open_semantic_index

        return Recall(self.store, semantic=open_semantic_index(self.store, self.settings))

    def local_vectors(self) -> SemanticIndex | None:
        """The vectors for the overlay, if they are computed on this machine."""
        from warmstart.embedding.files import has_vectors

        with suppress(ConfigError, StoreError):
            semantic = self.searcher.semantic if has_vectors(self.store.database) else None
            return semantic if semantic and semantic.embedder.local else None
        return None

    def recall(
        self,
        query: str,
        *,
        project: str | None = ".",
        limit: int = 5,
        since: datetime | None = None,
        agents: Sequence[str] = (),
        exclude_session: str | None = None,
        deadline_ms: float | None = None,
    ) -> list[Evidence]:
        """Passages of past sessions that answer a question, best first. `project=None` searches all projects."""
        return self.searcher.search(
            query,
            project=None if project is None else resolve_project(project),
            limit=limit,
            since=since,
            agents=agents,
            exclude_session=exclude_session,
            deadline_ms=deadline_ms,
        )

    # -- the brief

    @cached_property
    def _items(self) -> ItemStore:
        from warmstart.profile.profiler import Profiler
        from warmstart.templates.item_store import ItemStore

        return ItemStore(self.store, redactor=self.redactor, profiler=Profiler(self.settings.profile_tools))

    def brief(self, *, project: str = ".", task: str = "", budget_tokens: int = 200, update: bool = True) -> Brief:
        """What a new session in this project should know; print it, or inspect its `sections`.

        `task` is the session's first message, if known. The brief is empty if nothing is known. Without `update`,
        sessions that changed since the last sync are left out.
        """
        from warmstart.templates.brief import MAX_SESSIONS, build_brief, read_project_files

        where = resolve_project(project)
        if update:
            self._items.update(Filter(project=where))
        sessions = self._items.items(Filter(project=where, limit=MAX_SESSIONS))
        files = read_project_files(Path(where))._replace(branch=branch_of(project))
        known = self.memory.of_project(where, task)
        options: dict[str, Any] = {"task": task, "budget_tokens": budget_tokens, "files": files}
        return build_brief(sessions, memories=known.memories, notes=known.notes, **options)

    def store_brief(self, project: str = ".") -> Brief:
        """Build the brief of a project and store it for the hook of the next session, which only reads it."""
        from warmstart.brief.brief_store import current_state, save_brief, save_copy

        where, branch = clean(resolve_project(project)), branch_of(project)
        if not Path(where).is_dir():
            return self.brief(project=project)  # no session starts there
        state = current_state(self.store, where, branch, self.settings.profile_tools)
        remembered = self._remote_memories(where)
        brief = self.brief(project=project)
        with suppress(StoreFull, StoreReadOnly, OSError):
            if self.settings.store_url:
                save_copy(self.store, brief, where, state, remembered)
                if remembered != self._remote_memories(where):
                    self.store.database.take_back()  # of a memory that was deleted meanwhile
            else:
                save_brief(self.store, brief, where, branch, state)
        return brief

    def _remote_memories(self, project: str) -> dict[str, str]:
        """The keys of the memories in a brief by their lines, if a hook cannot read them itself."""
        from warmstart.memory.lines import memory_key, memory_line
        from warmstart.memory.selection import memory_file

        if not self.settings.store_url or memory_file(self.settings) != "store":
            return {}
        return {memory_line(entry): memory_key(entry) for entry in self.memory.of_project(project).entries}

    # -- live sessions

    def begin(self, session_id: str, **options: Any) -> Run:
        """Begin a live session: `options` are `task, project, messages, tools, shape, host, model`.

        Never raises because of Warmstart's own data: a session that cannot start warm starts with just its messages.
        """
        from warmstart.run import Run

        return Run(self, session_id, **options)

    def preflight(self, message: str, *, project: str = ".", first: bool = True) -> Overlay:
        """What a session in this project would be shown for a message. Nothing is recorded."""
        from warmstart.memory.selection import memory_file
        from warmstart.preflight.index import migrate
        from warmstart.preflight.overlay import Policy, Preflight

        database, where = self.store.database, clean(resolve_project(project))
        migrate(self.store)
        self.memory.screen()
        policy = Policy(self.settings, memory_file(self.settings))
        run = Preflight(database.connection, database.DIALECT, session="", project=where, policy=policy)
        return run.before_turn(clean(message), number=0 if first else 1)

    @cached_property
    def experiments(self) -> Experiments:
        """The experiments in the store."""
        from warmstart.experiments.store import Experiments

        return Experiments(self.store)

    @cached_property
    def handoffs(self) -> Handoffs:
        """The packets of sessions, and the links between sessions that were handed over."""
        from warmstart.handoff.store import Handoffs

        settings = self.settings
        return Handoffs(self.store, self.redactor, tools=settings.profile_tools, max_handoffs=settings.handoff_max)

    # -- memory and templates

    @cached_property
    def memory(self) -> Memory:
        """The facts known across sessions, in the configured backend."""
        from warmstart.memory.selection import select_backend

        return Memory(self._stack.enter_context(closing(select_backend(self.settings))), self)

    @cached_property
    def templates(self) -> SessionTemplates:
        """The templates in the store."""
        from warmstart.templates.manager import SessionTemplates

        return SessionTemplates(self)

    def compress(
        self, *sessions: str, strategy: str = "hybrid", budget_tokens: int = 0, **options: Any
    ) -> tuple[WarmTemplate, list[Compressed]]:
        """Compact each session to a budget, by default a quarter of it, and make a template from what is left of them.

        `options` are those of `templates.extract`. Returns the template, and what is left of each session.
        """
        from warmstart.handoff.compress import compress_session

        shared: dict[str, Any] = {"redactor": self.redactor, "tools": self.settings.profile_tools}
        shared |= {"strategy": strategy, "budget_tokens": budget_tokens}
        done = []
        for session in {session.id: session for session in map(self.store.get, sessions)}.values():
            with suppress(*BAD_SESSION):  # `extract` names it
                messages = list(self.store.messages(session.id))
                done.append(compress_session(session, messages, **shared))
        template = self.templates.extract(
            *sessions, keep=lambda item: any(session.keeps(item) for session in done), **options
        )
        return template, done


class Sessions:
    """The sessions in a store. Any unique prefix of an id works."""

    def __init__(self, app: Warmstart) -> None:
        self._app = app
        self._store = app.store

    def list(
        self,
        *,
        project: str | None = ".",
        agent: str = "",
        since: datetime | None = None,
        outcome: SessionOutcome | None = None,
        limit: int = 0,
    ) -> builtins.list[SessionSummary]:
        """Sessions, newest first. `project=None` lists all projects; `limit=0` means no limit."""
        where = "" if project is None else resolve_project(project)
        chosen = Filter(agent=agent, project=where, since=since, outcome=outcome, limit=limit)
        self._update_outcomes(chosen)
        return self._store.list(chosen)

    def get(self, id: str) -> Session:
        """One session. Raises `SessionNotFound`, or `AmbiguousId` for an id that is too short."""
        session = self._store.get(id)
        self._update_outcomes(Filter(id=session.id))
        return self._store.get(session.id)

    def _update_outcomes(self, chosen: Filter) -> None:
        """Profile the sessions that changed. For a store that is not writable, only warn."""
        try:
            self._app.update_profiles(chosen)
        except (StoreFull, StoreReadOnly) as error:
            _log.warning("outcomes may be missing or out of date: %s", error)

    def messages(self, id: str) -> Iterator[Message]:
        """The messages of a session, in order."""
        return self._store.messages(self._store.get(id).id)

    def steps(self, id: str) -> Iterator[Step]:
        """The tool calls of a session, each with its result, outcome and duration."""
        return steps(list(self.messages(id)))

    def profile(self, id: str) -> Profile:
        """How a session went."""
        from warmstart.profile.profiler import profile_of

        return profile_of(self._store, self._store.get(id), tools=self._app.settings.profile_tools)

    def set_outcome(self, id: str, outcome: SessionOutcome, evidence: str = "") -> None:
        """Record how a session went. Later syncs do not overwrite it."""
        self._store.set_outcome(self._store.get(id).id, outcome, self._app.redactor.clean(evidence))

    def delete(self, id: str) -> None:
        """Delete a session from the store and its indexes. The agent's log is not touched."""
        from warmstart.recall import delete_old_vectors

        self._store.delete(self._store.get(id).id)
        delete_old_vectors(self._store)


class Memory:
    """Facts and preferences under keys, for one user at a time."""

    def __init__(self, backend: MemoryBackend, app: Warmstart) -> None:
        self.backend = backend
        self._app = app

    def set(self, key: str, value: str, *, user: str = "default", **metadata: Any) -> None:
        """Store a value as the user's, unless `author` names an agent. The previous value becomes history.

        Raises `StoreError` if it was not stored.
        """
        if not self.backend.store(user, key, value, {AUTHOR: USER, **metadata}):
            raise StoreError(f"{self.backend.backend_name} did not store {key!r}; `warmstart memory info` shows why")
        self.screen()

    def add_candidate(self, text: str, *, project: str, session: str = "") -> str:
        """Store a sentence that the user may want to keep, and return its key; empty if it is known or memory is off.

        No session is shown it before the user promotes it.
        """
        from warmstart.memory.keys import make_key
        from warmstart.memory.values import CANDIDATE, PROJECT, SCOPE, SESSION, View, digest

        text = self._app.redactor.clean(text)
        usual = make_key(text)
        metadata = {AUTHOR: USER, CANDIDATE: True, SCOPE: "project", PROJECT: project, SESSION: session}
        with local_copy(self.backend) as backend:
            if backend is None or isinstance(backend, NullBackend):
                return ""
            for key in (usual, f"{usual}_{digest(text)[:4]}"):
                known = backend.at(View(project=project, note=project)).retrieve("default", key)
                if known is None:
                    return key if backend.store("default", key, text, metadata) else ""
                if known.value == text:
                    return ""
        return ""

    def screen(self) -> None:
        """Judge which of the newest memories may be shown, so that a hook need not do it while the user waits."""
        from warmstart.preflight.index import screen_memories

        with local_copy(self.backend) as backend:
            if backend and not isinstance(backend, NullBackend):
                screen_memories(self._app.store, backend.query("default", "", limit=_MAX_MEMORIES))

    def get(self, key: str, *, user: str = "default") -> str:
        """The value of a key. Raises `EntryNotFound`."""
        entry = self.backend.retrieve(user, key)
        if entry is None:
            raise EntryNotFound(f"no memory has the key {key!r}; `warmstart memory list` shows the keys")
        return entry.value

    def search(self, query: str, *, limit: int = 10, user: str = "default") -> builtins.list[MemoryEntry]:
        """Entries that match the words of a query, best first."""
        return self.backend.query(user, query, limit=limit)

    def list(self, *, limit: int = 100, user: str = "default") -> builtins.list[MemoryEntry]:
        """Entries, newest first."""
        return self.backend.query(user, "", limit=limit)

    def of_project(self, project: str, task: str = "") -> Remembered:
        """What a session in a project is shown: what the user stored, and what agents noted in it."""
        from warmstart.memory.values import View
        from warmstart.templates.memory_lines import Remembered, choose_memories

        with local_copy(self.backend) as backend:
            if backend is None:
                return Remembered()
            entries = backend.at(View(project=project)).query("default", "", limit=_MAX_MEMORIES)
            if project:
                entries += backend.at(View(note=project)).query("default", "", limit=_MAX_NOTES)
        once = {(entry.key, entry.place): entry for entry in entries}
        return choose_memories(once.values(), project=project, task=task)

    def delete(self, key: str, *, user: str = "default") -> bool:
        """Delete a key and its history. Returns whether it existed."""
        return self.backend.delete(user, key)
