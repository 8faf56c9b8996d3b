"""The part of Warmstart that runs inside Hermes Agent. It imports the standard library and Hermes, nothing else.

Everything else happens in a process of our own, `warmstart hook hermes EVENT`, which gets the event as JSON on its
standard input. Hermes has its own environment, and sharing its process would go wrong in four ways:

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

_CODE = "from warmstart.__main__ import main; main()"
_TURN, _START, _TOOL = 3, 10, 60  # seconds until we go on without an answer
_MAX_OUTPUT = 20_000  # characters of a failing call's output that are looked at
_SUMMARY = "[CONTEXT COMPACTION"  # how a message begins that replaces earlier ones
_NO_ANSWER = "Warmstart did not answer, go on without it; `warmstart doctor` shows why"
_HELP = "The commands of `warmstart templates` (extract, list, test, delete and others), and start."


def register(ctx: Any, python: str = "", home: str = "") -> None:
    """Called by Hermes. `python` has Warmstart installed (default: Hermes' own), `home` is `$WARMSTART_HOME`."""
    plugin = Plugin([python, "-EPc", _CODE] if python else [sys.executable, "-Pc", _CODE], home)
    ctx.register_cli_command("warm", "Start sessions from what worked in past ones", _arguments, plugin.warm, _HELP)
    if os.environ.get("WARMSTART_DISABLED") == "1":
        return
    ctx.register_hook("pre_llm_call", plugin.before_turn)
    ctx.register_hook("transform_tool_result", plugin.after_tool)
    ctx.register_hook("on_session_finalize", plugin.end)
    ctx.register_hook("subagent_start", plugin.remember_subagent)
    if plugin.preflight:
        ctx.register_middleware("llm_request", plugin.add_block)
    # From files, because Hermes' Python may not be able to import the tools.
    here = Path(__file__).parent
    for path in (here.parent / "memory" / "tool.json", here / "recall_tool.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        ctx.register_tool(schema["name"], "warmstart", schema, plugin.tool(schema["name"]))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="see above")


class Plugin:
    """What the plugin knows while Hermes runs. Hermes calls its hooks by keyword, from several threads."""

    def __init__(self, command: list[str], home: str) -> None:
        self.command = command
        self.environment = {**os.environ, "WARMSTART_HOME": home} if home else None
        self.preflight = _preflight_setting()
        self.block: str | None = None
        self.subagents: set[str] = set()
        self.summaries: dict[str, str] = {}  # by session

    # -- our process

    def ask(self, event: str, data: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer of our process to an event; empty if it has none."""
        try:
            with self._started(event, subprocess.PIPE) as process:
                try:
                    output, _ = process.communicate(_event(data), timeout)
                finally:
                    process.kill()
            answer = json.loads(output) if output.strip() else {}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _log.warning("warmstart hook hermes %s: %s", event, type(error).__name__)
            return {}
        return answer if isinstance(answer, dict) else {}

    def _started(self, event: str, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own command
            [*self.command, "hook", "hermes", event],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            start_new_session=True,  # Ctrl-C is for Hermes
        )

    def run(self, *words: str, stdout: int | None = None) -> int:
        """Run one of our commands in the user's terminal, and return its exit code."""
        try:
            line = [*self.command, *words]
            return subprocess.run(line, env=self.environment, stdout=stdout, check=False).returncode  # noqa: S603
        except OSError as error:
            return _complain(f"cannot run {self.command[0]!r} ({error.strerror}); run `warmstart install hermes` again")

    # -- hooks

    def before_turn(
        self,
        session_id: str = "",
        user_message: object = "",
        is_first_turn: bool = False,
        conversation_history: Sequence[dict[str, Any]] = (),
        model: str = "",
        **_: object,
    ) -> dict[str, Any] | None:
        """The brief with the first message, an overlay later. Hermes adds it to the user's message and keeps it."""
        if not self._is_main(session_id):
            return None
        texts = (str(each.get("content")) for each in conversation_history)
        summary = next((text for text in texts if text.startswith(_SUMMARY)), "")
        data = {
            "session_id": session_id,
            "message": _text(user_message),
            "first": is_first_turn,
            "block": self.preflight is None,
            "compacted": summary != self.summaries.setdefault(session_id, summary),
            "model": model,
        }
        self.summaries[session_id] = summary
        answer = self.ask("turn", data, _START if is_first_turn else _TURN)
        return answer if answer.get("context") else None

    def _is_main(self, session_id: str) -> bool:
        """Whether a person talks here: not in subagents, nor where Hermes reviews its own turn in the background."""
        return session_id not in self.subagents and threading.current_thread().name != "bg-review"

    def remember_subagent(self, child_session_id: str = "", **_: object) -> None:
        """Remember the session of a subagent: nothing else tells it from a person's."""
        self.subagents.add(child_session_id)

    def add_block(self, request: dict[str, Any], session_id: str = "", **_: object) -> dict[str, Any] | None:
        """The request with the preflight block, the same bytes every time."""
        if not self._is_main(session_id):
            return None
        if self.block is None:
            self.block = str(self.ask("block", {"mode": self.preflight}, _TURN).get("block") or "")
        return {"request": request} if self.block and insert_block(request, self.block) else None

    def after_tool(
        self,
        session_id: str = "",
        tool_name: str = "",
        args: object = None,
        result: object = "",
        status: str = "",
        **_: object,
    ) -> str | None:
        """The result of a failing call and the fix that worked before, if one is known."""
        if not isinstance(result, str) or not failed(result, status) or not self._is_main(session_id):
            return None
        data = {"session_id": session_id, "tool": tool_name, "arguments": args, "output": result[:_MAX_OUTPUT]}
        fix = self.ask("tool_failed", data, _TURN).get("context")
        return f"{result}\n\n{fix}" if fix else None

    def end(self, session_id: str | None = "", **_: object) -> None:
        """Have the session imported, without waiting: Hermes is about to exit."""
        process = self._started("end", subprocess.DEVNULL)
        if process.stdin:
            process.stdin.write(_event({"session_id": session_id}))
            process.stdin.close()

    def tool(self, name: str) -> Callable[..., str]:
        """The handler of one of our tools."""

        def handle(arguments: dict[str, Any], session_id: str = "", **_: object) -> str:
            data = {"session_id": session_id, "tool": name, "arguments": arguments}
            return self.ask("tool", data, _TOOL).get("result") or json.dumps({"success": False, "error": _NO_ANSWER})

        return handle

    # -- `hermes warm`

    def warm(self, parsed: argparse.Namespace) -> None:
        """Run one of our commands, and leave with its exit code."""
        words = parsed.arguments
        if words[:1] == ["start"]:
            sys.exit(self.start(words[1:]))
        if words[:1] == ["extract"]:  # perhaps of a session that has just ended
            self.run("sync", "--path", str(_home() / "state.db"), stdout=subprocess.DEVNULL)
        sys.exit(self.run("templates", *words))

    def start(self, words: list[str]) -> int:
        """Write a new session that begins with the brief and a template, and print the command that resumes it."""
        parser = argparse.ArgumentParser("hermes warm start", description="Prepare a session that starts warm.")
        parser.add_argument("task", metavar="TASK", help="what the session is to do, in your words")
        parser.add_argument("--template", metavar="ID", default="", help="default: the one that fits the task")
        asked = parser.parse_args(words)
        from model_tools import get_tool_definitions

        session_id = f"{datetime.now():%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"
        data = {"session_id": session_id, "task": asked.task, "template": asked.template}
        answer = self.ask("seed", {**data, "tools": get_tool_definitions(quiet_mode=True)}, _TOOL)
        if not answer.get("messages"):
            return _complain(answer.get("error") or _NO_ANSWER)
        save_session(session_id, asked.task, answer["messages"])
        print(f"hermes chat --resume {session_id} -q {shlex.quote(asked.task)}")  # noqa: T201
        return 0


def save_session(session_id: str, title: str, messages: Sequence[dict[str, Any]]) -> None:
    """Write a session through Hermes' own interface, whole or not at all."""
    from hermes_state import SessionDB

    database = SessionDB()
    try:
        database.create_session(session_id, "cli", cwd=_folder())
        for message in messages:
            database.append_message(session_id, **message)
    except BaseException:
        database.delete_session(session_id)
        raise
    with contextlib.suppress(ValueError):  # another session has this title
        database.set_session_title(session_id, title[:80])
    database.close()


def insert_block(request: dict[str, Any], block: str) -> bool:
    """Put the block after the identity in the system prompt, wherever the API that Hermes calls has that prompt."""
    from agent import prompt_builder

    rest = prompt_builder.HERMES_AGENT_HELP_GUIDANCE  # follows the identity, whatever that is
    messages = request.get("messages") or [{}]
    for holder, key in ((messages[0], "content"), (request, "system"), (request, "instructions")):
        parts = holder.get(key)
        for each, name in [(part, "text") for part in parts] if isinstance(parts, list) else [(holder, key)]:
            text = each.get(name)
            if isinstance(text, str) and rest in text:
                each[name] = text.replace(rest, f"{block}\n\n{rest}", 1)
                return True
    return False


def failed(result: object, status: str) -> bool:
    """Whether a call failed. For Hermes a command that ran is fine, whatever its exit code."""
    try:
        fields = json.loads(result) if isinstance(result, str) else {}
    except ValueError:
        fields = {}
    return status == "error" or (isinstance(fields, dict) and bool(fields.get("exit_code")))


def _preflight_setting() -> bool | str | None:
    """`agent.context_preflight` of Hermes' config: true, false or a mode; `None` if it is not set."""
    from hermes_cli.config import load_config

    value: bool | str | None = (load_config().get("agent") or {}).get("context_preflight")
    return value


def _text(message: object) -> str:
    """The text of a message, which has parts if it has an image."""
    parts = message if isinstance(message, list) else [{"text": message}]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


def _event(data: dict[str, Any]) -> bytes:
    return json.dumps({"hermes_home": str(_home()), "cwd": _folder(), **data}, default=str).encode()


def _home() -> Path:
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def _folder() -> str:
    from agent.runtime_cwd import resolve_agent_cwd

    return str(resolve_agent_cwd())


def _complain(message: str) -> int:
    print(f"warmstart: {message}", file=sys.stderr)  # noqa: T201
    return 1
