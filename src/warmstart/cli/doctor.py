"""`warmstart doctor`."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

import click

from warmstart.cli.output import counted, print_json, printable, settings
from warmstart.config import Settings
from warmstart.errors import ConfigError, StoreError, WarmstartError
from warmstart.profile.store import SQLProfileStore
from warmstart.recall.index import Index, engine_of
from warmstart.recall.vectors.stores import vectors_beside
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.store import AgentStatistics
from warmstart.sessions.stores import open_store
from warmstart.templates.store import SQLTemplateStore

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


class Check(NamedTuple):
    """One thing that was looked at: how it stands, and how to mend it where it needs mending."""

    subject: str
    status: Literal["ok", "note", "warning", "problem"]
    finding: str
    remedy: str = ""


@click.command(epilog="Example: warmstart doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(as_json: bool) -> None:
    """Check the store, the agents' histories and the installation.

    Says how to mend what is wrong, and exits with 1 when there is a problem.
    """
    checks = list(_checks())
    if as_json:
        print_json([check._asdict() for check in checks])
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
    yield from _store(current)
    yield from _histories(current)
    yield from _extras()


def _python() -> Check:
    versions = f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (body)")
        except sqlite3.OperationalError:
            return Check(
                "installation", "problem", f"{versions} without FTS5", "install a Python whose SQLite has FTS5"
            )
    return Check("installation", "ok", versions)


def _home(home: Path) -> Check:
    if not home.exists():
        return Check("home", "note", f"{home} does not exist yet", "`warmstart sync` makes it")
    if not home.is_dir():
        return Check("home", "problem", f"{home} is not a folder", "point WARMSTART_HOME at a folder")
    if not os.access(home, os.W_OK | os.X_OK):
        return Check("home", "problem", f"{home} cannot be written", f"chmod u+rwx {home}, or set WARMSTART_HOME")
    if stat.S_IMODE(home.stat().st_mode) & 0o077:
        return Check("home", "warning", f"{home} can be read by others", f"chmod 700 {home}")
    return Check("home", "ok", str(home))


def _store(current: Settings) -> Iterator[Check]:
    if current.store_url:
        yield _server(current)
        return
    path = current.store_path
    try:
        there = path.exists()
    except OSError as error:
        yield Check(
            "store", "problem", f"cannot look at {path}: {error.strerror}", "mend the permissions of its folder"
        )
        return
    if not there:
        yield Check("store", "note", f"{path} does not exist yet", "`warmstart sync` makes it")
        return
    if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Check("store", "warning", f"{path} can be read by others", f"chmod 600 {path}")
    try:
        with open_store(current) as store:
            wrong = store.integrity()
            agents = store.statistics()
    except StoreError as error:
        yield Check("store", "problem", str(error))
        return
    if wrong:
        remedy = "move the file away and run `warmstart sync`; it rebuilds the store from the agents' logs"
        yield Check("store", "problem", f"{path} is damaged: {wrong[0]}", remedy)
        return
    yield Check("store", "ok", f"{path}: {_held(agents)}, {path.stat().st_size / 1e6:.1f} MB")
    yield from _vectors(vectors_beside(path))


def _vectors(path: Path) -> Iterator[Check]:
    if not path.exists():
        return
    from warmstart.recall.vectors.sqlite_vec import SQLiteVectors

    try:
        with closing(SQLiteVectors(path)) as vectors:
            made, wrong = vectors.made(), vectors.damage()
    except ConfigError as error:
        yield Check("vectors", "note", str(error))
        return
    except StoreError as error:
        made, wrong = None, str(error)
    if wrong:
        remedy = f"delete {path}; `warmstart recall index --embedder …` makes it anew"
        yield Check("vectors", "problem", f"{path} is damaged: {wrong}", remedy)
    elif made is not None:
        yield Check("vectors", "ok", f"{path}: made with {made.name}, {path.stat().st_size / 1e6:.1f} MB")


def _server(current: Settings) -> Check:
    try:
        with open_store(current) as store:
            # Who owns the tables makes those of all rooms for the others, who may not.
            SQLProfileStore(store)
            Index(store.database, engine_of(store))
            SQLTemplateStore(store)
            wrong = store.integrity()
            held = _held(store.statistics())
            finding = f"{store.name}: {store.about}, {held}"
    except WarmstartError as error:
        return Check("store", "problem", str(error))
    if wrong:
        return Check("store", "problem", f"{finding}; {wrong[0]}", "ask the administrator of the server")
    return Check("store", "ok", finding)


def _held(agents: Sequence[AgentStatistics]) -> str:
    sessions, messages = sum(row.sessions for row in agents), sum(row.messages for row in agents)
    return f"{counted(sessions, 'session')}, {counted(messages, 'message')}"


def _histories(current: Settings) -> Iterator[Check]:
    seen: set[str] = set()
    if current.store_url or os.access(current.store_path, os.R_OK):
        with suppress(WarmstartError), open_store(current) as store:  # an error is reported above
            seen = set(store.positions())
    for reader in readers().values():
        roots = reader.roots(os.environ, Path.home())
        if not roots:
            continue
        remedy = "run Warmstart as the user who runs the agent"
        try:
            present = [root for root in roots if root.exists()]
            if not present:
                yield Check(reader.agent, "note", f"no history at {', '.join(map(str, roots))}")
                continue
            logs = [path for root in present for path in reader.find(root)]
        except OSError as error:
            yield Check(reader.agent, "problem", f"cannot look at {error.filename}: {error.strerror}", remedy)
            continue
        closed = [path for path in (*present, *logs) if not os.access(path, os.R_OK)]
        if closed:
            finding = f"{counted(len(closed), 'log')} cannot be read, e.g. {closed[0]}"
            yield Check(reader.agent, "problem", finding, remedy)
            continue
        new = sum(str(path) not in seen for path in logs)
        remedy = "`warmstart sync` imports them" if new else ""
        finding = f"{counted(len(logs), 'log')} in {', '.join(map(str, present))}" + (
            f", {new} not imported yet" if new else ""
        )
        yield Check(reader.agent, "note" if new else "ok", finding, remedy)


def _extras() -> Iterator[Check]:
    """Which optional parts of this package are installed."""
    try:
        package = metadata.metadata("warmstart")
        required = metadata.requires("warmstart") or []
    except metadata.PackageNotFoundError:
        return
    for extra in package.get_all("Provides-Extra") or []:
        names = [
            re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0]
            for line in required
            if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", line)
        ]
        missing = [name for name in names if not _installed(name)]
        if missing:
            remedy = f"pip install 'warmstart[{extra}]' if you want it"
            yield Check(f"extra {extra}", "note", f"not installed (needs {', '.join(missing)})", remedy)
        else:
            yield Check(f"extra {extra}", "ok", "installed")


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
