"""What `warmstart install hermes` writes where, and how messages become rows of Hermes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.install.test_install import tree, write
from tests.install.test_interrupted import is_killed
from warmstart.errors import ConfigError
from warmstart.hosts.hermes import rows_of
from warmstart.hosts.hook import record_run
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, status, uninstall


def set_up(home: Path, **place: object) -> list[str]:
    """Install, and return the files of Hermes that were written."""
    where = Place(home, {}, **place)  # type: ignore[arg-type]
    plan = plan_install("hermes", where, home / ".warmstart")
    install(plan, where, home / ".warmstart")
    return [str(change.path.relative_to(home / ".hermes")) for change in plan.changes]


def test_a_profile_gets_a_plugin_of_its_own(home: Path) -> None:
    (home / ".hermes" / "profiles" / "work").mkdir(parents=True)
    folder = "profiles/work/plugins/warmstart"
    written = [f"{folder}/plugin.yaml", f"{folder}/__init__.py", "profiles/work/config.yaml"]
    assert set_up(home, profile="work") == written
    assert set_up(home, profile="work") == []


def test_the_profile_that_hermes_uses_is_the_default(home: Path) -> None:
    (home / ".hermes" / "profiles" / "work").mkdir(parents=True)
    (home / ".hermes" / "active_profile").write_text("work\n")
    assert set_up(home)[-1] == "profiles/work/config.yaml"
    assert set_up(home, profile="default")[-1] == "config.yaml"


def test_uninstalling_takes_the_plugin_out_of_every_profile(home: Path) -> None:
    (home / ".hermes" / "profiles" / "work").mkdir(parents=True)
    before = sorted(home.rglob("*"))
    set_up(home, profile="work")
    set_up(home, own_store=True)
    place = Place(home, {})
    uninstall(plan_uninstall("hermes", place, home / ".warmstart"), place, home / ".warmstart")
    assert [path for path in sorted(home.rglob("*")) if path.name != ".warmstart"] == before


def test_an_install_in_a_profile_that_was_killed_is_undone(tmp_path: Path) -> None:
    step, is_complete = 0, False
    while not is_complete:
        step += 1
        home = tmp_path / str(step)
        write(home / ".hermes" / "profiles" / "work" / "config.yaml", "model: x\n")
        before = tree(home)
        is_complete = not is_killed(step, lambda home=home: set_up(home, profile="work"), home)
        place = Place(home, {})
        plan = plan_uninstall("hermes", place, home / ".warmstart")
        assert plan.notes == []
        uninstall(plan, place, home / ".warmstart")
        assert not (home / ".warmstart" / "hosts").exists()
        shutil.rmtree(home / ".warmstart", ignore_errors=True)
        assert tree(home) == before
    assert step > 4


def test_a_store_of_its_own_stays_when_the_plugin_is_updated(home: Path) -> None:
    set_up(home, own_store=True)
    assert set_up(home, python="/new/python") == ["plugins/warmstart/__init__.py"]
    assert (home / ".hermes" / "plugins" / "warmstart" / "own-store").exists()


def test_the_status_says_how_long_turns_wait(home: Path) -> None:
    set_up(home)
    record_run(str(home / ".warmstart"), "hermes", "turn", 80.0)
    record_run(str(home / ".warmstart"), "hermes", "end", 9.0)
    found = status("hermes", Place(home, {}), home / ".warmstart")
    assert found.installed
    assert found.p95_ms == 80.0


def test_an_unknown_profile_is_an_error(home: Path) -> None:
    with pytest.raises(ConfigError, match="no profile 'nobody'"):
        plan_install("hermes", Place(home, {}, profile="nobody"), home / ".warmstart")


def test_messages_become_rows_that_hand_over_to_the_user() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "brief"},
        {"role": "system", "content": "template"},
        {"role": "assistant", "content": "example", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    rows = rows_of(messages)
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "assistant"]
    assert rows[0]["content"] == "brief\n\ntemplate"
    assert rows[2]["tool_name"] == "terminal"
