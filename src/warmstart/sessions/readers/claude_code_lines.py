"""The lines of a Claude Code log: the fields that are read, and what the blocks of a message say.

- An absent `is_error` means success. A refusal, by a person or by the rules that a person set, comes as an error and is
  none; only its words tell.
- What a machine says in a person's name stands beside the person's own words, in the same line or in one of its own.
- Pictures are worth a word: their bytes are dropped.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from warmstart.sessions.readers.decoding import DECODE_ERRORS
from warmstart.sessions.readers.fields import as_str, as_text, joined, usage_of
from warmstart.sessions.values import CallOutcome, ToolCall, ToolResult, Usage

_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_REJECTED = re.compile(
    r"The user doesn't want to (?:proceed|take this action)|\[Request interrupted by user|User rejected"
    r"|Permission (?:to|for|denied by) |Claude requested permissions"
    r"|[^\n]{0,400}?\b(?:requires (?:manual )?approval\b|was blocked(?:\. For security, Claude Code| by a deny rule))"
)
_MACHINE_TEXT = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|ide_|user-prompt-submit-hook|task-notification)"
    r"|\[Request interrupted by user|Caveat: The messages below were generated)"
)


class Block(msgspec.Struct):
    """One block of a message's content."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    id: Any = None
    name: Any = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: Any = None
    content: Any = None
    is_error: Any = None


class Counts(msgspec.Struct):
    """The tokens of a message."""

    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None


class Body(msgspec.Struct):
    """The message of a line, as the API knows it."""

    id: Any = None
    model: Any = None
    content: str | list[Block] | None = None
    usage: msgspec.Raw = msgspec.Raw()

    @property
    def counts(self) -> bytes:
        """The JSON of the token counts, unless it is nothing or too long to be that."""
        raw = bytes(self.usage)
        return raw if len(raw) < 4096 and raw != b"null" else b""

    @property
    def written_by(self) -> str:
        """The model; none for what Claude Code says itself in the assistant's place."""
        return "" if self.model == "<synthetic>" else as_str(self.model)


class Nested(msgspec.Struct):
    """A subagent's line, wrapped in a `progress` line of its parent."""

    type: Any = None
    uuid: Any = None
    timestamp: Any = None
    requestId: Any = None  # noqa: N815 - the log's own names
    message: Body | None = None


class Data(msgspec.Struct):
    """What a `progress` line wraps."""

    type: Any = None
    agentId: Any = None  # noqa: N815
    message: Nested | None = None


class Record(msgspec.Struct):
    """One line."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parentUuid: Any = None  # noqa: N815
    sessionId: Any = None  # noqa: N815
    forkedFrom: Any = None  # noqa: N815
    timestamp: Any = None
    requestId: Any = None  # noqa: N815
    cwd: Any = None
    gitBranch: Any = None  # noqa: N815
    version: Any = None
    agentId: Any = None  # noqa: N815
    isSidechain: Any = None  # noqa: N815
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: Body | None = None
    summary: Any = None
    leafUuid: Any = None  # noqa: N815
    customTitle: Any = None  # noqa: N815
    aiTitle: Any = None  # noqa: N815
    attachment: Any = None
    snapshot: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


RECORD = msgspec.json.Decoder(Record)
DATA = msgspec.json.Decoder(Data)
COUNTS = msgspec.json.Decoder(Counts)


class Answer(msgspec.Struct, kw_only=True):
    """What lines of the assistant hold: words, thoughts and calls."""

    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []

    def add(self, body: Body) -> None:
        if isinstance(body.content, str):
            self.texts.append(body.content)
            return
        for block in body.content or ():
            if block.type == "text":
                self.texts.append(as_str(block.text))
            elif block.type == "thinking":
                self.thoughts.append(as_str(block.thinking))
            elif block.type in ("tool_use", "server_tool_use"):
                arguments = bytes(block.input).decode("utf-8", "replace")
                self.calls.append(ToolCall(id=as_str(block.id), name=as_str(block.name), arguments=arguments))


def digest_of(body: Body) -> str:
    """A short name for what a line of the assistant holds."""
    answer = Answer()
    answer.add(body)
    return digest("\0".join([*answer.texts, *answer.thoughts, *(call.id for call in answer.calls)]))


class Input(NamedTuple):
    """What the user's side of a line holds: tool results, the person's words, and a machine's in the person's name."""

    results: list[ToolResult]
    words: str
    machine: str


def input_of(content: str | list[Block] | None) -> Input:
    """Sort the blocks of a user's line."""
    if isinstance(content, str):
        return Input([], "", content) if is_machine_text(content) else Input([], content, "")
    results: list[ToolResult] = []
    words: list[str] = []
    machine: list[str] = []
    for block in content or ():
        if block.type == "tool_result":
            results.append(_result(block))
        elif block.type == "text":
            text = as_text(block.text)
            (machine if is_machine_text(text) else words).append(text)
        elif block.type in ("image", "document"):
            words.append(f"[{block.type}]")
    return Input(results, "\n\n".join(words), "\n\n".join(machine))


def is_machine_text(text: str) -> bool:
    """Whether a machine put this text into the person's mouth."""
    return _MACHINE_TEXT.match(text) is not None


def usage_in(raw: bytes) -> Usage | None:
    """The token counts in the `usage` of a message, `None` where there are none."""
    try:
        counts = COUNTS.decode(raw)
    except DECODE_ERRORS:
        return None
    return usage_of(
        input=counts.input_tokens,
        output=counts.output_tokens,
        cache_read=counts.cache_read_input_tokens,
        cache_write=counts.cache_creation_input_tokens,
    )


def digest(text: str) -> str:
    """A short name for a text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _result(block: Block) -> ToolResult:
    content = [block.content] if isinstance(block.content, dict) else block.content
    text = joined(content) if isinstance(content, str | list) else as_text(content)
    flag = block.is_error if isinstance(block.is_error, bool) else None
    code = _EXIT_CODE.match(text)
    return ToolResult(
        call_id=as_str(block.tool_use_id),
        outcome=_outcome(text, flag, ran=code is not None),
        text=text,
        flag=flag,
        exit_code=int(code.group(1)) if code else None,
    )


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is an error."""
    return _outcome(result.text, result.flag, ran=result.exit_code is not None)


def _outcome(text: str, flag: bool | None, *, ran: bool) -> CallOutcome:
    if flag and not ran and _REJECTED.match(text):
        return "rejected"
    if flag or text.startswith("<tool_use_error>"):
        return "error"
    return "ok"
