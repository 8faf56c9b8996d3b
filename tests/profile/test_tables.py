"""The tables: every row of them fires on a text that a test has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.profile import test_feedback, test_outcome
from tests.profile.test_shell import CHECKS
from tests.profile.test_signatures import CASES
from warmstart.profile import feedback, signatures
from warmstart.profile.outcome import has_passed
from warmstart.profile.output import unwrap
from warmstart.profile.rules import compile_row, load_table

OUTPUTS = [unwrap(case.text).text for case in CASES]
# How runners end their output; the cases of test_outcome.py have the rest.
SUMMARIES = [
    *("FAIL\tpkg\t0.1s", "--- FAIL: TestA (0.00s)", "FAILED tests/a.py::test_b", "FAILURES!", "ERRORS!", "ERROR: boom"),
    *("ERROR tests/a.py::test_b", "=== 1 failed, 2 passed in 1s ===", "2 failed", "  Tests:  1 failed, 2 passed"),
    *(
        "test result: FAILED. 1 passed",
        "error: could not compile `x`",
        "  3 failing",
        "Failed!  - Failed: 1",
        "not ok 3",
    ),
    *("# fail 2", "  ✖ 2 failed", "a.ts(1,2): error TS2345: x", "BUILD FAILED", "Build FAILED.", "error CS0103: x"),
    *("2 tests failed", "FAILED | 3 passed", "5 examples, 1 failure", "with 2 failures", "Failed to compile"),
    *("Tests: 5, Assertions: 9, Failures: 1", "error: x", "npm ERR! code 1", "make: *** [all] Error 1"),
    *("a.go:1:2: undefined: x", "a.c:1:2: fatal error: x", "Traceback (most recent call last):", "FATAL: no"),
    *("ELIFECYCLE Command failed", "ERROR task failed", "Recipe `x` failed on line 3", "ok   pkg/a  0.1s", "PASS"),
    *("OK (3 tests)", "=== 3 passed in 1s ===", "3 passed", "Tests:  3 passed, 3 total", "test result: ok. 3 passed"),
    *("  12 passing", "Passed!  - 3", "Build succeeded.", "# fail 0", "    Finished dev profile", "BUILD SUCCESSFUL"),
    *("100% tests passed", "ok | 3 passed", "compiled successfully", "with 0 failures", "3 examples, 0 failures"),
    "built in 2.1s",
]


GO_MESSAGES = [
    *("undefined: tide", "t.level undefined (type T has no field or method level)", '"os" imported and not used'),
    *("declared and not used: x", "cannot use 3 as string value", "assignment mismatch: 2 variables but f returns 1"),
    *("not enough arguments in call to f", "missing return", "no new variables on left side of :=", "x redeclared"),
    *("Tide is not a type", "expected ';', found x", "package tide is not in std", "import cycle not allowed"),
    *("invalid operation: a + b", "unknown field x in struct literal", "T does not implement I (missing method f)"),
    *("cannot infer T", "fmt.Printf format %d has arg x of wrong type"),
]
# Sentences for the phrases that no other test has.
SENTENCES = [
    *("nao, para", "no, it's fine", "no, i'm good", "no, i think we are done", "no, i don't need it", "failing again?"),
    *(
        "ich habe doch schon gesagt",
        "je t'ai déjà dit",
        "ya te lo dije",
        "eu já falei",
        "ti ho già detto",
        "我已经说了",
    ),
    *(
        "you're mistaken",
        "you were supposed to ask",
        "i didn't ask for that",
        "i still get it",
        "i'm still not seeing it",
    ),
    *(
        "i don't really like it",
        "this shouldn't be here",
        "immer noch kaputt",
        "ne marche toujours pas",
        "sigue fallando",
    ),
    *(
        "没用",
        "还是报错",
        "good job",
        "looks great",
        "that's perfect",
        "yep",
        "obrigado",
        "that works great",
        "it fixed it",
    ),
    *("its perfect", "i wonder", "i'm not sure", "peux-tu", "in the future, please ask", "whenever you edit, test"),
    *("our convention is tabs", "we only use uv", "i usually prefer tabs", "see https://x", "\x1b[31m"),
]


# What shows in calls and their output, for the patterns that are not summaries.
CALLS = [
    *("zsh: command not found: x", "No such file or directory", "x is not recognized as a command", "timed out"),
    *("interrupted", "no tests ran", "unrecognized arguments: -x", "unknown flag: --x", "npm error Missing script: x"),
    *("make: *** No rule to make target", "permission denied", "/tmp/a.py", "/home/x/.claude/plans/a.md"),
    *("Path(x).write_text(y)", "file.write(y)", "open('a', 'w')", "writeFileSync(a, b)", "fs.writeFile(a)"),
    *("File.write('a')", "git init", "cd /tmp/x", 'cd "$(mktemp -d)"', "git stash", "nothing to commit, working tree"),
    *("no changes added to commit", "nothing added to commit", "no changes to commit", "Aborting commit due to"),
    *("Process running with session ID 7", "Command running in background with ID: b1"),
]
# How results of tools are wrapped and what varies in them, besides the errors of test_signatures.py.
WRAPPED = [
    *("Exit code 1\n", "Wall time: 1 s\nProcess exited with code 1\nOutput:\nx", "<returncode>1</returncode>x"),
    *("boom\n<shell 3 exited with exit code 1>", "[web] boom", "web:test: boom", "web lint: boom", "#7 0.512 boom"),
    *("api  | boom", "see https://x.io", "of a@b.example", "missing key: x", "x is not defined", "stopped -- x.py"),
    *("no field order_id", "run 0b5d8c1e-52f4-4a7b-8d0e-6f1a2b3c4d5e", "since 2026-09-03", "in src/a.py", "bad 'x'"),
    "failed at 'x",
]


def missing(table: str, rows: Iterable[str], texts: Iterable[str], flags: int = 0) -> list[str]:
    """The patterns that match none of the texts."""
    given = list(texts)
    return [row for row in rows if not any(compile_row(table, row, flags).search(text) for text in given)]


def test_every_signature_rule_fires(subtests):
    table = load_table("signatures")
    for group in (*table["groups"]["program"], "words", "weak"):
        for rule in signatures._rules(group):
            with subtests.test(group=group, rule=rule.pattern.pattern[:80]):
                assert any(signatures._match_rules((rule,), text) for text in OUTPUTS)
    assert missing("signatures", (row for row, _ in table["tool_errors"]), OUTPUTS) == []
    assert missing("signatures", (row for row, _ in table["go"]), GO_MESSAGES) == []
    assert table["fragments"].keys() == {"shell", "class", "marks", "weak"}


def test_every_pattern_of_output_fires():
    table = load_table("output")
    texts = [*(case.text for case in CASES), *WRAPPED]
    wrappings = (row for (row,) in table["wrappings"])
    rows = (*wrappings, table["trailer"], *(f"(?m)^(?:{row})" for row in table["task_prefix"]))
    assert missing("output", rows, texts) == []
    assert missing("output", (row for row, _, _ in table["placeholders"]), [*OUTPUTS, *WRAPPED]) == []
    names = ("names", "calls", "error_number", "number", "id", "word")
    assert missing("output", (table[name] for name in names), OUTPUTS) == []


def test_every_name_of_a_check_fires():
    words = [word for command, _ in CHECKS for word in command.replace("/", " ").split()]
    table = load_table("tools")
    assert missing("tools", (row for row, _ in table["tasks"]), words) == []
    assert missing("tools", (row for row, _ in table["scripts"]), [*words, "build.sh", "run_lint.py"]) == []


def test_every_summary_of_a_check_fires(subtests):
    table = load_table("checks")
    for kind, expected in (("failed", False), ("errors", False), ("passed", True)):
        for row in table[kind]:
            with subtests.test(kind=kind, row=row):
                found = [text for text in SUMMARIES if re.search(row, text, re.MULTILINE)]
                assert found
                assert expected in {has_passed(text) for text in found}
    others = (row for kind, rows in table.items() if kind not in ("failed", "errors", "passed") for row in rows)
    assert missing("checks", others, CALLS, re.IGNORECASE) == []


def test_every_phrase_fires(subtests):
    """A phrase of plain words is its own example; the others are in the tables of the tests."""
    table = load_table("phrases")
    texts = [
        text.lower()
        for module in (test_feedback, test_outcome)
        for name, cases in vars(module).items()
        if name.isupper() and isinstance(cases, list | tuple)
        for case in cases
        for text in ([case] if isinstance(case, str) else case if isinstance(case, list | tuple) else ())
        if isinstance(text, str)
    ]
    for name, rows in table.items():
        if not isinstance(rows, list) or name.endswith("_words") or name == "scripts":
            continue
        for row in rows:
            pattern = compile_row("phrases", row)
            plain = re.sub(r"\\b|\?$|\(\?=.*$|\(\?!.*$", "", row)
            with subtests.test(name=name, row=row[:80]):
                assert any(re.search(pattern, text) for text in [*texts, *SENTENCES, plain])
    assert feedback.corrects("no, that's wrong")
