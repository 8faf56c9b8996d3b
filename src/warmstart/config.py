"""Settings: argument, then environment variable, then `config.toml`, then default, resolved in one place."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.errors import ConfigError

HOME_VARIABLE = "WARMSTART_HOME"
COPIES = "hosts/briefs"  # the folder in `$WARMSTART_HOME` for what hooks read of a store on a server
HOOK_VARIABLE = "WARMSTART_HOOK"  # set in the processes of hooks, which ignore settings that they do not know

_SERVERS = ("postgresql://", "postgres://")
_AGENT = "the agent's configuration"
_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")

# The words that a setting accepts, and what each means. Those with `yes` and `no` also accept true and false.
_CHOICES = {
    "context_preflight.mode": {"off": "off", "short": "short", "full": "full", "yes": "full", "no": "off"},
    "context_preflight.auto_inject": {"off": "off", "smart": "smart", "always": "always", "yes": "smart", "no": "off"},
    "auto_handoff_on_compression.mode": {"prompt_user": "prompt_user", "fresh_session": "fresh_session"},
}


class Setting(NamedTuple):
    """A setting: its key in `config.toml` and its environment variables."""

    key: str
    variable: str
    also: str  # other programs' variables for the same setting; the last one set wins, and ours overrides them
    default: Any


def _setting(key: str, variable: str = "", default: Any = "", *, also: str = "", secret: bool = False) -> Any:
    metadata = {"setting": Setting(key, variable, also, default)}
    return field(default_factory=lambda: default, repr=not secret, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings. docs/configuration.md describes each of them."""

    home: Path
    store_path: Path  # of the file; the default path if the store is on a server
    ignored: tuple[str, ...] = ()  # errors in the settings, if this is the process of a hook
    store_url: str = _setting("store.url", "WARMSTART_STORE", secret=True)  # of a server; empty for a file
    store_tenant: str = _setting("store.tenant", "WARMSTART_TENANT")
    memory_backend: str = _setting("memory.backend", "WARMSTART_MEMORY_BACKEND", also="HERMES_MEMORY_BACKEND")
    memory_max_value: int = _setting("memory.max_value", "WARMSTART_MEMORY_MAX_VALUE", 8000)
    memory_redact: bool = _setting("memory.redact", "WARMSTART_MEMORY_REDACT", True)
    honcho_key: str = _setting("memory.honcho.key", also="HONCHO_API_KEY", secret=True)
    honcho_url: str = _setting("memory.honcho.url", also="HONCHO_URL HONCHO_BASE_URL")
    honcho_workspace: str = _setting("memory.honcho.workspace", also="HONCHO_WORKSPACE_ID HONCHO_APP_ID")
    honcho_timeout_ms: int = _setting("memory.honcho.timeout_ms", default=300)
    honcho_write_timeout_ms: int = _setting("memory.honcho.write_timeout_ms", default=10_000)
    honcho_connect_timeout_ms: int = _setting("memory.honcho.connect_timeout_ms", default=5_000)
    honcho_dialectic: bool = _setting("memory.honcho.dialectic", default=False)
    honcho_send_scoped: bool = _setting("memory.honcho.send_scoped", default=False)
    preflight_mode: str = _setting("context_preflight.mode", "WARMSTART_PREFLIGHT", "full")
    preflight_inject: str = _setting("context_preflight.auto_inject", "WARMSTART_AUTO_INJECT")
    preflight_max_tokens: int = _setting("context_preflight.max_tokens", default=400)
    preflight_max_passages: int = _setting("context_preflight.max_passages", default=3)
    preflight_min_score: float = _setting("context_preflight.min_score", default=0.36)
    preflight_deadline_ms: int = _setting("context_preflight.deadline_ms", default=60)
    handoff_enabled: bool = _setting("auto_handoff_on_compression.enabled", default=False)
    handoff_after: int = _setting("auto_handoff_on_compression.after_compressions", default=3)
    handoff_max: int = _setting("auto_handoff_on_compression.max_auto_handoffs", default=2)
    handoff_mode: str = _setting("auto_handoff_on_compression.mode", default="prompt_user")
    handoff_dir: str = _setting("auto_handoff_on_compression.handoff_artifact_dir", default="handoffs")
    hosts_exclude: tuple[str, ...] = _setting("hosts.exclude", default=())
    profile_tools: Mapping[str, str] = _setting("profile.tools", default={})
    recall_endpoint: str = _setting("recall.endpoint", "WARMSTART_EMBEDDINGS_URL")
    recall_key: str = _setting("recall.key", "WARMSTART_EMBEDDINGS_KEY", secret=True)
    redact_allow: tuple[str, ...] = _setting("redact.allow", default=())
    redact_patterns: Mapping[str, str] = _setting("redact.patterns", default={})
    templates_holdout: float = _setting("templates.holdout", "WARMSTART_TEMPLATES_HOLDOUT", 0.1)
    templates_explore: float = _setting("templates.explore", "WARMSTART_TEMPLATES_EXPLORE", 0.1)
    templates_max_age_days: int = _setting("templates.max_age_days", "WARMSTART_TEMPLATES_MAX_AGE_DAYS", 180)
    templates_budget_tokens: int = _setting("templates.budget_tokens", "WARMSTART_TEMPLATES_BUDGET_TOKENS", 1200)

    @property
    def store_name(self) -> str:
        """Where the store is, for messages."""
        return without_password(self.store_url) if self.store_url else str(self.store_path)


_BY_FIELD: dict[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Settings) if each.metadata}
SETTINGS = tuple(_BY_FIELD.values())
_KEYS = {setting.key for setting in SETTINGS}


def load_settings(
    env: Mapping[str, str], *, home: Path | None = None, store: str | None = None, host: Mapping[str, Any] | None = None
) -> Settings:
    """Resolve the settings. `home` and `store` are arguments and override everything else.

    `host` has settings from an agent's own configuration, by key; they override `config.toml`. Raises `ConfigError` for
    a file that is not TOML, an unknown key or a value of the wrong kind. A hook ignores the latter two.
    """
    ignored: list[str] | None = [] if env.get(HOOK_VARIABLE) else None
    folder = home_directory(env, home)
    path = folder / "config.toml"
    sources = {key: (value, str(path)) for key, value in _read(path, ignored).items()}
    sources |= {key: (value, _AGENT) for key, value in _check_keys(host or {}, _AGENT, ignored).items()}
    for setting in SETTINGS:
        for variable in (*setting.also.split(), setting.variable):
            if env.get(variable):
                sources[setting.key] = env[variable], variable
    values: dict[str, Any] = {}
    for name, setting in _BY_FIELD.items():
        if setting.key in sources:
            try:
                values[name] = _convert(setting, *sources[setting.key])
            except ConfigError as error:
                _ignore(setting.key, error, ignored)
    url = store or values.get("store_url", "")
    if "memory_backend" in values:
        values["memory_backend"] = values["memory_backend"].strip().lower()
    is_server = url.startswith(_SERVERS)
    if is_server and not url.isprintable():
        raise ConfigError(
            f"the store {without_password(url)!r} has characters that are not allowed in a URL; remove them"
        )
    values["store_url"] = url if is_server else ""
    store_path = _store_path("" if is_server else url, folder)
    return Settings(home=folder, store_path=store_path, ignored=tuple(ignored or ()), **values)


def home_directory(env: Mapping[str, str], home: Path | None = None) -> Path:
    """The folder with Warmstart's own files."""
    return expand_user(Path(home or env.get(HOME_VARIABLE) or "~/.warmstart")).absolute()


def ambient_settings(*, home: Path | None = None, store: str | None = None) -> Settings:
    """The settings of this process."""
    return load_settings(os.environ, home=home, store=store)


def _convert(setting: Setting, value: Any, source: str) -> Any:
    """The value converted to the type of the default. Environment variables are text."""
    kind = type(setting.default)
    text = str(value).strip().lower()
    if choices := _CHOICES.get(setting.key):
        word = "yes" if text in _YES else "no" if text in _NO else text
        wanted, fits = f"one of {', '.join(dict.fromkeys(choices.values()))}", word in choices
        value = choices.get(word, value)
    elif kind is bool:
        wanted, fits = "yes or no", text in _YES + _NO
        value = text in _YES if fits else value
    elif kind is int:
        wanted, fits = "a positive whole number", re.fullmatch(r"0*[1-9][0-9]{0,8}", text) is not None
        value = int(text) if fits else value
    elif kind is float:
        share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,20})?(?:e-[0-9]{1,2})?)\s*(%?)", text)
        number = float(share[1]) / (100 if share[2] else 1) if share else -1
        wanted, fits, value = "a number from 0 to 1", 0 <= number <= 1, number if 0 <= number <= 1 else value
    elif kind is tuple:
        wanted, fits = "a list of strings in quotes", isinstance(value, list) and all(isinstance(v, str) for v in value)
        value = tuple(value) if fits else value
    elif kind is dict:
        wanted = "a table of strings in quotes"
        fits = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    else:
        wanted, fits = "a string in quotes", isinstance(value, str)
    if not fits:
        raise ConfigError(f"the setting {setting.key!r} in {source!r} must be {wanted}, not {value!r}")
    return value


def _read(path: Path, ignored: list[str] | None) -> dict[str, Any]:
    try:
        if path.is_fifo():
            raise OSError(errno.EINVAL, "it is a pipe")  # reading it would block forever
        text = path.read_text(encoding="utf-8")
        import tomllib  # deferred: most users have no such file

        values = dict(_flatten(tomllib.loads(text)))
    except FileNotFoundError:
        return {}
    except RecursionError as error:
        raise ConfigError(f"{str(path)!r} is nested too deeply; fix it or move it away") from error
    except ValueError as error:  # invalid TOML or UTF-8, or a number with thousands of digits
        raise ConfigError(f"{str(path)!r} is not valid TOML ({error}); fix it or move it away") from error
    except OSError as error:
        advice = f"check {HOME_VARIABLE} and the permissions there"
        raise ConfigError(f"cannot read {str(path)!r} ({error.strerror}); {advice}") from error
    values.pop("memory.fallback", None)  # a setting of earlier versions
    if "context_preflight" in values:  # a plain true or false
        values["context_preflight.mode"] = values.pop("context_preflight")
    return _check_keys(values, repr(str(path)), ignored)


def _check_keys(values: Mapping[str, Any], source: str, ignored: list[str] | None) -> dict[str, Any]:
    for key in values.keys() - _KEYS:
        error = ConfigError(f"unknown setting {key!r} in {source}; known: {', '.join(sorted(_KEYS))}")
        _ignore(key, error, ignored)
    return {key: value for key, value in values.items() if key in _KEYS}


def _ignore(key: str, error: ConfigError, ignored: list[str] | None) -> None:
    """Note an error of a setting, or raise it. One that may exclude a folder is never ignored."""
    if ignored is None or key.startswith("hosts."):
        raise error
    ignored.append(str(error).partition("; known:")[0])


def _flatten(tables: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and f"{prefix}{name}" not in _KEYS:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _store_path(url: str, home: Path) -> Path:
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "sqlite":
        advice = "give a path, sqlite:///path or postgresql://…"
        raise ConfigError(f"unknown kind of store {without_password(url)!r}; {advice}")
    # sqlite:///relative and sqlite:////absolute, as is usual; a relative path starts at the home directory.
    path = rest.removeprefix("/") if separator else url
    if "\0" in path:
        raise ConfigError(f"the store {url!r} is not a path; give a path or sqlite:///path")
    return (home / expand_user(Path(path or "warmstart.db"))).absolute()


def without_password(url: str) -> str:
    """The URL without its password, for messages. From a malformed URL it removes too much rather than too little."""
    shown = re.sub(r"(://[^:/?#@]*):.*@", r"\1@", url, flags=re.DOTALL)
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&]*", r"\1…", shown)


def expand_user(path: Path) -> Path:
    """The path with a leading `~` expanded. Raises `ConfigError` for an unknown user."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the home directory in {str(path)!r} is unknown; write the full path") from error
