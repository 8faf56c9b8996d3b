"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json` (one object) and `session-*.jsonl` (since 0.5x).

The project's folder is named by the SHA-256 of its path (older) or by a short name (newer). The path itself is in
`.project_root` beside `chats`, and in `projects.json` above. Traps of the format:

- A line replaces an earlier line with the same id: a response is written first without its tool calls, then with them.
  Both are yielded; the last one counts.
- Every tool result is there twice: in `toolCalls[].result` of the response, and as a user message of `functionResponse`
  parts, which is skipped. After a rewrite `result` may hold the answers to all calls of the turn.
- `{"$set": {"messages": [...]}}` restates the whole history: on resume without models, tokens and tool calls and with a
  new time, on compression and masking under new ids. Copies are recognised by id, or by text and call ids, of which
  `Reading.state` keeps short digests.
- `$rewindTo` undoes messages. They happened, so they stay.
- Ids are unique within a session only.
- A failing shell command has status `success`. Its exit code is in the last lines of the output.
- Hooks add `<hook_context>` to the user's text and to the end of a tool's output: it is removed from both.
- The chat of a subagent is in `chats/<session id of its parent>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import LogReader, Pair, Reading, files_below
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line, decode, hold_last, load_document
from warmstart.sessions.readers.fields import (
    as_dict,
    as_int,
    as_json,
    as_list,
    as_str,
    as_text,
    as_time,
    from_json,
    join_blocks,
    usage_of,
)
from warmstart.sessions.readers.transcript import Transcript
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

AGENT = "gemini-cli"
_SUFFIXES = (".json", ".jsonl")
_SHELL = "run_shell_command"
_ACKNOWLEDGEMENT = "Got it. Thanks for the additional context!"
_FACTS = ("sessionId", "projectHash", "startTime", "lastUpdated", "kind", "summary")
_HEAD = re.compile(rb'\s*\{\s*"sessionId"\s*:\s*"[^"]+"\s*,\s*"projectHash"\s*:\s*"[^"]+"')
_HOOK, _END_HOOK = "<hook_context>", "</hook_context>"
_CONTEXT = re.compile(r"\A(?:\s*<(session_context|loaded_context)>.*?</\1>)+\s*", re.DOTALL)
# How context begins, and what Gemini CLI says to a model that stopped too early or loops.
_MACHINE = re.compile(
    r"\s*(?:<(?:session|loaded|hook)_context>|This is the Gemini CLI\. We are setting up the context"
    r"|You have [^.\n]{1,80}\. You have one final chance to complete the task"
    r"|System: (?:Please continue\.|Potential loop detected\.))"
)
_CANCELLED = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was cancelled by user")
_TIMED_OUT = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was automatically cancelled")
_TRAILER = ("Exit Code", "Signal", "Background PIDs", "Process Group PGID")


_Record = dict[str, Any]  # a message, facts of the session, or a change to them
_RECORD = msgspec.json.Decoder(_Record)


class GeminiReader(LogReader):
    """Reads the chats of Gemini CLI."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file():
            return [root]
        files = sorted(files_below(root, lambda name: name.endswith(_SUFFIXES)))
        # Chats that were copied elsewhere may have any name.
        if ".gemini" in root.parts or any(_is_chat(path) for path in files):
            # A path with another suffix is a folder that cannot be listed.
            return [path for path in files if _is_chat(path) or not path.name.endswith(_SUFFIXES)]
        return files

    def claims(self, path: Path, head: bytes) -> bool:
        if path.suffix not in _SUFFIXES:
            return False
        if _HEAD.match(head):
            return True
        try:
            first = decode(head.split(b"\n", 1)[0] if path.suffix == ".jsonl" else head, _RECORD)
        except DECODE_ERRORS:
            return False
        return bool(as_str(first.get("sessionId")) and as_str(first.get("projectHash")))

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        return _Chat(path, reading).pairs() if path.suffix == ".jsonl" else _document_pairs(path, reading)

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. Only a cancelled call has none, and stays `rejected`."""
        if result.flag is None and result.outcome == "rejected":
            return "rejected"
        return _outcome(tool, _without_hooks(result.text), result.flag)


def _is_chat(path: Path) -> bool:
    return path.name.startswith("session-") or "chats" in (path.parent.name, path.parent.parent.name)


def _document_pairs(path: Path, reading: Reading) -> Iterator[Pair]:
    loaded = load_document(path, reading, _RECORD)
    if loaded is None:
        return
    reading.offset = 0
    # A changed document is read from its start, so nothing is kept in the state.
    chat = _Chat(path, Reading(path))
    chat.reading = reading

    def finish() -> None:
        reading.offset = loaded[1]

    yield from hold_last(chat.take_document(loaded[0]), finish)


class _Chat(Transcript[_Record]):
    """The chat so far: its facts, and digests of the messages seen. `move` puts them into the state."""

    agent = AGENT
    decoder = _RECORD

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.facts: dict[str, str] = dict(self.state.get("facts", {}))
        self.seen: set[str] = set(self.state.get("seen", ()))
        self.new_digests: list[str] = []
        self.is_replay = self.state.get("replay") is True
        self.root: str | None = None

    def move(self, line: Line) -> None:
        super().move(line)
        self.state["facts"], self.state["replay"] = dict(self.facts), self.is_replay
        self.state.setdefault("seen", []).extend(self.new_digests)
        self.new_digests = []

    def take(self, record: _Record, line: Line) -> list[Pair]:
        if isinstance(record.get("$rewindTo"), str):
            self.reading.skip("$rewindTo")
            return []
        if as_str(record.get("id")):
            self.is_replay = _opens_replay(record) or (self.is_replay and not as_str(record.get("model")))
            return self.take_again(record) if self.is_replay else self.take_message(record)
        if isinstance(change := record.get("$set"), dict):
            return self.change(change)
        if not as_str(record.get("sessionId")):
            self.reading.skip("unknown record")
            return []
        self.learn_facts(record)
        return [pair for item in _listed(record.get("messages")) for pair in self.take_message(item)]

    def take_document(self, document: _Record) -> Iterator[Pair]:
        messages = document.get("messages", [])
        if not isinstance(messages, list):
            self.reading.report(1, "`messages` is not a list")
            return
        self.learn_facts(document)
        for number, record in enumerate(messages, 1):
            if isinstance(record, dict):
                yield from self.take_message({**record, "id": as_str(record.get("id")) or f"#{number}"})
            else:
                self.reading.report(number, "the message is not a JSON object")

    def change(self, change: dict[str, Any]) -> list[Pair]:
        title = self.facts.get("summary", "")
        self.learn_facts(change)
        pairs: list[Pair] = [(self.session, None)] if self.facts.get("summary", "") != title else []
        if "messages" in change:
            self.is_replay = False
            pairs += [pair for item in _listed(change["messages"]) for pair in self.take_again(item)]
        return pairs

    def learn_facts(self, facts: Mapping[str, Any]) -> None:
        for key in _FACTS:
            value = as_str(facts.get(key))
            # A resumed chat states a new start; the first one is right.
            if value and not (key == "startTime" and key in self.facts):
                self.facts[key] = value
        for folder in as_list(facts.get("directories"))[:1]:
            self.facts["directory"] = as_str(folder)

    def take_message(self, record: _Record) -> list[Pair]:
        """The message of `record` and the results of its calls."""
        messages = self.messages(record)
        for message in messages[:1]:
            self.mark_seen(message)
        sidechain = self.facts.get("kind") == "subagent"
        return [(self.session, replace(message, sidechain=sidechain)) for message in messages]

    def take_again(self, record: _Record) -> list[Pair]:
        """The same for a restated history: only what is new in it."""
        messages = self.messages(record)
        if messages and (self.seen.intersection(_digests(messages[0])) or messages[0].text == _ACKNOWLEDGEMENT):
            self.mark_seen(messages[0])
            self.reading.skip("restated message")
            return []
        return self.take_message(record) if messages else []

    def messages(self, record: _Record) -> list[Message]:
        native_id = f"{self.chat_id}/{as_str(record.get('id'))}"
        if record.get("type") == "user":
            messages = _user_messages(record, native_id)
        elif record.get("type") == "gemini":
            self.facts["model"] = as_str(record.get("model")) or self.facts.get("model", "")
            messages = _assistant_messages(record, native_id)
        else:
            self.reading.skip(as_str(record.get("type")) or "unknown message")
            return []
        if not messages:
            self.reading.skip("tool response" if record.get("type") == "user" else "empty message")
        written, latest = as_time(as_str(record.get("timestamp"))), as_time(self.facts.get("lastUpdated"))
        if written and (latest is None or written > latest):
            self.facts["lastUpdated"] = as_str(record.get("timestamp"))
        return messages

    def mark_seen(self, message: Message) -> None:
        new = [digest for digest in _digests(message) if digest not in self.seen]
        self.seen.update(new)
        self.new_digests += new

    @property
    def chat_id(self) -> str:
        return self.facts.get("sessionId") or self.path.stem

    @property
    def session(self) -> Session:
        folder = self.path.parent
        parent = folder.name if self.facts.get("kind") == "subagent" and folder.parent.name == "chats" else ""
        if self.root is None:
            self.root = _project_root(self.path, self.facts.get("projectHash", ""))
        return Session(
            agent=AGENT,
            native_id=self.chat_id,
            project=project_of(self.root or self.facts.get("directory", "")),
            model=self.facts.get("model", ""),
            title=self.facts.get("summary", ""),
            source=str(self.path),
            started_at=as_time(self.facts.get("startTime")),
            ended_at=as_time(self.facts.get("lastUpdated")),
            parent_id=session_id(AGENT, parent) if parent else None,
            parent_kind="subagent" if parent else None,
        )


def _listed(messages: object) -> list[_Record]:
    return [item for item in as_list(messages) if isinstance(item, dict) and as_str(item.get("id"))]


def _opens_replay(record: _Record) -> bool:
    text = _text(record.get("content"))
    return record.get("type") == "user" and (text.lstrip().startswith("<session_context>") or _is_summary(text))


def _digests(message: Message) -> tuple[str, str]:
    content = message.text or ",".join(call.id for call in message.tool_calls) or message.native_id
    return _digest(message.native_id), _digest(f"{message.role}\0{content}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _project_root(path: Path, project_hash: str) -> str:
    """The project's path from the files that Gemini CLI keeps beside its chats; empty if there are none."""
    chats = next((folder for folder in path.parents if folder.name == "chats"), None)
    if chats is None:
        return ""
    home = chats.parent
    if root := _read_small(home / ".project_root").strip():
        return root
    projects = as_dict(as_dict(from_json(_read_small(home.parent.parent / "projects.json"))).get("projects"))
    for root, name in projects.items():
        if name == home.name or sha256(root.encode("utf-8", "replace")).hexdigest() == project_hash:
            return str(root)
    return ""


def _read_small(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * 1024 * 1024).decode("utf-8", "replace")
    except OSError:
        return ""


# Content


def _parts(content: object) -> list[dict[str, Any]]:
    listed = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else as_dict(part) for part in listed]


def _text(content: object, *, thought: bool = False) -> str:
    """The text of the parts, joined without a separator as Gemini CLI does."""
    texts: list[str] = []
    for part in _parts(content):
        if bool(part.get("thought")) is not thought:
            continue
        data = as_dict(part.get("inlineData") or part.get("fileData"))
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif data:
            texts.append("[image]" if as_str(data.get("mimeType")).startswith("image/") else "[file]")
    return "".join(texts)


def _is_summary(text: str) -> bool:
    return "<state_snapshot>" in text and "</state_snapshot>" in text


def _without_hooks(text: str) -> str:
    kept, at = [], 0
    while (start := text.find(_HOOK, at)) >= 0 and (end := text.find(_END_HOOK, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(_END_HOOK)
    return ("".join(kept) + text[at:]).lstrip("\n").rstrip() if kept else text


def _user_messages(record: _Record, native_id: str) -> list[Message]:
    text = _text(record.get("content"))
    if not text.strip():
        return []
    parts = [
        {**part, "text": _CONTEXT.sub("", _without_hooks(part["text"]))} if isinstance(part.get("text"), str) else part
        for part in _parts(record.get("content"))
    ]
    typed, summary = _text(parts), _is_summary(text)
    return [
        Message(
            native_id=native_id,
            role="user",
            text=typed if typed.strip() else text,
            timestamp=as_time(as_str(record.get("timestamp"))),
            compaction_summary=summary,
            injected=summary or not typed.strip() or bool(_MACHINE.match(typed)),
        )
    ]


def _assistant_messages(record: _Record, native_id: str) -> list[Message]:
    thoughts = [
        ": ".join(filter(None, (as_str(thought.get("subject")), as_str(thought.get("description")))))
        for thought in map(as_dict, as_list(record.get("thoughts")))
    ]
    calls = _calls(record)
    answer = Message(
        native_id=native_id,
        role="assistant",
        text=_text(record.get("content")),
        reasoning=join_blocks("\n", thoughts) or _text(record.get("content"), thought=True),
        tool_calls=tuple(
            ToolCall(id=key, name=as_str(call.get("name")), arguments=as_json(call.get("args") or {}))
            for key, call in calls.items()
        ),
        timestamp=as_time(as_str(record.get("timestamp"))),
        model=as_str(record.get("model")),
        usage=_usage(as_dict(record.get("tokens"))),
    )
    if not (answer.text or answer.reasoning or answer.tool_calls):
        return []
    return [answer, *_results(calls, answer)]


def _usage(tokens: dict[str, Any]) -> Usage | None:
    """Gemini counts cached tokens as input too, and thoughts apart from output."""
    read, thought = as_int(tokens.get("cached")) or 0, as_int(tokens.get("thoughts")) or 0
    return usage_of(
        input=(as_int(tokens.get("input")) or 0) - read,
        output=(as_int(tokens.get("output")) or 0) + thought,
        cache_read=read,
        reasoning=thought,
    )


# Calls and results


def _calls(record: _Record) -> dict[str, dict[str, Any]]:
    """The calls by id: the recorded ones, and those that are only among the parts."""
    listed = [as_dict(call) for call in as_list(record.get("toolCalls"))]
    listed += [as_dict(part["functionCall"]) for part in _parts(record.get("content")) if "functionCall" in part]
    calls: dict[str, dict[str, Any]] = {}
    for number, call in enumerate(listed):
        if call:
            calls.setdefault(as_str(call.get("id")) or f"{as_str(record.get('id'))}#{number}", call)
    return calls


def _results(calls: Mapping[str, dict[str, Any]], answer: Message) -> Iterator[Message]:
    for key, call in calls.items():
        result = _result(key, call)
        if result is None:
            continue
        ended = as_time(as_str(call.get("timestamp")))
        # Older chats give a call the time of its message, which is not when it ended.
        if ended and answer.timestamp and ended > answer.timestamp:
            result = replace(result, duration=(ended - answer.timestamp).total_seconds())
        yield Message(native_id=f"{answer.native_id}:{key}", role="tool", tool_results=(result,), timestamp=ended)


def _result(key: str, call: dict[str, Any]) -> ToolResult | None:
    status, answer, tool = as_str(call.get("status")), call.get("result"), as_str(call.get("name"))
    if status not in ("success", "error", "cancelled") and (status or answer is None):
        return None
    text, failed = _answer_text(key, answer)
    text = _without_hooks(text)
    cancelled = status == "cancelled"
    flag = None if cancelled else True if failed or status == "error" else False if status else None
    return ToolResult(
        call_id=key,
        outcome="rejected" if cancelled else _outcome(tool, text, flag),
        text=text,
        flag=flag,
        exit_code=_exit_code(text) if tool == _SHELL else None,
    )


def _answer_text(key: str, answer: object) -> tuple[str, bool]:
    """The text of the answer to the call `key`, and whether it is an error."""
    if isinstance(answer, str):
        return answer, False
    responses = [as_dict(part.get("functionResponse")) for part in _parts(answer) if "functionResponse" in part]
    texts, failed = [_text(answer)] if answer else [], False
    for response in [each for each in responses if each.get("id") == key] or responses[:1]:
        body = as_dict(response.get("response"))
        failed = failed or "error" in body
        texts.append(as_text(next((body[name] for name in ("output", "error") if name in body), body or None)))
    return join_blocks("\n", texts), failed


def _outcome(tool: str, text: str, flag: bool | None) -> CallOutcome:
    if tool == _SHELL:
        if _CANCELLED.match(text):
            return "rejected"
        killed = _trailer(text).get("Signal", "0") not in ("0", "(none)", "")
        if _exit_code(text) or killed or _TIMED_OUT.match(text):
            return "error"
    return "error" if flag else "ok"


def _exit_code(text: str) -> int | None:
    code = _trailer(text).get("Exit Code", "")
    return int(code) if re.fullmatch(r"-?\d{1,10}", code, re.ASCII) else None


def _trailer(text: str) -> dict[str, str]:
    """The lines that Gemini CLI adds after a command's output; the output may contain lines that look the same."""
    found: dict[str, str] = {}
    for line in reversed(text[-4000:].splitlines()):
        name, _, value = line.partition(": ")
        if name in _TRAILER and name not in found:
            found[name] = value.strip()
        elif line.strip() not in ("", "</untrusted_context>"):
            break
    return found
