"""Setting up an agent and taking it back, on real files."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from tests.install.test_json_text import written
from tests.unprivileged import as_nobody, let_in
from warmstart.errors import ConfigError
from warmstart.hosts import json_text
from warmstart.hosts.claude_code import EVENTS
from warmstart.hosts.hook import MAX_RUNS, read_runs, record_run
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, status, uninstall

HOST = "claude-code"
USERS_HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}


@pytest.fixture
def place(home: Path) -> Place:
    return Place(home, {"PATH": str(home / "bin")})


@pytest.fixture
def kept(home: Path) -> Path:
    """Where Warmstart keeps its own files."""
    return home / ".warmstart"


def set_up(place: Place, kept: Path) -> int:
    plan = plan_install(HOST, place, kept)
    install(plan, place, kept)
    return len(plan.changes)


def take_back(place: Place, kept: Path) -> list[str]:
    plan = plan_uninstall(HOST, place, kept)
    uninstall(plan, place, kept)
    return plan.notes


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def rewritten(text: str) -> str:
    """The file as an agent writes it: without comments, in its own style, and with more in it."""
    return json.dumps({**json_text.parse(text).value, "numStartups": 7}, indent=2, sort_keys=True)


# -- what is installed


def test_every_event_has_a_hook_that_always_succeeds(place, kept, home):
    set_up(place, kept)
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert hooks.keys() == EVENTS.keys()
    for event, groups in hooks.items():
        (hook,) = groups[0]["hooks"]
        assert hook["timeout"] == EVENTS[event]
        assert hook["command"].startswith(f"{sys.executable} -EPc ")
        assert hook["command"].endswith(f" hook claude-code {event} || true")


def test_the_server_is_loaded_at_once(place, kept, home):
    set_up(place, kept)
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["warmstart"]
    assert server["alwaysLoad"] is True
    assert [*server["args"], server["command"]][-2:] == ["mcp", str(Path(sys.executable).with_name("warmstart"))]


def test_a_moved_configuration_is_found(place, kept, home):
    moved = place._replace(env={"CLAUDE_CONFIG_DIR": str(home / "moved")})
    set_up(moved, kept)
    assert {path.name for path in (home / "moved").iterdir()} == {"settings.json", ".claude.json", "commands"}
    assert not (home / ".claude").exists()
    assert "another setup" in take_back(place, kept)[0]
    assert take_back(moved, kept) == []
    assert not (home / "moved").exists()


def test_hooks_use_the_home_of_the_installation_unless_another_is_set(place, kept, home, subtests):
    other = home / "it's mine"
    script = home / "bin" / "python"
    write(script, '#!/bin/sh\nprintf %s "$WARMSTART_HOME"\nexit 2\n', 0o755)
    line = Place(home, {"WARMSTART_HOME": str(other)}, python=str(script)).hook(HOST, "Stop")
    for env, expected in (({}, str(other)), ({"WARMSTART_HOME": "/elsewhere"}, "/elsewhere")):
        with subtests.test(expected):
            ran = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=False)
            assert (ran.returncode, ran.stdout) == (0, expected)


def test_a_hook_survives_a_python_that_is_gone_and_a_project_that_shadows_modules(home, subtests):
    write(home / "project" / "json.py", "print('never')")
    write(home / "project" / "warmstart" / "__init__.py", "print('never')")
    for python in (sys.executable, "/gone/python"):
        with subtests.test(python):
            line = Place(home, {}, python=python).hook(HOST, "NoSuchEvent")
            ran = subprocess.run(
                ["sh", "-c", line], cwd=home / "project", input="{}", capture_output=True, text=True, check=False
            )
            assert (ran.returncode, ran.stdout) == (0, "")


def test_every_installed_line_answers_with_json_or_nothing(place, kept, home, subtests):
    with warmstart.open(home=kept) as ws:
        ws.sync([Path(warmstart.__file__).parent / "samples"])
    set_up(place, kept)
    (kept / "config.toml").write_text("context_preflight.deadline_ms = 5000")  # a loaded machine is no fault
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    event = {"session_id": "new", "cwd": "/home/mara/tidewatch", "prompt": "as we did last time: which port?"}
    answers = {}
    for name in EVENTS:
        for text in (json.dumps({**event, "hook_event_name": name, "source": "startup"}), "", "{", "[]"):
            with subtests.test(name, text=text):
                line = hooks[name][0]["hooks"][0]["command"]
                ran = subprocess.run(["sh", "-c", line], input=text, capture_output=True, text=True, check=False)
                assert (ran.returncode, ran.stderr) == (0, "")
                assert text.startswith('{"') or ran.stdout == ""
                answers.setdefault(name, ran.stdout and json.loads(ran.stdout)["hookSpecificOutput"])
    assert {name for name, answer in answers.items() if answer} == {"SessionStart", "SubagentStart", "UserPromptSubmit"}
    assert "uv run pytest" in answers["SessionStart"]["additionalContext"]
    assert status(HOST, place, kept).last["event"] == "SessionEnd"


# -- there and back


@given(written(), written(), st.sampled_from([0o600, 0o644, 0o640]))
def test_uninstalling_restores_the_bytes_of_any_file(tmp_path_factory, settings_text, configuration, mode):
    home = tmp_path_factory.mktemp("home")
    place, kept = Place(home, {}), home / "kept"
    write(home / ".claude/settings.json", settings_text, mode)
    write(home / ".claude.json", configuration, mode)
    before = tree(home)
    try:
        assert set_up(place, kept) == 4
    except ConfigError:  # `hooks` or `mcpServers` is something else
        assert tree(home) == before
        return
    assert stat.S_IMODE((home / ".claude.json").stat().st_mode) == mode
    assert take_back(place, kept) == []
    kept.rmdir()
    assert tree(home) == before


@given(written(), st.booleans())
def test_if_the_agent_has_rewritten_the_file_only_our_entries_go(tmp_path_factory, text, record):
    home = tmp_path_factory.mktemp("home")
    place, kept = Place(home, {}), home / "kept"
    path = write(home / ".claude/settings.json", text)
    try:
        set_up(place, kept)
    except ConfigError:
        return
    path.write_text(rewritten(path.read_text()))
    if not record:
        (kept / "hosts" / "claude-code.json").unlink()
    take_back(place, kept)
    expected = json.loads(rewritten(text))
    if not record:  # whose empty containers were is not known any more
        hooks = expected.pop("hooks", {})
        hooks = {name: groups for name, groups in hooks.items() if groups or name not in EVENTS}
        expected.update({"hooks": hooks} if hooks else {})
    assert json.loads(path.read_text()) == expected


def test_entries_that_came_later_stay(place, kept, home):
    set_up(place, kept)
    path = home / ".claude/settings.json"
    data = json.loads(path.read_text())
    data["hooks"]["Stop"].append(USERS_HOOK)
    data["hooks"]["SessionEnd"][0]["hooks"].append(USERS_HOOK["hooks"][0])  # beside ours
    path.write_text(json.dumps(data))
    take_back(place, kept)
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [USERS_HOOK], "SessionEnd": [{"hooks": USERS_HOOK["hooks"]}]}
    }


def test_without_files_nothing_is_left_behind(place, kept, home):
    before = tree(home)
    assert set_up(place, kept) == 4
    assert stat.S_IMODE((home / ".claude.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    take_back(place, kept)
    kept.rmdir()
    assert tree(home) == before


def test_a_new_file_that_the_agent_emptied_or_filled(place, kept, home, subtests):
    for data, left in (({}, None), ({"numStartups": 1}, {"numStartups": 1})):
        with subtests.test(data=data):
            set_up(place, kept)
            path = home / ".claude.json"
            path.write_text(json.dumps({**data, "mcpServers": json.loads(path.read_text())["mcpServers"]}))
            take_back(place, kept)
            assert (json.loads(path.read_text()) if path.exists() else None) == left


def test_installing_twice_changes_nothing(place, kept, home):
    write(home / ".claude/settings.json", '{"model": "opus"}')
    set_up(place, kept)
    before = tree(home)
    assert set_up(place, kept) == 0
    assert tree(home) == before


def test_a_file_that_the_agent_reordered_needs_no_change(place, kept, home):
    set_up(place, kept)
    path = home / ".claude.json"
    path.write_text(rewritten(path.read_text()))
    assert plan_install(HOST, place, kept).changes == []


def test_a_moved_interpreter_is_updated_and_the_old_bytes_still_come_back(place, kept, home, subtests):
    for rewrites in (False, True):
        with subtests.test(rewrites=rewrites):
            path = write(home / ".claude/settings.json", '{ "hooks": {"Stop": [ ]} } // mine\n')
            old = place._replace(python="/gone/bin/python")
            set_up(old, kept)
            assert status(HOST, old, kept).python == "/gone/bin/python"
            if rewrites:
                path.write_text(rewritten(path.read_text()))
            assert status(HOST, place, kept).outdated
            assert set_up(place, kept) == 4
            assert "/gone" not in path.read_text()
            assert status(HOST, place, kept)[:3] == (True, False, "")
            take_back(place, kept)
            expected = '{ "hooks": {"Stop": [ ]} } // mine\n'
            assert path.read_text() == expected or rewrites
            assert json_text.parse(path.read_text()).value["hooks"] == {"Stop": []}


def test_events_of_another_version_are_removed(place, kept, home):
    set_up(place, kept)
    path = home / ".claude/settings.json"
    data = json.loads(path.read_text())
    data["hooks"]["PreToolUse"] = [{"hooks": [{"type": "command", "command": place.hook(HOST, "PreToolUse")}]}]
    path.write_text(json.dumps(data))
    (kept / "hosts/claude-code.json").unlink()
    set_up(place, kept)
    assert json.loads(path.read_text())["hooks"].keys() == EVENTS.keys()


def test_a_damaged_record_is_like_none(place, kept, home):
    write(home / ".claude/settings.json", '{"model": "opus"}')
    set_up(place, kept)
    (kept / "hosts/claude-code.json").write_text("{")
    take_back(place, kept)
    assert (home / ".claude/settings.json").read_text() == '{"model": "opus"}'


def test_the_record_has_no_text_of_the_agents_files(place, kept, home):
    write(home / ".claude.json", '{"oauth": "sk-ant-canary", "mcpServers": {"x": {"env": {"KEY": "canary"}}}}')
    set_up(place, kept)
    assert "canary" not in (kept / "hosts/claude-code.json").read_text()


def test_a_users_own_command_of_the_same_name_stays(place, kept, home):
    path = write(home / ".claude/commands/warm.md", "mine")
    plan = plan_install(HOST, place, kept)
    assert "warm.md" in plan.notes[0]
    install(plan, place, kept)
    take_back(place, kept)
    assert path.read_text() == "mine"


SERVERS = {  # the file of each agent, and a server of the user's that has our name
    "claude-code": (".claude.json", '{"mcpServers": {"warmstart": {"command": "mine", "args": ["mcp"]}}}'),
    "codex": (".codex/config.toml", '[mcp_servers.warmstart]\ncommand = "mine"\n'),
    "copilot-cli": (".copilot/mcp-config.json", '{"mcpServers": {"warmstart": {"url": "http://localhost"}}}'),
    "gemini-cli": (".gemini/settings.json", '{"mcpServers": {"warmstart": {"command": "warmstart"}}}'),
    "opencode": (".config/opencode/opencode.json", '{"mcp": {"warmstart": {"command": ["warmstart", "serve"]}}}'),
}


def test_a_users_own_server_of_the_same_name_stays(place, kept, home, subtests):
    for host, (name, text) in SERVERS.items():
        with subtests.test(host):
            path = write(home / name, text)
            uninstall(plan_uninstall(host, place, kept), place, kept)
            assert path.read_text() == text
            plan = plan_install(host, place, kept)
            assert "has its own" in plan.notes[0]
            install(plan, place, kept)
            assert "mine" not in text or '"mine"' in path.read_text()
            assert plan_install(host, place, kept).changes == []
            uninstall(plan_uninstall(host, place, kept), place, kept)
            assert path.read_text() == text


def test_our_server_is_found_without_a_record(place, kept, home):
    for command in (["/old/bin/warmstart", "mcp"], ["/old/python", "-Pm", "warmstart", "mcp"]):
        server = {"command": command[0], "args": command[1:]}
        path = write(home / ".claude.json", json.dumps({"mcpServers": {"warmstart": server}}))
        take_back(place, kept)
        assert path.read_text() == "{}"


def test_our_command_is_removed_without_a_record(place, kept, home):
    before = tree(home)
    set_up(place, kept)
    (kept / "hosts" / "claude-code.json").unlink()
    take_back(place, kept)
    assert not list(home.rglob("warm*.md"))
    assert before == {}


def test_our_command_stays_if_the_user_edited_it(place, kept, home):
    set_up(place, kept)
    path = home / ".claude/commands/warm.md"
    path.write_text(path.read_text() + "and more")
    assert plan_install(HOST, place, kept).changes == []
    assert "was edited" in take_back(place, kept)[0]
    assert path.exists()


# -- files that cannot be changed


def test_a_file_that_cannot_be_changed_safely_changes_nothing(place, kept, home, subtests):
    path = home / ".claude.json"  # the second of four
    cases = {
        '{"mcpServers": [}': "line 1",
        '{"mcpServers": []}': "mcpServers is not an object",
        "[]": "the file is not an object",
        "\udcff": "utf-8",
    }
    for text, reason in cases.items():
        with subtests.test(reason):
            path.write_bytes(text.encode(errors="surrogateescape"))
            before = tree(home)
            with pytest.raises(ConfigError, match=reason) as caught:
                set_up(place, kept)
            assert "\n" not in str(caught.value)
            assert str(path) in str(caught.value)
            assert tree(home) == before


def test_a_file_that_is_not_writable_or_readable_changes_nothing(place, kept, home, subtests):
    path = write(home / ".claude.json", "{}", 0o666)
    (home / ".claude").mkdir()
    cases = {
        "not writable": ((home, 0o777), (home / ".claude", 0o777), (path, 0o444)),
        r"settings.json' is not writable": ((home, 0o777), (home / ".claude", 0o555), (path, 0o666)),
        "cannot read": ((home, 0o777), (home / ".claude", 0o777), (path, 0o222)),
    }
    for reason, modes in cases.items():
        with subtests.test(reason):
            for each, mode in modes:
                each.chmod(mode)
            let_in(home)
            before = tree(home)
            with pytest.raises(ConfigError, match=reason):
                as_nobody(lambda: plan_install(HOST, place, kept))
            assert tree(home) == before


def test_links_and_odd_files_are_refused(place, kept, home, subtests):
    path = home / ".claude.json"
    target = write(home.parent / "dotfiles" / "claude.json", "{}")
    for make, reason in (
        (lambda: path.symlink_to(target), "symbolic link to .*dotfiles"),
        (lambda: path.symlink_to("nowhere"), "symbolic link"),
        (path.mkdir, "not a file"),
        (lambda: os.mkfifo(path), "not a file"),
    ):
        with subtests.test(reason):
            make()
            with pytest.raises(ConfigError, match=reason):
                plan_install(HOST, place, kept)
            path.rmdir() if path.is_dir() else path.unlink()
    assert target.read_text() == "{}"


def test_a_link_matters_only_if_something_has_to_change(place, kept, home):
    path = home / ".claude" / "settings.json"
    target = home.parent / "settings.json"
    write(target, "{}")
    path.parent.mkdir()
    path.symlink_to(target)
    assert plan_uninstall(HOST, place, kept).changes == []
    path.unlink()
    set_up(place, kept)
    path.replace(target)
    path.symlink_to(target)
    assert plan_install(HOST, place, kept).changes == []
    with pytest.raises(ConfigError, match="symbolic link"):
        plan_uninstall(HOST, place, kept)


def test_a_link_to_a_file_in_the_home_directory_is_followed(place, kept, home):
    target = write(home / "dotfiles" / "settings.json", '{"model": "opus"}', 0o644)
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.symlink_to("../dotfiles/settings.json")
    before = tree(home)
    set_up(place, kept)
    assert path.is_symlink()
    assert " hook claude-code Stop || true" in target.read_text()
    take_back(place, kept)
    kept.rmdir()
    assert tree(home) == before


def test_the_status_follows_links_and_is_not_about_files_of_others(place, kept, home):
    write(home / "dotfiles" / "settings.json", "{}")
    write(home / ".claude/commands/warm.md", "mine")
    (home / ".claude/settings.json").symlink_to(home / "dotfiles" / "settings.json")
    assert status(HOST, place, kept).installed is False


def test_a_linked_folder_is_followed_and_stays(place, kept, home):
    (home / "dotfiles").mkdir()
    (home / ".claude").symlink_to("dotfiles")
    set_up(place, kept)
    assert (home / "dotfiles/settings.json").is_file()
    assert (home / ".claude").is_symlink()
    take_back(place, kept)
    assert list((home / "dotfiles").iterdir()) == []


def test_a_file_that_changes_under_us_is_not_overwritten(place, kept, home):
    path = write(home / ".claude/settings.json", "{}")
    plan = plan_install(HOST, place, kept)
    path.write_text('{"model": "new"}')
    with pytest.raises(ConfigError, match="run this again"):
        install(plan, place, kept)
    assert path.read_text() == '{"model": "new"}'
    assert set_up(place, kept) == 4


# -- the diff and the status


def test_the_diff_only_adds_lines_and_names_the_file(place, kept, home):
    write(home / ".claude/settings.json", '{\n  "model": "opus"\n}\n')
    diff = plan_install(HOST, place, kept).changes[0].diff(home, str)
    assert diff.startswith("--- ~/.claude/settings.json\n+++ ~/.claude/settings.json\n")
    assert not re.search(r"^-(?!--)", diff, re.MULTILINE)


def test_the_diff_of_one_long_line_is_short(place, kept, home):
    write(home / ".claude.json", json.dumps({"projects": {f"/p{n}": {"x": n} for n in range(1000)}}))
    diff = plan_install(HOST, place, kept).changes[1].diff(home, str)
    assert len(diff) < 1000
    assert '+"warmstart": {' in diff


def test_the_status_tells_when_hooks_ran_and_how(place, kept):
    assert status(HOST, place, kept) == (False, False, "", None, None, None, "")
    set_up(place, kept)
    for ms in range(1, 101):
        record_run(str(kept), HOST, "UserPromptSubmit", ms, "StoreBusy:\n locked" if ms == 7 else "")
    record_run(str(kept), HOST, "SessionStart", 300)
    found = status(HOST, place, kept)
    assert (found.last["event"], found.last["ms"], found.p95_ms) == ("SessionStart", 300, 95)
    assert (found.error["error"], found.error["ms"]) == ("StoreBusy: locked", 7)
    take_back(place, kept)
    assert not (kept / "hosts").exists()


def test_the_record_of_runs_stays_small_and_survives_damage(kept):
    (kept / "hosts").mkdir(parents=True)
    for _ in range(2000):
        record_run(str(kept), HOST, "UserPromptSubmit", 30.04, "x" * 1000)
    files = list((kept / "hosts").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert sum(path.stat().st_size for path in files) <= 2 * MAX_RUNS + 1000
    with (kept / "hosts" / "claude-code.jsonl").open("a") as file:
        file.write('{"at": 1\n[]\n')
    assert 100 < len(read_runs(kept, HOST)) < 2000


def test_without_a_place_to_write_a_run_is_not_recorded(kept):
    record_run(str(kept), HOST, "Stop", 1)
    assert read_runs(kept, HOST) == []
    assert not kept.exists()
