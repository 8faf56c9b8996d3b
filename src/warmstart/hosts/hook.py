"""The process that an agent starts for a hook: an event on standard input, one JSON object or nothing on the output.

It always exits with 0, because 2 would swallow the user's prompt, and prints nothing else, because agents put anything
they read into the conversation. It never migrates or indexes the store: if that is needed, or anything fails, the
agent's turn continues without us and the log says why. The user's prompt waits for it, so that path imports neither
dataclasses nor pathlib nor typing; `bench/preflight.py` shows the cost of each import.
"""

from __future__ import annotations

import os
import sys
import time

from warmstart.hosts.guard import Guard, is_paused

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from warmstart.app import Warmstart
    from warmstart.brief.stored_brief import Memories
    from warmstart.handoff.ledger import Ledger
    from warmstart.preflight.overlay import Preflight
    from warmstart.redact.redactor import Redactor

MAX_INPUT = 32_000_000  # bytes of an event
MAX_RUNS = 32_768  # bytes of each of the two files with the last runs
CODE = "from warmstart.__main__ import main; main()"

_PACKAGES = ("sessions/", "recall/", "templates/", "preflight/")  # a hook reads their tables
_DEFAULTS: dict[str, Any] = {
    "preflight_inject": "",
    "preflight_mode": "full",
    "preflight_max_tokens": 400,
    "preflight_max_passages": 3,
    "preflight_min_score": 0.36,
    "preflight_deadline_ms": 60,
    "hosts_exclude": (),
    "memory_backend": "",
    "profile_tools": {},
    "store_url": "",
}
_FROM_NOW_ON = "from now on"
_REMEMBER = ("remember that ", "remember:", f"{_FROM_NOW_ON} ", f"{_FROM_NOW_ON},")  # how a prompt asks for it
_MAX_OPENING = 200  # characters of a prompt in which it starts
_MAX_LOCK = 1  # seconds that storing a sentence waits for other processes
_MAX_RECORDING = 0.05  # seconds that recording what was shown waits for other processes
_MAX_ERROR = 200  # characters
_TELLING = ("SessionStart", "UserPromptSubmit", "BeforeAgent")  # events whose answer may be for the user
_VARIABLES = (
    "WARMSTART_PREFLIGHT",
    "WARMSTART_AUTO_INJECT",
    "WARMSTART_MEMORY_BACKEND",
    "HERMES_MEMORY_BACKEND",
)
# They may hold a secret, so only a digest is recorded.
_SECRETS = (
    "WARMSTART_STORE",
    "HONCHO_API_KEY",
    "HONCHO_BASE_URL",
    "HONCHO_URL",
    "HONCHO_APP_ID",
    "HONCHO_WORKSPACE_ID",
)


def main(arguments: list[str]) -> None:
    """Run a hook, given the host and the event. Never raises."""
    host, event = (*arguments, "", "")[:2]
    answer(host, event, lambda: sys.stdin.buffer.read(MAX_INPUT + 1), lambda output: os.write(1, output))


def answer(host: str, event: str, read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    """Answer an event. Never raises."""
    began = time.monotonic()
    hook: Hook | None = None
    guard: Guard | None = None
    try:
        is_host = host.replace("-", "_").isidentifier()  # not a path
        if is_host and os.environ.get("WARMSTART_DISABLED", "") in ("", "0"):
            os.environ["WARMSTART_HOOK"] = "1"  # also for the processes that it starts
            hook = Hook(host)
            guard = Guard(hook.home, event)
            if not guard.enter():
                write(_tell_about_hanging(event, guard))
                return
            hook.run(event, read(), write)
    except BaseException as failure:  # not even an interrupt may reach the agent
        if hook is not None:
            hook.log(event, failure)
    if guard is not None:
        guard.leave()
    if hook is not None and not hook.is_paused:
        record_run(hook.home, host, event, (time.monotonic() - began) * 1000, hook.abstained)


def _tell_about_hanging(event: str, guard: Guard) -> bytes:
    """What to tell the user, and only the user, where the agent can do that."""
    from json import dumps

    text = guard.tell() if event in _TELLING else ""
    return dumps({"systemMessage": text}).encode() if text else b""


class Hook:
    """The services for adapters. Heavy parts are loaded when called."""

    def __init__(self, host: str, env: Mapping[str, str] = os.environ) -> None:
        self.host = host
        self.abstained = ""  # why nothing was done, if that is worth a line in the log
        self.is_paused = False
        self.notice = ""  # for the user alone, from hosts that can show it
        self.faults: list[str] = []  # what keeps Warmstart from working, for the user too
        self._env = env
        self.home = os.path.abspath(os.path.expanduser(env.get("WARMSTART_HOME") or "~/.warmstart"))
        self._settings: dict[str, Any] | None = None
        self._connection: Any = None
        self._is_empty = False  # the store has memories, but never had sessions
        self._later: list[Callable[[], None]] = []  # what to do once the answer is printed

    def run(self, event: str, text: bytes, write: Callable[[bytes], object]) -> None:
        """Answer one event."""
        from importlib import import_module
        from json import dumps, loads

        data = loads(text.decode("utf-8", "replace"))
        name = self.host.replace("-", "_")
        # `cwd` follows the shell, but a session that started in an excluded folder stays excluded.
        folders = (data.get("cwd"), self._env.get("CLAUDE_PROJECT_DIR"))
        self.is_paused = is_paused(self.home, str(folders[1] or folders[0] or ""))
        if self.is_paused:
            return
        adapter: Any = import_module(f"warmstart.hosts.{name}")
        answer: Any = None
        try:
            if any(self._is_excluded(str(folder or "")) for folder in folders):
                return
            answer = adapter.handle(event, data, self)
        except Exception as error:
            self.log(event, error)
        if event in _TELLING:
            try:
                answer = self._with_faults(answer)
            except (OSError, ValueError) as error:  # the answer goes out without a notice
                self.log("faults", error)
        if answer:
            output = answer if isinstance(answer, str) else dumps(answer)
            write(output.encode("utf-8", "replace"))
        for do in self._later:
            do()

    def _with_faults(self, answer: dict[str, Any] | None) -> dict[str, Any] | None:
        """The answer with a notice for the user about the faults that no session has named yet."""
        from json import dumps, loads

        if not self.faults and self._connection is None:
            return answer  # the store was not opened
        path = f"{self.home}/hosts/faults.json"
        known: list[str] = []
        faults = list(dict.fromkeys(self.faults))
        if os.path.exists(path):
            with open(path, "rb") as file:
                known = loads(file.read())
        if known == faults:
            return answer
        os.makedirs(f"{self.home}/hosts", mode=0o700, exist_ok=True)  # missing without `install`
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(dumps(faults).encode())
        new = [f"Warmstart: {fault}; see `warmstart doctor`" for fault in faults if fault not in known]
        if not new:
            return answer
        return {**(answer or {}), "systemMessage": "\n".join((*new, self.notice)).strip()}

    def log(self, event: str, error: BaseException) -> None:
        """Log an error: its type and place, and its message if it is from the database, the system or Warmstart."""
        self.abstained = type(error).__name__
        try:
            from pathlib import Path

            from warmstart.errors import WarmstartError
            from warmstart.log import log_error

            is_known = isinstance(error, WarmstartError | OSError) or type(error).__module__ == "sqlite3"
            log_error(Path(self.home), f"hook {self.host} {event}", error, redact=str if is_known else lambda _: "")
        except BaseException:  # a failure to log must not reach the agent either
            return

    # -- settings, without slow imports

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a hook needs. What it does not understand in them is a fault, and has its default."""
        if self._settings is None:
            self._settings = self._read_settings()
            if error := self._settings.get("error"):
                self.faults.append(error)
            self.faults += self._settings.get("ignored", ())
        if error := self._settings.get("error"):
            from warmstart.errors import ConfigError

            raise ConfigError(error)
        return self._settings

    def _read_settings(self) -> dict[str, Any]:
        """The settings, or the `error` in them. Parsing `config.toml` takes longer than the rest, so it is cached."""
        path = f"{self.home}/config.toml"
        variables = [*map(self._env.get, _VARIABLES), *(_digest(self._env.get(name)) for name in _SECRETS)]
        state: list[Any] = [repr(_DEFAULTS), *variables]  # another version may have other settings
        try:
            stat = os.stat(path)
            state += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
        except FileNotFoundError:
            if not any(variables):
                return {**_DEFAULTS, "store_path": f"{self.home}/warmstart.db", "memory_file": "store"}
        from json import dumps, loads

        try:
            with open(f"{self.home}/hosts/settings.json", "rb") as file:
                cached: dict[str, Any] = loads(file.read())
            if cached.pop("state") == state:
                return cached
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # missing, or damaged
        from pathlib import Path

        from warmstart.config import load_settings
        from warmstart.errors import ConfigError
        from warmstart.memory.selection import memory_file
        from warmstart.storage.files import write_private

        values: dict[str, Any] = {}
        try:
            loaded = load_settings(self._env)
            values = {name: getattr(loaded, name) for name in (*_DEFAULTS, "ignored")}
            values |= {"store_path": str(loaded.store_path), "memory_file": memory_file(loaded)}
            values["store_url"] = "server" if loaded.store_url else ""  # a URL may hold a password
        except ConfigError as error:
            values["error"] = str(error)
        try:
            os.makedirs(f"{self.home}/hosts", mode=0o700, exist_ok=True)  # missing without `install`
            write_private(Path(self.home, "hosts", "settings.json"), dumps({**values, "state": state}))
        except OSError:
            pass
        return values

    def _is_excluded(self, folder: str) -> bool:
        excluded = self.settings["hosts_exclude"]
        if not excluded or not folder:
            return False
        place = os.path.realpath(folder) + "/"
        return any(place.startswith(os.path.join(os.path.realpath(os.path.expanduser(path)), "")) for path in excluded)

    # -- the store, never migrated here

    def _open(self) -> Any:
        """A connection to the store; `None` if it does not exist or does not match this version."""
        if self._connection is None:
            import sqlite3

            from warmstart.storage.compression import register

            path = self.settings["store_path"]
            if not os.path.exists(path):
                return None  # nothing has been synced yet
            connection = sqlite3.connect(path, timeout=0.05, isolation_level=None)
            try:
                if due := _due(connection):
                    tables = connection.execute("SELECT 1 FROM migrations WHERE name LIKE 'sessions/%'").fetchone()
                    self._is_empty = tables is None
            except sqlite3.Error as error:
                if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                    raise
                self.log("store", error)
                due = f"the store {path} cannot be read ({error})"
            if due:
                self.abstained = due
                self.faults += () if self._is_empty else (due,)
                return None
            register(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._connection = connection
        return self._connection

    def _can_write(self) -> bool:
        """Whether the store is new, or matches this version."""
        settings = self.settings
        return bool(
            settings["store_url"]
            or not os.path.exists(settings["store_path"])
            or self._open() is not None
            or self._is_empty
        )

    def _preflight(self, session: str, folder: str) -> Preflight | None:
        from types import SimpleNamespace

        from warmstart.preflight.overlay import Policy, Preflight
        from warmstart.sessions.projects import repository_of

        settings = self.settings
        policy = Policy(SimpleNamespace(**settings, home=self.home), settings["memory_file"])
        project = repository_of(folder)
        if settings["store_url"]:
            database = self._app().store.database
            connection, dialect = database.connection, database.DIALECT
        else:
            connection, dialect = self._open(), "sqlite"
            if connection is None:
                return None
            if not _is_indexed(connection):
                self.abstained = "the store is not indexed; run `warmstart sync`"
                self.faults.append(self.abstained)
                return None
        return Preflight(connection, dialect, session=session, project=project, host=self.host, policy=policy)

    def _app(self) -> Warmstart:
        from warmstart.app import open as open_warmstart

        return open_warmstart()

    # -- called by adapters

    def before_turn(self, session: str, folder: str, message: str) -> str | None:
        """What earlier sessions know about a user message. A sentence that asks to be remembered is stored."""
        message = message.encode("utf-8", "replace").decode()  # JSON may escape a lone surrogate
        opening = message[:_MAX_OPENING].lstrip().lower()
        asks = next((words for words in _REMEMBER if opening.startswith(words)), "")
        if asks:
            try:
                self.notice = self._remember(session, folder, message.lstrip(), asks)
            except Exception as error:  # the message still gets its overlay
                self.log("remember", error)
        preflight = self._preflight(session, folder)
        return preflight.before_turn(message).text or None if preflight else None

    def _remember(self, session: str, folder: str, message: str, asks: str) -> str:
        """Store the first sentence as a candidate. Returns what to tell the user; nothing if it is known."""
        from warmstart.sessions.projects import repository_of
        from warmstart.text.own_words import first_sentence

        said = message if asks.startswith(_FROM_NOW_ON) else message[len(asks) :]
        sentence = first_sentence(said.strip())
        project = repository_of(folder)
        if not project or not sentence or sentence.endswith("?") or not self._can_write():
            return ""
        self._wait_for_writers()
        with self._app() as app:
            key = app.memory.add_candidate(sentence, project=project, session=session)
        if not key:
            return ""
        return (
            f"Warmstart noted '{key}'. No session sees it until you keep it with `warmstart memory promote {key}`; "
            f"`warmstart memory delete {key}` drops it."
        )

    def _wait_for_writers(self) -> None:
        """Raise an error if another process keeps the memories locked: a store waits two minutes, a user does not."""
        import sqlite3

        path = self.settings["memory_file"]
        if path == "store":
            path = "" if self.settings["store_url"] else self.settings["store_path"]
        if not os.path.exists(path):
            return  # a server, or nothing was ever stored
        connection = sqlite3.connect(path, timeout=_MAX_LOCK, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()

    def after_tool(self, session: str, folder: str, tool: str, arguments: Any, output: str) -> str | None:
        """The fix for a failed call, if one is known."""
        from warmstart.profile.failures import has_failed

        preflight = self._preflight(session, folder) if has_failed(output) else None  # which takes far longer
        return preflight.after_tool(tool, arguments, output) if preflight else None

    def after_compaction(self, session: str) -> None:
        """Record a compaction: what was shown before may be shown again."""
        self.note(session, "compaction")

    def note(self, session: str, event: str) -> None:
        """Record an event of a conversation."""
        try:
            if preflight := self._preflight(session, ""):
                preflight.note(event)
        except Exception as error:  # the rest of the answer, such as the user's rules, does not need the store
            self.log(event, error)

    def last_note(self, session: str) -> str:
        """The last recorded event of a conversation, or empty."""
        try:
            preflight = self._preflight(session, "")
            return preflight.last_note() if preflight else ""
        except Exception as error:
            self.log("note", error)
            return ""

    def start(self, session: str, folder: str, host: str, model: str = "") -> str:
        """The start of a new session: the preflight block and the brief, as stored if it can be.

        An experiment decides by itself what a session starts with, and a brief that was never stored is built here.
        """
        from warmstart.preflight.prompt import block

        own = block(self.settings["preflight_mode"], host)
        connection = None
        if not self.settings["store_url"]:
            try:
                connection = self._open()
            except Exception as error:  # locked
                self.log("start", error)
                return own
            if connection is None and not self._is_empty:
                return own
        brief = None if self._is_empty else self._read_brief(connection, session, folder)
        if brief is not None:
            return "\n\n".join(filter(None, (own, brief)))
        with self._app() as app:
            if self._is_empty:
                from warmstart.preflight.index import migrate

                migrate(app.store)  # for the prompts that follow
            return app.begin(session, project=folder, host=host, model=model).start_text

    def start_subagent(self, folder: str, host: str) -> str:
        """What a subagent starts with: the preflight block and the stored brief, like its parent."""
        from warmstart.preflight.prompt import block

        can_read = self.settings["store_url"] or self._open() is not None
        brief = self._read_brief(self._connection, "", folder) if can_read else None
        return "\n\n".join(filter(None, (block(self.settings["preflight_mode"], host), brief)))

    def _read_brief(self, connection: Any, session: str, folder: str) -> str | None:
        """The stored brief; `None` if the start has to be built, because of an experiment or because there is none."""
        from warmstart.brief.stored_brief import UnscreenedMemory
        from warmstart.sessions.projects import resolve_project

        try:
            project = resolve_project(folder)
            if not project or not self._can_read_memories() or (connection and _is_experimenting(connection)):
                return None
            text, keys, is_current = self._render_brief(connection, folder)
        except UnscreenedMemory:
            return None
        except Exception as error:  # damaged
            self.log("brief", error)
            return None
        if keys and session:
            self._later.append(lambda: self._record(connection, session, project, keys))
        if not is_current:
            self._later.append(lambda: self._rebuild(folder))
        return text

    def _render_brief(self, connection: Any, folder: str) -> tuple[str | None, list[str], bool]:
        """The text of the stored brief (`None` if there is none), the keys of its lines, and whether it is current.

        Without a connection, it is read from the copy on this machine.
        """
        from functools import partial

        from warmstart.brief.stored_brief import is_quotable, read_brief, read_copy, render, snapshot
        from warmstart.sessions.projects import branch_of, resolve_project

        project, branch = resolve_project(folder), branch_of(folder)
        judge: Callable[[tuple[float, int]], bool | None] = partial(is_quotable, connection)
        if connection is None:
            brief, judged = read_copy(f"{self.home}/hosts/briefs", project)
            judge = judged.get
        else:
            brief = read_brief(connection, project, branch)
        if brief is None:
            return None, [], False
        files = brief.state.get("files", ())
        state = snapshot(connection, project, branch, files, self.settings["profile_tools"])
        text, keys = render(brief, state, project, self._memories(connection, judge))
        return text, keys, brief.state in ({}, state)

    def current_brief(self, folder: str) -> str:
        """The stored brief if nothing has changed since it was built; otherwise empty. May raise any error."""
        from warmstart.sessions.projects import resolve_project

        is_here = not self.settings["store_url"] and os.path.isdir(resolve_project(folder))
        connection = self._open() if is_here else None
        if connection is None or not self._can_read_memories():
            return ""
        text, _, is_current = self._render_brief(connection, folder)
        return (text or "") if is_current else ""

    def _can_read_memories(self) -> bool:
        """Whether memories are in SQLite or in the stored brief, or off: other backends cannot be read here."""
        return bool(self.settings["memory_file"]) or self.settings["memory_backend"] == "null"

    def _memories(self, connection: Any, judge: Callable[[tuple[float, int]], bool | None]) -> Memories | None:
        from warmstart.brief.stored_brief import Memories

        path = self.settings["memory_file"]
        if path != "store" and os.path.isfile(path):  # otherwise switched off, or nothing was ever stored
            import sqlite3

            connection = sqlite3.connect(path, timeout=0.05)
        elif path != "store":
            return None
        query = "SELECT 1 FROM sqlite_master WHERE name = 'memory_entries'"
        has_memories = connection is not None and connection.execute(query).fetchone() is not None
        return Memories(connection, judge) if has_memories else None

    def _record(self, connection: Any, session: str, project: str, keys: Sequence[str]) -> None:
        """Record which lines a session was shown, or leave that to the next sync."""
        from json import dumps

        from warmstart.storage.deadline import time_limit
        from warmstart.storage.outbox import put_row, record

        row = (session, self.host, project, time.time(), "brief", "noted", dumps(keys), 0, 0.0)
        if connection is None:
            put_row(self.home, row)
            return
        limit = time_limit(connection, "sqlite", time.monotonic() + _MAX_RECORDING)
        record(connection, limit, self.home, row)

    def _rebuild(self, folder: str) -> None:
        """Build the brief of a project in a background process, unless one is already being built."""
        from warmstart.hosts.background import build_brief, start

        start(self.home, lambda: build_brief(self.home, _command("brief", "--project", folder)))

    def constraints(self, transcript: str, agent: str) -> str:
        """The user's constraints (must, must not, only), read from the agent's own log."""
        from warmstart.handoff.packet import render_constraints

        return render_constraints(*self._read_ledger(transcript, agent))

    def note_after_compaction(self, transcript: str, agent: str) -> str:
        """The constraints, the goal and the files of a compacted conversation."""
        from warmstart.handoff.packet import render_note

        return render_note(*self._read_ledger(transcript, agent))

    def _read_ledger(self, transcript: str, agent: str) -> tuple[Ledger, Redactor]:
        """The ledger of a session, read from the agent's own log because the store may lag behind."""
        from pathlib import Path

        from warmstart.config import load_settings
        from warmstart.handoff.ledger import build_ledger
        from warmstart.redact.redactor import configured_redactor
        from warmstart.sessions.readers.base import Reading
        from warmstart.sessions.readers.registry import readers
        from warmstart.sessions.redaction import redacted_messages
        from warmstart.sessions.values import Session

        path, settings = Path(transcript), load_settings(self._env)
        redactor, session, messages = configured_redactor(settings), Session(agent=agent, native_id=path.stem), []
        for owner, message in readers()[agent].read(path, Reading(path)):
            if message and not message.sidechain:
                session = owner
                messages.append(message)
        return build_ledger(session, redacted_messages(messages, redactor), settings.profile_tools), redactor

    def sync(self, *paths: str) -> None:
        """Import these logs in the background."""
        from warmstart.hosts.background import import_logs, start

        store = "" if self.settings["store_url"] else self.settings["store_path"]
        start(self.home, lambda: import_logs(self.home, _command("sync"), self.host, paths, store))


def _command(*words: str) -> list[str]:
    """The command line of one of our commands."""
    return [sys.executable, "-EPc", CODE, *words]


def _is_experimenting(connection: Any) -> bool:
    """Whether a field experiment is running, which decides what a session starts with."""
    query = "SELECT 1 FROM experiments WHERE kind = 'field' AND state = 'running' LIMIT 1"
    created = connection.execute("SELECT 1 FROM migrations WHERE name = 'experiments/0001_tables'").fetchone()
    return created is not None and connection.execute(query).fetchone() is not None


def _digest(value: str | None) -> str:
    """A text that changes with a value and does not reveal it; empty for none."""
    if not value:
        return ""
    from _blake2 import blake2b  # `hashlib` loads OpenSSL

    return blake2b(value.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _due(connection: Any) -> str:
    """Why the store cannot be used; empty if it can."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(f"{folder}/storage/migrations/names.txt", encoding="utf-8") as file:
        known = set(file.read().split())
    applied = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    if missing := [name for name in known if name.startswith(_PACKAGES) and name not in applied]:
        return f"the store needs the migration {min(missing)}; run `warmstart sync`"
    if any(name not in known and name.split("/")[0] + "/" in _PACKAGES for name in applied):
        return "the store was created by a newer version of Warmstart"
    return ""


def _is_indexed(connection: Any) -> bool:
    """Whether a search finds anything in the store."""
    indexed = connection.execute("SELECT 1 FROM recall_turns LIMIT 1").fetchone()
    return bool(indexed or not connection.execute("SELECT 1 FROM sessions LIMIT 1").fetchone())


# -- the last runs: one line per run, in `$WARMSTART_HOME/hosts/HOST.jsonl` and its predecessor


def record_run(home: str, host: str, event: str, ms: float, error: str = "") -> None:
    """Record a hook run. `error` must not contain text of the session. Never raises."""
    from json import dumps

    path = f"{home}/hosts/{host}.jsonl"
    data: dict[str, Any] = {"at": round(time.time(), 3), "event": event[:40], "ms": round(ms, 1)}
    if error:
        data["error"] = " ".join(error.split())[:_MAX_ERROR]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            file.write(dumps(data).encode() + b"\n")
            full = file.tell() > MAX_RUNS
        if full:
            os.replace(path, f"{path}.1")
    except OSError:
        return  # not writable, or not installed: the agent's turn goes on


def run_files(host: str) -> tuple[str, str]:
    """The names of the files with the last runs, the older one first."""
    return f"{host}.jsonl.1", f"{host}.jsonl"


def read_runs(home: Path, host: str) -> list[dict[str, Any]]:
    """The last runs, oldest first: `at` (seconds since 1970), `event`, `ms`, and `error` if there was one."""
    from contextlib import suppress
    from json import loads

    runs: list[dict[str, Any]] = []
    for name in run_files(host):
        with suppress(OSError):
            for line in (home / "hosts" / name).read_bytes().splitlines():
                with suppress(ValueError, TypeError, KeyError):  # damaged
                    run = loads(line)
                    runs.append({**run, "at": float(run["at"]), "event": str(run["event"]), "ms": float(run["ms"])})
    return runs
