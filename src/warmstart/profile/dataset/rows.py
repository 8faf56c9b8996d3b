"""The rows of a dataset and what their columns mean. The data card is written from the same columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Literal, NamedTuple, get_args, get_type_hints

from warmstart.profile.corpus.report import week
from warmstart.profile.dataset.pseudonyms import Pseudonyms
from warmstart.profile.values import Feedback, Markers, Profiled

Value = str | int | float | None
Row = dict[str, Value]


class Column(NamedTuple):
    """A column: its name, its type, and what a reader must know of it."""

    name: str
    type: Literal["text", "integer", "number"]
    meaning: str


_MARKERS = {
    "messages": "messages in the session",
    "turns": "requests of the user",
    "calls": "tool calls",
    "results": "tool calls whose result is known",
    "errors": "calls that failed",
    "rejected": "calls that a person turned down",
    "unknown": "calls of which the log does not say how they went",
    "error_rate": "share of the calls that failed",
    "early_error_rate": "the same for the calls of the first 30 turns",
    "seconds_to_success": "seconds until the first call that worked, rounded to whole ones",
    "calls_to_success": "calls until the first that worked",
    "recovery_rate": "share of the errors after which the same tool worked again within three of its calls",
    "diversity": "different tools expected among ten calls drawn at random, so that length does not make it",
    "repeated_calls": "calls that repeat an earlier call to the letter",
    "rereads": "reads of a file that had been read before",
    "corrections": "messages in which the user corrects the agent",
    "compactions": "how often the context was compressed",
    "input_tokens": "tokens read by the model, without cached ones",
    "output_tokens": "tokens written by the model",
    "cached_tokens": "tokens read from a cache or written to one",
    "context_share": "largest prompt as a share of the model's context window",
    "seconds": "seconds from the first message to the last, rounded to whole ones",
}
_MARKER_TYPES = get_type_hints(Markers)
_FEEDBACK: tuple[Feedback, ...] = get_args(Feedback)

SESSION_COLUMNS = (
    Column("session", "text", "keyed hash of the session's id"),
    Column("agent", "text", "the agent, e.g. `claude-code`"),
    Column("agent_version", "text", "its version"),
    Column("model", "text", "the model that answered, hashed unless a vendor gave it its name"),
    Column("project", "text", "keyed hash of the project"),
    Column("parent", "text", "the `session` that this one came from, which need not be in the dataset"),
    Column("parent_kind", "text", "how it came from it: `resume`, `compaction`, `handoff`, `branch` or `subagent`"),
    Column("week", "text", "ISO week of the start, in UTC, e.g. `2026-W37`"),
    Column("task_type", "text", "what most calls are for: `code`, `file`, `research` or `mixed`"),
    Column("outcome", "text", "how the session ended: `success`, `failure` or `unknown`"),
    Column(
        "outcome_source",
        "text",
        "what says so: the `user`'s verdict, a `reward` in the log, a `commit` after the last edit, the last `check` "
        "(test or build), or the user's closing `words`",
    ),
    *(
        Column(field.name, "integer" if int in (kind := _MARKER_TYPES[field.name], *get_args(kind)) else "number", text)
        for field in fields(Markers)
        for text in (_MARKERS[field.name],)
    ),
    Column("user_messages", "integer", "messages that the user wrote"),
    Column("user_length", "number", "median words of such a message"),
    Column("user_directness", "number", "share of them that say what to do rather than ask or hedge; weak evidence"),
    Column("user_language", "text", "language of them, as far as it can be told"),
    *(Column(f"feedback_{style}", "integer", f"later messages of the user in {style} style") for style in _FEEDBACK),
    Column("instructions", "integer", "standing instructions that the user gave"),
    Column("recoveries", "integer", "errors after which the same tool worked again within three of its calls"),
    Column("dead_ends", "integer", "errors that came back and were never resolved"),
)
CALL_COLUMNS = (
    Column("session", "text", "the `session` it belongs to"),
    Column("position", "integer", "its place in the session, from 0"),
    Column("tool", "text", "name of the tool; an MCP server's name in it is hashed"),
    Column("kind", "text", "what it is for: `code`, `file`, `research` or `other`"),
    Column("outcome", "text", "`ok`, `error`, `rejected` or `unknown`, see below"),
    Column("turn", "integer", "number of the user's request it serves, from 1; 0 before the first"),
    Column("at", "number", "seconds since the session began, rounded to whole ones"),
    Column("seconds", "number", "how long it took, to a tenth of a second"),
    Column("model", "text", "the model that made it, hashed unless a vendor gave it its name"),
    Column("signature", "text", "of an error: which one it is, see below"),
    Column("after_compaction", "integer", "how often the context had been compressed before"),
    Column("recovered_after", "integer", "of an error: how many calls of the same tool later it worked, 1 to 3"),
)


class Rows:
    """Makes rows of sessions, without text of a message and without names."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._names = pseudonyms

    def session(self, profiled: Profiled) -> Row:
        """The row of a session."""
        session, profile = profiled
        patterns = profile.patterns
        return {
            "session": self._names.hash("session", session.id),
            "agent": session.agent,
            "agent_version": self._names.version(session.version),
            "model": self._names.model(session.model),
            "project": self._names.hash("project", session.project),
            "parent": self._names.hash("session", session.parent_id or ""),
            "parent_kind": session.parent_kind or "",
            "week": week(profiled),
            "task_type": profile.task_type,
            "outcome": profile.verdict.outcome,
            "outcome_source": profile.verdict.source,
            **asdict(profile.markers),
            **{name: _whole(getattr(profile.markers, name)) for name in ("seconds", "seconds_to_success")},
            "user_messages": patterns.messages,
            "user_length": patterns.length,
            "user_directness": patterns.directness,
            "user_language": patterns.language,
            **{f"feedback_{style}": patterns.feedback.get(style, 0) for style in _FEEDBACK},
            "instructions": len(patterns.instructions),
            "recoveries": len(profile.recoveries),
            "dead_ends": len(profile.dead_ends),
        }

    def calls(self, profiled: Profiled) -> Iterator[Row]:
        """The rows of a session's calls, in order."""
        session, profile = profiled
        hashed = self._names.hash("session", session.id)
        compactions = sorted(profile.compactions)
        recovered = {recovery.failed: recovery.tries for recovery in profile.recoveries}
        # A session has few tools and models, and calls them often.
        tools = {name: self._names.tool(name, session.project) for name in {call.tool for call in profile.calls}}
        models = {name: self._names.model(name) for name in {call.model for call in profile.calls}}
        for position, call in enumerate(profile.calls):
            yield {
                "session": hashed,
                "position": position,
                "tool": tools[call.tool],
                "kind": call.kind,
                "outcome": call.outcome,
                "turn": call.turn,
                "at": _whole(call.at),
                "seconds": None if call.seconds is None else round(call.seconds, 1),
                "model": models[call.model],
                "signature": self._names.signature(call.signature, call.tool, session.project),
                "after_compaction": bisect_right(compactions, position),
                "recovered_after": recovered.get(position),
            }


def _whole(seconds: float | None) -> float | None:
    """Seconds as whole ones: exact times would tell a session from all others."""
    return None if seconds is None else float(round(seconds))
