"""What a call could do to the world: destroy something, or reach out of the machine.

A command is read as a shell would run it: through wrappers, pipes, substitutions, `-exec`, and texts that are fed to a
shell or an interpreter. What runs something that cannot be seen here (a shell that is fed by a pipe, `eval`, a plugin
by name) counts as destructive. What a call merely writes into a file does not count: it does not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warmstart.profile.arguments import command_in, fields_of, path_in
from warmstart.profile.shell import commands, edits
from warmstart.profile.tasks import SHELLS as SHELL_TOOLS
from warmstart.templates.programs import DATABASES, INTERPRETER, SHELLS, Risk, code_risk, command_risk, sql_risk

_DEPTH = 4  # commands within commands that are looked into
_LONGEST = 65_536  # characters of a command that are looked at
_MOST = 400_000  # characters of commands within commands, in all
_DESTROYING = frozenset(
    (
        "delete",
        "destroy",
        "drop",
        "purge",
        "wipe",
        "erase",
        "truncate",
        "rm",
        "rmdir",
        "unlink",
        "uninstall",
        "kill",
        "del",
    )
)
_EMPTYING = frozenset(("remove", "clear", "reset"))  # of a file or a folder
_FILES = frozenset(("file", "files", "folder", "folders", "directory", "directories", "dir", "path", "paths"))
_REACHING = frozenset(
    (
        *("web", "browser", "http", "https", "url", "urls", "internet", "webfetch", "websearch", "curl", "wget", "ssh"),
        *("scp", "playwright", "puppeteer", "webpage", "website", "browse", "download", "upload"),
    )
)
_COMMAND_FIELDS = ("command", "cmd", "script", "code", "commands", "shell", "bash", "input", "chars", "program", "args")
_SQL_FIELDS = ("sql", "query", "statement", "queries", "statements")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SEGMENT = re.compile(r"__|[.:/]")
_HEREDOC = re.compile(r"<<-?[ \t]{0,4}(['\"]?)(\w{1,40})\1")
_HEREDOCS = 20  # texts that are fed to commands, of one command line, that are looked into
_SET = re.compile(r"(?:^|[\s;&|(])([A-Za-z_]\w{0,40})=(\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s;&|\"']{1,400})")
_NAMED = re.compile(r"\$\{?([A-Za-z_]\w{0,40})\}?")
_SPOKEN = re.compile(r"\b(?:echo|printf)\s+(?:-\w+\s+)?(\"[^\"]{0,2000}\"|'[^']{0,2000}'|[^|\n]{1,2000})\|")
# A shell that is given what another command says, and variables that make programs load code.
_UNSEEN = re.compile(
    r"\b(?:ba|z|da|k)?sh\s+(?:-\w{1,8}\s+){0,3}<\(|(?:\bsource|(?<![\w.])\.)\s+<\(|\b(?:ba|z|da|k)?sh\s+-l?c\s+[\"']?(?:\$\(|`)"
    r"|\b(?:LD_PRELOAD|DYLD_INSERT_LIBRARIES|BASH_ENV|PROMPT_COMMAND|PYTHONSTARTUP|PERL5OPT|RUBYOPT|GIT_SSH_COMMAND"
    r"|GIT_ASKPASS|GIT_EXTERNAL_DIFF)="
)
# Variables that send a package manager or a program elsewhere.
_AIMED = re.compile(r"\b\w{0,40}(?:index|registry|proxy|mirror)\w{0,20}=[\"']?\w{1,10}://", re.IGNORECASE)
# What runs by itself from then on: what a shell starts with, hooks, keys that let somebody in.
_STARTUP = re.compile(
    r"(?:^|[/~\s\"'>])\.(?:bashrc|bash_profile|bash_login|bash_aliases|profile|zshrc|zshenv|zprofile|gitconfig)\b"
    r"|\.ssh/|\.git/hooks/|config\.fish\b|\.claude/settings|/LaunchAgents/|\.config/(?:autostart|systemd)/|/etc/(?:profile|cron|ld\.so)"
)
_WRITTEN = ("content", "contents", "file_text", "new_string", "new_str", "newString", "patch", "text", "insert_text")
_OPENED = re.compile(r"\$\(|[<>]\(|`")


def risk(tool: str, arguments: str) -> Risk:
    """What a call could do; destroying outweighs reaching out."""
    found = {_named(tool)}
    if tool in SHELL_TOOLS or _looks_like_a_shell(tool):
        found |= _Commands(command_in(arguments) or arguments).risks
    fields = fields_of(arguments)
    if any(name in fields for name in _WRITTEN) and _STARTUP.search(path_in(arguments)):
        found.add("destructive")
    for name, value in fields.items():
        for text in _texts(value):
            if name in _SQL_FIELDS or _is_database(tool):
                found.add(sql_risk(text))
            if name in _COMMAND_FIELDS:
                found |= _Commands(text).risks
                found.add(code_risk(text) if name in ("code", "script", "program") else "")
    return "destructive" if "destructive" in found else "network" if "network" in found else ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        yield " ".join(value)


def _words_of(tool: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(tool)]


def _named(tool: str) -> Risk:
    """What the name of a tool says: its verb, or what it is about."""
    last = [part for part in _SEGMENT.split(tool) if part][-1:]
    words = _words_of(last[0]) if last else []
    if words and (words[0] in _DESTROYING or (words[0] in _EMPTYING and _FILES & set(words))):
        return "destructive"
    every = _words_of(tool)
    return "network" if _REACHING & set(every) or every in (["fetch"], ["search"], ["navigate"]) else ""


def _looks_like_a_shell(tool: str) -> bool:
    return bool({"bash", "shell", "terminal", "powershell", "exec", "cmd", "command"} & set(_words_of(tool)))


def _is_database(tool: str) -> bool:
    return bool({"sql", "database", "db", "postgres", "mysql", "sqlite", "psql"} & set(_words_of(tool)))


class _Commands:
    """What the commands in a text could do, and those within them, as far as it takes no longer than it is worth."""

    def __init__(self, text: str) -> None:
        self.risks: set[Risk] = set()
        self._left = _MOST
        self._look(text, _DEPTH)

    def _look(self, text: str, depth: int) -> None:
        if not depth or not text.strip():
            return
        text = text[:_LONGEST]
        self._left -= len(text) + 200
        if self._left < 0:
            self.risks.add("destructive")  # what is wound up like this is not meant to be seen through
            return
        text = self._without_heredocs(text, depth)
        if _UNSEEN.search(text):
            self.risks.add("destructive")
        if _AIMED.search(text):
            self.risks.add("network")
        text = re.sub(r"\$\{?IFS\}?", " ", text)
        if values := dict(_SET.findall(text)):
            text = _NAMED.sub(lambda one: values.get(one[1], one[0]).strip("\"'"), text)[:_LONGEST]
        found = commands(text)
        if any(command.program in SHELLS for command in found):
            for spoken in _SPOKEN.findall(text):
                self._look(spoken.strip("\"'"), depth - 1)
        for inner in _substituted(text):
            self._look(inner, depth - 1)
        for place, command in enumerate(found):
            piped = found[place - 1].then in ("|", "|&") if place else "|" in text
            looked = command_risk(command, piped=piped)
            self.risks.add(looked.risk)
            if edits(command) and any(map(_STARTUP.search, command.words)):
                self.risks.add("destructive")
            for inner in looked.inside:
                self._look(inner, depth - 1)

    def _without_heredocs(self, text: str, depth: int) -> str:
        """Look at the texts that commands are fed; gives the rest, with those in which a shell still runs commands.

        To a shell or an interpreter such a text is a program, to other commands it is words.
        """
        if "<<" not in text:
            return text
        kept: list[str] = []
        place = 0
        for number, found in enumerate(_HEREDOC.finditer(text)):
            start = text.find("\n", found.end()) + 1
            if number == _HEREDOCS:
                self.risks.add("destructive")
            if not start or number == _HEREDOCS:
                break
            if found.start() < place:  # words of another that look like one
                continue
            closed = re.compile(rf"^[ \t]*{found[2]}[ \t]*$", re.MULTILINE).search(text, start)
            end = closed.end() if closed else len(text)
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()] + " " + text[found.end() : start]
            self._look_at_fed(line, text[start : closed.start() if closed else end], depth)
            if found[1]:  # its mark is quoted: nothing in it is run
                kept += (text[place:start], text[start:end][-1:])
                place = end
        return "".join((*kept, text[place:]))

    def _look_at_fed(self, line: str, body: str, depth: int) -> None:
        for command in commands(line):
            if command.program in SHELLS:
                self._look(body, depth - 1)
            elif command.program in DATABASES or INTERPRETER.fullmatch(command.program):
                self.risks.add(code_risk(body))


def _substituted(text: str) -> Iterator[str]:
    """The commands in `$(…)`, `<(…)` and between backticks, not those within them."""
    place = 0
    while (found := _OPENED.search(text, place)) is not None:
        place = found.end()
        if found[0] == "`":
            end = text.find("`", place)
            end = len(text) if end < 0 else end
        else:
            level, end = 1, place
            for bracket in _BRACKET.finditer(text, place):
                level += 1 if bracket[0] == "(" else -1
                end = bracket.start()
                if not level:
                    break
            if level:
                end = len(text)
        yield text[place:end]
        place = end + 1


_BRACKET = re.compile(r"[()]")
