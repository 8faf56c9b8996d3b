"""What the plugin in OpenCode gets, and what is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.install.test_claude_code import Hook
from tests.install.test_install import tree, write
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, uninstall
from warmstart.hosts.opencode import PACKAGE, handle
from warmstart.sessions.marks import MARK

SESSION = "ses_e1aa6a0cdffe1CgzYVloKbyY0J"
COMMON = {"session_id": SESSION, "cwd": "/home/mara/x"}
RULE = "Never touch the files under vendor/."


def asked(event: str, answer: str | None = "TEXT", **data: Any) -> tuple[list[tuple[Any, ...]], Any]:
    hook = Hook(answer)
    result = handle(event, {**COMMON, **data}, hook)  # type: ignore[arg-type]
    return hook.asked, result


def test_a_session_gets_its_start_and_after_a_compaction_also_the_users_rules():
    calls, answer = asked("start", model="opus", prompts=[RULE], is_compacted=False)
    assert calls == [("start", SESSION, "/home/mara/x", "opencode", "opus")]
    assert answer == {"context": "TEXT"}
    text = asked("start", model="opus", prompts=["Hello.", RULE], is_compacted=True)[1]["context"]
    assert text.startswith(f"TEXT\n\n{MARK}")
    assert text.count(RULE) == 1


def test_a_prompt_gets_the_evidence_for_its_turn():
    assert asked("prompt", prompt="Please") == (
        [("before_turn", SESSION, "/home/mara/x", "Please")],
        {"context": "TEXT"},
    )
    assert asked("prompt", None, prompt="Please")[1] is None


def test_a_command_that_fails_gets_its_fix():
    data = {"arguments": {"command": "yarn test"}, "output": "exit code 3\noops"}
    calls, answer = asked("failed", **data)
    assert calls[0][0] == "after_tool"
    assert calls[0][-3:] == ("bash", {"command": "yarn test"}, "exit code 3\noops")
    assert answer == {"context": "TEXT"}


def test_a_summary_is_asked_to_quote_the_users_rules():
    calls, answer = asked("compacting", prompts=[RULE], is_compacted=False)
    assert calls == []
    assert RULE in answer["context"]
    assert asked("compacting", prompts=["Hello."]) == ([], None)
    assert asked("compacted") == ([("after_compaction", SESSION)], None)


def test_secrets_in_the_rules_stay_out():
    secret = "ghp_" + "Zq7Lk2" * 6
    text = asked("compacting", prompts=[f"Never print {secret} anywhere."])[1]["context"]
    assert "Never print" in text
    assert secret not in text


def test_the_database_is_imported_when_a_turn_ends(home, monkeypatch):
    assert asked("idle") == ([], None)
    data = home / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    write(data / "opencode" / "opencode.db", "")
    assert asked("idle") == ([("sync", str(data / "opencode" / "opencode.db"))], None)


def test_an_event_without_its_fields_is_no_error():
    for event in ("start", "prompt", "compacting", "compacted", "idle", ""):
        handle(event, {}, Hook())  # type: ignore[arg-type]


# -- what is installed


@pytest.fixture
def place(home: Path) -> Place:
    return Place(home, {"PATH": os.environ["PATH"], "WARMSTART_HOME": str(home / ".warmstart")})


@pytest.fixture
def folder(home: Path) -> Path:
    return home / ".config" / "opencode"


def set_up(place: Place, home: Path) -> list[str]:
    plan = plan_install("opencode", place, home)
    install(plan, place, home)
    return [change.path.name for change in plan.changes]


def take_back(place: Place, home: Path) -> None:
    uninstall(plan_uninstall("opencode", place, home), place, home)


def test_installing_and_uninstalling_leaves_the_bytes(place, home, folder, subtests):
    texts = {"opencode.json": '{\n  "mcp": {}, // none\n}', "opencode.jsonc": "{}\n", "config.json": '{"theme": "x"}'}
    for name, text in texts.items():
        with subtests.test(name):
            path = write(folder / name, text)
            before = tree(folder)
            assert name in set_up(place, home / ".warmstart")
            assert '"warmstart": {"type": "local", "command": [' in path.read_text()
            assert set_up(place, home / ".warmstart") == []
            take_back(place, home / ".warmstart")
            assert tree(folder) == before
            path.unlink()


def test_the_entry_follows_the_file_that_opencode_prefers(place, home, folder):
    set_up(place, home / ".warmstart")
    write(folder / "opencode.jsonc", "{}")
    assert set_up(place, home / ".warmstart") == ["opencode.jsonc", "opencode.json"]
    assert "warmstart" not in (folder / "opencode.json").read_text()
    take_back(place, home / ".warmstart")
    assert all("warmstart" not in path.read_text() for path in folder.iterdir())


def test_opencode_finds_its_package_unless_it_has_installed_the_real_one(place, home, folder):
    set_up(place, home / ".warmstart")
    lock = json.loads((folder / "package-lock.json").read_text())
    assert PACKAGE in lock["packages"][""]["dependencies"]
    package = folder / "node_modules" / PACKAGE / "package.json"
    # OpenCode, or the user, replaces the stand-in.
    package.write_text('{"name": "@opencode-ai/plugin", "version": "1.18.33"}')
    shutil.rmtree(folder / "plugin")
    assert set_up(place, home / ".warmstart") == ["warmstart.js"]
    take_back(place, home / ".warmstart")
    assert "1.18.33" in package.read_text()


def test_the_plugin_is_valid_javascript_and_names_our_python(place, home, folder):
    set_up(place, home / ".warmstart")
    plugin = folder / "plugin" / "warmstart.js"
    text = plugin.read_text()
    assert f'const COMMAND = ["{place.python}", "-EPc", ' in text
    assert f'const ENVIRONMENT = {{"WARMSTART_HOME": "{home / ".warmstart"}"}}' in text
    if shutil.which("node"):
        module = write(home / "plugin.mjs", text)
        subprocess.run(["node", "--check", module], check=True)


# Both versions of OpenCode, reduced to what the plugin uses. It asks `ask.py`, which answers with the event.
SCRIPTS = {
    "1.x": """
        const client = { session: { get: async () => ({ data: {} }), messages: async () => ({ data: [] }) } }
        const hooks = await plugin.server({ client, directory: "/x" })
        const parts = [{ id: "p1", type: "text", text: "Hello" }]
        await hooks["chat.message"]({ sessionID: "s" }, { message: { id: "m" }, parts })
        const system = []
        await hooks["experimental.chat.system.transform"]({ sessionID: "s" }, { system })
        const worked = { output: "ok", metadata: { exit: 0 } }
        const failed = { output: "oops", metadata: { exit: 3 } }
        const call = { tool: "bash", sessionID: "s", args: { command: "yarn test" } }
        await hooks["tool.execute.after"](call, worked)
        await hooks["tool.execute.after"](call, failed)
        await hooks["tool.execute.after"]({ tool: "read", sessionID: "s" }, { metadata: { exit: 3 } })
        await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
        show(system, parts.slice(1), [worked.output, failed.output])
    """,
    "2.x": """
        const hooks = {}
        const session = {
          hook: async (name, hook) => { hooks[name] = hook },
          get: async ({ sessionID }) => (sessionID === "s" ? {} : { parentID: "s" }),
        }
        let end
        const turn = new Promise((resolve) => (end = resolve))
        async function* subscribe() {
          await turn
          yield { type: "session.execution.succeeded", data: { sessionID: "s" } }
        }
        const close = await plugin.setup({ session, event: { subscribe }, location: { directory: "/x" } })
        const request = async (name, sessionID) => {
          const system = []
          await hooks[name]({ sessionID, system })
          return system
        }
        for (const sessionID of ["s", "subagent"]) await hooks.prompt({ sessionID, prompt: { text: "Hello" } })
        await hooks.prompt({})
        const before = await request("context", "s")
        const compaction = await request("compaction", "s")
        show(before, compaction, await request("context", "s"), await request("context", "subagent"))
        end()
        await new Promise(setImmediate)
        close()
    """,
}


def test_one_plugin_serves_both_versions_of_opencode(place, home, folder, subtests):
    if not shutil.which("node"):
        pytest.skip("Node is not installed")
    set_up(place, home / ".warmstart")
    asked_file = write(home / "asked", "")
    ask = write(
        home / "ask.py",
        f"import json, sys; data = json.load(sys.stdin); print(sys.argv[1], file=open({str(asked_file)!r}, 'a'));"
        "print(json.dumps({'context': sys.argv[1] + ' ' + data['cwd']}))",
    )
    text = (folder / "plugin" / "warmstart.js").read_text()
    write(home / "plugin.mjs", re.sub(r"const COMMAND = .*", f'const COMMAND = ["{place.python}", "{ask}"]', text))
    expected = {
        "1.x": (["start /x"], ["prompt /x"], ["ok", "oops\n\nfailed /x"]),
        "2.x": (["start /x", "prompt /x"], ["compacting /x"], ["start /x", "prompt /x"], []),
    }
    for version, script in SCRIPTS.items():
        with subtests.test(version):
            asked_file.write_text("")
            head = 'import plugin from "./plugin.mjs"\n'
            head += "const show = (...all) => console.log(JSON.stringify(all.map((a) => a.map((b) => b.text ?? b))))\n"
            module = write(home / "script.mjs", head + script)
            ran = subprocess.run(["node", module], capture_output=True, text=True, check=True, timeout=60)
            assert json.loads(ran.stdout) == [*expected[version]]
            assert "idle" in asked_file.read_text().split()


def test_the_reader_and_the_adapter_agree_on_the_database(home, monkeypatch):
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "opencode.db")):
        pass
    assert asked("idle")[0] == [("sync", str(folder / "opencode.db"))]
