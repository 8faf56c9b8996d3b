"""Whose words a signature is made of: ours, by the rules that made it, or those of the error message.

A signature by a rule with a literal text is one of a closed set, whoever meets the error; so are placeholders, exit
codes, error codes and the names of programs that everybody has. Anything else is a message's text and may say anything.
"""

from __future__ import annotations

import builtins
import errno
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from warmstart.profile import shell
from warmstart.profile.signatures import compilers, complaints, programs
from warmstart.profile.signatures.telling import Rule

_RULES = (
    *(programs.TIMEOUTS, programs.SHELLS, programs.NOT_FOUND, programs.IMPORTS, programs.TESTS, programs.GIT),
    *(programs.EXCEPTIONS, programs.STACKS, programs.PACKAGES, programs.HTTP, programs.SYSTEM, programs.GENERIC),
    *(programs.WORDS, programs.WEAK, compilers.COMPILERS, compilers.LINTERS),
)


class Worded(NamedTuple):
    """A signature as far as its words are ours, and whether a message's own words were left off.

    `names` are the parts of it that somebody may have made up: the class of an exception, the rule of a linter.
    """

    text: str
    free: bool = False
    names: tuple[str, ...] = ()


def worded(signature: str) -> Worded:
    """What of a signature is ours. `ValueError: no Carol` gives `ValueError` and that there was more."""
    if signature in _LITERALS or _SET_FORMS.fullmatch(signature):
        return Worded(signature)
    if found := _EXITED.fullmatch(signature):
        return Worded(f"{_program(found['program'])}{found['how']}")
    if found := _NAMED.fullmatch(signature):
        name = found["name"]
        if not _is_public(name):
            return Worded(found["head"], True)
        return Worded(signature, names=() if name in _RULE_NAMES else (name,))
    if (found := _CLASS.match(signature)) and not (name := found["name"]).isupper():
        more = found.end() < len(signature)
        return Worded(name, more, () if name in _BUILTIN else (name,))
    if (found := _ERRNO.match(signature)) and found[1] in _ERRNOS:
        return Worded(found[1], found.end() < len(signature))
    found = _LABELLED.match(signature)
    return Worded(found[1] if found else "", True)


def is_ours(signature: str) -> bool:
    """Whether no word of a signature is an error message's own."""
    return not worded(signature).free


def _literals(groups: Iterable[Iterable[Rule]]) -> Iterator[str]:
    for rules in groups:
        yield from (rule.sign for rule in rules if isinstance(rule.sign, str) and "\\" not in rule.sign)
    yield from complaints.SIGNS
    yield from compilers.GO_SIGNS
    yield from compilers.RUST_SIGNS
    yield from (f"HTTP {status}: {reason}" for status, reason in programs.REASONS.items())
    yield from ("no output", "gh pr checks: a check failed", "gh pr checks: checks are pending", "Validation error")


_LITERALS = frozenset(_literals(_RULES))
# Forms with a code or one of a few words in it.
_SET_FORMS = re.compile(
    r"HTTP \d{3}|exit -?\d{1,9}(?:, no output)?|shell: (?:bad substitution|bad pattern|event not found"
    r"|bad math expression|read-only variable|not a valid identifier)|npm error E[A-Z0-9]{3,20}|yarn YN\d{4}"
    r"|lint: (?:[A-Z]{1,4}\d{1,4}|(?:SC|DL)\d{4}|MD\d{3}|invalid-syntax|clippy::[a-z_]{1,60})"
    r"|pyright: report[A-Z][A-Za-z]{1,60}|biome: (?:format|parse|(?:assist/source/)?organizeImports)"
    r"|docker: failed to solve: process did not complete successfully: exit code: \d{1,9}"
    r"|go: (?:cannot find main module|missing go\.sum entry|inconsistent vendoring|unknown revision)"
    r"|Cannot use import statement outside a module|ERR_(?:UNSUPPORTED_DIR_IMPORT|REQUIRE_ESM)|ERR_PNPM_[A-Z_]{1,60}"
    r"|kubectl: (?:NotFound|Forbidden|AlreadyExists|Conflict|BadRequest|Invalid|Unauthorized|Timeout|InternalError)"
    r"|CMake Error: (?:configuring|find_package|include|message|project|add_subdirectory|target_link_libraries)"
)
_EXITED = re.compile(
    r"(?P<program>[a-z][\w+.-]*(?: [\w+.-]+){0,2})(?P<how>: (?:exit -?\d{1,9}(?:, no output)?|no output|failed))"
)
# A linter's rule; those of plugins are known by the plugin.
_NAMED = re.compile(r"(?P<head>lint|mypy|ty|pyright): (?P<name>[\w@/:-]{1,80})")
_PLUGINS = frozenset(
    (
        *("react", "react-hooks", "@typescript-eslint", "import", "jsx-a11y", "unicorn", "vue", "n", "node", "promise"),
        *(
            "jest",
            "vitest",
            "@next/next",
            "tailwindcss",
            "prettier",
            "@angular-eslint",
            "svelte",
            "sonarjs",
            "security",
        ),
        *("a11y", "complexity", "correctness", "nursery", "performance", "style", "suspicious", "perfectionist"),
        *("Layout", "Lint", "Style", "Metrics", "Naming", "Rails", "RSpec", "Security", "Performance", "Bundler"),
    )
)
_CLASS = re.compile(r"(?P<name>(?:[A-Z][A-Za-z0-9]{1,60})?(?:Error|Exception|Warning))(?=: |$)")
_BUILTIN = frozenset(name for name, each in vars(builtins).items() if isinstance(each, type) and name[0].isupper()) | {
    *("Error", "ReferenceError", "RangeError", "URIError", "EvalError", "AggregateError", "DOMException"),
    *("NullPointerException", "IllegalArgumentException", "IllegalStateException", "IOException", "SQLException"),
    *(
        "RuntimeException",
        "ClassNotFoundException",
        "NoClassDefFoundError",
        "ClassCastException",
        "NumberFormatException",
    ),
    *("JSONDecodeError", "HTTPError", "ConnectError", "ValidationError", "InputValidationError", "OperationalError"),
    *("ProgrammingError", "IntegrityError", "CalledProcessError", "UnsupportedOperationException", "NoMethodError"),
    *("ArgumentError", "LoadError", "StandardError", "DeprecationWarning"),
}
_ERRNO = re.compile(r"(E[A-Z0-9_]{2,20})(?=\W|$)")
_ERRNOS = frozenset((*errno.errorcode.values(), "ENOTFOUND", "EAI_AGAIN", "ELIFECYCLE", "ERESOLVE", "EBADENGINE"))
# What the rules put before a message's own words.
_LABELLED = re.compile(
    r"(error (?:TS|CS)\d{3,5}|Rust error\[E\d{4}\]|HTTP \d{3}|curl: \(\d{1,3}\)|MySQL ERROR \d{4}|SQL error|psql: FATAL"
    r"|(?:Go|Java|C|Swift|Haskell|Zig|Kotlin|Scala) compile error|PHP error|Type error|Validation error|Go panic"
    r"|git push rejected|docker: failed to solve|docker|GraphQL|CMake Error|kubectl|MCP error -?\d{1,6}|fatal|mise|go"
    r"|pre-commit|lint|mypy|pyright|ty)(?=: | (?=\S))"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Rules of one word, and the words that those of several begin with; other words in brackets may be anybody's.
_RULE_NAMES = _words(
    "asciicheck bidichk bodyclose contextcheck copyloopvar cyclop deadcode decorder depguard dogsled dupl dupword "
    "durationcheck errcheck errchkjson errname errorlint exhaustive exhaustruct exportloopref fatcontext "
    "forbidigo forcetypeassert funlen gci gochecknoglobals gochecknoinits gocognit goconst gocritic gocyclo godot "
    "godox gofmt gofumpt goheader goimports golint gomnd gomoddirectives gosec gosimple govet grouper iface "
    "ineffassign inamedparam interfacebloat intrange ireturn lll loggercheck maintidx makezero mirror misspell "
    "mnd musttag nakedret nestif nilerr nilnil nlreturn noctx nolintlint nonamedreturns nosprintfhostport "
    "paralleltest perfsprint prealloc predeclared promlinter protogetter reassign recvcheck revive rowserrcheck "
    "sloglint spancheck sqlclosecheck staticcheck structcheck stylecheck tagalign tagliatelle testableexamples "
    "testifylint testpackage thelper tparallel typecheck unconvert unparam unused usestdlibvars usetesting "
    "varcheck varnamelen wastedassign whitespace wrapcheck wsl zerologlint curly eqeqeq semi quotes indent radix "
    "yoda camelcase complexity strict misc operator index override syntax assignment truthy braces brackets "
    "colons commas comments indentation"
)
_RULE_OPENINGS = _words(
    "no prefer max min consistent require valid unused missing line too invalid undefined bad use unnecessary "
    "import wrong trailing array arrow block brace comma dot func id jsx key keyword new object one operator "
    "quote rest rules self sort space spaced switch typeof vars arg attr name call union return list dict type "
    "literal typed has index str assert truthy empty exit unreachable redundant possibly unresolved unsupported "
    "unknown not conflicting duplicate cyclic inconsistent parameter division possibly-unbound ambiguous explicit "
    "await ban adjacent unbound restrict strict naming method member multiline protected dangerous reimported "
    "redefined ungrouped broad consider else global inherit logging lost f c"
)
_CAMEL = re.compile(r"(?:no|use)[A-Z][A-Za-z]{1,60}|report[A-Z][A-Za-z]{1,60}")


def _is_public(rule: str) -> bool:
    plugin, _, own = rule.rpartition("/")
    if plugin in _PLUGINS:
        return bool(re.fullmatch(r"[A-Za-z][A-Za-z-]{1,60}", own))
    opening, hyphen, _ = own.partition("-")
    known = own in _RULE_NAMES or bool(hyphen and opening in _RULE_OPENINGS) or bool(_CAMEL.fullmatch(own))
    return not plugin and known


_PROGRAMS = shell.KNOWN | _words(
    "test script git gh glab hub docker podman docker-compose kubectl helm minikube aws gcloud az terraform "
    "ansible ansible-playbook vagrant psql mysql sqlite3 mongosh redis-cli pg_dump createdb dropdb ssh scp rsync "
    "sftp telnet nc openssl gpg keytool systemctl service journalctl launchctl brew apt apt-get dpkg yum dnf apk "
    "pacman snap pip pip3 python3 pypy perl lua php java kotlin scala swift node deno tsx ts-node nodemon pm2 "
    "kill pkill killall pgrep ps top lsof netstat ss date env printenv which type false expr seq xargs watch open "
    "pbcopy xdg-open crontab mount umount osascript defaults plutil codesign xcrun simctl pod fastlane adb "
    "sdkmanager emulator ffmpeg convert magick pandoc pdftotext tesseract dot gnuplot protoc buf sqlc goose "
    "migrate alembic django-admin flask uvicorn gunicorn celery jupyter ipython streamlit twine poetry pipenv "
    "pipx uv uvx conda npx bunx claude codex gemini opencode hermes bd goimports golint staticcheck dlv rustup "
    "rustfmt wasm-pack nvm fnm asdf mise direnv pushd popd source eval export wait read set cd echo printf sleep "
    "true exit return"
)
_SUBCOMMANDS = _words(
    "add apply auth bisect blame branch build bundle cache cat-file cherry-pick checkout check checks clean clone "
    "commit compose config cp create delete deploy describe diff down edit env exec fetch fmt format get grep "
    "images info init inspect install issue kill lint list lock log login logs ls ls-files ls-remote ls-tree "
    "merge mod mv network outdated pr publish ps prune pull push rebase release remote remove repo reset restart "
    "restore rev-list rev-parse revert rm rmi rollout run secret set show start stash status stop submodule "
    "switch sync tag test tidy top tree tool uninstall unlink up update upgrade use validate version vet view "
    "volume watch whoami workflow workspace worktree api ci clippy close comment compile doc dlx generate i "
    "import link list-files merge-base reopen review rerun download upload s3 sts iam ec2 ecs eks lambda sqs sns "
    "cloudformation"
)


def _program(label: str) -> str:
    """A program with its subcommand, of those that everybody has."""
    name, *rest = label.split()
    if name not in _PROGRAMS:
        return "‹program›"
    return " ".join((name, *(word if word in _SUBCOMMANDS else "‹name›" for word in rest)))
