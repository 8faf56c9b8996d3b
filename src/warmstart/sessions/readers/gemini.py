"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json` (one object) and `session-*.jsonl` (since 0.5x).

The project's folder is named by the SHA-256 of its path (older) or by a short name (newer). The path itself is in
`.project_root` next to `chats`, and in `projects.json` above. Quirks of the format:

- A line replaces an earlier line with the same id: a response is written first without its tool calls, then with them.
  Both are yielded; the last one counts.
- Every tool result occurs twice: in `toolCalls[].result` of the response, and as a user message of `functionResponse`
  parts, which is skipped. After a rewrite, `result` may have the answers to all calls of the turn.
- `{"$set": {"messages": [...]}}` repeats the whole history: on resume without models, tokens and tool calls and with a
  new time, on compression and masking under new ids. Copies are recognised by id, or by text and call ids, of which
  `Reading.state` keeps short digests.
- `$rewindTo` undoes messages. They happened, so they are kept.
- Ids are only unique within a session.
- A failing shell command has status `success`. Its exit code is in the last lines of the output.
- Hooks add `<hook_context>` to the user's text and to the end of a tool's output: it is removed from both.
- The chat of a subagent is in `chats/<session id of its parent>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b, sha256
from pathlib import Path

from warmstart.sessions.readers.base import Pair, Reader, Reading
from warmstart.sessions.readers.content import as_text, from_json, join_blocks
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import OBJECT, Line, Transcript, call_outcome
from warmstart.sessions.values import CallOutcome, Message, ToolResult

_SHELL = "run_shell_command"
_ACKNOWLEDGEMENT = "Got it. Thanks for the additional context!"
_HOOK, _END_HOOK = "<hook_context>", "</hook_context>"
_CONTEXT = re.compile(r"\A(?:\s*<(session_context|loaded_context)>.*?</\1>)+\s*", re.DOTALL)
# The start of injected context, and what Gemini CLI says to a model that stopped too early or is looping.
_MACHINE = re.compile(
    r"\s*(?:<(?:session|loaded|hook)_context>|This is the Gemini CLI\. We are setting up the context"
    r"|You have [^.\n]{1,80}\. You have one final chance to complete the task"
    r"|System: (?:Please continue\.|Potential loop detected\.))"
)
_CANCELLED = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was cancelled by user")
_DENIED = "Tool execution denied by policy"
_TIMED_OUT = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was automatically cancelled")
# What Gemini CLI adds after a command's output. The output may contain lines that look the same.
_TRAILER = re.compile(
    r"(?:^(?:Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*\s*)+(?:</untrusted_context>\s*)?\Z",
    re.MULTILINE,
)
_TRAILER_LINE = re.compile(r"^([^:\n]+): (.*?)\s*$", re.MULTILINE)


class _Chat(Transcript[Fields]):
    """The chat so far. `seen` has digests of its messages."""

    agent = "gemini-cli"
    decoder = OBJECT  # of messages, facts of the session, and changes to them

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.seen: set[str] = set(self.state.get("seen", ()))
        self.new_digests: list[str] = []
        if not reading.offset:
            self.learn_facts({})

    def pairs(self) -> Iterator[Pair]:
        return super().pairs() if self.path.suffix == ".jsonl" else self.document_pairs()

    def take(self, record: Fields, line: Line) -> Iterator[Pair]:
        yield from self.take_record(record)
        self.state.setdefault("seen", []).extend(self.new_digests)
        self.new_digests = []

    def take_record(self, record: Fields) -> list[Pair]:
        if isinstance(record.get("$rewindTo"), str):
            self.reading.skip("$rewindTo")
            return []
        if as_str(record.get("id")):
            replays = self.state.get("replay") and not as_str(record.get("model"))
            text = text_of(record.get("content")) if record.get("type") == "user" else ""
            opens = text.lstrip().startswith("<session_context>") or _is_summary(text)
            self.state["replay"] = opens or bool(replays)
            return self.take_message(record, restated=self.state["replay"])
        if isinstance(change := record.get("$set"), dict):
            return self.change(change)
        if not as_str(record.get("sessionId")):
            self.reading.skip("unknown record")
            return []
        self.learn_facts(record)
        return [pair for item in _listed(record.get("messages")) for pair in self.take_message(item)]

    def take_document(self, document: Fields) -> Iterator[Pair]:
        messages = document.get("messages", [])
        if not isinstance(messages, list):
            raise ValueError("`messages` is not a list")
        self.learn_facts(document)
        for number, record in enumerate(messages, 1):
            if isinstance(record, dict):
                yield from self.take_message({**record, "id": as_str(record.get("id")) or f"#{number}"})
            else:
                self.reading.report(number, "the message is not a JSON object")

    def change(self, change: Fields) -> list[Pair]:
        title = self.session.title
        self.learn_facts(change)
        pairs: list[Pair] = [(self.session, None)] if self.session.title != title else []
        if "messages" in change:
            self.state["replay"] = False
            pairs += [pair for item in _listed(change["messages"]) for pair in self.take_message(item, restated=True)]
        return pairs

    def learn_facts(self, facts: Fields) -> None:
        if "cwd" not in self.state or facts.keys() & {"projectHash", "directories"}:
            self.learn(hash=facts.get("projectHash"))
            folders = as_list(facts.get("directories"))
            self.learn(cwd=_project_root(self.path, self.state.get("hash", "")) or next(iter(folders), ""))
        self.learn(
            id=facts.get("sessionId"),
            # A resumed chat has a new start time; the first one is right.
            started=self.state.get("started") or facts.get("startTime"),
            ended=facts.get("lastUpdated"),
            kind=facts.get("kind"),
            title=facts.get("summary"),
        )
        folder = self.path.parent
        if self.state.get("kind") == "subagent" and folder.parent.name == "chats":
            self.set_parent(folder.name, "subagent")

    def take_message(self, record: Fields, *, restated: bool = False) -> list[Pair]:
        """The message of `record` and the results of its calls; from a repeated history, only what is new."""
        messages = self.messages(record)
        if not messages:
            return []
        digests = _digests(messages[0])
        is_known = restated and (self.seen.intersection(digests) or messages[0].text == _ACKNOWLEDGEMENT)
        self.new_digests += [digest for digest in digests if digest not in self.seen]
        self.seen.update(digests)
        if is_known:
            self.reading.skip("restated message")
            return []
        sidechain = self.state.get("kind") == "subagent"  # in a copy of its log, too
        return [(self.session, replace(message, sidechain=sidechain)) for message in messages]

    def messages(self, record: Fields) -> list[Message]:
        kind = as_str(record.get("type"))
        if kind not in ("user", "gemini"):
            self.reading.skip(kind or "unknown message")
            return []
        self.native_id = f"{self.session.native_id}/{as_str(record.get('id'))}"
        self.time = as_time(record.get("timestamp"))
        latest = as_time(self.state.get("ended"))
        if self.time and (latest is None or self.time > latest):
            self.learn(ended=self.time.isoformat())
        messages = self.user_messages(record) if kind == "user" else self.assistant_messages(record)
        if not messages:
            self.reading.skip("tool response" if kind == "user" else "empty message")
        return messages

    def user_messages(self, record: Fields) -> list[Message]:
        text = text_of(record.get("content"))
        if not text.strip():
            return []
        parts = [
            {**part, "text": _CONTEXT.sub("", _without_hooks(as_str(part["text"])))} if "text" in part else part
            for part in parts_of(record.get("content"))
        ]
        typed, summary = text_of(parts), _is_summary(text)
        injected = summary or not typed.strip() or bool(_MACHINE.match(typed))
        words = typed if typed.strip() else text
        return [self.message("user", words, compaction_summary=summary, injected=injected)]

    def assistant_messages(self, record: Fields) -> list[Message]:
        self.learn(model=record.get("model"))
        thoughts = [
            ": ".join(filter(None, (as_str(thought.get("subject")), as_str(thought.get("description")))))
            for thought in map(as_dict, as_list(record.get("thoughts")))
        ]
        calls, tokens = _calls(record), as_dict(record.get("tokens"))
        # Thoughts are counted separately from output.
        tokens["all"] = (as_int(tokens.get("output")) or 0) + (as_int(tokens.get("thoughts")) or 0)
        thinking = join_blocks("\n", thoughts) or text_of(record.get("content"), thought=True)
        blocks = [{"text": text_of(record.get("content"))}, {"thinking": thinking}]
        blocks += ({**call, "id": key, "type": "call"} for key, call in calls.items())
        usage = usage_of(tokens, "input", "all", "cached", "", "thoughts", all_input=True)
        answer = self.answer(blocks, "call", "args", model=as_str(record.get("model")), usage=usage)
        if not (answer.text or answer.reasoning or answer.tool_calls):
            return []
        return [answer, *self.results(calls, answer)]

    def results(self, calls: Mapping[str, Fields], answer: Message) -> Iterator[Message]:
        for key, call in calls.items():
            status = as_str(call.get("status"))
            if status not in ("success", "error", "cancelled") and (status or call.get("result") is None):
                continue
            text, failed = _answer_text(key, call.get("result"))
            is_cancelled, tool = status == "cancelled", as_str(call.get("name"))
            flag = None if is_cancelled else True if failed or status == "error" else False if status else None
            self.native_id, self.time = f"{answer.native_id}:{key}", as_time(call.get("timestamp"))
            exit_code = shell_exit(text)[0] if tool == _SHELL else None
            result = self.result(key, text, tool=tool, refused=is_cancelled, flag=flag, exit_code=exit_code)
            # In older chats a call has the time of its message, which is not when it ended.
            yield self.message("tool", tool_results=(replace(result, duration=result.duration or None),))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. Only a cancelled call has no flag; it stays `rejected`."""
        text, flag = _without_hooks(result.text), result.flag
        if (flag is None and result.outcome == "rejected") or (tool == _SHELL and _CANCELLED.match(text)):
            return "rejected"
        if tool == _SHELL and (any(shell_exit(text)) or _TIMED_OUT.match(text)):
            return "error"
        return call_outcome(result, bool(flag) and text.startswith(_DENIED))


class GeminiReader(Reader):
    """Reads the chats of Gemini CLI."""

    log = _Chat
    suffixes = (".json", ".jsonl")
    head = re.compile(rb'\s*\{\s*"sessionId"\s*:\s*"[^"]+"\s*,\s*"projectHash"\s*:\s*"[^"]+"')

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]

    def find(self, root: Path) -> Iterable[Path]:
        files = sorted(super().find(root))
        if ".gemini" not in root.parts:  # copies may have any name
            return files
        # A path with another suffix is a folder that cannot be listed.
        return [path for path in files if "chats" in path.parts or not self.is_log(path.name)]

    def claims(self, path: Path, head: bytes) -> bool:
        return self.is_log(path.name) and super().claims(path, head)


def _listed(messages: object) -> list[Fields]:
    return [item for item in as_list(messages) if isinstance(item, dict) and as_str(item.get("id"))]


def _digests(message: Message) -> list[str]:
    content = message.text or ",".join(call.id for call in message.tool_calls) or message.native_id
    texts = (message.native_id, f"{message.role}\0{content}")
    return [blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest() for text in texts]


def _project_root(path: Path, project_hash: str) -> str:
    """The project's path from the files that Gemini CLI keeps with its chats; empty if there are none."""
    chats = next((folder for folder in path.parents if folder.name == "chats"), None)
    if chats is None:
        return ""
    home = chats.parent
    with suppress(OSError):
        if root := (home / ".project_root").read_text("utf-8", "replace").strip():
            return root
    with suppress(OSError):
        projects = from_json((home.parent.parent / "projects.json").read_text("utf-8", "replace"))
        for root, name in as_dict(as_dict(projects).get("projects")).items():
            if name == home.name or sha256(root.encode("utf-8", "replace")).hexdigest() == project_hash:
                return str(root)
    return ""


def parts_of(content: object) -> list[Fields]:
    """The parts of a message's content, which may be plain text."""
    listed = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else as_dict(part) for part in listed]


def text_of(content: object, *, thought: bool = False) -> str:
    """The text of the parts, joined without a separator as Gemini CLI does."""
    texts: list[str] = []
    for part in parts_of(content):
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


def _calls(record: Fields) -> dict[str, Fields]:
    """The calls by id: those in `toolCalls`, and those that are only in the parts."""
    listed = [as_dict(call) for call in as_list(record.get("toolCalls"))]
    listed += [as_dict(part["functionCall"]) for part in parts_of(record.get("content")) if "functionCall" in part]
    calls: dict[str, Fields] = {}
    for number, call in enumerate(listed):
        if call:
            calls.setdefault(as_str(call.get("id")) or f"{as_str(record.get('id'))}#{number}", call)
    return calls


def _answer_text(key: str, answer: object) -> tuple[str, bool]:
    """The text of the answer to the call `key`, and whether it is an error."""
    if isinstance(answer, str):
        return _without_hooks(answer), False
    responses = [as_dict(part.get("functionResponse")) for part in parts_of(answer) if "functionResponse" in part]
    texts, failed = [text_of(answer)] if answer else [], False
    for response in [each for each in responses if each.get("id") == key] or responses[:1]:
        body = as_dict(response.get("response"))
        failed = failed or "error" in body
        texts.append(as_text(next((body[name] for name in ("output", "error") if name in body), body or None)))
    return _without_hooks(join_blocks("\n", texts)), failed


def shell_exit(text: str) -> tuple[int | None, bool]:
    """The exit code of a shell command, and whether a signal ended it."""
    found = _TRAILER.search(text[-4000:])
    lines = dict(_TRAILER_LINE.findall(found.group())) if found else {}
    code = re.fullmatch(r"-?\d{1,10}", lines.get("Exit Code", ""), re.ASCII)
    return int(code.group()) if code else None, lines.get("Signal", "0") not in ("0", "(none)", "")
