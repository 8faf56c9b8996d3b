"""Real agents with Warmstart installed: what the model receives, and what is on disk."""

from __future__ import annotations

import json

from tests.hosts.clients import MARKS, OTHERS, Client, Codex, create_project
from tests.hosts.scenario import FIRST, PORT, QUESTION, RULE, is_extracted, learn, ours, stored, work_once
from tests.waiting import wait_until
from warmstart.sessions.marks import MARK, TAG, is_ours
from warmstart.testing.model import Reply

pytestmark = MARKS


def test_a_second_session_knows_what_the_first_learned(client: Client) -> None:
    client.install()
    work_once(client)
    client.model.add(Reply(calls=[client.shell("yarn test")]), Reply(text="Done."))
    turn = client.ask("Explain how a harbour pilot is paid.")
    first, second = turn.requests
    for line in ("- `make test`\n", "`yarn test` fails (command not found): use `make test`", f'"{RULE}"'):
        assert first.text.count(line) == 1, line
        assert line in ours(first)
    assert len(ours(first)) < 9_000
    # A call that fails as it did before brings its fix.
    fix = "`yarn test` failed here (command not found); `make test` worked instead"
    assert fix not in first.text
    assert second.text.count(fix) == 1
    assert fix in ours(second)
    # A later message that points to earlier work brings what was said.
    assert PORT not in second.text
    assert PORT in ours(client.resume(turn.session_id, QUESTION).requests[0])
    # And it can be switched off.
    client.variables = {"WARMSTART_DISABLED": "1"}
    assert ours(client.ask(QUESTION).requests[0]) == ""


def test_a_session_knows_what_another_agent_learned(client: Client) -> None:
    another = OTHERS["Copilot" if isinstance(client, Codex) else "Codex"](client.home, client.model)
    another.configure()
    learn(another)
    client.install()
    client.warmstart("sync")
    turn = client.ask(QUESTION)
    for text in ("- `make test`\n", "`yarn test` fails (command not found): use `make test`", PORT):
        assert text in ours(turn.requests[0])
    elsewhere = client.ask(QUESTION, cwd=create_project(client.home / "other"))
    for text in ("make test", "yarn", PORT):
        assert text not in ours(elsewhere.requests[0])


def test_an_answer_reaches_the_next_session_of_its_project_once(client: Client) -> None:
    client.install()
    work_once(client)
    turn = client.ask(QUESTION)
    assert turn.requests[0].text.count(PORT) == 1
    assert PORT in ours(turn.requests[0])
    elsewhere = client.ask(QUESTION, cwd=create_project(client.home / "other"))
    assert PORT not in elsewhere.requests[0].text
    assert "yarn" not in elsewhere.requests[0].text
    again = client.resume(turn.session_id, QUESTION)
    assert again.session_id == turn.session_id
    assert again.requests[0].text.count(PORT) == 1
    assert again.requests[0].text.count("`yarn test` fails") == 1
    # What we said is nobody's words.
    messages = stored(client)
    said = [message.text for message in messages if message.role == "user" and message.text and not message.injected]
    assert sorted(said) == sorted([FIRST, *[QUESTION] * 3])
    for message in messages:
        assert is_ours(message) or not any(mark in message.text for mark in (MARK, TAG)), message.text
    with client.open() as ws:
        assert ws.recall("earlier sessions verify before use", project=str(client.work)) == []
        sources = {hit.text for hit in ws.recall("tide gauge database port", project=str(client.work))}
        assert any(PORT in text for text in sources)


def test_uninstalling_leaves_what_was_there(client: Client) -> None:
    """Claude Code rewrites `~/.claude.json` at every start; all other files must get their bytes back."""
    client.ask("Before anything is installed.")
    before = client.config_files()
    client.install()
    installed = client.config_files()
    assert installed != before
    client.install()
    assert client.config_files() == installed
    work_once(client)
    turn = client.ask("What is new?")
    client.resume(turn.session_id, "And now?")
    rewritten = client.config_files()
    client.warmstart("uninstall", client.name, "--yes")
    after = client.config_files()
    changed = {name for name in before if rewritten.get(name) != installed.get(name)}
    assert changed <= {".claude.json"}
    assert {name: text for name, text in after.items() if name not in changed} == {
        name: text for name, text in before.items() if name not in changed
    }
    for name in changed:
        expected = json.loads(rewritten[name])
        expected.get("mcpServers", {}).pop("warmstart", None)
        left = json.loads(after[name])
        assert left | {"mcpServers": left.get("mcpServers", {})} == expected | {
            "mcpServers": expected.get("mcpServers", {})
        }
    text = client.ask("Is it gone?").requests[0].text
    assert MARK not in text
    assert TAG not in text


def test_a_secret_is_in_nothing_that_we_write_or_send(newest: Client) -> None:
    client, secret = newest, "ghp_" + "Zq7Lk2" * 6
    client.install()
    (client.work / "token.txt").write_text(f"GITHUB_TOKEN={secret}\n")
    prompt = f"{FIRST} The token is {secret}. Never print {secret} anywhere."
    client.model.add(Reply(when=secret, calls=[client.shell("cat token.txt")]))
    client.model.add(Reply(when=secret, calls=[client.shell("yarn test")]))
    client.model.add(Reply(when=secret, calls=[client.shell("make test")]), Reply(text=f"It is {secret}. {PORT}"))
    first = client.ask(prompt)
    wait_until(lambda: is_extracted(client), every=0.2)
    turns = [client.ask("Which token, and which port did the tide gauge database listen on yesterday?")]
    turns.append(client.resume(turns[0].session_id, "And the GITHUB_TOKEN of yesterday?"))
    stored(client)
    for turn in turns:
        assert all(secret not in request.text for request in turn.requests)
    assert "tide gauge" in ours(turns[0].requests[0])
    assert all(secret not in ours(request) for request in first.requests)
    for path in (client.home / ".warmstart").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert all(secret not in text for text in client.config_files().values())
