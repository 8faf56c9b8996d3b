"""The part of Warmstart that runs inside Hermes Agent. It imports the standard library and Hermes, nothing else.

Everything else happens in a process of our own, `warmstart hook hermes EVENT`, with the event as JSON on its standard
input. Hermes has its own environment, and sharing its process would go wrong in four ways:

- our compiled dependencies load in one version of Python only, and Hermes often runs on another;
- our packages on Hermes' path would change which optional features Hermes believes to be installed;
- Hermes holds `state.db` open, and a second SQLite library that opens it in the same process can drop its locks;
- a call into a library cannot be stopped at a deadline, a process can.

Whatever fails, Hermes goes on as if we were not there, and one line is in Hermes' log.
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
from typing import Any

_log = logging.getLogger(__name__)

_TURN, _START, _TOOL = 3, 10, 60  # seconds until we go on without an answer
_MAX_OUTPUT = 20_000  # characters of a failing call's output that are looked at
_SUMMARY = "[CONTEXT COMPACTION"  # how a message begins that replaces earlier ones
_UNAVAILABLE = "Warmstart did not answer, go on without it; `warmstart doctor` shows why"

_HELP = """\
Start new sessions from what worked in past ones.

  hermes warm extract SESSION_ID --name NAME --description TEXT
  hermes warm list
  hermes warm test ID "MESSAGE"
  hermes warm delete ID
  hermes warm start "TASK" [--template ID]

All commands of `warmstart templates` work here. `hermes warm COMMAND --help` describes one.
"""


def register(ctx: Any, command: list[str] | None = None, own_store: bool = False) -> None:
    """Called by Hermes. `command` runs Warmstart; the default is for one in Hermes' own environment."""
    plugin = Plugin(command or [sys.executable, "-P", "-m", "warmstart"], own_store=own_store)
    ctx.register_cli_command("warm", "Start sessions from what worked in past ones", _arguments, plugin.warm, _HELP)
    if os.environ.get("WARMSTART_DISABLED") == "1":
        return
    ctx.register_hook("pre_llm_call", plugin.before_turn)
    ctx.register_hook("post_tool_call", plugin.count_call)
    ctx.register_hook("transform_tool_result", plugin.after_tool)
    ctx.register_hook("on_session_finalize", plugin.end)
    ctx.register_hook("subagent_start", plugin.remember_subagent)
    if plugin.preflight:
        ctx.register_middleware("llm_request", plugin.add_block)
    # From files: Hermes' Python may not be able to import the tools themselves.
    here = Path(__file__).parent
    for path in (here.parent / "memory" / "tool.json", here / "recall_tool.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        ctx.register_tool(schema["name"], "warmstart", schema, plugin.tool(schema["name"]))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="see above")


class Plugin:
    """What the plugin knows while Hermes runs."""

    def __init__(self, command: list[str], *, own_store: bool) -> None:
        self.command = command
        self.own_store = own_store
        self.preflight = _preflight_setting()
        self.block: str | None = None
        self.subagents: set[str] = set()
        self.summaries: dict[str, str] = {}
        self.calls: dict[str, list[int]] = {}  # of a session: how many, and how many failed

    # -- our process

    def ask(self, event: str, data: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer of our process to an event; empty if it has none."""
        try:
            process = self._start(event, subprocess.PIPE)
            try:
                output, _ = process.communicate(_event(data), timeout)
            finally:
                process.kill()
                process.wait()
            answer = json.loads(output) if output.strip() else {}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _log.warning("warmstart hook hermes %s: %s", event, type(error).__name__)
            return {}
        return answer if isinstance(answer, dict) else {}

    def _start(self, event: str, output: int) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.PIPE, "stdout": output, "stderr": subprocess.DEVNULL}
        line = [*self.command, "hook", "hermes", event]
        # A session of its own: Ctrl-C is for Hermes.
        return subprocess.Popen(line, env=self.environment(), start_new_session=True, **streams)

    def environment(self) -> dict[str, str]:
        """The environment of our process."""
        return {**os.environ, "WARMSTART_HOME": str(_home() / "warmstart")} if self.own_store else dict(os.environ)

    # -- hooks and tools, called by Hermes with more arguments in later versions

    def before_turn(
        self,
        session_id: str = "",
        user_message: object = "",
        is_first_turn: bool = False,
        model: str = "",
        conversation_history: Sequence[dict[str, Any]] = (),
        **_: object,
    ) -> dict[str, str] | None:
        """The brief with the first message, an overlay later. Hermes adds it to the user's message, and keeps it."""
        if not self._is_main(session_id):
            return None
        texts = (str(each.get("content")) for each in conversation_history)
        summary = next((text for text in texts if text.startswith(_SUMMARY)), "")
        known = self.summaries.setdefault(session_id, summary)
        self.summaries[session_id] = summary
        data = {
            "session_id": session_id,
            "message": _text(user_message),
            "first": is_first_turn,
            "block": self.preflight is None,
            "compacted": summary != known,
            "model": model,
        }
        text = self.ask("turn", data, _START if is_first_turn else _TURN).get("context")
        return {"context": text} if text else None

    def _is_main(self, session_id: str) -> bool:
        """Whether a person talks here: not in subagents, nor where Hermes reviews its own turn in the background."""
        return bool(session_id) and session_id not in self.subagents and threading.current_thread().name != "bg-review"

    def remember_subagent(self, child_session_id: str = "", **_: object) -> None:
        """Nothing else tells a subagent's session from a person's."""
        self.subagents.add(child_session_id)

    def add_block(self, request: dict[str, Any], session_id: str = "", **_: object) -> dict[str, Any] | None:
        """The request with the preflight block after the identity, always the same bytes."""
        if not self._is_main(session_id):
            return None
        if self.block is None:
            self.block = self.ask("block", {"mode": self.preflight}, _TURN).get("block") or ""
        return {"request": request} if self.block and insert_block(request, self.block) else None

    def count_call(self, session_id: str = "", result: object = "", status: str = "", **_: object) -> None:
        """Count the calls of a session, and those that failed."""
        counts = self.calls.setdefault(session_id, [0, 0])
        counts[0] += 1
        counts[1] += failed(result, status)

    def after_tool(
        self,
        session_id: str = "",
        tool_name: str = "",
        args: object = None,
        result: object = "",
        status: str = "",
        **_: object,
    ) -> str | None:
        """The result of a failing call with the fix that worked before, if one is known."""
        if not isinstance(result, str) or not failed(result, status) or not self._is_main(session_id):
            return None
        data = {"session_id": session_id, "tool": tool_name, "arguments": args, "output": result[:_MAX_OUTPUT]}
        text = self.ask("tool_failed", data, _TURN).get("context")
        return f"{result}\n\n{text}" if text else None

    def end(self, session_id: str | None = "", **_: object) -> None:
        """Import the session, in the background: Hermes is about to exit."""
        calls, errors = self.calls.pop(session_id or "", [0, 0])
        process = self._start("end", subprocess.DEVNULL)
        process.stdin.write(_event({"session_id": session_id, "calls": calls, "errors": errors}))
        process.stdin.close()

    def tool(self, name: str) -> Callable[..., str]:
        """The handler of one of our tools."""

        def handle(arguments: dict[str, Any], session_id: str = "", **_: object) -> str:
            data = {"session_id": session_id, "tool": name, "arguments": arguments}
            result = self.ask("tool", data, _TOOL).get("result")
            return result or json.dumps({"success": False, "error": _UNAVAILABLE})

        return handle

    # -- `hermes warm`

    def warm(self, parsed: argparse.Namespace) -> None:
        """Run one of our commands; Hermes ends with its exit code."""
        words = parsed.arguments
        if words[:1] == ["start"]:
            sys.exit(self.start(words[1:]))
        if words[:1] == ["extract"]:  # of a session that may have just ended
            self._run(["sync", str(_home() / "state.db")], stdout=subprocess.DEVNULL)
        sys.exit(self._run(["templates", *words]))

    def _run(self, words: list[str], stdout: int | None = None) -> int:
        try:
            return subprocess.run([*self.command, *words], env=self.environment(), stdout=stdout, check=False).returncode
        except OSError as error:
            return _complain(f"cannot run {self.command[0]!r} ({error.strerror}); run `warmstart install hermes` again")

    def start(self, words: list[str]) -> int:
        """Write a new session that begins with the brief and a template, and print the command that resumes it."""
        parser = argparse.ArgumentParser("hermes warm start", description="Prepare a session that starts warm.")
        parser.add_argument("task", help="the task of the session, in your words")
        parser.add_argument("--template", metavar="ID", default="", help="default: the template that fits the task")
        asked = parser.parse_args(words)
        from model_tools import get_tool_definitions

        session_id = f"{datetime.now():%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"
        data = {"session_id": session_id, "task": asked.task, "template": asked.template}
        answer = self.ask("seed", {**data, "tools": get_tool_definitions(quiet_mode=True)}, _TOOL)
        if not answer.get("messages"):
            return _complain(answer.get("error") or _UNAVAILABLE)
        save_session(session_id, asked.task, answer["messages"])
        print(f"hermes chat --resume {session_id} -q {shlex.quote(asked.task)}")  # noqa: T201
        return 0


def save_session(session_id: str, title: str, messages: Sequence[dict[str, Any]]) -> None:
    """Write a session into Hermes' database, in Hermes' own way, whole or not at all."""
    from hermes_state import SessionDB

    database = SessionDB()
    try:
        database.create_session(session_id, "cli", cwd=_working_folder())
        for message in messages:
            database.append_message(session_id, **message)
    except BaseException:
        database.delete_session(session_id)
        raise
    with contextlib.suppress(ValueError):  # another session has this title
        database.set_session_title(session_id, title[:80])
    database.close()


def insert_block(request: dict[str, Any], block: str) -> bool:
    """Put the block between the identity and what follows it in the system prompt, for each API that Hermes speaks."""
    from agent.prompt_builder import HERMES_AGENT_HELP_GUIDANCE as following

    messages = request.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else {}
    places = [(request, "system"), (request, "instructions")]
    if first.get("role") in ("system", "developer"):
        places.insert(0, (first, "content"))
    for holder, key in places:
        if isinstance(holder.get(key), list):  # parts, of which one may be cached
            holder, key = next((part for part in holder[key] if following in str(part.get("text"))), {}), "text"
        text = holder.get(key)
        if isinstance(text, str) and following in text:
            holder[key] = text.replace(following, f"{block}\n\n{following}", 1)
            return True
    return False


def failed(result: object, status: str) -> bool:
    """Whether a call failed. To Hermes a command with an exit code is fine."""
    try:
        fields = json.loads(result) if isinstance(result, str) else {}
    except ValueError:
        fields = {}
    return status == "error" or (isinstance(fields, dict) and bool(fields.get("exit_code")))


def _preflight_setting() -> bool | str | None:
    """`agent.context_preflight` of Hermes' config: true, false or a mode; `None` if it is not set."""
    from hermes_cli.config import load_config

    return (load_config().get("agent") or {}).get("context_preflight")


def _text(message: object) -> str:
    """The text of a message, which has parts if it has an image."""
    parts = message if isinstance(message, list) else [{"text": message}]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


def _event(data: dict[str, Any]) -> bytes:
    return json.dumps({"hermes_home": str(_home()), "cwd": _working_folder(), **data}, default=str).encode()


def _home() -> Path:
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def _working_folder() -> str:
    from agent.runtime_cwd import resolve_agent_cwd

    return str(resolve_agent_cwd())


def _complain(message: str) -> int:
    print(f"warmstart: {message}", file=sys.stderr)  # noqa: T201
    return 1
