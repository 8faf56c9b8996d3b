"""The real Codex: its trust in hooks, compactions, and its MCP servers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.clients import MARKS, RPC, Codex, rpc_server
from tests.hosts.scenario import ours
from warmstart.hosts.codex import EVENTS
from warmstart.sessions.values import Usage
from warmstart.testing.model import Reply, Request

pytestmark = MARKS

CONSTRAINT = "Never touch the files under vendor/, and only use Python 3.11."
ASKED = "CONTEXT CHECKPOINT COMPACTION"
SUMMARY = Reply(when=ASKED, text="They talked about tides.", repeat=True)


class AppServer(RPC):
    """What a terminal or an editor talks to."""

    def run(self, method: str, **parameters: Any) -> None:
        """Start a turn, and wait for its end."""
        self.call(method, **parameters)
        next(each for each in self.messages() if each.get("method") == "turn/completed")

    def trust_hooks(self, folder: Path) -> list[str]:
        """Do what Codex does when a person has reviewed all hooks. Returns their keys."""
        (found,) = self.call("hooks/list", cwds=[str(folder)])["data"]
        trusted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in found["hooks"]}
        edit = {"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"}
        self.call("config/batchWrite", edits=[edit], reloadUserConfig=True)
        return list(trusted)


@contextmanager
def app_server(codex: Codex) -> Iterator[AppServer]:
    with rpc_server(codex, "app-server") as process:
        server = AppServer(process)
        server.call("initialize", clientInfo={"name": "test", "title": "test", "version": "1"})
        yield server


def check_of(codex: Codex) -> dict[str, str]:
    done = codex._run([codex.python, "-m", "warmstart", "doctor", "--json"], None, check=False)
    (check,) = [check for check in json.loads(done.stdout) if check["subject"] == "codex hooks"]
    return dict(check)


def test_hooks_run_once_a_person_has_reviewed_them(codex: Codex) -> None:
    codex.install()
    config = (codex.home / ".codex" / "config.toml").read_text()
    assert "trusted_hash" not in config
    done = codex.run("exec", "--json", "Hello.")
    assert ours(codex.model.requests[-1]) == "", done.stdout
    check = check_of(codex)
    assert check["status"] == "warning"
    assert f"{len(EVENTS)} of {len(EVENTS)} hooks" in check["remedy"]
    with app_server(codex) as server:
        keys = server.trust_hooks(codex.work)
    assert {key.split(":")[1] for key in keys} == {
        "session_start", "subagent_start", "user_prompt_submit", "post_tool_use", "stop", "session_end",
    }  # fmt: skip
    codex.run("exec", "--json", "Hello.")
    assert ours(codex.model.requests[-1])
    assert check_of(codex)["status"] != "warning"
    # Another Python is another command, which must be reviewed again.
    hooks = codex.home / ".codex" / "hooks.json"
    hooks.write_text(hooks.read_text().replace(" -EPc ", " -EP -c "))
    codex.run("exec", "--json", "Hello.")
    assert ours(codex.model.requests[-1]) == ""
    codex.warmstart("install", "codex", "--yes")
    codex.warmstart("uninstall", "codex", "--yes")
    assert "warmstart" not in (codex.home / ".codex" / "config.toml").read_text()


def is_summary(request: Request) -> bool:
    return ASKED in request.last_user_text


def test_a_constraint_survives_a_manual_compaction(codex: Codex) -> None:
    codex.install()
    codex.model.add(SUMMARY)
    with app_server(codex) as server:
        server.trust_hooks(codex.work)
        thread = server.call("thread/start", cwd=str(codex.work))["thread"]["id"]
        for text in (f"Let us work on the tide gauge. {CONSTRAINT}", "What about the storm table?"):
            server.run("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
        server.run("thread/compact/start", threadId=thread)
        server.run("turn/start", threadId=thread, input=[{"type": "text", "text": "Go on, please."}])
    first, _, summary, last = codex.model.requests
    assert ours(first)
    assert is_summary(summary)
    assert "They talked about tides." in last.text
    assert CONSTRAINT in ours(last)


def test_a_constraint_survives_an_automatic_compaction(codex: Codex) -> None:
    codex.install()
    full = Usage(input=50_000, output=20)
    codex.model.add(SUMMARY, *(Reply(calls=[codex.shell("make test")], usage=full) for _ in range(2)))
    turn = codex.ask(f"Let us work on the tide gauge. {CONSTRAINT}", "-c", "model_auto_compact_token_limit=30000")
    (place, *_) = [number for number, request in enumerate(turn.requests) if is_summary(request)]
    after = [request for request in turn.requests[place + 1 :] if not is_summary(request)]
    assert after
    for request in after:
        assert "They talked about tides." in request.text
        assert CONSTRAINT in ours(request)


def test_our_server_is_written_as_codex_writes_it(codex: Codex, tmp_path: Path) -> None:
    config = codex.home / ".codex" / "config.toml"
    config.write_text(config.read_text() + "\n")
    before = config.read_text()
    codex.install()
    written = config.read_text()
    server = tomllib.loads(written)["mcp_servers"]["warmstart"]
    assert "warmstart" in codex.run("mcp", "list").stdout
    codex.run("mcp", "remove", "warmstart")
    assert config.read_text() == before
    codex.run("mcp", "add", "warmstart", "--", server["command"], *server["args"])
    assert config.read_text() == written


def test_the_skill_and_the_tools_are_offered(codex: Codex) -> None:
    codex.install()
    codex.model.add(Reply(text="One."))
    turn = codex.ask("$warm which port?")
    text = turn.requests[0].text
    assert "warm: Show what earlier sessions" in text
    assert "call `recall`" in text  # the body of the skill
