"""What shells, test runners, version control, package managers and the operating system say when something fails."""

from __future__ import annotations

import re

from warmstart.profile.signatures.normalising import normalised, trimmed
from warmstart.profile.signatures.telling import Rule, rule

_SHELL = (
    r"^(?:\(eval\)|-?(?:/\S*/)?(?:zsh|bash|sh|dash|ksh|fish)|\S{1,80}: line \d+|"
    r"\S{0,80}\.(?:z|ba)?sh)(?::\w+)?(?:: line \d+|:\d+)*: "
)

TIMEOUTS: tuple[Rule, ...] = (
    rule(
        "imed out after | timed out | exceeding timeout | exceeded the timeout | exceeded timeout",
        r"^[<\[(]?(?:Error: |Exit code \d+: )?(?:[Tt]he )?[Cc]ommand (?:execution )?(?:was |"
        r"has )?(?:automatically cancelled|terminated|timed out)"
        r"|terminated command after exceeding timeout|^command timed out|^Timeout: command",
        "command timed out",
    ),
)

# The shell did not understand the command: nothing was run.
SHELLS: tuple[Rule, ...] = (
    rule(
        "parse error | unmatched  | syntax error",
        _SHELL + r".*(?:parse error|unmatched|syntax error)",
        "shell parse error",
    ),
    rule("unexpected EOF while | unexpected end of file", _SHELL, "shell parse error"),
    rule("no matches found: ", _SHELL + "no matches found", "zsh: no matches found: ‹pattern›"),
    rule(
        "bad substitution | bad pattern | event not found | bad math expression | bad floating",
        _SHELL + r".*?(bad substitution|bad pattern|event not found|bad math expression)",
        r"shell: \1",
    ),
    rule(
        "read-only variable | not a valid identifier | invalid option",
        _SHELL + r".*(read-only variable|not a valid identifier)",
        r"shell: \1",
    ),
)

NOT_FOUND: tuple[Rule, ...] = (
    rule("command not found", r"command not found", "command not found"),
    rule(": not found", r"^(?:/bin/)?(?:da)?sh: (?:\d+: |line \d+: )?\S+: not found$", "command not found"),
    rule(
        "is not recognized as",
        r"is not recognized as (?:an internal|the name of a cmdlet|a name of a cmdlet)",
        "command not found",
    ),
    rule(
        "Unknown command: | executable file not found | Failed to spawn",
        r"^fish: Unknown command|executable file not found|Failed to spawn",
        "command not found",
    ),
)


# Exceptions that say no more than which thing it was.
_TOLD_BY_NAME = ("AssertionError", "KeyError", "ClassNotFoundException", "NoClassDefFoundError")


def _error_class(found: re.Match[str]) -> str:
    name = found[1].rsplit(".", 1)[-1]
    return trimmed(f"{name}: {sentence(found[2])}") if found[2] and name not in _TOLD_BY_NAME else name


# A sentence ends with a stop after two letters (`e.g.` does not), or before a list or an object.
_END = re.compile(r"(?<=[\w)\]›][\w)\]›])[.!?](?= |$)|: (?=[{\[])|; ")


def sentence(text: str) -> str:
    """The first sentence of a complaint, normalised; lists and payload after it are left off."""
    line = normalised(text.strip().partition("\n")[0])
    return trimmed(_END.split(line, maxsplit=1)[0])


IMPORTS: tuple[Rule, ...] = (
    rule("E   ", r"^E\s+(?:\w+\.)*((?:ModuleNotFound|Import|Syntax|Indentation|Tab)Error): (.*)", _error_class),
    rule(
        "Cannot find module | Cannot find package | ailed to resolve import | "
        "Could not resolve \" | Failed to resolve entry | Can't resolve '",
        r"Cannot find (?:module|package) ['\"]|[Ff]ailed to resolve (?:import|entry)|"
        r"Could not resolve \"|Can't resolve '",
        "Cannot find module ‹text›",
    ),
    rule(
        "ERR_UNSUPPORTED_DIR_IMPORT | ERR_REQUIRE_ESM | Cannot use import statement",
        r"(ERR_\w+|Cannot use import statement outside a module)",
        r"\1",
    ),
    rule(
        "ImportError while importing | errors during collection | error during collection | ERROR collecting",
        r"^",
        "pytest: error during collection",
    ),
)

TESTS: tuple[Rule, ...] = (
    rule("panic: test timed out", r"panic: test timed out", "tests timed out"),
    rule(
        "threshold | Required test coverage",
        r"does not meet .*threshold|Required test coverage of|coverage threshold",
        "coverage below threshold",
    ),
    rule("file or directory not found: ", r"^ERROR: file or directory not found", "No such file or directory"),
    rule(
        "--- FAIL: | FAILED",
        r"^\s*--- FAIL: |^FAILED |\bFAILED \((?:failures|errors)|^(?:test result: )?FAILED\b|"
        r"^FAILED \||^> Task :\S*[tT]est\S* FAILED|TEST FAILED",
        "tests failed",
    ),
    rule("FAIL", r"^FAIL(?:$|\s+(?!.*\[(?:build|setup) failed\]))|^ ?FAIL |^FAILURES!", "tests failed"),
    rule(
        "failed",
        r"^=* ?[1-9]\d* failed\b|\b[1-9]\d* failed,|^\s*(?:Tests?|Test Suites|Test Files|"
        r"Snapshots):? +(?:.*\b)?[1-9]\d* failed|^\s*[1-9]\d* (?:tests? )?failed\b|"
        r"tests? failed out of|error: test failed|^\s*[✗✘×]\s+\d+ tests? failed|"
        r"Failed!  - Failed:|tests completed, [1-9]\d* failed|^error: \d+ (?:target|"
        r"test)s? failed",
        "tests failed",
    ),
    rule("Failed!", r"^\s*Failed!\s+- Failed:", "tests failed"),
    rule("failing", r"^\s*[1-9]\d* failing$|There were failing tests|There are failing tests", "tests failed"),
    rule(
        "fail",
        r"^\s*[1-9]\d* fail$|^\(fail\) |^[#ℹ] fail [1-9]|There are test failures|Test run failed",
        "tests failed",
    ),
    rule(
        "Failures: | failure | failures",
        r"Tests run: \d+, +Failures: (?:[1-9]|0, +Errors: [1-9])|\d+ (?:examples|tests|runs|"
        r"doctests)\b.*, [1-9]\d* failures?",
        "tests failed",
    ),
    rule("not ok ", r"^not ok \d+", "tests failed"),
    rule("ERROR ", r"^ERROR \S+\.py(?:::| - )", "tests failed"),
    rule("[build failed] | [setup failed]", r"^FAIL\s", "Go build failed"),
    rule(
        "no tests ran | No tests found | collected 0 items | No test files found | No tests to run",
        r"^(?!ok)",
        "no tests ran",
    ),
    rule(
        "AssertionError | assertion failed | Assertion failed",
        r"^\s*(?:\w+\.)*AssertionError\b|^.{0,80}assertion .{0,80}failed",
        "AssertionError",
    ),
)


def _python(found: re.Match[str]) -> str:
    name = found[1].rsplit(".", 1)[-1]
    if name in ("HTTPError", "HTTPStatusError", "APIStatusError") and (
        status := re.search(r"\b([45]\d\d)\b", found[2] or "")
    ):
        return http(status[1], "")
    return _error_class(found)


def _validation(found: re.Match[str]) -> str:
    return f"Validation error: {sentence(found[1])}"


VALIDATION = rule("[type=", r"^\s+(.*?) \[type=\w+", _validation)
EXCEPTIONS: tuple[Rule, ...] = (
    VALIDATION,
    rule(
        "Error | Exception | Exit | Interrupt | Timeout | NotFound | Refused | Denied",
        r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|NotFound|"
        r"Refused|Denied))(?:: (.*))?$",
        _python,
        last=True,
    ),
)
# Node's and Java's stacks begin with the exception, and a cause after it is nearer to the mistake.
_CLASS = r"((?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*(?:Error|Exception))"
STACKS: tuple[Rule, ...] = (
    rule(": No module named ", r": No module named \S+$", "ModuleNotFoundError: No module named ‹text›"),
    rule("Caused by: ", rf"^Caused by: {_CLASS}(?:: (.*))?$", _python, last=True),
    rule("Exception in thread", rf"^Exception in thread \S+ {_CLASS}(?:: (.*))?$", _python),
    rule("panicked at", r"panicked at", "Rust panic"),
    rule("panic: ", r"^panic: (.*)", lambda found: f"Go panic: {sentence(found[1].removeprefix('runtime error: '))}"),
    rule("Error: ", r"^(?:Uncaught |Unhandled |\w+: )?((?:[A-Z]\w*)Error)(?: \[\w+\])?: (.*)", _python),
    rule(
        "(Error) | Error) | :in ",
        r"^\S+:\d+:in .*: (.*) \(([A-Z][\w:]*)\)$",
        lambda found: trimmed(f"{found[2].rsplit('::', 1)[-1]}: {sentence(found[1])}"),
    ),
    rule("** (", r"^\*\* \(([\w.]+)\) (.*)", _error_class),
    # Python's exceptions without a telling ending, such as Django's.
    rule(".exceptions. | .models. | .errors.", r"^((?:[a-z_]\w*\.)+[A-Z]\w+)(?:: (.*))?$", _error_class, last=True),
)

REASONS = {
    "400": "Bad Request",
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "Not Found",
    "405": "Method Not Allowed",
    "409": "Conflict",
    "422": "Unprocessable Entity",
    "429": "Too Many Requests",
    "500": "Internal Server Error",
    "502": "Bad Gateway",
    "503": "Service Unavailable",
    "504": "Gateway Timeout",
}


def http(status: str, message: str) -> str:
    """An HTTP error; a message that only repeats the status is not told apart from none."""
    known = REASONS.get(status, "")
    said = sentence(message.strip(" :.,-"))
    generic = not said or said.lower() == known.lower() or status == "429" or "‹" in said or len(said) > 60
    return f"HTTP {status}: {known if generic else said}".rstrip(": ")


def _graphql(found: re.Match[str]) -> str:
    return trimmed(f"GraphQL: {sentence(re.sub(r' for [^ :]+:[^ .]+', ' for ‹text›', found[1]))}")


HTTP: tuple[Rule, ...] = (
    rule("(HTTP ", r"^(?:\w+: )?(.*?) ?\(HTTP ([45]\d\d)\)", lambda found: http(found[2], found[1])),
    rule(
        "HTTP ",
        r"\bHTTP(?:/[\d.]+)?(?: Error| error| status)? ?([45]\d\d)\b:?([^(\n{]*)",
        lambda found: http(found[1], found[2]),
    ),
    rule(
        "returned error: | status code  | status: ",
        r"(?:returned error:|status code|status:) ([45]\d\d)\b",
        lambda found: http(found[1], ""),
    ),
    rule(
        "rate_limit | ate limit | Too Many Requests | quota",
        r"rate_limit_error|[Rr]ate limit (?:exceeded|reached)|Too Many Requests|"
        r"exceeded your current quota|RESOURCE_EXHAUSTED",
        "HTTP 429: Too Many Requests",
    ),
    rule(
        "Not Found | Forbidden | Unauthorized | Bad Request | Unprocessable Entity | Internal Server Error | "
        "Service Unavailable | Bad Gateway | Gateway Time",
        r"\b([45]\d\d)\b.{0,20}(?:Not Found|Forbidden|Unauthorized|Bad Request|Unprocessable|Internal|Service|Gate)",
        lambda found: http(found[1], ""),
    ),
    rule("overloaded_error", r"overloaded_error", "HTTP 529: Overloaded"),
    rule("GraphQL: ", r"GraphQL: (.*?)(?: \([\w.]+\))?$", _graphql),
)

GIT: tuple[Rule, ...] = (
    rule(
        "CONFLICT ( | error: could not apply | Could not apply | Automatic merge failed",
        r"CONFLICT \(|ould not apply|Automatic merge failed",
        "git: merge conflict",
    ),
    rule(
        "! [",
        r"^ ?! \[(?:remote )?rejected\].*\(([^()]+)\)",
        lambda found: f"git push rejected: {normalised(found[1])}",
    ),
    rule("ot a git repository", r"[Nn]ot a git repository", "fatal: not a git repository"),
    rule(
        "fatal: ambiguous argument | fatal: bad revision | unknown revision | "
        "fatal: invalid reference | fatal: Not a valid object | fatal: bad object | "
        "fatal: Needed a single revision | fatal: invalid object name | fatal: path ' | "
        "is not a commit and",
        r"fatal: (?:ambiguous argument|bad revision|invalid reference|[Nn]ot a valid object|"
        r"bad object|Needed a single|invalid object name|.*is not a commit and)",
        "fatal: unknown revision or path",
    ),
    rule("did not match any file", r"pathspec .* did not match any file", "git: pathspec did not match any files"),
    rule("ignored by one of your .gitignore", r"^", "git: paths are ignored by .gitignore"),
    rule(
        "would be overwritten by ",
        r"^error: .*would be overwritten by (\w+)",
        "git: local changes would be overwritten",
    ),
    rule(
        "is already used by worktree | is already checked out at", r"^", "fatal: branch is already used by a worktree"
    ),
    rule(
        "Authentication failed | could not read Username | Could not read from remote",
        r"^",
        "git: no access to the remote",
    ),
    rule(
        "has no upstream branch | no tracking information",
        r"^",
        "fatal: the current branch has no upstream branch",
    ),
    rule("Unable to create '", r"\.lock'", "fatal: the index is locked by another git process"),
)


def _npm(found: re.Match[str]) -> str:
    return f"npm error {found[1]}" if found[1] != "ELIFECYCLE" else ""


PACKAGES: tuple[Rule, ...] = (
    rule("EADDRINUSE | ddress already in use | port is already allocated", r"^", "EADDRINUSE: address already in use"),
    rule(
        'npm ERR! | npm error | error: Script not found | ERR_PNPM_NO_SCRIPT | error Command "',
        r"[Mm]issing script:|Script not found|ERR_PNPM_NO_SCRIPT|error Command \"[^\"]*\" not found",
        "missing script: ‹text›",
    ),
    rule("npm ERR! code | npm error ", r"npm (?:ERR!|error) (?:code )?(E[A-Z0-9]+)$", _npm),
    rule("ERR_PNPM_", r"(ERR_PNPM_(?!RECURSIVE_RUN|RECURSIVE_EXEC)\w+)", r"\1"),
    rule("➤ YN", r"➤ (YN\d{4}):[^:]*(?:error|Error|couldn't|not)", r"yarn \1"),
    rule(
        "No matching distribution found | Could not find a version that satisfies | "
        "No solution found when resolving | not found in the package registry | "
        "no matching package named | npm error 404 | no versions of | Unable to locate package | "
        "No formulae or casks found",
        r"^",
        "package not found or no version fits",
    ),
    rule("externally-managed-environment", r"^", "pip: externally-managed-environment"),
    rule(
        "go: ",
        r"^go: (?:\S+: )?(?:invalid version: )?(cannot find main module|updates to go\.mod needed|"
        r"missing go\.sum entry|module .*not found|inconsistent vendoring|unknown revision|"
        r"go\.mod file not found)",
        lambda found: f"go: {normalised(found[1])}",
    ),
    rule("missing go.sum entry", r"^", "go: missing go.sum entry"),
    rule(
        "BUILD FAILURE | Could not resolve dependencies",
        r"Could not resolve dependencies",
        "Could not resolve dependencies",
    ),
    rule(
        "Cannot connect to the Docker daemon | docker daemon is not running | error during connect",
        r"^",
        "Cannot connect to the Docker daemon",
    ),
    rule("failed to solve: ", r"failed to solve: (.*)", lambda found: f"docker: failed to solve: {_solved(found[1])}"),
    rule(
        "Error response from daemon: ",
        r"Error response from daemon: (.*)",
        lambda found: f"docker: {sentence(found[1])}",
    ),
    rule("Error from server ", r"Error from server \((\w+)\)", r"kubectl: \1"),
    rule("mise ERROR", r"^mise ERROR (?!error parsing|Run with)(.*)", lambda found: f"mise: {sentence(found[1])}"),
)


def _solved(message: str) -> str:
    """The cause in a BuildKit message: what follows the last colon that is not a number's."""
    ran = re.search(r"did not complete successfully: (exit code: \d+)", message)
    return f"process did not complete successfully: {ran[1]}" if ran else sentence(message.rsplit(": ", 1)[-1])


SYSTEM: tuple[Rule, ...] = (
    rule(
        "nrecognized  | nknown option | nknown flag | llegal option | nvalid option | "
        "unexpected argument | No such option | no such option | nknown argument | "
        "nknown shorthand flag | unknown switch | flag provided but not defined",
        r"(?:[Uu]nrecognized (?:option|argument|flag)s?|[Uu]nknown (?:option|flag|argument|"
        r"switch|shorthand flag)|illegal option|[Ii]nvalid option|[Uu]nexpected argument '|"
        r"[Nn]o such option|flag provided but not defined)(?!\s+(?:for|in)\b)",
        "unrecognized argument: ‹flag›",
    ),
    rule(
        "nknown command | nknown subcommand | not a git command | no such command | "
        "No such command | nrecognized subcommand | invalid choice: | nrecognized command",
        r"[Uu]nknown (?:sub)?command\b|is not a git command|[Nn]o such (?:sub)?command|"
        r"[Uu]nrecognized (?:sub)?command|invalid choice: ",
        "unknown command: ‹text›",
    ),
    rule(
        "EISDIR | s a directory", r"EISDIR|[Ii]s a directory(?:$|[:.\s(])", "EISDIR: illegal operation on a directory"
    ),
    rule("EADDRINUSE | ddress already in use | port is already allocated", r"^", "EADDRINUSE: address already in use"),
    rule(
        "ECONNREFUSED | onnection refused | Couldn't connect to server | "
        "Could not connect to server | was refused - did you",
        r"^",
        "Connection refused",
    ),
    rule(
        "ould not resolve host | ENOTFOUND | EAI_AGAIN | Name or service not known | "
        "nodename nor servname | Temporary failure in name",
        r"^",
        "Could not resolve host",
    ),
    rule(
        "ETIMEDOUT | onnection timed out | peration timed out | i/o timeout | context deadline exceeded",
        r"^",
        "Connection timed out",
    ),
    rule("ECONNRESET | onnection reset by peer | socket hang up", r"^", "Connection reset"),
    rule(
        "SSL | certificate | x509:",
        r"(?i)ssl certificate problem|certificate verify failed|x509: |"
        r"verify the first certificate|local issuer certificate|self[- ]signed certificate|SSL routines",
        "TLS: certificate not accepted",
    ),
    rule("Host key verification failed", r"^", "ssh: Host key verification failed"),
    rule("Permission denied (publickey", r"^", "ssh: Permission denied (publickey)"),
    rule(
        "ermission denied | EACCES | EPERM | peration not permitted | Access is denied",
        r"[Pp]ermission denied|EACCES|EPERM|[Oo]peration not permitted|Access is denied",
        "Permission denied",
    ),
    rule("No such process", r"No such process", "No such process"),
    rule("No space left on device | ENOSPC", r"^", "No space left on device"),
    rule("ead-only file system | EROFS", r"^", "Read-only file system"),
    rule("ot a directory | ENOTDIR", r"[Nn]ot a directory|ENOTDIR", "Not a directory"),
    rule("File exists | EEXIST", r": File exists|EEXIST", "File exists"),
    rule("posix_spawn | ENOENT", r"ENOENT.*\bspawn|posix_spawn|spawn (?:\S+ )?ENOENT", "spawn ENOENT: no such program"),
    rule(
        "o such file or directory | ENOENT | cannot find the path | cannot find the file | Cannot find path",
        r"[Nn]o such file or directory|ENOENT|cannot find the (?:path|file) specified|"
        r"Cannot find path .* because it does not exist",
        "No such file or directory",
    ),
    rule("Segmentation fault | segmentation fault | SIGSEGV", r"^", "Segmentation fault"),
    rule("out of memory | Out of memory | OOMKilled | Cannot allocate memory | heap limit", r"^", "out of memory"),
    rule("No rule to make target", r"No rule to make target", "make: No rule to make target ‹text›"),
)

# Lines that say only that something before them failed.
_WEAK = re.compile(
    r"task failed|exited with code|exit(?:ed)?(?: with)?(?: exit)? (?:status|code)|"
    r"Command failed|command failed|Build failed with an exception|during build:|Failed to compile|"
    r"Compilation failed"
    r"|npm (?:ERR!|error)|ELIFECYCLE|make(?:\[\d+\])?: \*\*\*|RECURSIVE_RUN|"
    r"\d+ (?:errors?|problems?|issues?)\b|Some errors were emitted|due to \d+ previous"
    r"|For more information|complete log of this run|re-run Maven|Re-run Maven|"
    r"errors? found|\[Help 1\]|aborting|hint: |Test failed\. See above"
)


def _strong(found: re.Match[str]) -> str:
    line = found[0].strip()
    if _WEAK.search(line):
        return ""
    return sentence(re.sub(r"^(?:\[(?:ERROR|error)\]:?\s+|ERROR:?\s+|[Ee]rror:\s+|[✗✘×✖❌╷│┃\s]+)+", "", line))


GENERIC: tuple[Rule, ...] = (
    rule("psql: | FATAL: ", r"FATAL: +(.*)", lambda found: f"psql: FATAL: {sentence(found[1])}"),
    rule("ERROR: ", r"^(?:psql:\S+ )?ERROR:  (.*)", lambda found: f"SQL error: {sentence(found[1])}"),
    rule("parse error: ", r"^(?:jq: )?parse error: ", "jq: parse error (input is not JSON)"),
    rule("input is not JSON", r"^jq: parse error", "jq: parse error (input is not JSON)"),
    rule(
        "ERROR ",
        r"^(?:MySQL )?ERROR (\d{4})(?: \(\w+\))?(?: at line \d+)?: (.*)",
        lambda found: f"MySQL ERROR {found[1]}: {sentence(found[2])}",
    ),
    rule("jq: ", r"^jq: error.*(?:syntax error|compile error|is not defined|unexpected)", "jq: syntax error"),
    rule("failed to parse jq expression", r"^", "jq: syntax error"),
    rule(
        "browserType.launch: | Executable doesn't exist at",
        r"Executable doesn't exist",
        "playwright: browser executable does not exist",
    ),
    rule(
        "curl: (",
        r"^curl: \((\d+)\) (.*)",
        lambda found: f"curl: ({found[1]}) {sentence(re.sub(r' after .*', '', found[2]))}",
    ),
    rule("usage: git", r"^usage: git", "unrecognized argument: ‹flag›"),
    rule("fatal: ", r"fatal: .*", lambda found: f"fatal: {sentence(found[0][7:])}"),
    rule("What went wrong: ", r"What went wrong: (.*)", lambda found: sentence(found[1])),
    rule(
        "CMake Error",
        r"^CMake Error(?: at \S+?(?::\d+)?(?: \((\w+)\))?)?:(?: (\w+)$)?",
        lambda found: f"CMake Error: {found[1] or found[2] or 'configuring'}",
    ),
    rule("rror: | ERROR | rror ", r"^(?:\S{1,60}: |[^\w\n]{0,6})?(?:\[?ERROR\]?|[Ee]rror)(?:\[\w+\])?:? .*", _strong),
    rule("✗ | ✘ | × | ✖ | ❌", r"^\s*[✗✘×✖❌].*", _strong),
)

WORDS: tuple[Rule, ...] = (
    # What `git status` says of a clean tree is an error of `git commit` only where nothing else is told.
    rule("nothing to commit | no changes added to commit | nothing added to commit", r"^", "git: nothing to commit"),
    rule(
        "n't find | failed | Failed | annot  | ould not | nable to | not found | denied | nvalid | "
        "efused | bort | nsupported | not allowed | can't | an not | required | must | "
        "xpired | none of the others",
        r"^(?!\s*(?:\d|INFO|DEBUG|WARN)).{1,300}$",
        lambda found: "" if _WEAK.search(found[0]) else sentence(found[0]),
        last=True,
    ),
)
WEAK: tuple[Rule, ...] = (
    rule("make: *** | make[", r"^make(?:\[\d+\])?: \*\*\* .*Error (\d+)", "make: a recipe failed"),
    rule('error: script " | ELIFECYCLE | npm error | npm ERR! | Command failed', r"^", "script failed"),
    rule(
        "BUILD FAILURE | BUILD FAILED | Build FAILED | build failed | Build failed | could not compile",
        r"^",
        "build failed",
    ),
    rule("task failed", r"task failed", "task failed"),
)
