"""The part of Warmstart that runs inside Hermes Agent. It imports only the standard library and Hermes.

Everything else happens in a separate process, `warmstart hook hermes EVENT`, which gets the event as JSON on standard
input. Hermes has its own environment, and sharing its process would go wrong in four ways:

- our compiled dependencies load only in one version of Python, and Hermes often runs on another;
- our packages on Hermes' path would change which optional features Hermes thinks are installed;
- Hermes holds `state.db` open, and a second SQLite library that opens it in the same process can drop its locks;
- a library call cannot be stopped at a deadline; a process can.

If anything fails, Hermes continues as if we were not there, with one line in its log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shlex
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

_log = logging.getLogger(__name__)

_CODE = "from warmstart.__main__ import main; main()"
_TURN, _SHORT, _TOOL = 2, 1, 60  # seconds until we continue without an answer
_END = "[/warmstart]"  # how the block ends
_SUMMARY = "[CONTEXT COMPACTION"  # prefix of a message that replaces earlier ones
_NO_ANSWER = "Warmstart did not answer (`warmstart doctor` shows why); continue without it"
ENGINE = "warmstart"  # in `context.engine`
_COMMANDS, _CALLED_AS = "warmstart templates", "hermes warm"  # the commands that we run, and how the user calls them
_FIELDS = ("role", "content", "tool_calls", "tool_call_id")  # of a message, that we need
_COMPRESSION = {  # settings under `compression`, and the arguments of the compressor that ours extends
    "threshold": "threshold_percent",
    "protect_first_n": "protect_first_n",
    "protect_last_n": "protect_last_n",
    "target_ratio": "summary_target_ratio",
    "abort_on_summary_failure": "abort_on_summary_failure",
}
_HELP = "The commands of `warmstart templates` (extract, list, test, delete and others), and start."


def register(ctx: Any, python: str = "", home: str = "") -> None:
    """Called by Hermes. `python` is the one with Warmstart (default: Hermes' own), `home` is `$WARMSTART_HOME`."""
    plugin = Plugin([python, "-EPc", _CODE] if python else [sys.executable, "-Pc", _CODE], home)
    ctx.register_cli_command("warm", "Start sessions from what worked in past ones", _arguments, plugin.warm, _HELP)
    if os.environ.get("WARMSTART_DISABLED", "") not in ("", "0"):
        return
    ctx.register_hook("pre_llm_call", plugin.before_turn)
    ctx.register_hook("post_llm_call", plugin.after_turn)
    ctx.register_hook("transform_tool_result", plugin.after_tool)
    ctx.register_hook("on_session_finalize", plugin.end)
    ctx.register_hook("subagent_start", lambda **event: plugin.subagents.add(event.get("child_session_id")))
    ctx.register_hook("transform_llm_output", plugin.show_notice)
    usage = "Write a packet to continue from in a fresh session; this session stays as it is"
    ctx.register_command("handoff-packet", lambda note: plugin.write_packet(ctx, note), usage, "[note]")
    if plugin.is_engine:  # only if chosen, because Hermes accepts just one engine from all plugins
        try:
            ctx.register_context_engine(create_engine(plugin))
        except Exception as error:  # another version of Hermes; the rest of the plugin works without it
            _log.warning("warmstart's context engine is not available: %s", error)
    ctx.register_middleware("llm_request", plugin.before_request)
    # Read from files, because Hermes' Python may not be able to import the tools.
    here = Path(__file__).parent
    for path in (here.parent / "memory" / "tool.json", here / "recall_tool.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        ctx.register_tool(schema["name"], "warmstart", schema, plugin.tool(schema["name"]))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="see above")


class Turn(NamedTuple):
    """What the requests of one turn get: the block in the system prompt, and an overlay after the user's message."""

    id: object
    message: str
    block: str
    overlay: str


class Plugin:
    """The state of the plugin while Hermes runs. Hooks take any keywords, because later versions of Hermes add some."""

    def __init__(self, command: list[str], home: str) -> None:
        from hermes_cli.config import load_config

        config = load_config()
        settings, self.compression = config.get("agent") or {}, config.get("compression") or {}
        # True, false or a mode; `None` leaves it to our own settings.
        self.preflight = settings.get("context_preflight")
        self.handoff = settings.get("auto_handoff_on_compression")
        self.is_engine = (config.get("context") or {}).get("engine") == ENGINE
        self.notices: dict[str, str] = {}  # by session, for the end of the turn
        self.turns: dict[str, Turn] = {}  # the latest of each session
        self.subagents: set[object] = set()  # their sessions, which look like a person's otherwise
        self.summaries: dict[str, str] = {}  # by session
        self.command = command
        self.environment = {**os.environ, "WARMSTART_HOME": home} if home else {**os.environ}

    def ask(self, event: str, data: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer of our process to an event; empty if there is none."""
        data = {"hermes_home": str(_home()), "cwd": _folder(), **data}
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                [*self.command, "hook", "hermes", event],
                input=json.dumps(data, default=str).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.environment,
                timeout=timeout,
                check=False,
                start_new_session=True,  # Ctrl-C is for Hermes
            )
            answer = json.loads(done.stdout or "{}")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _log.warning("warmstart hook hermes %s: %s", event, type(error).__name__)
            return {}
        return answer if isinstance(answer, dict) else {}

    def _is_main(self, event: dict[str, Any]) -> bool:
        """Whether this is a person's session: not a subagent, and not Hermes' background review of its own turn."""
        return event.get("session_id") not in self.subagents and threading.current_thread().name != "bg-review"

    # -- hooks

    def before_turn(self, **event: Any) -> dict[str, Any] | None:
        """The brief for the first message, which Hermes adds to it for good. The rest is added to each request."""
        if not self._is_main(event):
            return None
        self.after_turn(**event)
        session, message = str(event["session_id"]), _text(event["user_message"])
        is_first = bool(event.get("is_first_turn"))
        data = {"session_id": session, "model": event.get("model"), "is_first": is_first, "message": message}
        answer = self.ask("turn", {**data, "mode": self.preflight}, _TURN)
        if not answer:
            return None
        known = self.turns.get(session)
        block = known.block if known else answer["block"]
        self.turns[session] = Turn(event.get("turn_id"), message, block, answer["overlay"])
        if block:
            _store_block(session, block)
        if answer["notice"]:
            self.notices[session] = answer["notice"]
        return {"context": answer["context"]} if answer["context"] else None

    def after_turn(self, **event: Any) -> None:
        """Detect a compaction, for which Hermes has no hook: text that was added before may then be added again."""
        if not self._is_main(event):
            return
        session = event["session_id"]
        texts = (str(each.get("content")) for each in event.get("conversation_history") or ())
        summary = next((text for text in texts if text.startswith(_SUMMARY)), "")
        if summary != self.summaries.setdefault(session, summary):
            self.summaries[session] = summary
            self.ask("compacted", {"session_id": session}, _SHORT)

    def before_request(self, request: dict[str, Any], **event: Any) -> dict[str, Any] | None:
        """The request with the block, always the same bytes, and with the overlay, in this turn alone.

        A compression may give the session another id within a turn. Hermes' background review of a turn has the
        session's id and another turn's: it gets the block, because it repeats the session's prompt to use its cache.
        """
        own, turn_id = self.turns.get(str(event.get("session_id"))), event.get("turn_id")
        turn = next((turn for turn in self.turns.values() if turn.id == turn_id), own)
        if turn is None:
            return None
        changed = insert_block(request, turn.block)
        if turn.overlay and turn.id == turn_id:
            changed = append_overlay(request, turn.message, turn.overlay) or changed
        return {"request": request} if changed else None

    def after_tool(self, **event: Any) -> str | None:
        """The result of a failed command, with the fix that worked before, if one is known."""
        result = event["result"]
        try:
            code = json.loads(result)["exit_code"]
        except (ValueError, TypeError, KeyError):
            return None
        if not code or not self._is_main(event):
            return None
        data = {name: event.get(name) for name in ("session_id", "tool_name", "args")}
        fix = self.ask("failed", {**data, "exit_code": code}, _SHORT).get("context")
        return f"{result}\n\n{fix}" if fix else None

    def end(self, **event: Any) -> None:
        """Import the session in the background."""
        session = event.get("session_id")
        self.ask("end", {"session_id": session}, _SHORT)
        self.subagents.discard(session)
        states: tuple[dict[str, Any], ...] = (self.summaries, self.notices, self.turns)
        for known in states:  # a gateway runs for months
            known.pop(str(session), None)

    def tool(self, name: str) -> Callable[..., str]:
        """The handler of one of our tools."""

        def handle(arguments: dict[str, Any], **event: Any) -> str:
            data = {"session_id": event.get("session_id"), "tool_name": name, "args": arguments}
            return self.ask("tool", data, _TOOL).get("result") or json.dumps({"success": False, "error": _NO_ANSWER})

        return handle

    # -- compaction and handoff

    def compressed(self, session: str, parent: str, packet: str) -> None:
        """Called after Hermes has replaced a conversation with our compacted one, perhaps in a new session."""
        if self._is_main({"session_id": parent}):
            data = {"session_id": session, "parent": parent, "packet": packet, "settings": self.handoff}
            answer = self.ask("compressed", data, _TOOL)
            self.notices[session] = answer.get("notice") or ""

    def compact(self, session: str, messages: Sequence[dict[str, Any]], tokens: int, target: int) -> dict[str, Any]:
        """The conversation as compacted by our process; empty if it declines."""
        data = {
            "session_id": session,
            "messages": [{name: message.get(name) for name in _FIELDS} for message in messages],
            "tokens": tokens,
            "target": target,
            "rotates": not self.in_place and self._is_main({"session_id": session}),
            "settings": self.handoff,
        }
        return self.ask("compress", data, _TOOL)

    @property
    def in_place(self) -> bool:
        """Whether a session keeps its id when it is compressed."""
        return str(self.compression.get("in_place")).lower() in ("true", "1", "yes", "on")

    def show_notice(self, **event: Any) -> str | None:
        """Show the user the result of a compression: as a line in a terminal, elsewhere at the end of the reply."""
        notice = self.notices.pop(str(event.get("session_id")), "")
        if notice and event.get("platform") in ("", "cli"):  # the reply may already be on the screen
            print(f"\n{notice}", file=sys.stderr, flush=True)  # noqa: T201
            return None
        return f"{event['response_text']}\n\n{notice}" if notice else None

    def write_packet(self, ctx: Any, note: str) -> str:
        """Answer `/handoff-packet`. Hermes does not tell a command which session it is in."""
        terminal = ctx._manager._cli_ref  # `None` in the gateway
        session = getattr(getattr(terminal, "agent", None), "session_id", "") or getattr(terminal, "session_id", "")
        if not session:
            return "/handoff-packet works in a terminal; elsewhere run `warmstart handoff packet SESSION`"
        data = {"session_id": session, "note": note, "settings": self.handoff}
        return str(self.ask("packet", data, _TOOL).get("text") or _NO_ANSWER)

    # -- `hermes warm`

    def warm(self, parsed: argparse.Namespace) -> None:
        """Run one of our commands and exit with its code."""
        words = parsed.arguments
        if words[:1] == ["start"]:
            sys.exit(self.start(words[1:]))
        if words[:1] == ["list"]:
            words.append("--long")
        try:
            if words[:1] in (["extract"], ["create"], ["compress"]):  # the session may have just ended
                self._run("sync", "--path", str(_home() / "state.db"), stdout=subprocess.DEVNULL)
            sys.exit(self._run("templates", *words))
        except OSError as error:
            sys.exit(f"warmstart: {self.command[0]!r}: {error.strerror}; run `warmstart install hermes` again")

    def _run(self, *words: str, stdout: int | None = None) -> int:
        line, env = [*self.command, *words], {**self.environment, "WARMSTART_CALLED_AS": _CALLED_AS}
        return subprocess.run(line, env=env, stdout=stdout, check=False).returncode  # noqa: S603

    def start(self, words: list[str]) -> str | None:
        """Write a new session that starts with the brief and a template, and print the command to resume it."""
        parser = argparse.ArgumentParser("hermes warm start", description="Prepare a session that starts warm.")
        parser.add_argument("task", metavar="TASK", help="what the session should do, in your own words")
        parser.add_argument("--template", metavar="ID", default="", help="default: the one that fits the task")
        options = parser.parse_args(words)
        from model_tools import get_tool_definitions

        session = f"{datetime.now():%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"
        data = {"session_id": session, **vars(options), "tools": get_tool_definitions(quiet_mode=True)}
        answer = self.ask("seed", data, _TOOL)
        if not answer.get("messages"):
            return f"warmstart: {answer.get('error') or _NO_ANSWER}".replace(_COMMANDS, _CALLED_AS)
        save_session(session, options.task, answer["messages"])
        print(f"hermes chat --resume {session} -q {shlex.quote(options.task)}")  # noqa: T201
        return None


def create_engine(plugin: Plugin) -> Any:
    """A context engine: our process compacts the conversation, with Hermes' own compressor as the fallback."""
    from agent.context_compressor import ContextCompressor

    class Engine(ContextCompressor):  # type: ignore[misc]
        """Keeps the plugin out of its attributes: Hermes makes a deep copy of it for every agent."""

        name = ENGINE
        packet = ""

        def compress(self, messages: Any, current_tokens: Any = None, *rest: Any, **options: Any) -> Any:
            tokens = current_tokens or self.last_prompt_tokens
            answer = plugin.compact(getattr(self, "_session_id", ""), messages, tokens, self.threshold_tokens // 2)
            self.packet = answer.get("packet") or ""
            if not answer.get("messages"):
                return super().compress(messages, current_tokens, *rest, **options)
            self.compression_count += 1
            self._last_compression_made_progress = True
            self._last_compress_aborted, self._last_summary_error = False, None
            return [
                {**(messages[index] if index is not None else {}), **changes} for index, changes in answer["messages"]
            ]

        def on_session_start(self, session_id: str, **event: Any) -> None:
            super().on_session_start(session_id, **event)
            if event.get("boundary_reason") == "compression":
                plugin.compressed(session_id, event["old_session_id"], self.packet)

    chosen = {name: plugin.compression[key] for key, name in _COMPRESSION.items() if key in plugin.compression}
    return Engine("", config_context_length=128_000, quiet_mode=True, **chosen)  # the model is set later


def save_session(session: str, title: str, messages: Sequence[dict[str, Any]]) -> None:
    """Write a session through Hermes' own interface, all or nothing."""
    from hermes_state import SessionDB

    database = SessionDB()
    try:
        database.create_session(session, "cli", cwd=_folder())
        for message in messages:
            database.append_message(session, **message)
    except BaseException:
        database.delete_session(session)
        raise
    with contextlib.suppress(ValueError):  # another session has this title
        database.set_session_title(session, title[:80])
    database.close()


# -- requests, in the shape of whichever API is in use


def insert_block(request: dict[str, Any], block: str) -> bool:
    """Put the block after the identity in the system prompt, unless a block is there already."""
    messages = request.get("messages") or [{}]
    for holder, key in ((messages[0], "content"), (request, "system"), (request, "instructions")):
        for part, name in _texts(holder, key):
            if text := _with_block(part[name], block):
                part[name] = text
                return True
    return False


def append_overlay(request: dict[str, Any], message: str, overlay: str) -> bool:
    """Put the overlay after the user's message, which is the last one with its text."""
    for item in reversed(request.get("messages") or request.get("input") or ()):
        parts = _texts(item, "content") if item.get("role") == "user" else []
        if any(message in part[name] for part, name in parts):
            part, name = parts[-1]
            part[name] += f"\n\n{overlay}"
            return True
    return False


def _texts(holder: dict[str, Any], key: str) -> list[tuple[dict[str, Any], str]]:
    """Where the texts of a message or a prompt are: each part that has one, and its key there."""
    value = holder.get(key)
    parts = [(part, "text") for part in value] if isinstance(value, list) else [(holder, key)]
    return [(part, name) for part, name in parts if isinstance(part.get(name), str)]


def _with_block(prompt: str, block: str) -> str:
    """The system prompt with the block between the identity and the rest; empty if there is nothing to change."""
    from agent import prompt_builder

    rest = prompt_builder.HERMES_AGENT_HELP_GUIDANCE  # always follows the identity
    identity, found, after = prompt.partition(rest)
    if not block or not found or identity.rstrip().endswith(_END):
        return ""
    return f"{identity}{block}\n\n{rest}{after}"


def _store_block(session: str, block: str) -> None:
    """Add the block to the system prompt that Hermes has stored, through Hermes' own interface.

    A resumed session reads its prompt from there, and so do Hermes' exports. Hermes stores the prompt as it builds it,
    in the first turn and after a compression, before any plugin can change it.
    """
    from hermes_state import SessionDB

    try:
        database = SessionDB()
        try:
            prompt = _with_block((database.get_session(session) or {}).get("system_prompt") or "", block)
            if prompt:
                database.update_system_prompt(session, prompt)
        finally:
            database.close()
    except Exception as error:  # the requests have the block anyway
        _log.warning("warmstart: the block is not in the stored prompt: %s", type(error).__name__)


def _text(message: object) -> str:
    """The text of a message, which consists of parts if it has an image."""
    parts = message if isinstance(message, list) else [{"text": message}]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


def _home() -> Path:
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def _folder() -> str:
    from agent.runtime_cwd import resolve_agent_cwd

    return str(resolve_agent_cwd())
