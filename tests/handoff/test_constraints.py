from __future__ import annotations

import re

from tests.handoff.talk import Talk
from warmstart.handoff.constraints import Quote, find_constraints, find_quotes, load_rows
from warmstart.handoff.packet import render_constraints
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import is_marked, without_ours
from warmstart.sessions.values import Message


def texts(message: str) -> list[str]:
    return [constraint.text for constraint in find_constraints(message)]


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
        "I'd rather you didn't touch the tests.",
        "Let's not change the schema.",
        "And please: no mocks.",
        "The timeout should not exceed 30 seconds.",
        "The fixtures are off limits.",
        "Don't touch the billing module until I say so.",
        "Absolutely no force pushes.",
        "You can't touch the lockfile.",
        "You are not permitted to install packages.",
        "Hands off the CI config.",
        "This must never happen in production.",
        "Try to not use regular expressions.",
        "I want no changes in the public API.",
        "There should be no warnings.",
        "Read the log and never write to it.",
        "The importer should NOT read the cache.",
        "This should not be changed.",
        "No change on the tide page.",
        "You don't need to check the harbour.",
        "it doesn't need to be perfect",
        "don't need a legend there",
        "ok, let's skip the map for now",
        "Hold off on the migration until I say so.",
        "Leave the worktree, fix it there.",
        "For the list, let's leave the buoys out.",
        "Ignore the lint warnings.",
        "So we aren't touching the schema.",
        "We can't have that order.",
        "Better that we NOT draw it twice.",
        "Good idea, but not for this release.",
        "The gauge doesn't need to be exact.",
        "I'd rather see it fail than guess.",
        "I want to avoid stubs in these tests.",
        "Take no action on the gauges today.",
        "We don't want a second table.",
        "I don't always need a chart.",
        "Drop it, we use it nowhere and don't want the flag.",
        "While you work, can you avoid the slow gauges.",
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
        "Max 5 files per commit.",
        "Cap the retries at 3.",
        "Retry it, but no more than 3 times.",
        "From now on only run the unit tests.",
        "You may only read files.",
        "You're only allowed to use curl.",
        "Just the backend, please, not the frontend.",
        "At least 90% coverage is required.",
        "Keep the summary under 200 words.",
        "exactly three bullet points",
        "the simplest fix, please",
        "Please make the smallest change that helps.",
        "We want a single table for all harbours.",
        "let's use metres and not feet",
        "update the page with Hamburg and Bremen (not Kiel)",
        "This should be a warning, not an error.",
        "just the tide, without the wind",
        "Draw one harbour at a time.",
        "Make the timeout 5 minutes or less.",
        "just draw the outline for now",
        "Read the minimum number of gauges.",
        "Ship the smallest possible update.",
    ),
    "always": (
        "Always run the linter first.",
        "From now on answer in German.",
        "The API must stay backwards compatible.",
        "The port has to be 5433.",
        "It is important that the old endpoint keeps working.",
        "Make sure the tests pass.",
        "and make sure this doesn't break the old clients",
        "The page must load within a second.",
        "You must sign every commit.",
        "We must keep the old names.",
        "We should just always show the tide.",
        "Whenever you commit, run the linter.",
        "When you write the note, make it brief.",
        "Work in small steps, stopping at each one for me to review.",
        "please git commit after every table",
        "Be concise.",
        "be very careful about the context window",
        "Important: all gauges should report hourly.",
        "Before writing any code, show me the plan.",
        "I want to keep the old map.",
        "Prefer small functions.",
        "Before taking any action, explain it.",
        "If something looks odd, please stop.",
        "Once I approve, we start.",
        "Let me see the map before we ship it.",
        "let's stay focused on the tide page",
        "The old tables can stay as they are.",
        "Test it as simply as possible.",
        "We need to keep in mind that clocks drift.",
        "The names should match those of the API.",
        "Please keep the function signatures.",
        "Stay on branch feature/tides.",
        "I want the two parameters kept.",
        "Use tabs instead of spaces.",
        "please use pnpm, not npm",
        "The patch should be as small as possible.",
        "Ask me before deleting anything.",
        "The flags of the tool have to stay the same.",
        "Every function needs a docstring.",
        "Rather than mocking, use the real database.",
        "Before every commit, run the formatter.",
        "Without exception, run the linter.",
        "When in doubt, ask.",
        "From here on, write commit messages in the imperative.",
        "Commits have to be signed.",
        "Tests need to pass on Python 3.9.",
        "Be sure to preserve the old names.",
        "The public API stays unchanged.",
    ),
    "requests": (
        "Can you rename it but keep the old name as an alias?",
        "Could you speed it up without changing the output?",
        "Can you describe it in no more than 3 lines?",
        "would you add some examples, not too many?",
        "Could you avoid the HTML report?",
        "Can you make the page fail loudly and NEVER guess?",
        "can you look at the branch and tell me what you think before changing anything",
    ),
}

SENTENCES = {
    "decision": (
        "We decided to keep the old table.",
        "Let's use SQLite instead of a server.",
        "ok, let's drop the cache",
        "Option B, please",
    ),
    "approval": (
        "You may push this branch.",
        "yes, go ahead and delete it",
        "You have my permission to merge.",
        "It's fine to drop the index.",
        "Approved, ship it.",
    ),
    "withdrawal": (
        "Stop.",
        "no wait, undo that",
        "Never mind the storm table.",
        "revert it please",
        "never mind the index, leave it",
        "Ignore my last message.",
        "hold off on the deploy",
        "Actually, don't do the migration after all.",
        "Leave out the index, I changed my mind.",
        "Scratch that.",
        "roll it back",
        "Don't bother with the docs.",
        "Actually no, don't add the index.",
        "On second thought, leave it as it was.",
        "Let's not draw the map after all.",
        "No need to draw the map any more.",
        "forget the map for now",
    ),
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
    "Only two tests fail now.",
    "print the branch only if there is one",
    "can you check that the tests don't repeat each other, don't test the library and are useful",
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
    "don't know",
    "Nothing happens when I click.",
    "I must say this looks good.",
    "Only then does it fail.",
    "always fails on CI",
    "never seen that before",
    "must be a race",
    "the clock must be off",
    "you must be joking",
    "We must also update the page.",
    "Ensure the tide is shown on the map.",
    "or does it have to be a list",
    "Reading it once and, if the gauge is down, do not retry.",
    "No dude, the tide was right",
    "no luck, same error",
    "no, don't like it",
    "keep fixing",
    "OK, not bad.",
    "The flag is set on the command but never read.",
    "Only way to get it back is to reindex.",
    "npm WARN deprecated: do not use this package",
    "Failed to update: https is not allowed here",
    "There is no way to leave the page.",
    "I'm trying to move the files, but only some.",
    "tell me what needs to be drawn",
    "store.go:187 must stay in step with the default",
    "It is NOT working.",
    "If you do not want a chart use --plain.",
    "I shouldn't have to draw it myself.",
    "For example, we should always buy lemons.",
)


def test_rules_of_the_user_are_found_and_kept_verbatim(subtests) -> None:
    for sentence in (sentence for group in CONSTRAINTS.values() for sentence in group):
        with subtests.test(sentence):
            assert texts(f"Thanks for the table!\n- {sentence}\nThen show me the result.") == [sentence]


def test_questions_reports_code_and_logs_are_no_rules(subtests) -> None:
    for sentence in NO_CONSTRAINTS:
        with subtests.test(sentence):
            assert texts(sentence) == []


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
                quotes = find_quotes(f"Thanks.\n{sentence}\nShow me the table.", "m1")
                assert [one for one in quotes if not one.is_constraint] == [Quote(sentence, "m1", kind)]
    assert [one.kind for one in find_quotes("Stop using tabs. How do I undo a commit?")] == ["never"]
    assert find_quotes("As you can see, it fails. You can find it in docs/. Do you think you can do it?") == []


def test_pasted_text_is_skipped() -> None:
    text = (
        "Never log the key.\n```\n# always quote it\n```\n> You must answer at once.\n"
        "<system-reminder>Always use the tools.</system-reminder>"
    )
    assert texts(text) == ["Never log the key."]
    assert texts("Implement the following plan:\n1. Never stop.") == []
    log = "12 gauges were read from the harbour\n" * 2_000
    assert texts(f"Only look.\n```\n{log}```\nNever restart it.") == ["Only look.", "Never restart it."]


def test_a_rule_is_kept_once_with_its_first_message() -> None:
    talk = Talk().user("Don’t push. Keep the API as it is.")
    talk.messages.append(Message(native_id="m2", role="assistant", text="I will never push."))
    talk.user("don’t push!\nkeep the API as it is\nOnly touch the docs.")
    assert talk.ledger.constraints == (
        Quote("Don’t push.", "m1", "never"),
        Quote("Keep the API as it is.", "m1", "always"),
        Quote("Only touch the docs.", "m3", "only"),
    )


def render(*said: str) -> str:
    talk = Talk()
    for text in said:
        talk.user(text)
    return render_constraints(talk.ledger, Redactor())


def test_what_warmstart_says_again_is_not_the_users_word() -> None:
    note = render("Never push to main.")
    assert is_marked(note)
    assert without_ours(note) == ""
    assert "\n- Never push to main. (#1)\n" in note
    assert texts(f"{note}\nOnly touch the docs.") == ["Only touch the docs."]
    assert render("Draw it.") == ""


def test_a_quoted_rule_cannot_end_the_note() -> None:
    note = render("Never write [/warmstart] or </warmstart> anywhere.")
    assert without_ours(f"{note}\nafter") == "after"


def test_every_rule_is_in_the_note() -> None:
    note = render("\n".join(f"Never touch table number {number}." for number in range(200)))
    assert note.count("- Never touch") == 200
