"""Settings: argument, then environment variable, then `config.toml`, then default, resolved in one place."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from warmstart.errors import ConfigError

HOME_VARIABLE = "WARMSTART_HOME"
_SERVERS = ("postgresql://", "postgres://")


class Setting(NamedTuple):
    """One thing that a user can set: its key in `config.toml`, its environment variable if any, and what it does."""

    key: str
    variable: str
    help: str
    kind: Literal["text", "number", "share", "list", "table"] = "text"
    also: str = ""  # a variable of another program that says the same, where ours does not


SETTINGS = (
    Setting(
        "store.url",
        "WARMSTART_STORE",
        "The store: a path, sqlite:///path, or postgresql://… Default: warmstart.db in the home directory.",
    ),
    Setting(
        "store.tenant",
        "WARMSTART_TENANT",
        "Whose rows of a store on PostgreSQL to use, for a role that may act for others. Default: its own.",
    ),
    Setting(
        "memory.backend",
        "WARMSTART_MEMORY_BACKEND",
        "Where memories are kept: null (nowhere), local, postgres, honcho, or the name of an installed backend.",
        also="HERMES_MEMORY_BACKEND",
    ),
    Setting(
        "memory.fallback",
        "WARMSTART_MEMORY_FALLBACK",
        "What to use while that one is not available: a backend, or none to raise an error. Default: local.",
    ),
    Setting(
        "memory.max_value",
        "WARMSTART_MEMORY_MAX_VALUE",
        "How many characters an agent may store under one key. Default: 8000.",
        "number",
    ),
    Setting(
        "memory.redact",
        "WARMSTART_MEMORY_REDACT",
        "Whether secrets are replaced before a memory is kept: yes or no. Default: yes.",
    ),
    Setting(
        "memory.honcho.key",
        "",
        "The key for Honcho. With it and no address, memory may be kept at https://api.honcho.dev.",
        also="HONCHO_API_KEY",
    ),
    Setting(
        "memory.honcho.url", "", "The address of a Honcho server, such as http://127.0.0.1:8000.", also="HONCHO_URL"
    ),
    Setting("memory.honcho.workspace", "", "The workspace at Honcho. Default: warmstart.", also="HONCHO_WORKSPACE_ID"),
    Setting(
        "memory.honcho.timeout_ms",
        "",
        "How long a read waits for Honcho at most, in milliseconds, before it answers from here. Default: 300.",
        "number",
    ),
    Setting(
        "profile.tools",
        "",
        "What tools of your own are for, by name or pattern: code, file, research, or other for none of these.",
        "table",
    ),
    Setting(
        "recall.endpoint",
        "WARMSTART_EMBEDDINGS_URL",
        "Where embedders called openai:MODEL are: the address before /embeddings. Texts are sent there.",
    ),
    Setting("recall.key", "WARMSTART_EMBEDDINGS_KEY", "The key that this address asks for, if it does."),
    Setting("redact.allow", "", "Strings that are no secrets: a finding that contains one is left alone.", "list"),
    Setting("redact.patterns", "", "Regular expressions of your own secrets, by kind.", "table"),
    Setting(
        "templates.holdout",
        "WARMSTART_TEMPLATES_HOLDOUT",
        "The share of sessions that start cold, so that what templates do stays measurable. Default: 0.1.",
        "share",
    ),
    Setting(
        "templates.explore",
        "WARMSTART_TEMPLATES_EXPLORE",
        "The share of choices that go to templates of which little is known yet. Default: 0.1.",
        "share",
    ),
    Setting(
        "templates.max_age_days",
        "WARMSTART_TEMPLATES_MAX_AGE_DAYS",
        "After how many days without a use or a change a template is retired. Default: 180.",
        "number",
    ),
    Setting(
        "templates.budget_tokens",
        "WARMSTART_TEMPLATES_BUDGET_TOKENS",
        "How many tokens a template may take of a new session. Default: 1200.",
        "number",
    ),
    Setting(
        "templates.endpoint",
        "WARMSTART_TEMPLATES_ENDPOINT",
        "Where a model writes descriptions, if you ask for it: the address before /chat/completions.",
    ),
    Setting("templates.key", "WARMSTART_TEMPLATES_KEY", "The key that this address asks for, if it does."),
    Setting("templates.model", "WARMSTART_TEMPLATES_MODEL", "The model that writes descriptions there."),
)
_WANTED = {
    "text": "text in quotes",
    "number": "a whole number from 1 on",
    "share": "a number from 0 to 1",
    "list": "a list of texts in quotes",
    "table": "a table of names and texts in quotes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was decided outside the program."""

    home: Path
    store_path: Path
    store_url: str = field(default="", repr=False)  # of a server; empty for a file
    store_tenant: str = ""
    memory_backend: str = ""  # empty: not decided
    memory_fallback: str = "local"
    memory_max_value: int = 8000
    memory_redact: bool = True
    honcho_key: str = field(default="", repr=False)
    honcho_url: str = ""
    honcho_workspace: str = ""
    honcho_timeout_ms: int = 300
    profile_tools: Mapping[str, str] = field(default_factory=dict)
    recall_endpoint: str = ""
    recall_key: str = field(default="", repr=False)
    redact_allow: tuple[str, ...] = ()
    redact_patterns: Mapping[str, str] = field(default_factory=dict)
    templates_holdout: float = 0.1
    templates_explore: float = 0.1
    templates_max_age_days: int = 180
    templates_budget_tokens: int = 1200
    templates_endpoint: str = ""
    templates_key: str = field(default="", repr=False)
    templates_model: str = ""

    @property
    def store_name(self) -> str:
        """Where the store is, as it may be shown."""
        return without_password(self.store_url) if self.store_url else str(self.store_path)


def load_settings(env: Mapping[str, str], *, home: Path | None = None, store: str | None = None) -> Settings:
    """Resolve the settings. `home` and `store` are arguments and win over everything else.

    Raises `ConfigError` for a file that is not TOML, an unknown key or a value of the wrong kind.
    """
    chosen = _expanded(Path(home or env.get(HOME_VARIABLE) or "~/.warmstart")).absolute()
    values = _read(chosen / "config.toml")
    for setting in SETTINGS:
        for variable in filter(None, (setting.also, setting.variable)):
            if env.get(variable):
                values[setting.key] = env[variable]
    return Settings(
        home=chosen,
        **_store(store or values.get("store.url", ""), chosen),
        store_tenant=values.get("store.tenant", ""),
        memory_backend=values.get("memory.backend", "").strip().lower(),
        memory_fallback=values.get("memory.fallback", "").strip().lower() or "local",
        memory_max_value=_count("memory.max_value", values.get("memory.max_value", 8000)),
        memory_redact=_is_yes("memory.redact", values.get("memory.redact", "yes")),
        honcho_key=values.get("memory.honcho.key", ""),
        honcho_url=values.get("memory.honcho.url", ""),
        honcho_workspace=values.get("memory.honcho.workspace", ""),
        honcho_timeout_ms=_count("memory.honcho.timeout_ms", values.get("memory.honcho.timeout_ms", 300)),
        profile_tools=values.get("profile.tools", {}),
        recall_endpoint=values.get("recall.endpoint", ""),
        recall_key=values.get("recall.key", ""),
        redact_allow=tuple(values.get("redact.allow", ())),
        redact_patterns=values.get("redact.patterns", {}),
        templates_holdout=_share("templates.holdout", values.get("templates.holdout", 0.1)),
        templates_explore=_share("templates.explore", values.get("templates.explore", 0.1)),
        templates_max_age_days=_count("templates.max_age_days", values.get("templates.max_age_days", 180)),
        templates_budget_tokens=_count("templates.budget_tokens", values.get("templates.budget_tokens", 1200)),
        templates_endpoint=values.get("templates.endpoint", ""),
        templates_key=values.get("templates.key", ""),
        templates_model=values.get("templates.model", ""),
    )


def ambient_settings() -> Settings:
    """The settings of this process, for a library that is asked to choose by itself."""
    return load_settings(os.environ)


def _count(key: str, value: int | str) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        value = int(value)
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"the setting {key!r} must be a whole number from 1 on, not {value!r}")
    return value


def _share(key: str, value: float | str) -> float:
    """A share as a number from 0 to 1, or as text: `0.1`, `10 %`."""
    if isinstance(value, str) and (written := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*(%?)", value.strip())):
        value = float(written[1]) / (100 if written[2] else 1)
    if isinstance(value, str) or not 0 <= value <= 1:
        raise ConfigError(f"the setting {key!r} must be a number from 0 to 1, not {value!r}")
    return float(value)


def _is_yes(key: str, value: str) -> bool:
    if value.lower() in ("yes", "true", "on", "1"):
        return True
    if value.lower() in ("no", "false", "off", "0"):
        return False
    raise ConfigError(f"the setting {key!r} must be yes or no, not {value!r}")


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_fifo():
            raise OSError(errno.EINVAL, "it is a pipe")  # which reading would wait for
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} is not valid TOML ({error}); mend it or move it away") from error
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(path)!r} ({error.strerror}); check {HOME_VARIABLE} and the permissions there"
        ) from error
    known = {setting.key: setting for setting in SETTINGS}
    values = dict(_flat(tables, known))
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"unknown setting {key!r} in {str(path)!r}; known: {', '.join(sorted(known))}")
        if not _fits(value, known[key].kind):
            wanted = _WANTED[known[key].kind]
            raise ConfigError(f"the setting {key!r} in {str(path)!r} must be {wanted}, not {value!r}")
    return values


def _flat(tables: dict[str, Any], known: Collection[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and f"{prefix}{name}" not in known:
            yield from _flat(value, known, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _fits(value: object, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if kind == "share":
        return isinstance(value, int | float | str) and not isinstance(value, bool)  # its range is looked at later
    if kind == "list":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind == "table":
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    return isinstance(value, str)


def _store(url: str, home: Path) -> dict[str, Any]:
    """Where the store is: a file, or a server, beside which the file is where it would be by default."""
    if url.startswith(_SERVERS):
        return {"store_url": url, "store_path": home / "warmstart.db"}
    return {"store_path": _store_path(url, home)}


def _store_path(url: str, home: Path) -> Path:
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "sqlite":
        raise ConfigError(
            f"the store {without_password(url)!r} is not one this version knows; "
            "give a path, sqlite:///path or postgresql://…"
        )
    # sqlite:///relative and sqlite:////absolute, as is usual; a relative path starts at the home directory.
    path = rest.removeprefix("/") if separator else url
    if "\0" in path:
        raise ConfigError(f"the store {url!r} is no path; give a path or sqlite:///path")
    return (home / _expanded(Path(path or "warmstart.db"))).absolute()


def without_password(url: str) -> str:
    """The URL as it may be shown. It rather leaves out too much of one that is not well-formed."""
    shown = re.sub(r"(://[^:/?#@]*):.*@", r"\1@", url, flags=re.DOTALL)
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&]*", r"\1…", shown)


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the home directory in {str(path)!r} is not known here; write the whole path") from error
