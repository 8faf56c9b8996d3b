"""Whether what a template demonstrates was done again, in a session that had nothing to do with its sources.

An action is compared by its signature: the program, its subcommand and flags, or the tool with the file or the kind of
arguments it was given. What every session does (listing a folder, looking at the git status, planning) tells nothing
and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from urllib.parse import urlsplit

from warmstart.errors import SessionNotFound
from warmstart.profile import shell
from warmstart.profile.arguments import command_in, fields_of, path_in
from warmstart.profile.tasks import SHELLS, TOOLS, Tools
from warmstart.sessions.store import Filter
from warmstart.templates.choosing.families import Families
from warmstart.templates.extraction.walk import walk
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import Demonstration, WarmTemplate

_SHARE = 0.6  # of the telling actions of a demonstration, for it to have been done again
_TWO = 2  # of them, where it has so many
_SESSIONS = 100  # of a project that are looked at, the newest
_EVERYWHERE = frozenset(("git", "gh", "pip", "which", "python", "node", "sleep", "kill", "ps", "date", "whoami"))
_INTERPRETERS = frozenset(("python", "python3", "node", "ruby", "perl", "php", "bash", "sh"))
_FILE = "file: "
_KINDS = Tools()


class Recurrences:
    """Looks through the sessions of a store, each once however many templates are asked for."""

    def __init__(self, store: SQLTemplateStore, families: Families) -> None:
        self._store = store
        self._families = families
        self._seen: dict[str, frozenset[str]] = {}
        self._newest: dict[str, list[str]] = {}

    def of(self, template: WarmTemplate, *, without: Iterable[str] = ()) -> str:
        """A session in which something that the template demonstrates was done again; empty if there is none.

        `without` are sessions that do not count, such as those that started from this very template.
        """
        left_out = set(without)
        wanted = [(each, actions_of(template.agent, each)) for each in template.seed.demonstrations]
        for session in dict.fromkeys((*template.sources, *self._sessions(template.project))):
            if session in left_out:
                continue
            for demonstration, telling in wanted:
                own = [source.session for source in demonstration.sources]
                if telling and self._families.is_independent(session, own) and recurs(telling, self._done(session)):
                    return session
        return ""

    def _sessions(self, project: str) -> list[str]:
        if project not in self._newest:
            listed = self._store.sessions.list(Filter(project=project, limit=_SESSIONS))
            self._newest[project] = [each.session.id for each in listed if each.session.outcome != "failure"]
        return self._newest[project]

    def _done(self, session: str) -> frozenset[str]:
        """What was done in a session and worked."""
        if session not in self._seen:
            try:
                known = self._store.sessions.get(session)
                taken = walk(known, list(self._store.sessions.messages(known.id))).taken
            except SessionNotFound:
                self._seen[session] = frozenset()
                return self._seen[session]
            self._seen[session] = frozenset(
                action
                for step in taken
                if step.outcome == "ok"
                for action in actions(known.agent, step.call.name, step.call.arguments)
            )
        return self._seen[session]


def recurs(telling: frozenset[str], done: frozenset[str]) -> bool:
    """Whether so much of these actions was done that it was the same thing; to touch the same file is not enough."""
    common = telling & done
    if all(action.startswith(_FILE) for action in common) and len(common) < _TWO:
        return False
    return len(common) >= max(ceil(_SHARE * len(telling)), min(_TWO, len(telling)))


def actions_of(agent: str, demonstration: Demonstration) -> frozenset[str]:
    """The telling actions of a demonstration."""
    return frozenset(action for act in demonstration.acts for action in actions(agent, act.tool, act.arguments))


def actions(agent: str, tool: str, arguments: str) -> Iterator[str]:
    """The signatures of the telling actions in a call."""
    if tool in SHELLS:
        yield from filter(None, map(_command, shell.commands(command_in(arguments))))
        return
    if TOOLS.get(agent, {}).get(tool) == "other":
        return
    kind = _KINDS.kind(agent, tool, arguments)
    if kind == "file":
        name = path_in(arguments).rsplit("/", 1)[-1]
        if "." in name and "{{" not in name:  # otherwise it is a folder, or no name at all
            yield f"{_FILE}{tool} {name}"
    elif kind == "research":
        host = next((urlsplit(each).netloc for each in map(str, fields_of(arguments).values()) if "://" in each), "")
        if host:
            yield f"{tool} {host}"
    else:
        yield f"{tool}({', '.join(sorted(fields_of(arguments)))})"


def _command(command: shell.Command) -> str:
    """The program with what it was told to do; empty where every session does that."""
    program = command.program
    words = [word for word in command.words if not word.startswith("\0")]
    if program in _INTERPRETERS:
        if "-m" in words[:-1]:
            return " ".join(("-m", words[words.index("-m") + 1], *_flags(words, "-m")))
        script = next((word for word in words if not word.startswith("-")), "")
        return script.rsplit("/", 1)[-1] if "." in script and "-c" not in words and "-e" not in words else ""
    if program in _EVERYWHERE or shell.kind_of(program) != "code":
        return ""
    told = [word for word in words if not word.startswith("-") and word.replace("-", "").replace(":", "").isalnum()]
    return " ".join((program, *told[:2], *_flags(words)))


def _flags(words: list[str], *but: str) -> list[str]:
    return sorted({word.partition("=")[0] for word in words if word.startswith("-") and word not in but})
