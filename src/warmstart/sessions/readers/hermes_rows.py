"""The rows of Hermes' `messages` table: which messages are in one, and which are copies of earlier ones.

- `content` is text, or a NUL byte, `json:` and a list of parts. `api_content` also has what plugins injected, so it is
  not read.
- A summary of compaction is an ordinary row of the user or the assistant. Its opening words show it (or the column
  `_compressed_summary` of later versions). It may share its row with an older message, before or after it, whose tool
  calls are then still in the row. Such a row becomes two messages.
- What Warmstart wrote into a session (the rows it started from, a hint after a result) is not read.
- No column says that a tool failed. Results are JSON objects with `error`, `success` or `exit_code`, where a failing
  command has `"error": null`, or plain text with known openings. Hermes explains exit codes that are not errors (grep
  that finds nothing) in `exit_code_meaning`.

Compaction writes the part of the conversation that it keeps once more, under new row ids: into the same session, or
into a child session if Hermes is set to rotate. A branch starts with a copy of its parent. Nothing marks the copies,
and the words alone cannot distinguish a copy from a person who really says "go" twice. Times can:

- a message that Hermes had loaded from the database is written with its old time: same time, same words;
- a message of the running process gets the time of the compaction, one microsecond after the row before. Rows that
  Hermes writes as things happen are never so close. Rows of such a burst are copies if the conversation had them
  before, except that the last may be the prompt that triggered the compaction: it is a copy only if it was also the
  last message before;
- that prompt may be written again after the burst, with a time of its own;
- a branch is copied row by row without its times, all at once, before anything else happens in it.

Every question is answered by an index or in a bounded range of rows, so nothing is kept between rows.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from warmstart.sessions.marks import without_ours
from warmstart.sessions.readers.content import as_text, from_json, joined, object_in
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.openai import FAILED
from warmstart.sessions.values import CallOutcome, Message, Role, ToolCall, ToolResult

SUMMARY_OPENINGS = ("[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:")
# Hermes appends the open tasks as a message of the user when it compacts.
TASKS_OPENING = "[Your active task list was preserved across context compression]"

_PARTS = "\0json:"
_BEFORE = "[PRIOR CONTEXT — for reference only; not a new message]"
_BELOW = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
_END = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"

_REFUSED = re.compile(
    r"BLOCKED: User denied|denied by user|NOT consented|explicitly rejected it"
    r"|Tool execution cancelled|was skipped due to user interrupt",
    re.IGNORECASE,
)
# Hermes also explains exit codes that are errors (curl's) or may be (git's).
_HARMLESS = re.compile(r"not an error|partial results", re.IGNORECASE)

_TICK = 1.3e-6  # a burst adds a microsecond per row; a double is exact to a quarter of one
MAX_BURST = 2_000  # rows
MAX_DISTANCE = 20_000  # rows between a copy and its original: far more than a context window has
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


class Row(NamedTuple):
    """A row from SQLite: any column may be missing (`None`) or of any type."""

    id: int
    session_id: Any
    role: Any
    content: Any
    tool_call_id: Any
    tool_calls: Any
    timestamp: Any
    token_count: Any
    reasoning: Any
    reasoning_content: Any
    active: Any
    compacted: Any
    compressed_summary: Any
    display_kind: Any


# A named tuple cannot have a field that begins with an underscore.
COLUMNS = tuple("_compressed_summary" if name == "compressed_summary" else name for name in Row._fields[1:])


class Body(NamedTuple):
    """A row's own text, its calls, and a summary that shares the row; `leading` means that the summary comes first."""

    text: str
    calls: tuple[ToolCall, ...]
    summary: str
    leading: bool = False


def body_of(row: Row) -> Body:
    """The parts of a row's content."""
    text = text_of(row.content)
    calls = calls_of(row.tool_calls)
    if row.role == "tool":
        ours = without_ours(text)  # a hint after the output of a failing call
        return Body(text if ours == text else ours.rstrip(), (), "")
    if _BELOW in text:
        own, _, rest = text.partition(_BELOW)
        if row.compressed_summary or rest.lstrip().startswith(SUMMARY_OPENINGS):
            return Body(own.strip().removeprefix(_BEFORE).strip(), calls, rest.strip())
    if text.lstrip().startswith(SUMMARY_OPENINGS):
        summary, _, own = text.partition(_END)
        return Body(own.strip(), calls, summary.strip(), leading=True)
    if row.compressed_summary:
        return Body("", calls, text)
    return Body(text, calls, "")


def text_of(content: object) -> str:
    """The text of a `content` cell."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    if isinstance(content, str) and content.startswith(_PARTS):
        parts = from_json(content[len(_PARTS) :])
        content = content if parts is None else joined(parts)
    return as_text(content).encode("utf-8", "replace").decode()  # JSON can contain half a surrogate pair


def calls_of(cell: object) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant's row; the id that results refer to is `call_id` where there are two."""
    calls: list[ToolCall] = []
    for item in as_list(from_json(cell)):
        fields = as_dict(item)
        function = as_dict(fields.get("function")) or fields
        name = as_str(function.get("name"))
        identity = as_str(fields.get("call_id")) or as_str(fields.get("id"))
        if name or identity:
            calls.append(ToolCall(id=identity, name=name, arguments=as_text(function.get("arguments")) or "{}"))
    return tuple(calls)


def message_of(row: Row, body: Body, root: str, *, sidechain: bool, summary: bool = False) -> Message:
    """The message of a row, or the summary that may share the row."""
    call, calls = as_text(row.tool_call_id), as_text(row.tool_calls) if body.calls else ""
    # Ids of calls are unique, so only rows without one need their time.
    moment = "" if calls or call else repr(row.timestamp)
    facts: dict[str, Any] = {"text": body.text}
    native_id = digest(root, as_text(row.role), call, calls, body.text, moment)
    if summary:
        # Its text is its identity: the next compaction may repeat it unchanged.
        native_id = digest(root, "summary", body.summary)
        facts = {"text": body.summary, "compaction_summary": True}
    elif row.role == "tool":
        facts = {"tool_results": (result_of(call, body.text),)}
    elif row.role == "assistant":
        facts["reasoning"] = as_str(row.reasoning) or as_str(row.reasoning_content)
        facts |= {"tool_calls": body.calls, "usage": usage_of({"output": row.token_count}, "", "output")}
    else:
        facts["injected"] = row.display_kind == "hidden" or body.text.startswith(TASKS_OPENING)
    role: Role = "user" if summary and row.role != "assistant" else row.role
    return Message(native_id=native_id, role=role, timestamp=as_time(row.timestamp), sidechain=sidechain, **facts)


def digest(*parts: str) -> str:
    """A short hash of texts."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.hexdigest()


def result_of(call_id: str, text: str) -> ToolResult:
    """The result of a call, by the tool's answer."""
    fields = object_in(text)
    success = fields.get("success")
    flag = success if isinstance(success, bool) else False if fields.get("error") else None
    code = as_int(fields.get("exit_code"))
    result = ToolResult(call_id=call_id, outcome="unknown", text=text, flag=flag, exit_code=code)
    return replace(result, outcome=outcome_of(result))


def outcome_of(result: ToolResult) -> CallOutcome:
    """The outcome of a result; `flag` means success."""
    fields, text, code, flag = object_in(result.text), result.text, result.exit_code, result.flag
    if not fields:
        if _REFUSED.match(text.lstrip("[ \n")):
            return "rejected"
        # The object may be unreadable since redaction; what was read from it before still counts.
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


# Copies


class Burst(NamedTuple):
    """Rows that one compaction wrote with its own time; `last` is the last one that is not Hermes' own text."""

    session: str
    first: int
    last: int
    end: int


class Copies:
    """Distinguishes copies from originals; `source` is the SQL of a table with the columns of `Row`."""

    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self._connection = connection
        self._source = source
        self._burst = Burst("", 0, 0, 0)
        self._branch = "", 0  # the last session asked for, and the end of its copies

    def covers(self, row: Row, body: Body, lineage: tuple[str, ...], *, forked: bool) -> bool:
        """Whether the message of `row` is in an earlier row of its lineage.

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

    def repeats(self, row: Row, body: Body, lineage: tuple[str, ...]) -> bool:
        """Whether an earlier row has the same time and content."""
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

    def _burst_of(self, row: Row) -> Burst | None:
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
        said = [number for number, head in linked if not _machine_made(head)]
        ids = [number for number, _ in linked]
        self._burst = Burst(row.session_id, min(ids), max(said, default=max(ids)), max(ids))
        return self._burst

    def _follows(self, row: Row, body: Body, lineage: tuple[str, ...], before: int) -> bool:
        """Whether `row` repeats the last thing said before a compaction that ends right before it."""
        where, columns = f"{_RECENT} ORDER BY id DESC LIMIT {MAX_WALK}", f"id, {', '.join(COLUMNS)}"
        for steps, cells in enumerate(self._rows(before, lineage, where, {}, columns)):
            other = Row(*cells)
            values = {"at": other.timestamp, "role": other.role}
            if _machine_made(other.content) or self._has_row(other.id, lineage, _SAME_TIME, values):
                continue
            same = other.role == row.role and text_of(other.content).strip() == body.text.strip()
            return (
                same and not other.tool_calls and (before != row.id or steps > 0 or self._burst_of(other) is not None)
            )
        return False

    def _branch_end(self, session: str) -> int:
        """The last of the rows that were written at once when the session began."""
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


def _like(row: Row, body: Body) -> dict[str, object]:
    """The parameters of `_ALIKE`. Compaction stores images in full; before it they are a word."""
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
    return isinstance(content, str) and content.lstrip().startswith((*SUMMARY_OPENINGS, TASKS_OPENING))
