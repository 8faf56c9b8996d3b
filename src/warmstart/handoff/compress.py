"""Compress whole sessions, to make a template from what a compaction leaves of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warmstart.handoff.compact import Strategy, compact, measure
from warmstart.handoff.ledger import build_ledger
from warmstart.profile.calls import command_in
from warmstart.redact.redactor import Redactor
from warmstart.sessions.export import chat_messages
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.values import Message, Session
from warmstart.templates.item import Item

_MIN_BUDGET = 1000  # tokens of a session that are always left


class Compressed(NamedTuple):
    """What a compaction left of a session: the ids of its messages that stayed, and the whole text."""

    session_id: str
    tokens_before: int
    tokens_after: int
    messages: frozenset[str]
    text: str

    def keeps(self, item: Item) -> bool:
        """Whether an item is still there: one of its messages stayed, or the packet names it."""
        ids = {source.message for source in item.sources if source.session == self.session_id}
        if "" in ids or ids & self.messages:  # what is true of the whole session has no message
            return True
        named = command_in(item.calls[-1].arguments) if item.calls else item.text
        return bool(ids and named) and named in self.text


def compress_session(
    session: Session,
    messages: Sequence[Message],
    *,
    budget_tokens: int = 0,
    strategy: str | Strategy = "hybrid",
    redactor: Redactor,
    tools: Mapping[str, str] | None = None,
) -> Compressed:
    """Compact a session to a budget, by default a quarter of it. `tools` is the user's own table of tools."""
    chat: list[dict[str, Any]] = []
    ids: dict[int, str] = {}
    for message in messages:
        for fields in chat_messages([message]):
            chat.append(fields)
            ids[id(fields)] = message.native_id
    budget = budget_tokens or max(_MIN_BUDGET, sum(map(measure, chat)) // 4)
    ledger = build_ledger(session, redacted_messages(messages, redactor), tools)
    done = compact(chat, budget_tokens=budget, strategy=strategy, session=session.id, ledger=ledger, redactor=redactor)
    left = frozenset(ids[id(fields)] for fields in done.messages if id(fields) in ids)
    text = "\n".join(f"{fields['content']} {fields.get('tool_calls') or ''}" for fields in done.messages)
    return Compressed(session.id, done.report.tokens_before, done.report.tokens_after, left, text)
