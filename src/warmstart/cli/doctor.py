"""`warmstart doctor`."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from warmstart.cli.options import json_option, user_home
from warmstart.cli.output import print_json, settings
from warmstart.cli.terminal import counted, local, printable
from warmstart.config import Settings
from warmstart.embedding import vectors_path
from warmstart.errors import ConfigError, StoreError, StoreTooNew, WarmstartError
from warmstart.hosts.guard import clear_markers, read_pauses
from warmstart.hosts.install import HOSTS, Place, is_present, status
from warmstart.log import NAME, last_error
from warmstart.memory.selection import select_backend, why_not
from warmstart.memory.sql import MIGRATIONS as MEMORY
from warmstart.preflight.index import MIGRATIONS as PREFLIGHT
from warmstart.preflight.overlay import CPU_LIMIT, TIME_LIMIT
from warmstart.profile.store import SQLProfileStore
from warmstart.recall.index import Index
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.sql_store import SQLSessionStore, open_store
from warmstart.sessions.store import SessionSummary
from warmstart.templates.store import SQLTemplateStore

_REASONS = "SELECT reason, count(*) FROM preflight_turns WHERE event = 'prompt' GROUP BY reason"
_MAX_LIMITED = 0.05  # of the messages
_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


class Check(NamedTuple):
    """The result of one check, and how to fix the problem."""

    subject: str
    status: Literal["ok", "note", "warning", "problem"]
    finding: str
    remedy: str = ""


@click.command(epilog="Example: warmstart doctor --json")
@json_option
def command(as_json: bool) -> None:
    """Check the store, the agents' logs and the installation.

    Explains how to fix each problem, and exits with 1 if there is one.
    """
    checks = list(_checks())
    if as_json:
        print_json(checks)
    else:
        for check in checks:
            label = click.style(f"{check.status:>7}", fg=_COLOURS[check.status])
            click.echo(f"{label}  {check.subject}: {printable(check.finding)}")
            if check.remedy:
                click.echo(f"{'':>7}  → {printable(check.remedy)}")
    if any(check.status == "problem" for check in checks):
        sys.exit(1)


def _checks() -> Iterator[Check]:
    yield _python()
    try:
        current = settings()
    except WarmstartError as error:
        yield Check("settings", "problem", str(error))
        return
    yield _home(current.home)
    yield from _log(current.home)
    yield from _store(current)
    yield from _memory(current)
    yield from _histories(current)
    yield from _guard(str(current.home))
    yield from _hosts(current)
    yield from _extras()


def _python() -> Check:
    versions = f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (body)")
        except sqlite3.OperationalError:
            remedy = "install a Python whose SQLite has FTS5"
            return Check("installation", "problem", f"{versions} without FTS5", remedy)
    return Check("installation", "ok", versions)


def _home(home: Path) -> Check:
    if not home.exists():
        return Check("home", "note", f"{home} does not exist yet", "`warmstart sync` creates it")
    if not home.is_dir():
        return Check("home", "problem", f"{home} is not a folder", "point WARMSTART_HOME at a folder")
    if not os.access(home, os.W_OK | os.X_OK):
        return Check("home", "problem", f"{home} is not writable", f"chmod u+rwx {home}, or set WARMSTART_HOME")
    if stat.S_IMODE(home.stat().st_mode) & 0o077:
        return Check("home", "warning", f"other users can read {home}", f"chmod 700 {home}")
    return Check("home", "ok", str(home))


def _log(home: Path) -> Iterator[Check]:
    if not home.is_dir():
        return
    path = home / NAME
    try:
        line = last_error(home)
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        yield Check("log", "warning", f"cannot use {path} ({why}): nothing is logged", f"move {path} away")
        return
    if line is None:
        yield Check("log", "ok", f"no errors in {path}")
    else:
        yield Check("log", "note", f"last error: {line}", f"{path} has earlier ones")


def _store(current: Settings) -> Iterator[Check]:
    if current.store_url:
        yield from _server(current)
        return
    path = current.store_path
    try:
        exists = path.exists()
    except OSError as error:
        yield Check("store", "problem", f"cannot access {path}: {error.strerror}", "fix the permissions of its folder")
        return
    if not exists:
        yield Check("store", "note", f"{path} does not exist yet", "`warmstart sync` creates it")
        return
    if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Check("store", "warning", f"other users can read {path}", f"chmod 600 {path}")
    try:
        with open_store(current) as store:
            wrong = store.database.integrity()
            contents = _contents(store.list())
            vectors = vectors_path(store.database)
            overlay = list(_overlay(store))
    except StoreError as error:
        yield Check("store", "problem", str(error))
        return
    if wrong:
        remedy = "move the file away and run `warmstart sync`; it rebuilds the store from the agents' logs"
        yield Check("store", "problem", f"{path} is damaged: {wrong[0]}", remedy)
        return
    yield Check("store", "ok", f"{path}: {contents}, {path.stat().st_size / 1e6:.1f} MB")
    yield from overlay
    if vectors is not None and vectors.exists():
        yield from _vectors(vectors)


def _vectors(path: Path) -> Iterator[Check]:
    from warmstart.embedding.vectors import SQLiteVectors

    try:
        with closing(SQLiteVectors(path)) as vectors:
            model, wrong = vectors.model(), vectors.check()
    except ConfigError as error:
        yield Check("vectors", "note", str(error))
        return
    except StoreTooNew as error:
        yield Check("vectors", "problem", str(error))
        return
    except StoreError as error:
        model, wrong = None, str(error)
    if wrong:
        remedy = f"delete {path}; `warmstart recall index --embedder …` rebuilds it"
        yield Check("vectors", "problem", f"{path} is damaged: {wrong}", remedy)
    elif model is not None:
        yield Check("vectors", "ok", f"{path}: {model.name}, {path.stat().st_size / 1e6:.1f} MB")


def _memory(current: Settings) -> Iterator[Check]:
    """The server of the memory backend, if it has one."""
    try:
        with closing(select_backend(current)) as backend:
            if not backend.is_cloud:
                return
            if not backend.is_available():
                yield Check("memory", "problem", f"{backend.backend_name} is not available: {why_not(backend)}")
                return
            is_reached, status = backend.is_reachable(), backend.status()
    except WarmstartError as error:
        yield Check("memory", "problem", str(error))
        return
    if status is None or is_reached:
        yield Check("memory", "ok", f"{backend.backend_name} at {status.address if status else 'its server'}")
    elif status.denied:
        yield Check("memory", "problem", status.problem, f"{counted(status.waiting, 'write')} queued until then")
    else:
        yield Check("memory", "warning", f"{status.problem}; {counted(status.waiting, 'write')} queued")


def _server(current: Settings) -> Iterator[Check]:
    try:
        with open_store(current) as store:
            # Create the tables of every package, because roles other than the owner may not.
            SQLProfileStore(store)
            Index(store)
            SQLTemplateStore(store)
            store.database.migrate(MEMORY)
            store.database.migrate(PREFLIGHT)
            wrong = store.database.integrity()
            finding = f"{store.name}: {store.about}, {_contents(store.list())}"
            overlay = list(_overlay(store))
    except WarmstartError as error:
        yield Check("store", "problem", str(error))
        return
    if wrong:
        yield Check("store", "problem", f"{finding}; {wrong[0]}", "ask the server's administrator")
        return
    yield Check("store", "ok", finding)
    yield from overlay


def _contents(sessions: Sequence[SessionSummary]) -> str:
    messages = sum(row.messages for row in sessions)
    return f"{counted(len(sessions), 'session')}, {counted(messages, 'message')}"


def _histories(current: Settings) -> Iterator[Check]:
    seen: set[str] = set()
    if current.store_url or os.access(current.store_path, os.R_OK):
        with suppress(WarmstartError), open_store(current) as store:  # an error is reported above
            seen = set(store.positions())
    for reader in readers().values():
        roots = reader.roots(os.environ, user_home())
        if not roots:
            continue
        remedy = "run Warmstart as the user who runs the agent"
        try:
            present = [root for root in roots if root.exists()]
            if not present:
                yield Check(reader.agent, "note", f"no logs at {', '.join(map(str, roots))}")
                continue
            logs = [path for root in present for path in reader.find(root)]
        except OSError as error:
            yield Check(reader.agent, "problem", f"cannot access {error.filename}: {error.strerror}", remedy)
            continue
        closed = [path for path in (*present, *logs) if not os.access(path, os.R_OK)]
        if closed:
            finding = f"cannot read {counted(len(closed), 'log')}, e.g. {closed[0]}"
            yield Check(reader.agent, "problem", finding, remedy)
            continue
        new = sum(str(path) not in seen for path in logs)
        finding = f"{counted(len(logs), 'log')} in {', '.join(map(str, present))}"
        if new:
            yield Check(reader.agent, "note", f"{finding}, {new} not imported yet", "`warmstart sync` imports them")
        else:
            yield Check(reader.agent, "ok", finding)


def _guard(home: str) -> Iterator[Check]:
    """Why hooks do nothing: the user has paused them, or they took too long."""
    for project, until in read_pauses(home).items():
        where = f" in {project}" if project else ""
        end = f" until {local(datetime.fromtimestamp(until, UTC))}" if until else ""
        yield Check("hooks", "warning", f"paused{where}{end}", "`warmstart pause off` ends it")
    if killed := clear_markers(home):
        finding = f"{counted(killed, 'run')} took too long, and the agent ended {'it' if killed == 1 else 'them'}"
        yield Check("hooks", "warning", finding, "hooks run again from now on; the log may say why they took so long")


def _hosts(current: Settings) -> Iterator[Check]:
    """How the agents are set up, and how our hooks are doing."""
    place = Place(user_home(), os.environ)
    for host in HOSTS:
        subject, fix = f"{host} hooks", f"`warmstart install {host}`"
        try:
            state = status(host, place, current.home)
        except WarmstartError as error:
            yield Check(subject, "warning", str(error))
            continue
        if not state.installed:
            if is_present(host, place):
                yield Check(subject, "note", "not installed", f"{fix} makes new sessions start warm")
            continue
        finding = "installed, " + (f"last run {_ago(state.last)}" if state.last else "not run yet")
        if state.p95_ms is not None:
            finding += f", prompts wait {state.p95_ms:.0f} ms (95th percentile)"
        if state.error:
            finding += f"; last error {_ago(state.error)}: {state.error['error']}"
        if state.python:
            yield Check(subject, "problem", f"{finding}; {state.python} no longer exists", f"{fix} updates the hooks")
        elif state.outdated:
            finding += "; installed by another version or copy of Warmstart"
            yield Check(subject, "warning", finding, f"{fix} updates them")
        elif state.pending:
            yield Check(subject, "warning", finding, state.pending)
        else:
            yield Check(subject, "note" if state.error else "ok", finding)


def _overlay(store: SQLSessionStore) -> Iterator[Check]:
    """How often the search before a message was given up."""
    if PREFLIGHT[0].name not in store.database.applied():
        return
    reasons = dict(store.fetch(_REASONS))
    cpu, wall, total = reasons.get(CPU_LIMIT, 0), reasons.get(TIME_LIMIT, 0), sum(reasons.values())
    finding = f"{counted(total, 'message')}; {cpu} reached the limit of CPU time, {wall} of time"
    if not total:
        return
    remedy = "raise `context_preflight.deadline_ms`" if cpu + wall > total * _MAX_LIMITED else ""
    yield Check("overlay", "warning" if remedy else "ok", finding, remedy)


def _ago(run: Mapping[str, Any]) -> str:
    return f"{run['event']} at {local(datetime.fromtimestamp(run['at'], UTC))}"


def _extras() -> Iterator[Check]:
    """The optional parts of this package, and whether they are installed."""
    try:
        package = metadata.metadata("warmstart")
        required = metadata.requires("warmstart") or []
    except metadata.PackageNotFoundError:
        return
    for extra in filter(lambda name: name != "all", package.get_all("Provides-Extra") or []):
        names = [re.split(r"[^\w.-]", line)[0] for line in required if re.search(rf"extra == .{extra}.$", line)]
        missing = [name for name in names if not any(metadata.distributions(name=name))]
        if missing:
            remedy = f"pip install 'warmstart[{extra}]' if you want it"
            yield Check(f"extra {extra}", "note", f"not installed (needs {', '.join(missing)})", remedy)
        else:
            yield Check(f"extra {extra}", "ok", "installed")
