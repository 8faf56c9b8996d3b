"""What compilers, type checkers, linters and formatters say, in the order in which one of them is the cause."""

from __future__ import annotations

import re

from warmstart.profile.signatures.normalising import normalised, trimmed
from warmstart.profile.signatures.telling import Rule, rule

# Go's own words, shortened to the mistake: what remains of a message names types and variables.
_GO = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"^undefined: ", "undefined: ‹name›"),
        (r" undefined \(", "undefined (no such field or method)"),
        (r"imported and not used", "imported and not used"),
        (r"declared and not used", "declared and not used"),
        (r"^cannot use ", "cannot use ‹value› as ‹type›"),
        (r"^assignment mismatch", "assignment mismatch"),
        (r"^(?:not enough|too many) (?:arguments|return values)", "wrong number of arguments or return values"),
        (r"^missing return", "missing return"),
        (r"^no new variables", "no new variables on left side"),
        (r"redeclared|already declared|duplicate case|other declaration of", "redeclared"),
        (r" is not a type", "‹name› is not a type"),
        (
            r"^(?:expected |syntax error|missing import path|non-declaration statement|illegal |"
            r"string literal not|"
            r"rune literal|comment not terminated|unexpected )",
            "syntax error",
        ),
        (
            r"^(?:could not import|package \S+ is not in|no required module provides|"
            r"cannot find (?:package|module)|"
            r"no Go files)|: cannot find (?:package|module)",
            "package not found",
        ),
        (r"^import cycle|^use of internal package", "import not allowed"),
        (r"^invalid operation", "invalid operation"),
        (r"^(?:unknown field|missing .*in (?:struct|call)|mixture of field)", "wrong fields in struct literal"),
        (r"does not implement|impossible type", "‹type› does not implement ‹interface›"),
        (r"^cannot (?:infer|convert|assign|call|range|refer|define|take)", ""),
        (r"format %|Printf|Errorf call", "vet: wrong format in a print call"),
    )
)
_RUST = {
    "E0061": "wrong number of arguments",
    "E0277": "trait bound not satisfied",
    "E0282": "type annotations needed",
    "E0283": "type annotations needed",
    "E0308": "mismatched types",
    "E0382": "use of moved value",
    "E0412": "cannot find type in this scope",
    "E0423": "expected a value, found another item",
    "E0425": "cannot find value or function in this scope",
    "E0432": "unresolved import",
    "E0433": "failed to resolve path",
    "E0499": "cannot borrow as mutable more than once",
    "E0502": "cannot borrow: also borrowed otherwise",
    "E0505": "cannot move out while borrowed",
    "E0507": "cannot move out of borrow",
    "E0515": "cannot return reference to local",
    "E0560": "struct has no such field",
    "E0583": "file not found for module",
    "E0596": "cannot borrow as mutable",
    "E0597": "does not live long enough",
    "E0599": "no such method or associated item",
    "E0603": "item is private",
    "E0609": "no such field",
}
GO_SIGNS = frozenset(f"Go compile error: {kind}" for _, kind in _GO if kind)
RUST_SIGNS = frozenset(f"Rust error[{code}]: {meaning}" for code, meaning in _RUST.items())
_JAVA = re.compile(
    r"(cannot find symbol|incompatible types|package \S+ does not exist|" r"unreported exception|\S+ expected)"
)


def _go(found: re.Match[str]) -> str:
    message = found["message"].strip()
    suffix = re.search(r" \(([\w:.@/-]+)\)$", message)
    if suffix and suffix[1] != "typecheck":
        return ""  # a linter's finding
    message = message[: suffix.start()] if suffix else message
    # golangci-lint repeats the compiler's position before the message.
    message = re.sub(r"^(?:: )?(?:# \S+.*|-: |\S+\.go:\d+:\d+: )", "", message)
    if not message or message.startswith(("too many errors", "other declaration")):
        return ""
    for pattern, kind in _GO:
        if pattern.search(message):
            return f"Go compile error: {kind or normalised(' '.join(message.split()[:2]))}"
    if message.count("`") % 2:
        return ""  # a linter's finding over several lines
    return trimmed(f"Go compile error: {normalised(message, names=True)}")


def _rust(found: re.Match[str]) -> str:
    code = found[1]
    return f"Rust error[{code}]: {_RUST.get(code) or normalised(found[2], names=True)}"


def _typescript(found: re.Match[str]) -> str:
    message = re.split(r"[.:;](?= |$)", normalised(found[2]), maxsplit=1)[0]
    return trimmed(f"error {found[1]}: {message}")


def _java(found: re.Match[str]) -> str:
    known = _JAVA.search(found["message"])
    message = known[1] if known else found["message"].split(";")[0].split(":")[0]
    message = re.sub(r"^package \S+", "package ‹name›", message)
    return trimmed(f"Java compile error: {normalised(message, names=True)}")


def _native(found: re.Match[str]) -> str:
    """A line `file:1:2: error: …`, which many compilers write: the file's extension tells which."""
    language = {"swift": "Swift", "hs": "Haskell", "zig": "Zig", "kt": "Kotlin", "kts": "Kotlin", "scala": "Scala"}
    message = re.sub(r" \[-W[\w=-]+\]| \[GHC-\d+\]", "", found["message"])
    if ": No such file or directory" in message or message.endswith("file not found"):
        message = "included file not found"
    return trimmed(f"{language.get(found['ext'], 'C')} compile error: {normalised(message, names=True)}")


def _kotlin(found: re.Match[str]) -> str:
    message = re.split(r"[:.']", found["message"])[0]
    return trimmed(f"Kotlin compile error: {normalised(message, names=True)}")


def _csharp(found: re.Match[str]) -> str:
    return trimmed(f"error {found[1]}: {normalised(found[2].split(' [')[0])}")


def _php(found: re.Match[str]) -> str:
    return trimmed(f"PHP error: {normalised(found[1])}")


def _finding(found: re.Match[str]) -> str:
    """A linter's finding by its rule; what ends a line in brackets without being a rule does not count."""
    name = found[1]
    return "" if name in ("typecheck", "most", "cached", "error", "errors") else f"lint: {name}"


COMPILERS: tuple[Rule, ...] = (
    rule("error[E", r"^\s*error\[(E\d{4})\]: (.*)", _rust),
    rule("error TS", r"error (TS\d{3,5}): (.*)", _typescript),
    rule(".go:", r"^(?:vet: )?\S+\.go:\d+:\d+: (?P<message>.*)", _go),
    rule(
        "no Go files in | no required module provides | is not in std | no packages to test | matched no packages",
        r"^",
        "Go compile error: package not found",
    ),
    rule(".java:", r"\.java:(?:\d+: error:|\[\d+,\d+\](?: error:)?) (?P<message>.*)", _java),
    rule("error CS", r"\berror (CS\d{4}): (.*)", _csharp),
    rule("e: file: | e: /", r"^e: \S+ (?:\(\d+, \d+\): )?(?P<message>.*)", _kotlin),
    rule(
        "error: ",
        r"\.(?P<ext>c|cc|cpp|cxx|h|hh|hpp|m|mm|cu|swift|hs|zig|"
        r"scala):\d+:(?:\d+:)? (?:fatal )?error: (?P<message>.*)",
        _native,
    ),
    rule(
        "cannot find -l | library not found for", r"cannot find -l|library not found for", "linker: library not found"
    ),
    rule("linking with `", r"linking with `", "linker: linking failed"),
    rule("undefined reference to | undefined symbol", r"^", "linker: undefined reference"),
    rule("PHP Parse error | PHP Fatal error", r"PHP (?:Parse|Fatal) error: +(.*?)(?: in \S+ on line \d+.*)?$", _php),
    rule(
        "error: expected | error: unexpected | error: cannot find macro | error: this file contains an unclosed",
        r"^error: (?:expected|unexpected|this file contains).*",
        "Rust syntax error",
    ),
    rule("Type error: ", r"^Type error: (.*)", lambda found: f"Type error: {normalised(found[1])}"),
)

LINTERS: tuple[Rule, ...] = (
    rule("lint: ", r"^lint: (\S+)$", r"lint: \1"),
    rule("(report", r"- (?:error|warning): .*\((report\w+)\)$", r"pyright: \1"),
    # golangci-lint, staticcheck, pylint, ktlint, yamllint: the rule in round brackets ends the line.
    rule(")", r"^\S+\.\w+:\d+(?::\d+)?:? .*\((?:standard:)?([a-zA-Z][\w:/@-]+)\)$", _finding),
    rule("Parsing error: ", r"^\s*\d+:\d+\s+error\s+Parsing error", "lint: parsing error"),
    rule("error  | warning  ", r"^\s*\d+:\d+\s+(?:error|warning)\s.*\s((?:@?[\w-]+/)*[a-z][\w-]+)$", r"lint: \1"),
    rule(" lint/", r"\slint/([\w/]+)", r"lint: \1"),
    rule(
        " format ━ |  parse ━ | organizeImports ━",
        r"\s(format|parse|(?:assist/source/)?organizeImports) ━",
        r"biome: \1",
    ),
    rule("eslint( | typescript( | unicorn( | oxc( | react(", r"^\s*[×!⚠x] ([\w-]+)\(([\w/-]+)\)", r"lint: \2"),
    rule(".py:", r"^\S+\.py:\d+:(?:\d+:)? error: .*\[([\w-]+)\]$", r"mypy: \1"),
    rule("error[", r"^error\[([a-z][a-z-]+)\]", r"ty: \1"),
    rule(".py: | .pyi: | .ipynb:", r"^\S+\.(?:pyi?|ipynb)(?::cell \d+)?:\d+:\d+: ([A-Z]{1,4}\d{1,4})\b", r"lint: \1"),
    rule(" --> ", r"^([A-Z]{1,4}\d{1,4}|invalid-syntax)\b.*\n\s*--> \S+\.(?:pyi?|ipynb)", r"lint: \1", above=True),
    rule("clippy::", r"\bclippy::([\w-]+)", lambda found: f"lint: clippy::{found[1].replace('-', '_')}"),
    rule("SC1 | SC2 | SC3", r"\b(SC\d{4})\b", r"lint: \1"),
    rule("DL3 | DL4", r"\b(DL\d{4})\b", r"lint: \1"),
    rule(" MD0", r"\b(MD0\d\d)(?:/|\b)", r"lint: \1"),
    rule(": C: | : W: | : E: | : F:", r"^\S+:\d+:\d+: [CWEF]: (?:\[Correctable\] )?(\w+/\w+):", r"lint: \1"),
    rule("]", r"^(?:\[(?:ERROR|WARN|WARNING)\] )?\S+\.\w+:\d+(?::\d+)?:? .*\[([A-Z][A-Za-z]+)\]$", r"lint: \1"),
    rule("ould reformat", r"^Would reformat: ", "ruff format: would reformat"),
    rule("ould reformat | error: cannot format", r"^(?:would reformat|error: cannot format) ", "black: would reformat"),
    rule("Code style issues ", r"Code style issues ", "prettier: code style issues"),
    rule("Diff in ", r"^Diff in \S+", "rustfmt: would reformat"),
    rule(
        "....Failed",
        r"^(.{1,60}?)\.{4,}Failed$",
        lambda found: f"pre-commit: {normalised(found[1])} failed",
    ),
    rule("Imports are incorrectly sorted", r"^", "isort: imports are incorrectly sorted"),
)
