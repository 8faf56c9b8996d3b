from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warmstart.profile.pseudonyms import PublicSignature, public_signature
from warmstart.profile.signatures import error_signature


class Case(NamedTuple):
    signature: str
    tool: str
    arguments: str
    text: str


def cases() -> list[Case]:
    found = []
    blocks = Path(__file__).with_name("errors.txt").read_text(encoding="utf-8").split("\n%%% ")[1:]
    for block in blocks:
        expected, call, text = (block + "\n").split("\n", 2)
        tool, _, command = call.partition(" $ ")
        found.append(Case(expected, tool, json.dumps({"command": command}) if command else "", text.strip("\n")))
    return found


CASES = cases()
by_text = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.tool}-{case.signature[:40]}")
# Errors whose words hold a path, a number, an id and a quoted text, and are otherwise known to no rule.
TEMPLATES = (
    ("Bash", "Exit code 1\nERROR: the worker {id} gave up on {path} after {number} tries: '{quoted}'"),
    ("Bash", "Exit code 1\nError: cannot deploy {path}:{number} to {id}\n    at run ({path}:{number}:1)"),
    ("Bash", "Exit code 1\nTraceback (most recent call last):\n  File {path}\nValueError: bad {number} in '{quoted}'"),
    ("get_order", "Error: order {id} has {number} items, see {path} for `{quoted}`"),
    ("Edit", "<tool_use_error>Cannot edit {path}: line {number} is locked by {id}.\n{quoted}</tool_use_error>"),
    ("read_file", '{{"error": "cannot open {path} ({number} bytes) of {id}"}}'),
)  # fmt: skip
paths = st.from_regex(r"(/|\./|~/)?[a-z]{1,8}(/[a-zA-Z_.-]{1,8}[a-z]){1,4}\.(py|ts|go|json)", fullmatch=True)
numbers = st.integers(0, 10**9).map(str)
ids = st.uuids().map(str) | st.from_regex(
    r"[a-f][0-9a-f]{6}[0-9][0-9a-f]{4}|(?:QX|ZJ|WK)[0-9]{5}", fullmatch=True
)  # letters that no compiler uses
quoted = st.text(
    st.characters(codec="utf-8", exclude_characters="\"'`\\‹›\n\r", categories=("L", "N", "P", "Zs")), max_size=20
).filter(lambda text: "HTTP" not in text)  # which says what went wrong, in quotes too


def test_an_error_has_its_signature(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            assert error_signature(case.tool, case.text, arguments=case.arguments) == case.signature


def test_a_signature_is_its_own_signature(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            assert error_signature(case.tool, case.signature) == case.signature


def test_variants_of_one_mistake_are_covered() -> None:
    variants: dict[str, int] = defaultdict(int)
    for case in CASES:
        variants[case.signature] += 1
    assert len(CASES) > 140
    assert len(variants) > 80
    assert variants["tests failed"] > 10


A_FAILURE_WITHOUT_WORDS_IS_NAMED_FOR_ITS_PROGRAM = [
    {"cmd": "rg x"},
    {"command": "rg x"},
    {"command": ["bash", "-lc", "rg x | head"]},
]


def test_a_silent_failure_is_named_after_its_program(subtests: pytest.Subtests) -> None:
    for arguments in A_FAILURE_WITHOUT_WORDS_IS_NAMED_FOR_ITS_PROGRAM:
        with subtests.test(arguments=arguments):
            text = "Exit code: 1\nWall time: 0.1 seconds\nOutput:\n"
            assert error_signature("shell", text, arguments=json.dumps(arguments)) == "grep: exit 1, no output"


def test_without_arguments_the_exit_code_is_all_there_is() -> None:
    assert error_signature("Bash", "Exit code 1") == "exit 1, no output"
    assert error_signature("Bash", "") == "no output"
    assert error_signature("anything", "") == "no output"


def test_scripts_are_not_named() -> None:
    arguments = json.dumps({"command": "./deploy-anna.sh"})
    assert error_signature("Bash", "Exit code 3", arguments=arguments) == "script: exit 3, no output"


SHELLS_ARE_KNOWN_BY_THE_NAMES_OF_ALL_AGENTS = [
    "Bash",
    "functions.exec",
    "bash_tool",
    "run_shell_command",
    "ShellTool",
    "Pwsh",
]


def test_shells_are_known_by_the_names_of_all_agents(subtests: pytest.Subtests) -> None:
    for tool in SHELLS_ARE_KNOWN_BY_THE_NAMES_OF_ALL_AGENTS:
        with subtests.test(tool=tool):
            assert error_signature(tool, "src/a.py:3: 1 failed, 2 passed, in all") == "tests failed"


def test_program_text_is_no_shell_command() -> None:
    arguments = json.dumps({"code": "import os"})
    assert error_signature("execute_code", "Exit code 1", arguments=arguments) == "exit 1, no output"


def test_a_failed_predicate_is_named_after_its_program() -> None:
    for command, name in (("which x", "which"), ("[[ -f x ]]", "test"), ("[ -f x ]", "test"), ("test -f x", "test")):
        arguments = json.dumps({"command": command})
        assert error_signature("Bash", "Exit code 1", arguments=arguments) == f"{name}: exit 1, no output"


WORDS_OF_A_RULE_ARE_OURS = [
    *("tests failed", "File has not been read yet", "git: merge conflict", "HTTP 422: Unprocessable Entity"),
    *("Go compile error: undefined: ‹name›", "Rust panic", "lint: errcheck", "lint: F401"),
    *("grep: exit 1, no output", "exit 1, no output", "no output", "git push: exit 128", "npm error ERESOLVE"),
    *("lint: @typescript-eslint/no-unused-vars", "mypy: arg-type", "shell parse error", "AssertionError"),
]


def test_words_of_a_rule_are_ours(subtests: pytest.Subtests) -> None:
    for text in WORDS_OF_A_RULE_ARE_OURS:
        with subtests.test(text=text):
            assert public_signature(text).complete
            assert public_signature(text).text == text


WORDS_OF_A_MESSAGE_ARE_NOT = [
    ("ValueError: patient Carol Danvers not found in ward seven", PublicSignature("ValueError", False)),
    ("WardError: no Carol", PublicSignature("", False)),
    ("ENOENT: no Carol", PublicSignature("ENOENT", False)),
    ("ECAROL: no", PublicSignature("", False)),
    ("Carol: no ward", PublicSignature("", False)),
    ("HTTP 404: Carol is away", PublicSignature("HTTP 404", False)),
    ("Go panic: Carol", PublicSignature("Go panic", False)),
    ("error TS2322: Type ‹text› is not Carol", PublicSignature("error TS2322", False)),
    ("lint: Carol", PublicSignature("lint", False)),
    ("lint: carol", PublicSignature("lint", False)),
    ("lint: @ward/no-carol", PublicSignature("lint", False)),
    ("wardctl: exit 1, no output", PublicSignature("‹program›: exit 1, no output", True)),
    ("docker exec carol: exit 1", PublicSignature("docker exec ‹name›: exit 1", True)),
    ("A" * 160, PublicSignature("", False)),
]


def test_words_of_a_message_are_not(subtests: pytest.Subtests) -> None:
    for text, ours in WORDS_OF_A_MESSAGE_ARE_NOT:
        with subtests.test(text=text, ours=ours):
            assert public_signature(text) == ours


def test_what_is_ours_is_in_the_rules(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            ours = public_signature(case.signature)
            assert not ours.complete or ours.text == case.signature or "‹program›" in ours.text


def test_terminal_codes_and_progress_are_left_off() -> None:
    text = "Exit code 1\n\x1b[31merror\x1b[0m: \x1b[1munknown option '--foo'\x1b[0m"
    assert error_signature("Bash", text) == "unrecognized argument: ‹flag›"
    text = "Exit code 1\nRebasing (1/7)\rRebasing (2/7)\rerror: could not apply 0a1b2c3d... review\nhint: Resolve"
    assert error_signature("Bash", text) == "git: merge conflict"


def test_what_a_search_shows_is_no_error() -> None:
    text = "Exit code 1\nsrc/a.py:3:    raise ValueError('fatal: 3 failed')\nFAILED tests/a.py"
    assert error_signature("Bash", text, arguments='{"command": "cat log.txt; grep x y"}') == "grep: exit 1, no output"
    assert (
        error_signature("Bash", text.replace("code 1", "code 2"), arguments='{"command": "cat log.txt; ls x"}')
        == "ls: exit 2"
    )


def test_the_cause_outweighs_its_consequences() -> None:
    text = "Exit code 1\n--- FAIL: TestA\nFAIL\tx [build failed]\n./a.go:3:4: undefined: foo\nmake: *** [test] Error 1"
    assert error_signature("Bash", text) == "Go compile error: undefined: ‹name›"
    assert error_signature("Bash", text.replace("./a.go:3:4: undefined: foo\n", "")) == "tests failed"


def test_nothing_private_remains() -> None:
    text = (
        "Error: user anna.lee_77@example.com (id 5512-88) cannot open /home/anna/notes.md at https://x.io/?token=abc1"
    )
    assert not re.search(r"anna|5512|abc1|x\.io|notes", error_signature("open_note", text))
    assert not re.search(r"secret", error_signature("Bash", "Exit code 1\nError: bad value 'my secret\nsecret more"))


@given(
    tool=st.sampled_from(["Bash", "Edit", "get_user", ""]), text=st.text(max_size=400), arguments=st.text(max_size=80)
)
@example(tool="Bash", text="\ud800 {", arguments='{"command": "\ud800"}')
@example(tool="Edit", text='{"error": "\\ud800"}', arguments="[" * 5000)
def test_any_text_has_a_short_signature_of_one_line(tool: str, text: str, arguments: str) -> None:
    for wrapped in (
        text,
        f"Exit code 1\n{text}",
        f"<tool_use_error>{text}</tool_use_error>",
        json.dumps({"error": text}),
    ):
        found = error_signature(tool, wrapped, arguments=arguments)
        assert found
        assert len(found) <= 160
        assert len(found.splitlines()) == 1
        assert found == found.strip()


@pytest.mark.parametrize(("tool", "template"), TEMPLATES)
@given(data=st.data())
def test_what_varies_does_not_matter(tool: str, template: str, data: st.DataObject) -> None:
    first, second = (
        error_signature(
            tool,
            template.format(
                path=data.draw(paths), number=data.draw(numbers), id=data.draw(ids), quoted=data.draw(quoted)
            ),
        )
        for _ in range(2)
    )
    assert first == second
    assert error_signature(tool, first) == first


HOSTILE_TEXT_TAKES_NO_TIME = (
    [unit * (200_000 // len(unit)) for unit in ("'", '"', "`", " ", "\n", "\r", "{", "[", "<", "/a", "a.", "a_", "1-")]
    + [unit * (200_000 // len(unit)) for unit in ("error: x\n", "a@a.", "‹text›, ", "\x1b[", "C:\\a")]
    + ['{"error": "' + "\\n" * 100_000, "1:1 error " + "x " * 100_000, "Wall time: x\n" * 20_000]
    + ["a.go:1:2: (a)\n" * 20_000]
)


def test_hostile_text_takes_no_time(subtests: pytest.Subtests) -> None:
    for text in HOSTILE_TEXT_TAKES_NO_TIME:
        with subtests.test(text=text):
            started = time.process_time()
            for tool in ("Bash", "Edit"):
                assert len(error_signature(tool, text)) <= 160
            assert time.process_time() - started < 10


def test_a_megabyte_is_read_at_its_ends() -> None:
    noise = "compiled module in 12 ms\n" * 40_000
    error_signature("Bash", "Exit code 1")  # loads the rules
    started = time.process_time()
    assert error_signature("Bash", f"Exit code 1\n{noise}FAILED tests/test_a.py::test_b\n") == "tests failed"
    assert time.process_time() - started < 5
