"""Conversations for the tests of handoffs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from warmstart.handoff.ledger import Ledger, build_ledger
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult

BEGAN = datetime(2026, 3, 1, 9, tzinfo=UTC)
SESSION = Session(agent="claude-code", native_id="s", project="/home/mara/harbour", directory="/home/mara/harbour")


class Talk:
    """A conversation under construction."""

    def __init__(self, prefix: str = "m") -> None:
        self.prefix = prefix
        self.messages: list[Message] = []

    def user(self, text: str) -> Talk:
        number = len(self.messages) + 1
        at = BEGAN + timedelta(minutes=number)
        self.messages.append(Message(native_id=f"{self.prefix}{number}", role="user", text=text, timestamp=at))
        return self

    def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        output: str = "",
        outcome: CallOutcome = "ok",
        code: int | None = None,
    ) -> Talk:
        number = len(self.messages) + 1
        call = ToolCall(id=f"c{number}", name=tool, arguments=json.dumps(arguments))
        result = ToolResult(call_id=call.id, outcome=outcome, text=output, exit_code=code)
        self.messages += (
            Message(native_id=f"{self.prefix}{number}", role="assistant", tool_calls=(call,)),
            Message(native_id=f"{self.prefix}{number + 1}", role="tool", tool_results=(result,)),
        )
        return self

    def bash(self, command: str, output: str = "", code: int = 0) -> Talk:
        return self.call("Bash", {"command": command}, output, "error" if code else "ok", code)

    @property
    def ledger(self) -> Ledger:
        return build_ledger(SESSION, self.messages)
