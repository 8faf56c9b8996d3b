"""Hermes Agent: what our process answers to the plugin inside Hermes (`hermes_plugin`), and what is installed."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from warmstart.hosts.files import HostFile
    from warmstart.hosts.hook import Hook
    from warmstart.hosts.install import Place
    from warmstart.templates import Choice, WarmTemplate

HOST = "hermes"
TITLE = "Hermes Agent"


def handle(event: str, data: dict[str, Any], hook: Hook) -> dict[str, Any] | None:
    """Answer one event of the plugin."""
    session, folder = str(data.get("session_id") or ""), str(data.get("cwd") or "")
    if event == "turn":
        return _context(_turn(data, hook, session, folder))
    if event == "tool_failed":
        return _context(hook.after_tool(session, folder, data["tool"], data["arguments"], data["output"]))
    if event == "end":
        hook.sync(f"{data['hermes_home']}/state.db")
    elif event == "block":
        return {"block": _block(data["mode"])}
    elif event == "tool":
        return {"result": _call_tool(data["tool"], data["arguments"], session, folder)}
    elif event == "seed":
        return _seed(data, session, folder)
    return None


def _context(text: str | None) -> dict[str, Any] | None:
    return {"context": text} if text else None


def _turn(data: dict[str, Any], hook: Hook, session: str, folder: str) -> str:
    if data["compacted"]:
        hook.after_compaction(session)
    start = hook.start(session, folder, HOST, data["model"]) if data["first"] else ""
    return "\n\n".join(filter(None, (start, hook.before_turn(session, folder, data["message"]))))


def _block(mode: object) -> str:
    from warmstart.preflight.prompt import block

    return block("full" if mode == "full" else "short")


def _call_tool(tool: str, arguments: dict[str, Any], session: str, folder: str) -> str:
    """The result of one of our tools, for the model."""
    if tool == "memory_backend":
        from warmstart.memory.selection import get_memory_backend
        from warmstart.memory.tool import MEMORY_BACKEND_SCHEMA, memory_backend

        get_memory_backend(host=True)  # which means to remember
        known = MEMORY_BACKEND_SCHEMA["parameters"]["properties"]
        return memory_backend(**{name: value for name, value in arguments.items() if name in known})
    import warmstart

    project = None if arguments.get("all_projects") else folder
    limit = min(int(arguments.get("limit") or 5), 20)
    with warmstart.open() as app:
        found = app.recall(str(arguments.get("query") or ""), project=project, limit=limit, exclude_session=session)
    return "\n\n".join(f"{each.date:%Y-%m-%d} {each.session_id} {each.role}: {each.text}" for each in found)


def _seed(data: dict[str, Any], session: str, folder: str) -> dict[str, Any]:
    """The rows of a session that begins with the brief and a template, or an error to show."""
    import warmstart

    options: dict[str, Any] = {"task": data["task"], "agent": HOST, "tools": data["tools"], "shape": "openai"}
    try:
        with warmstart.open() as app:
            if data["template"]:
                options["selector"] = _NamedTemplate(app.templates.get(data["template"]))
            started = app.templates.start(session, [], project=folder, **options)
    except warmstart.WarmstartError as error:
        return {"error": str(error)}
    return {"messages": rows_of(started.messages), "error": f"nothing to start from: {started.choice.why}"}


class _NamedTemplate:
    """Chooses the template that the user named."""

    def __init__(self, template: WarmTemplate) -> None:
        from warmstart.templates import Choice, Suggestion, WarmSessionBootstrapper

        WarmSessionBootstrapper(template)  # raises `InvalidTemplate` if no session may start from it
        facts: Any = {name: getattr(template, name) for name in ("id", "name", "version", "state")}
        why = "the user named it"
        self.choice = Choice(
            arm="warm", why=why, template=Suggestion(**facts, sure=1.0, similarity=1.0, utility=0.0, why=why)
        )

    def choose(self, _: object) -> Choice:
        return self.choice


def rows_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages as Hermes keeps them: without system messages, and with the user's turn next."""
    from warmstart.templates.rendering import closing

    rows: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        row = {key: value for key, value in message.items() if key in ("role", "content", "tool_calls", "tool_call_id")}
        names.update((call["id"], call["function"]["name"]) for call in message.get("tool_calls", ()))
        if row["role"] == "tool":
            row["tool_name"] = names[row["tool_call_id"]]
        elif row["role"] == "system":
            row["role"] = "user"
            if rows and rows[-1]["role"] == "user":
                row["content"] = f"{rows.pop()['content']}\n\n{row['content']}"
        rows.append(row)
    return [*rows, {"role": "assistant", "content": closing()["content"][0]["text"]}] if rows else []


# -- what is installed


def is_present(place: Place) -> bool:
    """Whether Hermes is on this machine: its folder or its program."""
    from shutil import which

    return _home(place)[1].is_dir() or which("hermes", path=place.env.get("PATH")) is not None


def files(place: Place) -> list[HostFile]:
    """A plugin in the chosen profile and in those that have it already, and its name in their `config.yaml`."""
    from pathlib import Path

    from warmstart.hosts.files import OwnFile
    from warmstart.hosts.hermes_config import PluginList

    here = Path(__file__).parent
    manifest, code = (
        (here / "hermes_files" / name).read_text(encoding="utf-8") for name in ("plugin.yaml", "__init__.txt")
    )
    source = str(here / "hermes_plugin.py")
    code = code.format(plugin=source, python=place.python, home=place.env.get("WARMSTART_HOME", ""))
    found: list[HostFile] = []
    for profile in _profiles(place):
        folder = profile / "plugins" / "warmstart"
        found += OwnFile(folder / "plugin.yaml", manifest), OwnFile(folder / "__init__.py", code)
        if place.own_store or (folder / "own-store").exists():
            found.append(OwnFile(folder / "own-store", "Warmstart keeps what it learns in this profile.\n"))
        found.append(PluginList(profile / "config.yaml"))
    return found


def _home(place: Place) -> tuple[Path, Path]:
    """`$HERMES_HOME`, and the folder that has all profiles in it."""
    from pathlib import Path

    home = Path(place.env.get("HERMES_HOME") or place.home / ".hermes")
    return home, home.parent.parent if home.parent.name == "profiles" else home


def _profiles(place: Place) -> list[Path]:
    """The folder of the chosen profile, by default of the one that Hermes uses, and of those with our plugin."""
    from contextlib import suppress

    from warmstart.errors import ConfigError

    home, root = _home(place)
    name = place.profile or home.name * (home != root)
    with suppress(OSError, ValueError):
        name = name or (root / "active_profile").read_text(encoding="utf-8").strip()
    chosen = root if name in ("", "default") else root / "profiles" / name
    if chosen != root and not chosen.is_dir():
        raise ConfigError(f"Hermes has no profile {name!r}; `hermes profile list` shows the profiles")
    every = (root, *sorted((root / "profiles").glob("*")))
    return list(dict.fromkeys((chosen, *(each for each in every if (each / "plugins" / "warmstart").is_dir()))))
