from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.memory.honcho_server import HonchoServer, a_port_that_answers_nothing, free_port
from warmstart.config import Settings, load_settings
from warmstart.errors import ConfigError, MemoryBackendError, StoreCorrupt, StoreUnreachable
from warmstart.memory import get_memory_backend, reset_backend
from warmstart.memory.evaluation import evaluate_backends
from warmstart.memory.null import NullBackend
from warmstart.memory.selection import backend_names, open_backend
from warmstart.memory.tool import memory_backend


@pytest.fixture(autouse=True)
def chosen_anew() -> Iterator[None]:
    yield
    reset_backend()


def chosen(home: Path, *, host: bool = False, **env: str) -> str:
    return get_memory_backend(load_settings(env, home=home), host=host).backend_name


def test_a_bare_library_remembers_nothing_and_a_host_does(home: Path) -> None:
    assert get_memory_backend().backend_name == "null (disabled)"
    assert get_memory_backend(host=True).backend_name == "local (SQLite)"


def test_what_a_host_holds_is_what_the_others_get_and_stays_open(home: Path) -> None:
    held = get_memory_backend(host=True)
    assert held.store("mara", "key", "value")
    assert get_memory_backend() is held
    assert json.loads(memory_backend("retrieve", "mara", key="key"))["entry"]["value"] == "value"
    assert held.store("mara", "key", "other")


def test_a_host_that_comes_second_has_its_choice_too(home: Path) -> None:
    assert get_memory_backend().backend_name == "null (disabled)"
    held = get_memory_backend(host=True)
    assert held.backend_name == "local (SQLite)"
    assert get_memory_backend() is held


def test_a_choice_that_was_made_is_shared_by_host_and_library(tmp_path: Path) -> None:
    settings = load_settings({"WARMSTART_MEMORY_BACKEND": "local"}, home=tmp_path)
    first = get_memory_backend(settings)
    assert get_memory_backend(settings, host=True) is first
    assert get_memory_backend() is first


def test_other_settings_do_not_close_what_somebody_holds(tmp_path: Path) -> None:
    held = get_memory_backend(load_settings({}, home=tmp_path / "one"), host=True)
    other = get_memory_backend(load_settings({}, home=tmp_path / "two"), host=True)
    assert other is not held
    assert held.store("mara", "key", "value")
    assert other.retrieve("mara", "key") is None
    assert get_memory_backend() is held


def test_threads_that_ask_at_once_get_the_same(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: get_memory_backend(host=True), range(32)))
    assert {id(backend) for backend in given} == {id(given[0])}


def honcho_settings(home: Path, url: str, **env: str) -> Settings:
    return load_settings({"HONCHO_API_KEY": "k-1", "HONCHO_URL": url, **env}, home=home)


def test_honcho_is_taken_where_there_is_a_key(tmp_path: Path, server: HonchoServer) -> None:
    server.key = "k-1"
    for host in (False, True):
        backend = get_memory_backend(honcho_settings(tmp_path, server.url), host=host)
        assert backend.backend_name == "honcho (cloud)"
        reset_backend()
    assert chosen(tmp_path, HONCHO_URL=server.url) == "null (disabled)"  # an address is no key
    assert chosen(tmp_path, HONCHO_API_KEY="k-1", HONCHO_URL=server.url, WARMSTART_MEMORY_BACKEND="null").startswith(
        "null"
    )


def test_honcho_that_is_away_is_taken_and_not_waited_for(tmp_path: Path) -> None:
    """What is written waits for it, and is not kept where nobody looks for it."""
    with a_port_that_answers_nothing() as url:
        settings = honcho_settings(tmp_path, url)
        import_module("warmstart.memory.honcho.backend")
        began = time.perf_counter()
        for host in (True, False):
            backend = get_memory_backend(settings, host=host)
            assert backend.backend_name == "honcho (cloud)"
        assert time.perf_counter() - began < 5  # who waits for a request to end waits for ten
        assert backend.store("mara", "key", "value")
        assert not (tmp_path / "warmstart.db").exists()


def test_honcho_that_was_set_is_taken_though_it_is_away(tmp_path: Path) -> None:
    settings = honcho_settings(tmp_path, f"http://127.0.0.1:{free_port()}", WARMSTART_MEMORY_BACKEND="honcho")
    backend = get_memory_backend(settings)
    assert backend.backend_name == "honcho (cloud)"
    assert backend.store("mara", "key", "value")
    reset_backend()
    again = get_memory_backend(settings).retrieve("mara", "key")
    assert again is not None
    assert again.value == "value"


def test_honcho_that_was_set_without_a_key_says_what_is_missing(tmp_path: Path) -> None:
    backend = get_memory_backend(load_settings({"WARMSTART_MEMORY_BACKEND": "honcho"}, home=tmp_path), host=True)
    assert not backend.is_available()
    with pytest.raises(MemoryBackendError, match="set HONCHO_API_KEY"):
        backend.store("mara", "key", "value")


def test_another_package_called_honcho_is_not_taken_for_it(
    tmp_path: Path, server: HonchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "honcho").mkdir(parents=True)
    (tmp_path / "site" / "honcho" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "honcho", raising=False)
    assert chosen(tmp_path, host=True, HONCHO_API_KEY="k-1", HONCHO_URL=server.url) == "local (SQLite)"
    assert server.requests == []
    with pytest.raises(ConfigError, match=r"warmstart\[honcho\]"):
        open_backend("honcho", honcho_settings(tmp_path, server.url))


def test_the_same_backend_is_given_until_it_is_reset(home: Path) -> None:
    first = get_memory_backend(host=True)
    assert get_memory_backend(host=True) is first
    reset_backend()
    assert get_memory_backend(host=True) is not first


def test_what_is_set_wins(tmp_path: Path) -> None:
    assert chosen(tmp_path, WARMSTART_MEMORY_BACKEND="local") == "local (SQLite)"
    assert chosen(tmp_path, host=True, WARMSTART_MEMORY_BACKEND="null") == "null (disabled)"
    assert chosen(tmp_path, HERMES_MEMORY_BACKEND="local") == "local (SQLite)"
    both = {"HERMES_MEMORY_BACKEND": "local", "WARMSTART_MEMORY_BACKEND": "null"}
    assert chosen(tmp_path, **both) == "null (disabled)"
    (tmp_path / "config.toml").write_text('[memory]\nbackend = "local"\n')
    assert chosen(tmp_path) == "local (SQLite)"
    assert chosen(tmp_path, WARMSTART_MEMORY_BACKEND="NULL ") == "null (disabled)"


def test_the_environment_is_asked_where_no_settings_are_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "local")
    backend = get_memory_backend()
    assert backend.store("mara", "key", "value")
    assert (home / ".warmstart" / "warmstart.db").is_file()


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


def test_a_store_that_is_a_file_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"store\.url"):
        chosen(tmp_path, WARMSTART_MEMORY_BACKEND="postgres")


def test_a_folder_that_is_no_store_raises_where_a_write_is_made(tmp_path: Path) -> None:
    (tmp_path / "warmstart.db").mkdir()
    backend = get_memory_backend(load_settings({"WARMSTART_MEMORY_BACKEND": "local"}, home=tmp_path))
    with pytest.raises(StoreCorrupt):
        backend.store("mara", "key", "value")


def test_redaction_is_on_unless_it_is_turned_off(tmp_path: Path) -> None:
    secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    def kept(**env: str) -> str:
        settings = load_settings({"WARMSTART_MEMORY_BACKEND": "local", **env}, home=tmp_path)
        backend = get_memory_backend(settings)
        backend.store("mara", "note", secret)
        found = backend.retrieve("mara", "note")
        assert found is not None
        return found.value

    assert secret not in kept()
    assert kept(WARMSTART_MEMORY_REDACT="no") == secret
    with pytest.raises(ConfigError, match="'maybe'"):
        kept(WARMSTART_MEMORY_REDACT="maybe")


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
        (f"{__name__}:no_backend", "gives a dict, which is no MemoryBackend"),
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
    report = evaluate_backends(sizes=(1,))
    assert "local (SQLite)" in report.backends_evaluated
    assert any(each.startswith("elsewhere is left out: ") and "no_such_module" in each for each in report.warnings)


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
