from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.memory.honcho_server import HonchoServer
from tests.ports import a_port_that_answers_nothing
from warmstart.config import Settings, load_settings
from warmstart.errors import ConfigError, StoreUnreachable
from warmstart.memory import get_memory_backend, reset_backend
from warmstart.memory.backend import NullBackend
from warmstart.memory.evaluation import evaluate_backends
from warmstart.memory.selection import backend_names, open_backend
from warmstart.memory.tool import memory_backend


@pytest.fixture(autouse=True)
def chosen_anew() -> Iterator[None]:
    yield
    reset_backend()


def chosen(home: Path, *, host: bool = False, **env: str) -> str:
    return get_memory_backend(load_settings(env, home=home), host=host).backend_name


def test_a_bare_library_remembers_nothing_and_what_a_host_holds_is_what_the_others_get(home: Path) -> None:
    assert get_memory_backend().backend_name == "null (disabled)"
    held = get_memory_backend(host=True)
    assert held.backend_name == "local (SQLite)"
    assert held.store("mara", "key", "value")
    assert get_memory_backend() is held
    assert json.loads(memory_backend("retrieve", "mara", key="key"))["value"] == "value"
    assert held.store("mara", "key", "other")  # it stays open


def test_honcho_is_taken_where_there_is_a_key(tmp_path: Path, server: HonchoServer) -> None:
    server.key = "k-1"
    given = {"HONCHO_API_KEY": "k-1", "HONCHO_URL": server.url}
    for host in (False, True):
        assert chosen(tmp_path, host=host, **given) == "honcho (cloud)"
        reset_backend()
    assert chosen(tmp_path, HONCHO_BASE_URL=server.url) == "honcho (cloud)"  # an address alone is enough
    assert chosen(tmp_path, **given, WARMSTART_MEMORY_BACKEND="null").startswith("null")


def test_honcho_that_is_away_is_taken_and_not_waited_for(tmp_path: Path) -> None:
    """What is written waits for it, and is not kept where nobody looks for it."""
    with a_port_that_answers_nothing() as url:
        settings = load_settings({"HONCHO_API_KEY": "k-1", "HONCHO_URL": url}, home=tmp_path)
        settings = replace(settings, honcho_write_timeout_ms=600_000)
        import_module("warmstart.memory.honcho.backend")
        began = time.perf_counter()
        for host in (True, False):
            backend = get_memory_backend(settings, host=host)
            assert backend.backend_name == "honcho (cloud)"
        assert time.perf_counter() - began < 100  # who waits for a request to end waits for ten minutes
        assert backend.store("mara", "key", "value")
        assert not (tmp_path / "warmstart.db").exists()


def test_an_unknown_name_is_an_error_that_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'elsewhere'.*null, local, postgres, honcho"):
        chosen(tmp_path, WARMSTART_MEMORY_BACKEND="elsewhere")


def test_what_is_not_available_is_never_replaced(tmp_path: Path) -> None:
    settings = load_settings(
        {"WARMSTART_MEMORY_BACKEND": "postgres", "WARMSTART_STORE": "postgresql://nobody@127.0.0.1:1/x"}, home=tmp_path
    )
    backend = get_memory_backend(settings)
    assert backend.backend_name == "postgres (shared)"
    assert not backend.is_available()
    with pytest.raises(StoreUnreachable):
        backend.store("mara", "key", "value")
    assert not (tmp_path / "warmstart.db").exists()


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Another package, with this as its backend."""
    package = tmp_path / "site" / "thirdparty-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[warmstart.memory]\nelsewhere = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def test_other_packages_add_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, f"{__name__}:Elsewhere")
    assert backend_names()[-1] == "elsewhere"
    backend = open_backend("elsewhere", load_settings({}, home=tmp_path))
    assert (type(backend).__name__, backend.backend_name) == ("Elsewhere", str(tmp_path))


def broken(*, raising: Settings | None = None) -> None:
    """What is not a backend's factory, called with the settings."""


def no_backend(settings: Settings) -> object:
    return {"backend": settings.home}


def late(settings: Settings) -> object:
    raise RuntimeError("no licence")


def test_a_broken_package_is_an_error_that_names_it(tmp_path: Path, subtests) -> None:
    cases = [
        ("no_such_module_anywhere:Backend", "ModuleNotFoundError"),
        (f"{__name__}:no_such_name", "AttributeError"),
        (f"{__name__}:broken", "TypeError"),
        (f"{__name__}:late", "RuntimeError: no licence"),
        (f"{__name__}:no_backend", "returned a dict, which is not a MemoryBackend"),
    ]
    for target, said in cases:
        with subtests.test(target=target, said=said), pytest.MonkeyPatch.context() as patched:
            home = Path(mkdtemp(dir=tmp_path))
            install(home, patched, target)
            settings = load_settings({"WARMSTART_MEMORY_BACKEND": "elsewhere"}, home=home)
            with pytest.raises(ConfigError, match=r"the memory backend 'elsewhere' of 'thirdparty'") as raised:
                get_memory_backend(settings, host=True)
            assert said in str(raised.value)


def test_a_broken_package_is_left_out_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "no_such_module_anywhere:Backend")
    report = evaluate_backends()
    assert "local (SQLite)" in [each["backend_name"] for each in report["evaluations"]]


class Elsewhere(NullBackend):
    def __init__(self, settings: Settings) -> None:
        self.backend_name = str(settings.home)


def test_null_loads_no_database_and_makes_no_file(home: Path) -> None:
    script = (
        "import sys; from warmstart.memory import get_memory_backend; b = get_memory_backend(); "
        "b.store('u', 'k', 'v'); b.query('u', 'k'); b.retrieve('u', 'k'); "
        "print(b.backend_name, [m for m in ('sqlite3', 'msgspec', 'numpy', 'psycopg', 'ahocorasick_rs') "
        "if m in sys.modules])"
    )
    env = {"HOME": str(home), "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "null (disabled) []"
    assert list(home.iterdir()) == []
