from __future__ import annotations

import os
from pathlib import Path

import pytest

from warmstart import load_settings
from warmstart.config import HOME_VARIABLE, SETTINGS
from warmstart.errors import ConfigError


def configured(home: Path, text: str) -> Path:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")
    return home


def test_nothing_needs_to_be_set(home):
    settings = load_settings({})
    assert settings.home == home / ".warmstart"
    assert settings.store_path == home / ".warmstart" / "warmstart.db"
    assert not settings.home.exists()


def test_home_is_an_argument_or_a_variable(tmp_path, home, monkeypatch):
    settings = load_settings({HOME_VARIABLE: str(tmp_path / "kept")})
    assert (settings.home, settings.store_path) == (tmp_path / "kept", tmp_path / "kept" / "warmstart.db")
    assert load_settings({HOME_VARIABLE: "/elsewhere"}, home=tmp_path).home == tmp_path
    assert load_settings({HOME_VARIABLE: "~/kept"}).home == home / "kept"
    monkeypatch.chdir(tmp_path)
    assert load_settings({HOME_VARIABLE: "kept"}).home == tmp_path / "kept"


def test_argument_then_variable_then_file_then_default(tmp_path):
    kept = configured(tmp_path / "kept", '[store]\nurl = "from-file.db"')

    def chosen(env: dict[str, str], **arguments: str) -> str:
        return load_settings(env, home=kept, **arguments).store_path.name

    assert chosen({"WARMSTART_STORE": "from-variable.db"}, store="from-argument.db") == "from-argument.db"
    assert chosen({"WARMSTART_STORE": "from-variable.db"}) == "from-variable.db"
    assert chosen({}) == chosen({"WARMSTART_STORE": ""}) == "from-file.db"
    (kept / "config.toml").unlink()
    assert chosen({}) == "warmstart.db"


def test_a_store_is_a_path_or_a_url(tmp_path, home, subtests):
    for url, path in (
        ("other.db", "HOME/other.db"),
        ("sub/other.db", "HOME/sub/other.db"),
        ("/srv/other.db", "/srv/other.db"),
        ("~/other.db", "~/other.db"),
        ("sqlite:///other.db", "HOME/other.db"),
        ("sqlite:////srv/other.db", "/srv/other.db"),
        ("sqlite://", "HOME/warmstart.db"),
        ("", "HOME/warmstart.db"),
    ):
        with subtests.test(url):
            wanted = path.replace("HOME", str(tmp_path)).replace("~", str(home))
            assert load_settings({"WARMSTART_STORE": url}, home=tmp_path).store_path == Path(wanted)


def test_a_wrong_file_is_refused(tmp_path, subtests):
    for text, said in (
        ("store = [", "is not valid TOML"),
        ('url = "x.db"', "unknown setting 'url'"),
        ('[store]\nname = "x"', "unknown setting 'store.name'"),
        ('[[store]]\nurl = "x"', "unknown setting 'store'"),
        ("[store]\nurl = true", "must be a string in quotes, not True"),
        ('[store]\nurl = "redis://x"', "unknown kind of store 'redis://x'"),
        ('[store]\nurl = "a\\u0000b"', "is not a path"),
        ('[store]\nurl = "~nobody-of-this-name/x.db"', "write the full path"),
    ):
        with subtests.test(text), pytest.raises(ConfigError, match=said) as refused:
            load_settings({}, home=configured(tmp_path, text))
        assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_settings({}, home=tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match=r"cannot read .*config\.toml"):
        load_settings({}, home=tmp_path)
    path.rmdir()
    os.mkfifo(path)  # which is not waited for
    with pytest.raises(ConfigError, match="pipe"):
        load_settings({}, home=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=HOME_VARIABLE):
        load_settings({}, home=tmp_path / "file")


def test_each_setting_has_a_key_and_a_variable_of_our_own():
    assert len(SETTINGS) > 20
    for setting in SETTINGS:
        assert setting.variable.startswith("WARMSTART_") or not setting.variable
        assert "." in setting.key


def test_rules_of_redaction_are_read(tmp_path):
    (tmp_path / "config.toml").write_text(
        '[redact]\nallow = ["a", "b"]\n[redact.patterns]\nacme-token = "acme_[0-9]+"\n', encoding="utf-8"
    )
    settings = load_settings({}, home=tmp_path)
    assert settings.redact_allow == ("a", "b")
    assert settings.redact_patterns == {"acme-token": "acme_[0-9]+"}
    for text, wanted in (("allow = 'a'", "a list"), ("patterns = ['x']", "a table"), ("allow = [1]", "a list")):
        (tmp_path / "config.toml").write_text(f"[redact]\n{text}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=wanted):
            load_settings({}, home=tmp_path)


def test_a_share_is_a_number_or_a_percentage(tmp_path, subtests):
    for written, meant in (
        *(("0.25", 0.25), ("0", 0.0), ("1", 1.0), ("0.3333333333333333", 1 / 3), ("0.00001", 1e-5)),
        *(('"5 %"', 0.05), ('"100%"', 1.0), ('"0.3"', 0.3)),
    ):
        with subtests.test(written):
            kept = configured(tmp_path, f"[templates]\nholdout = {written}")
            assert load_settings({}, home=kept).templates_holdout == pytest.approx(meant)
            variable = {"WARMSTART_TEMPLATES_EXPLORE": written.strip('"')}
            assert load_settings(variable, home=kept).templates_explore == pytest.approx(meant)


def test_a_wrong_value_is_an_error_that_names_its_source(tmp_path, subtests):
    share = "must be a number from 0 to 1, not"
    wrong = [
        ("holdout", value, share) for value in ("1.5", "-0.1", '"110 %"', '"a tenth"', "true", "[0.1]", "nan", '"."')
    ]
    wrong += [("max_age_days", value, "must be a positive whole number, not") for value in ("0", "-1", "1.5", "true")]
    for key, written, said in wrong:
        with subtests.test(f"{key} {written}"), pytest.raises(ConfigError, match=said) as refused:
            load_settings({}, home=configured(tmp_path, f"[templates]\n{key} = {written}"))
        assert f"'templates.{key}' in '{tmp_path}/config.toml'" in str(refused.value)
        assert "\n" not in str(refused.value)
    with pytest.raises(
        ConfigError, match=r"'memory.redact' in 'WARMSTART_MEMORY_REDACT' must be yes or no, not 'maybe'"
    ):
        load_settings({"WARMSTART_MEMORY_REDACT": "maybe"}, home=tmp_path / "empty")


def test_templates_can_be_set_and_have_defaults(tmp_path):
    default = load_settings({}, home=tmp_path)
    assert (default.templates_holdout, default.templates_explore) == (0.1, 0.1)
    assert (default.templates_max_age_days, default.templates_budget_tokens) == (180, 1200)
    kept = configured(tmp_path, "[templates]\nbudget_tokens = 800")
    chosen = load_settings({"WARMSTART_TEMPLATES_MAX_AGE_DAYS": "30"}, home=kept)
    assert (chosen.templates_max_age_days, chosen.templates_budget_tokens) == (30, 800)


def test_a_setting_of_earlier_versions_is_ignored(tmp_path):
    (tmp_path / "config.toml").write_text('[memory]\nfallback = "local"\nbackend = "null"\n')
    assert load_settings({}, home=tmp_path).memory_backend == "null"


def test_a_store_that_is_named_wins_over_the_configured_one(tmp_path):
    server = {"WARMSTART_STORE": "postgresql://mara@localhost/warmstart"}
    settings = load_settings(server, home=tmp_path, store="backup.db")
    assert (settings.store_url, settings.store_path) == ("", tmp_path / "backup.db")


def test_a_hook_ignores_what_it_does_not_know(tmp_path):
    hook = {"WARMSTART_HOOK": "1"}
    (tmp_path / "config.toml").write_text('[preflight]\nmode = "short"\n[templates]\nholdout = "x"\nexplore = 0.3\n')
    settings = load_settings(hook, home=tmp_path)
    assert (settings.templates_holdout, settings.templates_explore) == (0.1, 0.3)
    assert len(settings.ignored) == 2
    assert not any("known:" in error for error in settings.ignored)
    (tmp_path / "config.toml").write_text("[hosts]\nexcluded = []\n")
    with pytest.raises(ConfigError, match=r"hosts\.excluded"):
        load_settings(hook, home=tmp_path)
