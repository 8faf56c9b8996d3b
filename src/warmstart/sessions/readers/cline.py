"""Cline: `~/.cline/data/sessions/<id>/<id>.messages.json`, a document that is rewritten after every message.

`<id>.json` next to it describes the session. Quirks of the format:

- A prompt is wrapped in `<user_input mode="act">`.
- A subagent has its own document in the folder of its parent. Its prompt is not wrapped.
- A compaction does not change the messages. `<id>.compaction.json` has what the model sees instead: it begins with the
  summary and says how many messages that replaces.
- A result is a list with an entry for each command or file, or such an entry as JSON text, or plain text. An entry says
  whether it succeeded; `is_error` means that the call did not run at all.
- A refused call is an error too, recognisable only by its text.
- A fork copies the messages of its parent, with their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.readers.base import Pair, Reader
from warmstart.sessions.readers.content import as_json, as_text, from_json, join_blocks, joined
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import Transcript, call_outcome
from warmstart.sessions.values import CallOutcome, Message, ToolResult

_SUFFIX = ".messages.json"
_PROMPT = re.compile(r'\A\s*<user_input mode="\w*">(.*)</user_input>\s*\Z', re.DOTALL)
_REFUSED = ("NOT a tool or system failure. Clarify with user before proceeding.", "Tool execution denied by user")
_EXIT = re.compile(r"\bCommand exited with code (-?\d{1,10})\b")


class _Document(msgspec.Struct):
    session_id: str = msgspec.field(default="", name="sessionId")
    origin: Fields = {}  # msgspec copies it
    messages: list[Any] = []


class _Messages(Transcript[_Document]):
    agent = "cline"
    decoder = msgspec.json.Decoder(_Document)

    def pairs(self) -> Iterator[Pair]:
        return self.document_pairs()

    def take_document(self, document: _Document) -> Iterator[Pair]:
        self.learn_facts(document)
        forked = as_time(self.state.get("forked"))
        listed = list(map(as_dict, document.messages))
        compaction = self.read_sibling(self.path.name.removesuffix(_SUFFIX) + ".compaction.json")
        if summary := as_dict(next(iter(as_list(compaction.get("messages"))), None)):
            listed.insert(max(0, as_int(compaction.get("source_message_count")) or 0), summary)
        for number, item in enumerate(listed, 1):
            is_summary = as_dict(item.get("metadata")).get("kind") == "compaction_summary"
            self.time = as_time(item.get("ts") or as_dict(item.get("metadata")).get("generatedAt"))
            self.origin = self.state.get("fork", "") if forked and self.time and self.time < forked else ""
            self.native_id = as_str(item.get("id")) or f"{self.state['id']}/{self.time or number}"
            is_answer = item.get("role") == "assistant"
            for message in [self.answer_of(item)] if is_answer else self.prompt(item, is_summary):
                yield from self.pair_unless_empty(message)

    def read_sibling(self, name: str) -> Fields:
        """A document in the same folder; empty if there is none."""
        with suppress(OSError):
            return as_dict(from_json((self.path.parent / name).read_bytes()))
        return {}

    def learn_facts(self, document: _Document) -> None:
        self.learn(id=document.session_id or self.path.name.removesuffix(_SUFFIX))
        facts = self.read_sibling(f"{self.path.parent.name}.json")
        about = as_dict(facts.get("metadata"))
        self.learn(cwd=facts.get("workspace_root") or facts.get("cwd"), model=facts.get("model"))
        self.learn(version=document.origin.get("version"))
        if parent := as_str(document.origin.get("parentThreadId")):
            self.set_parent(parent, "subagent")
            return
        self.learn(title=about.get("title"), started=facts.get("started_at"))
        fork = as_dict(about.get("fork"))
        self.learn(fork=fork.get("forkedFromSessionId"), forked=fork.get("forkedAt"))
        if "fork" in self.state:
            self.set_parent(self.state["fork"], "branch")

    def answer_of(self, item: Fields) -> Message:
        names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        usage = usage_of(as_dict(item.get("metrics")), *names, all_input=True)
        model = as_str(as_dict(item.get("modelInfo")).get("id"))
        return self.answer(item.get("content"), "tool_use", "input", model=model, usage=usage)

    def prompt(self, item: Fields, is_summary: bool) -> Iterator[Message]:
        """The results of calls, and what the user said."""
        content = item.get("content")
        blocks = [as_dict(block) for block in as_list(content)]
        results = tuple(self.result_of(block) for block in blocks if block.get("type") == "tool_result")
        if results:
            yield self.message("tool", tool_results=results)
        words = joined([block for block in blocks if block.get("type") != "tool_result"] or as_str(content))
        if not words.strip():
            return
        typed = _PROMPT.match(words)
        by_machine = is_summary or as_dict(item.get("metadata")).get("displayRole") == "system"
        if results:
            self.native_id += "/text"
        text = typed[1] if typed else words
        yield self.message("user", text, compaction_summary=is_summary, injected=by_machine)

    def result_of(self, block: Fields) -> ToolResult:
        content = block.get("content")
        listed = content if isinstance(content, list) else from_json(content)
        entries = [as_dict(entry) for entry in (listed if isinstance(listed, list) else [listed])]
        texts = [_entry_text(entry) for entry in entries if entry]
        text = join_blocks("\n", texts) if any(texts) else as_text(content)
        flag = block.get("is_error") is True or any(entry.get("success") is False for entry in entries)
        codes = [code[1] for entry in entries if (code := _EXIT.search(as_str(entry.get("error"))))]
        exit_code = int(codes[-1]) if codes else None
        return self.result(as_str(block.get("tool_use_id")), text, flag=flag, exit_code=exit_code)

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        return call_outcome(result, bool(result.flag) and any(words in result.text for words in _REFUSED))


class ClineReader(Reader):
    """Reads the sessions of the Cline CLI."""

    log = _Messages
    suffixes = (_SUFFIX,)
    head = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"updated_at"\s*:\s*"[^"]*"\s*,\s*"(?:agent|sessionId)"\s*:')

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        data = Path(env.get("CLINE_DATA_DIR") or home / ".cline" / "data")
        return [Path(env.get("CLINE_SESSION_DATA_DIR") or data / "sessions")]


def _entry_text(entry: Fields) -> str:
    if not entry.keys() & {"result", "error", "text"}:
        return as_json(entry)
    output, error = (as_text(entry.get(name)) for name in ("result", "error"))
    return join_blocks("\n", (output, as_text(entry.get("text")), "" if error in output else error))
