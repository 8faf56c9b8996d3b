"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json` (one object) and `session-*.jsonl` (since 0.5x).

The folder is named by the SHA-256 of the project's path (older) or by a short name (newer), with the path in
`.project_root` beside `chats`, and in `projects.json` above.

Traps, and what is done about them:

- A line with an id replaces the earlier line with that id: a response is written first without its tool calls, then
  again with them. Both are handed on; the last one counts.
- Every tool result stands twice: in `toolCalls[].result` of the response, and as a user message made of
  `functionResponse` parts. The second is passed over. After a rewrite `result` may hold the answers to all calls of the
  turn, so the answer is picked by the id of the call.
- `{"$set": {"messages": [...]}}` restates the whole history, on resume without models, tokens and tool calls and with a
  new time: known ids in it are passed over. On compression and when old outputs are masked, the kept history is written
  again under new ids; copies are told by their text (or call ids), which `Reading.state` keeps as short digests.
- `$rewindTo` takes messages back. They happened all the same, so they stay.
- Ids are unique within a session only: the id of the opening context is the same in every session.
- A failing shell command is `success`. Its exit code stands in the last lines of the output: always (older), or only
  when it is not 0 (newer).
- The chat of a subagent lies in `chats/<session id of its parent>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b, sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers import document
from warmstart.sessions.readers.base import Pair, Reading, decoded
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode
from warmstart.sessions.readers.fields import as_dict, as_list, as_str, as_time, from_json
from warmstart.sessions.readers.gemini_messages import Record, assistant_messages, is_summary, text_of, user_messages
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import Message, Session, session_id

AGENT = "gemini-cli"

_HEAD = re.compile(rb'\s*\{\s*"sessionId"\s*:\s*"[^"]+"\s*,\s*"projectHash"\s*:\s*"[^"]+"')
_ACKNOWLEDGEMENT = "Got it. Thanks for the additional context!"
_FACTS = ("sessionId", "projectHash", "startTime", "lastUpdated", "kind", "summary")


class Document(Record):
    """A whole chat as one object; its messages are decoded one by one."""

    messages: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"[]"))


_RECORD = msgspec.json.Decoder(Record)
_DOCUMENT = msgspec.json.Decoder(Document)
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_SUFFIXES = (".json", ".jsonl")


class GeminiReader:
    """Reads the chats of Gemini CLI."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file():
            return [root]
        files = sorted(files_below(root, lambda name: name.endswith(_SUFFIXES)))
        # Chats that were copied elsewhere may have any name; at home, any other name is not a chat.
        if ".gemini" in root.parts or any(_is_chat(path) for path in files):
            # What has another name altogether is a folder that cannot be listed.
            return [path for path in files if _is_chat(path) or not path.name.endswith(_SUFFIXES)]
        return files

    def claims(self, path: Path, head: bytes) -> bool:
        if path.suffix not in (".json", ".jsonl"):
            return False
        if _HEAD.match(head):
            return True
        try:
            first = decode(head.split(b"\n", 1)[0] if path.suffix == ".jsonl" else head, _RECORD)
        except DECODE_ERRORS:
            return False
        return bool(as_str(first.sessionId) and as_str(first.projectHash))

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            yield from _lines(path, reading) if path.suffix == ".jsonl" else _whole(path, reading)
        except OSError as error:
            raise LogError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _is_chat(path: Path) -> bool:
    return path.name.startswith("session-") or "chats" in (path.parent.name, path.parent.parent.name)


def _whole(path: Path, reading: Reading) -> Iterator[Pair]:
    loaded = document.load(path, reading, _DOCUMENT)
    if loaded is None:
        return
    head, size = loaded

    def finish() -> None:
        reading.offset = size

    reading.offset = 0
    yield from document.ending(_messages(head, _Chat(path, {}), reading), finish)


def _messages(head: Document, chat: _Chat, reading: Reading) -> Iterator[Pair]:
    try:
        listed = decode(head.messages, _RAW_LIST)
    except DECODE_ERRORS as error:
        reading.fault(1, error)
        return
    chat.learn(msgspec.structs.asdict(head))
    for number, raw in enumerate(listed, 1):
        try:
            record = decode(raw, _RECORD)
        except DECODE_ERRORS as error:
            reading.fault(number, error)
            continue
        record.id = as_str(record.id) or f"#{number}"
        yield from chat.said(record, reading)


def _lines(path: Path, reading: Reading) -> Iterator[Pair]:
    chat = _Chat(path, reading.state)
    for _, group in groupby(decoded(path, reading, _RECORD), key=lambda item: item[0].number):
        items = list(group)
        pairs = [pair for _, record in items for pair in chat.take(record, reading)]
        yield from pairs[:-1]
        line = items[0][0]
        reading.offset, reading.line = line.end, line.number
        chat.save(reading.state)
        yield from pairs[-1:]


class _Chat:
    """What is known of a chat so far: its facts, and which messages were seen."""

    def __init__(self, path: Path, state: Mapping[str, Any]) -> None:
        self.path = path
        self.facts = {key: value for key, value in as_dict(state.get("facts")).items() if isinstance(value, str)}
        self.known = {mark for mark in as_list(state.get("seen")) if isinstance(mark, str)}
        self.fresh: list[str] = []
        self.replay = state.get("replay") is True
        self.root: str | None = None

    def save(self, state: dict[str, Any]) -> None:
        state["facts"] = dict(self.facts)
        state["replay"] = self.replay
        if not isinstance(state.get("seen"), list):
            state["seen"] = []
        state["seen"] += self.fresh
        self.fresh = []

    def take(self, record: Record, reading: Reading) -> list[Pair]:
        """The pairs of one line."""
        if isinstance(record.rewind, str):
            reading.skip("$rewindTo")
            return []
        if as_str(record.id):
            self.replay = _opens_replay(record) or (self.replay and not as_str(record.model))
            return self.again(record, reading) if self.replay else self.said(record, reading)
        if isinstance(record.change, dict):
            return self.changed(record.change, reading)
        if not as_str(record.sessionId):
            reading.skip("unknown record")
            return []
        self.learn(msgspec.structs.asdict(record))
        return [pair for item in _records(record.messages) for pair in self.said(item, reading)]

    def changed(self, change: dict[str, Any], reading: Reading) -> list[Pair]:
        title = self.facts.get("summary", "")
        self.learn(change)
        pairs: list[Pair] = [(self.session(), None)] if self.facts.get("summary", "") != title else []
        if "messages" in change:
            self.replay = False
            pairs += [pair for item in _records(change["messages"]) for pair in self.again(item, reading)]
        return pairs

    def learn(self, facts: Mapping[str, Any]) -> None:
        for key in _FACTS:
            value = as_str(facts.get(key))
            # A resumed chat states a new start; the first one is the true one.
            if value and not (key == "startTime" and key in self.facts):
                self.facts[key] = value
        for folder in as_list(facts.get("directories"))[:1]:
            self.facts["directory"] = as_str(folder)

    def said(self, record: Record, reading: Reading) -> list[Pair]:
        """The message of `record` and the results of its calls."""
        messages = self.built(record, reading)
        for message in messages[:1]:
            self.mark(message)
        sidechain = self.facts.get("kind") == "subagent"
        return [(self.session(), replace(message, sidechain=sidechain)) for message in messages]

    def again(self, record: Record, reading: Reading) -> list[Pair]:
        """The same for a restated history: only what was never said before."""
        messages = self.built(record, reading)
        if messages and (self.known.intersection(_marks(messages[0])) or messages[0].text == _ACKNOWLEDGEMENT):
            self.mark(messages[0])
            reading.skip("restated message")
            return []
        return self.said(record, reading) if messages else []

    def built(self, record: Record, reading: Reading) -> list[Message]:
        native = f"{self.native_id}/{as_str(record.id)}"
        if record.type == "user":
            messages = user_messages(record, native)
        elif record.type == "gemini":
            self.facts["model"] = as_str(record.model) or self.facts.get("model", "")
            messages = assistant_messages(record, native)
        else:
            reading.skip(as_str(record.type) or "unknown message")
            return []
        if not messages:
            reading.skip("tool response" if record.type == "user" else "empty message")
        written, latest = as_time(as_str(record.timestamp)), as_time(self.facts.get("lastUpdated"))
        if written and (latest is None or written > latest):
            self.facts["lastUpdated"] = as_str(record.timestamp)
        return messages

    def mark(self, message: Message) -> None:
        fresh = [mark for mark in _marks(message) if mark not in self.known]
        self.known.update(fresh)
        self.fresh += fresh

    @property
    def native_id(self) -> str:
        return self.facts.get("sessionId") or self.path.stem

    def session(self) -> Session:
        folder = self.path.parent
        parent = folder.name if self.facts.get("kind") == "subagent" and folder.parent.name == "chats" else ""
        return Session(
            agent=AGENT,
            native_id=self.native_id,
            project=self.project(),
            model=self.facts.get("model", ""),
            title=self.facts.get("summary", ""),
            source=str(self.path),
            started_at=as_time(self.facts.get("startTime")),
            ended_at=as_time(self.facts.get("lastUpdated")),
            parent_id=session_id(AGENT, parent) if parent else None,
            parent_kind="subagent" if parent else None,
        )

    def project(self) -> str:
        if self.root is None:
            self.root = _project(self.path, self.facts.get("projectHash", ""))
        return self.root or project_of(self.facts.get("directory", ""))


def _records(listed: object) -> Iterator[Record]:
    for item in as_list(listed):
        if isinstance(item, dict) and as_str(item.get("id")):
            yield msgspec.convert(item, Record)


def _opens_replay(record: Record) -> bool:
    text = text_of(record.content)
    return record.type == "user" and (text.lstrip().startswith("<session_context>") or is_summary(text))


def _marks(message: Message) -> tuple[str, str]:
    said = message.text or ",".join(call.id for call in message.tool_calls)
    return _digest(message.native_id), _digest(f"{message.role}\0{said or message.native_id}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _project(path: Path, project_hash: str) -> str:
    """The project's path from the files that Gemini CLI keeps beside its chats, or nothing."""
    chats = next((folder for folder in path.parents if folder.name == "chats"), None)
    if chats is None:
        return ""
    home = chats.parent
    if root := _small(home / ".project_root").strip():
        return project_of(root)
    for root, name in as_dict(as_dict(from_json(_small(home.parent.parent / "projects.json"))).get("projects")).items():
        if name == home.name or sha256(root.encode("utf-8", "replace")).hexdigest() == project_hash:
            return project_of(root)
    return ""


def _small(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * 1024 * 1024).decode("utf-8", "replace")
    except OSError:
        return ""
