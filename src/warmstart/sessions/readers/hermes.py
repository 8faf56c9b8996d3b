"""Hermes Agent's database: `state.db` in `$HERMES_HOME` and in each of its profiles. Its quirks:

- Hermes may be running, with most of its data still in the write-ahead log. The database is opened read-only through
  SQLite, which reads that log; closing a plain file handle inside Hermes' own process would drop its locks. Rows are
  fetched in small pages, so that no read blocks Hermes' checkpoints.
- Columns come and go without a new schema version: they are looked up by name, and a missing one is empty.
- Compaction and branches write messages a second time (see `_Copies`).
- `content` is text, or a NUL byte, `json:` and a list of parts. `api_content` also has what plugins injected, so it is
  not read.
- A compaction summary is an ordinary user or assistant row. It is recognised by its first words (or by the column
  `_compressed_summary` of later versions). It may share its row with an older message, before or after it, whose tool
  calls are then still in the row. Such a row becomes two messages.
- What Warmstart wrote into a session (the rows it started from, a hint after a result) is not read.
- No column says that a tool failed. Results are JSON objects with `error`, `success` or `exit_code`, in which a failing
  command has `"error": null`, or plain text with known prefixes. Hermes explains exit codes that are not errors (grep
  finding nothing) in `exit_code_meaning`.
- A session row does not say when it changed, and its title or end come late. Session rows are compared by digest, in a
  fixed number of groups, so that the state stays small with any number of sessions.
- `ended_at` often stays empty. Rotated sessions and subagents may lack their working directory; they inherit that of
  the session they come from.
- Tokens are counted per session, not per message.
- Row ids only grow, so reading resumes after the last one. If the last row up to there is not one of the last ones
  read, the database was replaced, and is read from its start.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, get_args

from warmstart.errors import LogError
from warmstart.sessions.marks import PACKET, is_ours, without_hint, without_ours
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import SQLITE, Pair, Reader, Reading, open_database, table_columns
from warmstart.sessions.readers.content import as_text, from_json, joined, object_in
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.openai import FAILED
from warmstart.sessions.readers.transcript import Transcript
from warmstart.sessions.values import CallOutcome, Message, ParentKind, Role, Session, ToolCall, ToolResult

MAX_STORIES = 512
MAX_ANCESTORS = 64

_NAME = "state.db"
_PAGE = 100
_GROUPS = 64
_TRAIL = 32  # rows at the end that may be deleted before the database counts as replaced
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SESSION_COLUMNS = (
    *("id", "source", "model", "model_config", "title", "parent_session_id", "started_at", "ended_at", "end_reason"),
    *("cwd", "git_branch", "git_repo_root", *_TOKENS),
)
# No other agent's tables of these names have all these columns.
_MARKS = {"messages": {"session_id", "role", "content", "tool_call_id"}, "sessions": {"id", "source", "started_at"}}
_SUMMARY_OPENINGS = ("[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:")
# Hermes appends the open tasks as a user message when it compacts.
_TASKS_OPENING = "[Your active task list was preserved across context compression]"

_PARTS = "\0json:"
_BEFORE = "[PRIOR CONTEXT — for reference only; not a new message]"
_BELOW = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
_END = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"

_REFUSED = re.compile(
    r"BLOCKED: User denied|denied by user|NOT consented|explicitly rejected it"
    r"|Tool execution cancelled|was skipped due to user interrupt",
    re.IGNORECASE,
)
# Hermes also explains exit codes that are errors (curl) or may be (git).
_HARMLESS = re.compile(r"not an error|partial results", re.IGNORECASE)

_TICK = 1.3e-6  # a burst adds a microsecond per row; a double is exact to a quarter of one
MAX_BURST = 2_000  # rows
MAX_DISTANCE = 20_000  # rows between a copy and its original: far more than a context window holds
MAX_WALK = 500  # rows
_BRANCH_GAP = 0.5  # seconds
_BLANKS = " \t\r\n"

_LINEAGE = "IN (SELECT value FROM json_each(:lineage))"
_VISIBLE = "(COALESCE(active, 1) <> 0 OR COALESCE(compacted, 0) <> 0)"
_IN_LINEAGE = f"session_id {_LINEAGE} AND {_VISIBLE}"
# The plus keeps SQLite off the index of sessions, so that it walks back from the last row and stops early.
_RECENT = f"+session_id {_LINEAGE} AND id > :floor AND {_VISIBLE}"
_SAME_TIME = f"session_id {_LINEAGE} AND timestamp = :at AND role = :role"
_ALIKE = """role = :role AND (
    (:call <> '' AND tool_call_id = :call)
    OR (:calls <> '' AND instr(tool_calls, :calls) > 0)
    OR (:call = '' AND :calls = '' AND (content = :raw OR trim(content, :blanks) IN (:text, :shot)))
)"""


# A row from SQLite: any column may be missing (`None`) or of any type.
_Row = namedtuple(
    "_Row",
    "id session_id role content tool_call_id tool_calls timestamp token_count reasoning "
    "reasoning_content active compacted compressed_summary display_kind",
)
# A named tuple cannot have a field that begins with an underscore.
_COLUMNS = tuple("_compressed_summary" if name == "compressed_summary" else name for name in _Row._fields[1:])


class _Body(NamedTuple):
    """A row's own text, its calls, and a summary that shares the row; `leading` if the summary comes first."""

    text: str
    calls: tuple[ToolCall, ...]
    summary: str
    leading: bool = False


def _body(row: _Row) -> _Body:
    """The parts of a row's content."""
    text = _text(row.content)
    calls = _calls(row.tool_calls)
    if row.role == "tool":
        return _Body(without_hint(text), (), "")
    if _BELOW in text:
        own, _, rest = text.partition(_BELOW)
        if row.compressed_summary or rest.lstrip().startswith(_SUMMARY_OPENINGS):
            return _Body(own.strip().removeprefix(_BEFORE).strip(), calls, rest.strip())
    if text.lstrip().startswith(_SUMMARY_OPENINGS):
        summary, _, own = text.partition(_END)
        return _Body(own.strip(), calls, summary.strip(), leading=True)
    if row.compressed_summary:
        return _Body("", calls, text)
    return _Body(text, calls, "")


def _text(content: object) -> str:
    """The text of a `content` cell."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    if isinstance(content, str) and content.startswith(_PARTS):
        parts = from_json(content[len(_PARTS) :])
        content = content if parts is None else joined(parts)
    return as_text(content).encode("utf-8", "replace").decode()  # JSON can contain lone surrogates


def _calls(cell: object) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant row; if a call has two ids, results refer to `call_id`."""
    calls: list[ToolCall] = []
    for item in as_list(from_json(cell)):
        fields = as_dict(item)
        function = as_dict(fields.get("function")) or fields
        name = as_str(function.get("name"))
        identity = as_str(fields.get("call_id")) or as_str(fields.get("id"))
        if name or identity:
            calls.append(ToolCall(id=identity, name=name, arguments=as_text(function.get("arguments")) or "{}"))
    return tuple(calls)


def _digest(*parts: str) -> str:
    """A short hash of texts."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.hexdigest()


class _Burst(NamedTuple):
    """Rows that one compaction wrote with its own time; `last` is the last one that Hermes itself did not write."""

    session: str
    first: int
    last: int
    end: int


class _Copies:
    """Distinguishes copies from originals; `source` is the SQL of a table with the columns of `_Row`.

    Compaction writes the part of the conversation that it keeps again, under new row ids: to the same session, or to a
    child session if Hermes is set to rotate. A branch starts with a copy of its parent. Copies are not marked, and the
    text alone cannot distinguish a copy from a user who really says "go" twice. Timestamps can:

    - a message that Hermes had loaded from the database is written with its old timestamp: same time, same text;
    - a message of the running process gets the time of the compaction, one microsecond after the row before. Rows that
      Hermes writes as things happen are never so close. Rows of such a burst are copies if the conversation had them
      before, except that the last may be the prompt that triggered the compaction: it is a copy only if it was also the
      last message before;
    - that prompt may be written again after the burst, with its own timestamp;
    - a branch is copied row by row without its timestamps, all at once, before anything else happens in it.

    Every check uses an index or a bounded range of rows, so nothing is kept between rows.
    """

    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self._connection = connection
        self._source = source
        self._burst = _Burst("", 0, 0, 0)
        self._branch = "", 0  # the last session looked up, and the last row of its copies

    def covers(self, row: _Row, body: _Body, lineage: tuple[str, ...], *, forked: bool) -> bool:
        """Whether the message of `row` is a copy of an earlier row in its lineage.

        `lineage` is the row's session, its parent, and so on; `forked` means that the session began with a copy of its
        parent.
        """
        if not isinstance(row.timestamp, int | float):
            return False
        if self.repeats(row, body, lineage):
            return True
        is_plain = row.role != "tool" and not body.calls
        burst = self._burst_of(row)
        if burst is not None:
            if is_plain and row.id == burst.last:
                return self._follows(row, body, lineage, burst.first)
            where = f"{_RECENT} AND {_ALIKE} ORDER BY id DESC"
            return self._has_row(burst.first, lineage, where, _like(row, body))
        if forked and row.id <= self._branch_end(lineage[0]):
            return self._has_row(row.id, lineage[1:], f"{_IN_LINEAGE} AND {_ALIKE}", _like(row, body))
        return is_plain and row.role == "user" and self._follows(row, body, lineage, row.id)

    def repeats(self, row: _Row, body: _Body, lineage: tuple[str, ...]) -> bool:
        """Whether an earlier row has the same timestamp and content."""
        where = f"{_IN_LINEAGE} AND {_ALIKE} AND timestamp = :at"
        return self._has_row(row.id, lineage, where, {**_like(row, body), "at": row.timestamp})

    def _rows(
        self, before: int, lineage: tuple[str, ...], where: str, values: dict[str, object], columns: str = "1"
    ) -> sqlite3.Cursor:
        query = f"SELECT {columns} FROM {self._source} WHERE id < :before AND {where}"
        bounds = {"before": before, "floor": before - MAX_DISTANCE, "lineage": json.dumps(lineage)}
        return self._connection.execute(query, {**bounds, **values})

    def _has_row(self, before: int, lineage: tuple[str, ...], where: str, values: dict[str, object]) -> bool:
        return self._rows(before, lineage, where, values).fetchone() is not None

    def _burst_of(self, row: _Row) -> _Burst | None:
        known = self._burst
        if known.session == row.session_id and known.first <= row.id <= known.end:
            return known
        query = f"""SELECT id, timestamp, substr(content, 1, 80) FROM {self._source}
            WHERE session_id = ? AND timestamp BETWEEN ? AND ? AND id BETWEEN ? AND ?"""
        reach = MAX_BURST * _TICK
        found = self._connection.execute(
            query,
            (row.session_id, row.timestamp - reach, row.timestamp + reach, row.id - MAX_BURST, row.id + MAX_BURST),
        )
        linked = [(row.id, row.content)]
        for other, moment, head in found:
            steps = other - row.id
            if steps and 0 < (moment - row.timestamp) / steps <= _TICK:
                linked.append((other, head))
        if len(linked) < 2:
            return None
        spoken = [number for number, head in linked if not _machine_made(head)]
        ids = [number for number, _ in linked]
        self._burst = _Burst(row.session_id, min(ids), max(spoken, default=max(ids)), max(ids))
        return self._burst

    def _follows(self, row: _Row, body: _Body, lineage: tuple[str, ...], before: int) -> bool:
        """Whether `row` repeats the last message before a compaction that ends right before it."""
        where, columns = f"{_RECENT} ORDER BY id DESC LIMIT {MAX_WALK}", f"id, {', '.join(_COLUMNS)}"
        for steps, cells in enumerate(self._rows(before, lineage, where, {}, columns)):
            other = _Row(*cells)
            values = {"at": other.timestamp, "role": other.role}
            if _machine_made(other.content) or self._has_row(other.id, lineage, _SAME_TIME, values):
                continue
            same = other.role == row.role and _text(other.content).strip() == body.text.strip()
            return (
                same and not other.tool_calls and (before != row.id or steps > 0 or self._burst_of(other) is not None)
            )
        return False

    def _branch_end(self, session: str) -> int:
        """The last of the rows that were written together when the session began."""
        if session != self._branch[0]:
            query = f"SELECT id, timestamp FROM {self._source} WHERE session_id = ? ORDER BY id LIMIT {MAX_BURST}"
            end, clock = 0, None
            for number, moment in self._connection.execute(query, (session,)):
                is_time = isinstance(moment, int | float)
                if not is_time or (clock is not None and not 0 <= moment - clock <= _BRANCH_GAP):
                    break
                end, clock = number, moment
            self._branch = session, end
        return self._branch[1]


def _like(row: _Row, body: _Body) -> dict[str, object]:
    """The parameters of `_ALIKE`. Compaction stores images in full; before, they are a placeholder."""
    text = body.text.strip(_BLANKS)
    return {
        "role": row.role,
        "call": row.tool_call_id if row.role == "tool" and isinstance(row.tool_call_id, str) else "",
        "calls": f'"{body.calls[0].id}"' if body.calls and body.calls[0].id else "",
        "raw": body.text if body.summary else row.content,
        "text": text,
        "shot": text.replace("[image]", "[screenshot]"),
        "blanks": _BLANKS,
    }


def _machine_made(content: object) -> bool:
    return isinstance(content, str) and content.lstrip().startswith((*_SUMMARY_OPENINGS, _TASKS_OPENING))


class _Story(NamedTuple):
    """A session with its lineage: itself and the sessions that it continues, nearest first.

    `forked` means that it began with a copy of its parent, instead of merely following it.
    """

    session: Session
    lineage: tuple[str, ...]
    sidechain: bool
    forked: bool


class _Database(Transcript[_Row]):
    """One read of one database."""

    agent = "hermes"

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.story_of = lru_cache(MAX_STORIES)(self.new_story)

    def pairs(self) -> Iterator[Pair]:
        with closing(open_database(self.path)) as self.db:
            columns = {name: table_columns(self.db, name) for name in ("sessions", "messages")}
            for name, found in columns.items():
                if not found:
                    raise LogError(f"{str(self.path)!r} has no table {name!r}; it is not a database of Hermes Agent")
            self.session_columns = columns["sessions"]
            self.messages = f"(SELECT rowid AS id, {_select(_COLUMNS, columns['messages'])} FROM messages)"
            self.sessions = f"(SELECT {_select(_SESSION_COLUMNS, columns['sessions'])} FROM sessions)"
            self.copies = _Copies(self.db, self.messages)
            last = as_int(self.state.get("row")) or 0
            query = f"SELECT id, session_id, timestamp FROM {self.messages} WHERE id <= ? ORDER BY id DESC LIMIT 1"
            row = self.db.execute(query, (last,)).fetchone()
            if row is None or _fingerprint(*row) not in as_list(self.state.get("trail")):
                last = self.state["row"] = 0
                self.state.pop("facts", None)
                self.state.pop("trail", None)
            yield from self.changed_facts(last)
            yield from self.new_messages(last)

    def value(self, query: str, *parameters: object) -> object:
        row = self.db.execute(query, parameters).fetchone()
        return row[0] if row else None

    def changed_facts(self, last: int) -> Iterator[Pair]:
        """The sessions whose rows changed. Hermes itself drops sessions without messages."""
        names: dict[str, int] = {}
        digests = [""] * _GROUPS
        query = f"SELECT * FROM {self.sessions} AS s WHERE EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
        for cells in self.db.execute(query):
            if name := as_str(cells[0]):
                group = names[name] = int(_digest(name)[:4], 16) % _GROUPS
                digests[group] = _digest(digests[group], repr(cells))[:16]
        known = as_list(self.state.get("facts"))
        for name, group in names.items():
            if known[group : group + 1] != [digests[group]]:
                story = self.story_of(name)
                is_known = self.value("SELECT 1 FROM messages WHERE session_id = ? AND rowid <= ?", name, last)
                yield story.session, None if is_known else self.system_prompt(name, story)
        self.state["facts"] = digests

    def system_prompt(self, name: str, story: _Story) -> Message | None:
        prompt: object = None
        if "system_prompt" in self.session_columns:
            prompt = self.value("SELECT system_prompt FROM sessions WHERE id = ?", name)
        if not prompt and "system_prompt_hash" in self.session_columns and table_columns(self.db, "system_prompts"):
            query = "SELECT prompt FROM system_prompts JOIN sessions ON hash = system_prompt_hash WHERE id = ?"
            prompt = self.value(query, name)
        self.native_id, self.time = f"{name}:system", story.session.started_at
        text = without_ours(_text(prompt))  # our plugin adds the preflight block
        return self.message("system", text, sidechain=story.sidechain) if text else None

    def new_story(self, name: str) -> _Story:
        chain = list(self.chain(name))
        fields, parent = chain[0], as_str(chain[0].get("parent_session_id"))
        before = self.session_row(parent) if parent else {}
        kind, sidechain = _relation(fields, before)
        # A subagent starts with an empty history, but in the working directory of its parent.
        lineage: list[str] = []
        for link, above in zip(chain, [*chain[1:], None], strict=True):
            lineage.append(link["id"])
            if above is None or _relation(link, above)[0] in (None, "subagent"):
                break
        folders = (as_str(link.get("git_repo_root")) or project_of(as_str(link.get("cwd"))) for link in chain)
        facts = {
            **fields,
            "cwd": next(filter(None, folders), ""),
            "branch": fields.get("git_branch"),
            "started": fields.get("started_at"),
            "ended": fields.get("ended_at"),
            "parent": (parent, kind),
        }
        session = replace(self.session_from(facts), usage=usage_of(fields, *_TOKENS))
        forked = kind == "branch" and (
            _config(fields).get("_branched_from") == parent or before.get("end_reason") == "branched"
        )
        return _Story(session, tuple(lineage), sidechain, forked)

    def session_row(self, name: str) -> Fields:
        cells = self.db.execute(f"SELECT * FROM {self.sessions} WHERE id = ?", (name,)).fetchone()
        return dict(zip(_SESSION_COLUMNS, cells, strict=True)) if cells else {}

    def chain(self, name: str) -> Iterator[Fields]:
        """The rows of a session and its ancestors."""
        seen: set[str] = set()
        while name and name not in seen and len(seen) < MAX_ANCESTORS:
            seen.add(name)
            fields = self.session_row(name)
            yield {**fields, "id": name}
            name = as_str(fields.get("parent_session_id"))

    def new_messages(self, last: int) -> Iterator[Pair]:
        query = f"SELECT * FROM {self.messages} WHERE id > ? ORDER BY id LIMIT {_PAGE}"
        while page := self.db.execute(query, (last,)).fetchall():
            for cells in page:
                row = _Row(*cells)
                if row.id <= last:  # the next page would begin here again, in an endless loop
                    raise sqlite3.DatabaseError("rows are out of order: database disk image is malformed")
                yield from self.take_row(row)
                last = self.state["row"] = row.id
                trail = [*as_list(self.state.get("trail")), _fingerprint(row.id, row.session_id, row.timestamp)]
                self.state["trail"] = trail[-_TRAIL:]

    def take_row(self, row: _Row) -> list[Pair]:
        if not as_str(row.session_id) or not as_str(row.role):
            self.reading.report(row.id, "message without a session or a role")
        elif row.active == 0 and not row.compacted:
            self.reading.skip("undone")
        elif row.role not in get_args(Role):
            self.reading.skip(f"role {row.role}")
        else:
            story = self.story_of(row.session_id)
            try:
                return [(story.session, message) for message in self.messages_of(row, story)]
            except (RecursionError, ValueError, OverflowError) as error:
                self.reading.report(row.id, error)
        return []

    def messages_of(self, row: _Row, story: _Story) -> list[Message]:
        body, lineage = _body(row), story.lineage
        if row.tool_calls and not body.calls:
            self.reading.report(row.id, "tool_calls are not a list of calls")
        messages: list[Message] = []
        if body.text or body.calls or not body.summary:
            if self.copies.covers(row, body, lineage, forked=story.forked):
                self.reading.skip("copy")
            elif is_ours(message := self.message_of(row, body, story)) and (
                PACKET not in message.text  # a packet shows which session this one continues
            ):
                self.reading.skip("ours")
            else:
                messages.append(message)
        if body.summary:
            if self.copies.repeats(row, _Body(_text(row.content), (), ""), lineage):
                self.reading.skip("copy")
            else:
                messages.append(self.message_of(row, body, story, summary=True))
        return messages[::-1] if body.leading else messages

    def message_of(self, row: _Row, body: _Body, story: _Story, *, summary: bool = False) -> Message:
        """The message of a row, or the summary that may share the row."""
        root, call, calls = story.lineage[-1], as_text(row.tool_call_id), as_text(row.tool_calls) if body.calls else ""
        # Call ids are unique, so only rows without one need their timestamp.
        moment = "" if calls or call else repr(row.timestamp)
        self.native_id, self.time = _digest(root, row.role, call, calls, body.text, moment), as_time(row.timestamp)
        text, role = body.text, row.role
        facts: dict[str, Any] = {"sidechain": story.sidechain}
        if summary:
            # It is identified by its text: the next compaction may repeat it unchanged.
            self.native_id = _digest(root, "summary", body.summary)
            text, role = body.summary, "assistant" if role == "assistant" else "user"
            facts["compaction_summary"] = True
        elif role == "tool":
            text, facts["tool_results"] = "", (self.result_of(call, text),)
        elif role == "assistant":
            facts["reasoning"] = as_str(row.reasoning) or as_str(row.reasoning_content)
            facts |= {"tool_calls": body.calls, "usage": usage_of({"output": row.token_count}, "", "output")}
        else:
            facts["injected"] = row.display_kind == "hidden" or text.startswith(_TASKS_OPENING)
        return self.message(role, text, **facts)

    def result_of(self, call_id: str, text: str) -> ToolResult:
        """The result of a call from the tool's answer."""
        fields = object_in(text)
        success = fields.get("success")
        flag = success if isinstance(success, bool) else False if fields.get("error") else None
        return self.result(call_id, text, flag=flag, exit_code=as_int(fields.get("exit_code")))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means success."""
        fields, text, code, flag = object_in(result.text), result.text, result.exit_code, result.flag
        if not fields:
            if _REFUSED.match(text.lstrip("[ \n")):
                return "rejected"
            # Redaction may have made the object unreadable; what was read from it before still counts.
            return "error" if code or flag is False or FAILED.match(text) else "ok"
        complaint = as_text(fields.get("error"))
        refused = fields.get("status") == "blocked" and complaint.startswith("BLOCKED")
        if refused or _REFUSED.search(complaint[:2000]):
            return "rejected"
        if fields.get("approval_pending") is True:
            return "unknown"
        if complaint and fields.get("error") not in (False, [], {}):
            return "error"
        if code and not _HARMLESS.search(as_str(fields.get("exit_code_meaning"))):
            return "error"
        return "error" if flag is False else "ok"


class HermesReader(Reader):
    """Reads the sessions of every profile of Hermes Agent."""

    log = _Database

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        chosen = env.get("HERMES_HOME", "").strip()
        return [Path(chosen).expanduser() if chosen else home / ".hermes"]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file():
            return [root]
        return [path for folder in self.folders(root) if (path := folder / _NAME).is_file()]

    def folders(self, root: Path) -> Iterable[Path]:
        return [root, root / "profiles", *sorted((root / "profiles").glob("*/"))]

    def claims(self, path: Path, head: bytes) -> bool:
        if not head.startswith(SQLITE):
            return False
        try:
            with closing(open_database(path)) as db:
                return all(marks <= table_columns(db, table) for table, marks in _MARKS.items())
        except (sqlite3.Error, UnicodeDecodeError):
            # It has Hermes' file name; reading it reports what is wrong.
            return path.name == _NAME

    def explain(self, path: Path, error: Exception) -> str:
        reason = " ".join(str(error).split())
        if "unable to open" in reason or "readonly" in reason:
            return (
                f"cannot open {str(path)!r}: SQLite must be able to read it and to create {path.name + '-shm'!r} next"
                " to it; make that folder writable, or make a copy with `sqlite3 … '.backup'` and import that"
            )
        if "locked" in reason or "busy" in reason:
            return f"{str(path)!r} is locked by a running Hermes ({reason}); try again in a moment"
        return f"cannot read {str(path)!r} ({reason}); if Hermes cannot either, run `hermes sessions repair`"


def _relation(fields: Fields, before: Fields) -> tuple[ParentKind | None, bool]:
    """The relation of a session to its parent, and whether it is a subagent's.

    A session after a compaction inherits the config of the one before: if it names another session than the parent, it
    is about an ancestor, not about this session.
    """
    parent, config = as_str(fields.get("parent_session_id")), _config(fields)
    delegated = config.get("_delegate_from")
    sidechain = fields.get("source") == "subagent" or delegated is not None
    if not parent:
        return None, sidechain
    compacted = before.get("end_reason") == "compression"
    if delegated == parent or (sidechain and (delegated is None or not compacted)):
        return "subagent", sidechain
    if config.get("_branched_from") == parent or not compacted:
        return "branch", sidechain
    return "compaction", sidechain


def _config(fields: Fields) -> Fields:
    return as_dict(from_json(fields.get("model_config")))


def _select(wanted: Iterable[str], present: set[str]) -> str:
    return ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)


def _fingerprint(number: int, session: object, timestamp: object) -> str:
    """A digest that identifies a row in this database."""
    return _digest(repr((number, session, timestamp)))[:16]
