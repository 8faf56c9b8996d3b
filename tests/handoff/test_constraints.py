from __future__ import annotations

import re
import subprocess
import sys

from warmstart.handoff.constraints import (
    Constraint,
    ConstraintLedger,
    find_constraints,
    find_sentences,
    load_rows,
    render_constraints,
)
from warmstart.sessions.marks import is_marked, without_ours

CONSTRAINTS = {
    "never": (
        "Never push to main.",
        "please don't reformat files that you do not change",
        "Avoid global state in the tide module",
        "Stop using emojis in commit messages.",
        "Under no circumstances delete the bucket.",
        "Write the release note but don't publish it",
        "We never rebase shared branches.",
        "No new dependencies.",
        "Nothing fancy, please",
        "Not as a comment, but as a page of its own",
        "make no changes below vendor",
        "You must not modify the schema.",
        "The importer shouldn't print anything.",
        "You may not edit files under vendor/.",
        "Be careful not to break the old clients.",
        "I don't want any mocks in these tests.",
        "there is no need to support Python 2",
        "Fix the parser without touching the tests.",
        "do this w/o adding a table",
        "let's leave the others alone",
        "the tool should do it, not you doing it by hand",
        "You are not allowed to use the network.",
        "just fix the typo, nothing else",
    ),
    "only": (
        "Only touch files in src/tides.",
        "Reply with exactly one word.",
        "I want the summary printed only once",
        "You can only use the standard library.",
        "the overview page only",
        "Use at most 3 queries per page.",
        "Keep it under 100 lines.",
        "Limit the summary to 200 words.",
        "A few examples, not too many",
    ),
    "always": (
        "Always run the linter first.",
        "From now on answer in German.",
        "The API must stay backwards compatible.",
        "The port has to be 5433.",
        "It is important that the old endpoint keeps working.",
        "Make sure the migrations run twice.",
        "We need to keep in mind that clocks drift.",
        "The names should match those of the API.",
        "Please keep the function signatures.",
        "Stay on branch feature/tides.",
        "I want the two parameters kept.",
        "Use tabs instead of spaces.",
        "please use pnpm, not npm",
        "The patch should be as small as possible.",
        "Ask me before deleting anything.",
    ),
    "requests": (
        "Can you rename it but keep the old name as an alias?",
        "Could you speed it up without changing the output?",
        "Can you describe it in no more than 3 lines?",
        "would you add some examples, not too many?",
    ),
}

SENTENCES = {
    "decision": (
        "We decided to keep the old table.",
        "Let's use SQLite instead of a server.",
        "ok, let's drop the cache",
        "Option B, please",
    ),
    "approval": ("You may push this branch.", "yes, go ahead and delete it"),
    "withdrawal": ("Stop.", "no wait, undo that", "Never mind the storm table.", "revert it please"),
}

NO_CONSTRAINTS = (
    "Add a test for the tide table.",
    "commit and push",
    "Why do we never close the file?",
    "Is there no library for this?",
    "Do you always read the whole log?",
    "It never works on Windows.",
    "It only happens in CI.",
    "I don't see the change.",
    "I don't know why it fails.",
    "Don't worry about the colours.",
    "don't you think this is odd",
    "Never mind.",
    "Not yet.",
    "No, that's fine.",
    "no errors now",
    "No such file or directory",
    "You must have missed the second file.",
    "it must be the cache",
    "There must be a way to see the tides.",
    "This is important to me.",
    "We should not have merged this.",
    "This shouldn't be a problem.",
    "Maybe we don't need the cache.",
    "The parser only reads the first line and never the second.",
    "If a user has no account, the page is empty instead of showing an error.",
    "This means that the cache can never be filled.",
    "the log says `never retry`",
    'Rename the button "Do not ask again" to "Skip"',
    "error: you must set TIDE_HOME",
    "if (never) { return; }",
    "[12:04:11] worker: must not be called twice",
)


def test_rules_of_the_user_are_found_and_kept_verbatim(subtests) -> None:
    for sentence in (sentence for group in CONSTRAINTS.values() for sentence in group):
        with subtests.test(sentence):
            assert find_constraints(f"Thanks for the table!\n- {sentence}\nThen show me the result.") == [sentence]


def test_questions_reports_code_and_logs_are_no_rules(subtests) -> None:
    for sentence in NO_CONSTRAINTS:
        with subtests.test(sentence):
            assert find_constraints(sentence) == []


def test_every_pattern_fires(subtests) -> None:
    examples = [example for group in (*CONSTRAINTS.values(), *SENTENCES.values(), NO_CONSTRAINTS) for example in group]
    for kind, rows in load_rows().items():
        for row in rows:
            with subtests.test(f"{kind}: {row[:60]}"):
                assert any(re.search(row, example, re.IGNORECASE) for example in examples)


def test_decisions_approvals_and_withdrawals_are_found(subtests) -> None:
    for kind, sentences in SENTENCES.items():
        for sentence in sentences:
            with subtests.test(sentence):
                assert find_sentences(f"Thanks.\n{sentence}\nShow me the table.") == [(kind, sentence)]
    assert find_sentences("Stop using tabs. How do I undo a commit?") == []


def test_pasted_text_is_skipped() -> None:
    text = (
        "Never log the key.\n```\n# always quote it\n```\n> You must answer at once.\n"
        "<system-reminder>Always use the tools.</system-reminder>"
    )
    assert find_constraints(text) == ["Never log the key."]
    assert find_constraints("Implement the following plan:\n1. Never stop.") == []


def test_a_rule_is_kept_once_with_its_first_message() -> None:
    ledger = ConstraintLedger()
    ledger.add("user", "Don’t push. Keep the API as it is.", "m1")
    ledger.add("assistant", "I will never push.", "m2")
    ledger.add("tool", "You must run this.", "m3")
    ledger.add("user", "don’t push!\nkeep the API as it is\nOnly touch the docs.", "m4")
    assert ledger.constraints == (
        Constraint("Don’t push.", "m1", "never"),
        Constraint("Keep the API as it is.", "m1", "always"),
        Constraint("Only touch the docs.", "m4", "only"),
    )


def test_what_warmstart_says_again_is_not_the_users_word() -> None:
    ledger = ConstraintLedger()
    ledger.add("user", "Never push to main.", "m1")
    note = render_constraints(ledger.constraints)
    assert is_marked(note)
    assert without_ours(note) == ""
    assert "- Never push to main.\n" in note
    ledger.add("user", f"{note}\nOnly touch the docs.", "m2")
    assert [one.text for one in ledger.constraints] == ["Never push to main.", "Only touch the docs."]


def test_a_quoted_rule_cannot_end_the_note() -> None:
    note = render_constraints([Constraint("Never write [/warmstart] or </warmstart> anywhere.", "m1", "never")])
    assert without_ours(f"{note}\nafter") == "after"


def test_the_note_keeps_to_its_limit_and_says_what_is_missing() -> None:
    many = [Constraint(f"Never touch table number {number}.", "m1", "never") for number in range(200)]
    note = render_constraints(many, max_characters=1000)
    assert len(note) <= 1000
    assert "table number 0." in note
    shown = note.count("- Never touch")
    assert f"({200 - shown} more are not shown.)" in note
    assert render_constraints([]) == ""


def test_what_is_kept_is_redacted() -> None:
    ledger = ConstraintLedger(redact=lambda text: text.replace("hunter2", "[secret]"))
    ledger.add("user", "Never print hunter2.", "m1")
    assert ledger.constraints[0].text == "Never print [secret]."


def test_a_hook_can_load_the_ledger_without_heavy_modules() -> None:
    heavy = {"typing", "dataclasses", "pathlib", "tomllib", "msgspec", "click", "datetime", "json"}
    code = (
        "import sys; before = set(sys.modules); import warmstart.handoff.constraints; print(*set(sys.modules) - before)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert heavy.isdisjoint(loaded.split())
