"""Which programs destroy something or reach out of the machine, and what of their arguments makes them do so."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from warmstart.profile.shell import Command

Risk = Literal["", "destructive", "network"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SHELLS = _set("sh bash zsh dash ksh fish ash csh tcsh pwsh powershell powershell.exe cmd cmd.exe busybox")
INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|py|node|nodejs|deno|bun|ruby|perl|php|lua|osascript|rscript")
DATABASES = _set("psql mysql mariadb sqlite3 sqlcmd mongo mongosh redis-cli clickhouse-client cqlsh duckdb bq")
_DESTROYS = _set(
    "rm rmdir unlink shred srm wipefs fdisk sfdisk parted mkswap kill killall pkill xkill taskkill shutdown reboot "
    "halt poweroff userdel groupdel dropdb dropuser truncate eval del erase rd ri remove-item stop-process "
    "stop-service clear-content format-volume clear-disk rimraf trash restart-computer stop-computer "
    "alias"  # what a program is called from then on
)
_REACHES = _set(
    "curl wget http https xh httpie ssh scp sftp nc ncat netcat telnet ftp lftp aria2c axel socat lynx w3m links "
    "elinks dig nslookup host whois ping traceroute nmap gh hub glab aws gcloud gsutil az s3cmd rclone heroku flyctl "
    "fly vercel netlify mail sendmail mutt iwr irm invoke-webrequest invoke-restmethod start-bitstransfer bitsadmin "
    "certutil mshta twine ngrok cloudflared kubectl helm terraform tofu pulumi ansible ansible-playbook xdg-open "
    "lwp-request mosh croc wormhole"
)
# They name addresses and open none.
_TALKING = _set("echo printf grep egrep fgrep rg ag sed awk cat git test [ [[ jq")
_CONTAINERS = _set("docker podman nerdctl docker-compose")
_PACKAGERS = _set(
    "pip pip3 npm pnpm yarn bun uv poetry pipx conda mamba cargo go gem npx uvx bunx deno composer brew pdm rye apt "
    "apt-get apk dnf yum pacman snap choco winget"
)
_GETS = _set("install i add get require download update upgrade dlx")
_RUN_BY = _set("doas su parallel watch strace ltrace setsid ionice chroot unshare flock script entr chronic wsl start")
_ADDRESS = re.compile(r"(?:https?|ftp|ssh|git|rsync|git\+\w+)://|\bgit\+|^git@")
_EXECUTING = _set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")  # options of `find` and `fd`
_MOST_INSIDE = 8  # commands that one command runs which are looked at
_PLUGINS = _set("no: xdist cacheprovider pytest_asyncio pytest_cov asyncio cov randomly anyio timeout terminal")
_SQL = re.compile(
    r"\bdrop\s+(?:table|database|schema|index|view|user|role|column|keyspace|collection|owned|materialized)\b"
    r"|\btruncate\s+(?:table\s+)?[\w\"`\[.]+\s{0,4}(?:;|$|,|cascade|restart)|\bdropdatabase\s?\(|\.drop\s?\(\)|\bflush(?:all|db)\b"
    r"|\bdelete\s+from\s+(?:(?!\bwhere\b|;).){0,400}(?:;|$)|\bdeletemany\s?\(\s?\{\s?\}"
    r"|\bupdate\s+[\w\"`.]{1,80}\s+set\s+(?:(?!\bwhere\b|;).){0,1000}(?:;|$)",
    re.IGNORECASE | re.DOTALL,
)
_CODE_DESTROYS = re.compile(
    r"\brmtree\b|\bos\.(?:remove|unlink|rmdir|removedirs|kill|system|popen|exec\w*|spawn\w*)\b|\.unlink\(|\.rmdir\(|\bsubprocess\b"
    r"|\bpty\.spawn|\bchild_process\b|\bexec(?:file)?sync\b|\bspawn(?:sync)?\(|\b(?:rm|rmdir|unlink)(?:sync)?\(|\bfs\.(?:rm|unlink)"
    r"|\bfileutils\b|\bfile\.delete|\bdeno\.(?:remove|run|command)|\bbun\.(?:spawn|\$)|\b__import__\b|\bexec\s?\(|\beval\s?\(|\bcompile\s?\("
    r"|\b(?:shell_exec|passthru|proc_open|popen|system)\s?\(|\bsystem\s+['\"]|\bunlink\s+|`[^`\n]{1,200}`(?=\s*(?:;|$))|\brimraf\b"
    r"|\bb64decode\b|\batob\s?\(|\bimportlib\b|\bctypes\b|\bdo shell script\b",
    re.IGNORECASE,
)
_CODE_REACHES = re.compile(
    r"\burllib\b|\brequests\.|\bimport\s+requests\b|\bhttpx\b|\baiohttp\b|\bsocket\b|\bhttp\.client\b|\bhttplib|\bftplib\b|\bsmtplib\b"
    r"|\bparamiko\b|\bfetch\s?\(|\baxios\b|\bxmlhttprequest\b|\bnet::http|\bopen-uri\b|\blwp::|\bio::socket|\bhttps?\.(?:get|request|post)"
    r"|\bwebsockets?\b|\brequire\(['\"](?:node:)?(?:https?|net|dgram|tls|undici)['\"]\)|\bcurl_exec\b|\bfile_get_contents\(['\"]https?"
    r"|\bwebclient\b|\bdownloadstring\b|\bboto3\b|\bplaywright\b|\bselenium\b|\bpycurl\b|\btelnetlib\b|\bxmlrpc\b|\bfsockopen\b"
    r"|\bbrowser\.(?:goto|newpage)|\bpage\.goto\b",
    re.IGNORECASE,
)


class Looked(NamedTuple):
    """What a command could do itself, and the commands that it runs."""

    risk: Risk
    inside: tuple[str, ...] = ()


def sql_risk(text: str) -> Risk:
    """Whether statements destroy data; `DELETE` with a condition does not count."""
    return "destructive" if _SQL.search(text[:65_536]) else ""


def code_risk(text: str) -> Risk:
    """What a program text could do: delete, run other programs, reach out."""
    text = text[:65_536]
    if _CODE_DESTROYS.search(text) or _SQL.search(text):
        return "destructive"
    return "network" if _CODE_REACHES.search(text) else ""


def command_risk(command: Command, *, piped: bool = False) -> Looked:
    """What one simple command could do."""
    program = command.program.lower().strip("{}(").split(",")[0]
    words = tuple(word for word in command.words if not word.startswith("\0"))
    if program in _DESTROYS or program.startswith("mkfs"):
        return Looked("destructive")
    if program == "find" or program in ("fd", "fdfind"):
        return _found(words)
    if program in SHELLS:
        return _of_shell(program, words, piped=piped)
    if program in _RUN_BY:
        rest = [word for word in words if not word.startswith("-")]
        return Looked("", (" ".join(rest), " ".join(rest[1:]), *words[:_MOST_INSIDE]))
    if INTERPRETER.fullmatch(program):
        return _interpreted(words, piped=piped)
    if program in DATABASES:
        return Looked(sql_risk(" ".join(words)))
    if program in _CONTAINERS:
        return _contained(words)
    special = _SPECIAL.get(program)
    found: Risk = special(words) if special else ""
    if not found and program in _REACHES:
        found = "destructive" if _cloud_destroys(words) else "network"
    if not found and program in _PACKAGERS:
        found = _packages(words)
    if not found and program not in _TALKING and any(_ADDRESS.search(word) for word in words):
        found = "network"
    return Looked(found)


def _found(words: tuple[str, ...]) -> Looked:
    if "-delete" in words:
        return Looked("destructive")
    places = [place for place, word in enumerate(words) if word in _EXECUTING][:_MOST_INSIDE]
    return Looked("", tuple(" ".join(words[place + 1 :]) for place in places))


def _of_shell(program: str, words: tuple[str, ...], *, piped: bool) -> Looked:
    """A shell that is fed something runs what cannot be seen."""
    lower = [word.lower() for word in words]
    if any(word in ("-enc", "-encodedcommand", "-e", "-ec") for word in lower) and program.startswith(
        ("pwsh", "powershell")
    ):
        return Looked("destructive")
    places = [place for place, word in enumerate(lower) if word in ("-c", "/c", "-command", "-lc")][:1]
    inside = [" ".join(words[place + 1 :]) for place in places]
    if program == "busybox":
        return Looked("", (" ".join(words),))
    named = [word for word in words if not word.startswith(("-", "/c", "/C"))]
    if not inside and (not named or "-s" in words) and piped:
        return Looked("destructive")
    reads = bool(named) and named[0].startswith(("<(", "$(", "curl", "wget", "/dev/stdin", "/dev/fd"))
    return Looked("destructive" if reads else "", tuple(inside))


def _interpreted(words: tuple[str, ...], *, piped: bool) -> Looked:
    if "-m" in words[:3]:
        return Looked("", (" ".join(words[words.index("-m") + 1 :]),))
    for place, word in enumerate(words):
        if word in ("-c", "-e", "-r", "--eval", "-p", "--print", "-pe", "-ne", "-E", "eval") and place + 1 < len(words):
            return Looked(code_risk(" ".join(words[place + 1 :])))
    if piped and (not words or words[0] == "-"):
        return Looked("destructive")
    return Looked("network" if any(_ADDRESS.search(word) for word in words) else "")


def _contained(words: tuple[str, ...]) -> Looked:
    named = [word for word in words if not word.startswith("-")]
    if {"prune", "rm", "rmi", "kill"} & set(named[:2]) or ("down" in named[:2] and {"-v", "--volumes"} & set(words)):
        return Looked("destructive")
    if named[:1] in (["exec"], ["run"]) or named[:2] in (["compose", "exec"], ["compose", "run"]):
        return Looked("", tuple(" ".join(named[place:]) for place in range(2, min(len(named), 6))))
    return Looked("network" if named[:1] and named[0] in ("pull", "push", "login", "search") else "")


# Settings of git that are commands.
_LOADED_BY_GIT = re.compile(r"alias\.|core\.(?:pager|sshcommand|editor|fsmonitor|hookspath)|.*=!")


def _git(words: tuple[str, ...]) -> Risk:
    settings = (words[place + 1].lower() for place, word in enumerate(words[:-1]) if word == "-c")
    if any(map(_LOADED_BY_GIT.match, settings)):
        return "destructive"
    reads = {"--get", "--get-all", "--list", "-l", "--unset"} & set(words)
    if "config" in words and not reads and any(_LOADED_BY_GIT.match(word.lower()) for word in words):
        return "destructive"
    named = [word for word in words if not word.startswith("-")]
    for place, word in enumerate(words):
        if word in ("-C", "-c") and place + 1 < len(words) and words[place + 1] in named:
            named.remove(words[place + 1])
    verb = named[0] if named else ""
    flags = set(words)
    if verb == "push":
        forced = {"-f", "--force", "--delete", "-d", "--mirror", "--prune"} & flags or any(
            word.startswith(("--force", "+", ":")) for word in words
        )
        return "destructive" if forced else "network"
    if (verb == "reset" and {"--hard", "--merge"} & flags) or (verb == "clean" and not {"-n", "--dry-run"} & flags):
        return "destructive"
    if verb in ("checkout", "restore") and (
        {"--", ".", "-f", "--force"} & flags or (verb == "restore" and "--staged" not in flags)
    ):
        return "destructive"
    if (verb == "branch" and {"-D", "-d", "--delete"} & flags) or (verb == "tag" and {"-d", "--delete"} & flags):
        return "destructive"
    if (
        verb in ("filter-branch", "filter-repo", "rm", "prune")
        or named[:2] in _GIT_DESTROYS
        or (verb == "update-ref" and "-d" in flags)
    ):
        return "destructive"
    if verb in ("clone", "pull", "fetch", "ls-remote", "send-email") or named[:2] in _GIT_REACHES:
        return "network"
    return ""


_GIT_DESTROYS = (
    ["stash", "drop"],
    ["stash", "clear"],
    ["reflog", "expire"],
    ["worktree", "remove"],
    ["reflog", "delete"],
)
_GIT_REACHES = (
    ["submodule", "update"],
    ["remote", "update"],
    ["remote", "add"],
    ["remote", "set-url"],
    ["submodule", "add"],
    ["lfs", "pull"],
    ["lfs", "push"],
)


def _chmod(words: tuple[str, ...]) -> Risk:
    recursive = any(word in ("-R", "--recursive") or re.fullmatch(r"-\w*R\w*", word) for word in words)
    wide = any(re.fullmatch(r"0?777|[ao]?\+?[ao]?[+=]?rwx|666|000", word) for word in words)
    return "destructive" if wide or recursive else ""


def _pytest(words: tuple[str, ...]) -> Risk:
    for place, word in enumerate(words):
        plugin = (
            words[place + 1] if word == "-p" and place + 1 < len(words) else word[2:] if re.match(r"-p\w", word) else ""
        )
        if plugin and not plugin.startswith("no:") and plugin not in _PLUGINS:
            return "destructive"
    return ""


def _dd(words: tuple[str, ...]) -> Risk:
    return "destructive" if any(word.startswith("of=") for word in words) else ""


def _systemctl(words: tuple[str, ...]) -> Risk:
    return "destructive" if {"stop", "disable", "mask", "poweroff", "reboot", "kill", "halt"} & set(words) else ""


def _awk(words: tuple[str, ...]) -> Risk:
    return (
        "destructive"
        if any(re.search(r"\bsystem\s?\(|\|\s?getline|\"\s?\|\s?\"?(?:ba|z)?sh", word) for word in words)
        else ""
    )


def _tar(words: tuple[str, ...]) -> Risk:
    return (
        "destructive"
        if any(word.startswith(("--checkpoint-action", "--to-command", "--remove-files")) for word in words)
        else ""
    )


def _rsync(words: tuple[str, ...]) -> Risk:
    if any(word.startswith(("--delete", "--remove-source")) for word in words):
        return "destructive"
    return "network" if any(re.match(r"[\w.@-]+:", word) for word in words) else ""


def _moved(words: tuple[str, ...]) -> Risk:
    return "destructive" if "/dev/null" in words[-1:] else ""


def _crontab(words: tuple[str, ...]) -> Risk:
    return "" if "-l" in words else "destructive"


def _make(words: tuple[str, ...]) -> Risk:
    return "destructive" if any(word.startswith(("SHELL=", "--eval")) for word in words) else ""


_SPECIAL = {
    "git": _git,
    "chmod": _chmod,
    "chown": _chmod,
    "pytest": _pytest,
    "py.test": _pytest,
    "dd": _dd,
    "systemctl": _systemctl,
    "service": _systemctl,
    "launchctl": _systemctl,
    "awk": _awk,
    "gawk": _awk,
    "tar": _tar,
    "rsync": _rsync,
    "mv": _moved,
    "crontab": _crontab,
    "make": _make,
    "gmake": _make,
}


def _cloud_destroys(words: tuple[str, ...]) -> bool:
    return any(
        re.match(r"(?:delete|destroy|terminate|remove|rm|rb|purge|drain|uninstall|apps:destroy|-destroy)\b", word)
        for word in words
    )


def _packages(words: tuple[str, ...]) -> Risk:
    if any(
        _ADDRESS.search(word) or word.startswith(("--index-url", "--extra-index-url", "--registry", "-i"))
        for word in words
    ):
        return "network"
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb in ("unpublish", "yank"):
        return "destructive"
    return "network" if verb in ("publish", "login", "adduser", "upload") or _gets(words) else ""


def _gets(words: tuple[str, ...]) -> bool:
    """Whether a package is fetched by its name; what a project already lists is its own."""
    plain = [
        word for place, word in enumerate(words) if not word.startswith("-") and words[place - 1 : place] not in _LISTS
    ]
    if plain[:2] in (["global", "add"], ["pip", "install"], ["tool", "install"], ["mod", "download"]):
        plain = plain[1:]
    return plain[:1] != [] and plain[0] in _GETS and any(not _OWN.match(word) for word in plain[1:])


_LISTS = (("-r",), ("--requirement",), ("-c",), ("--constraint",), ("--prefix",), ("-C",), ("--python",), ("-t",))
_OWN = re.compile(r"\.{1,2}(?:$|[/\[])|/|\{\{|.*\.(?:whl|tgz|tar\.gz)$")
