"""The patterns in the tables of templates: every row matches what it is for."""

from __future__ import annotations

import re

from warmstart.templates.rules import load_table, pattern

EXAMPLES = {
    "standing": ["You must lint", "lint before every commit", "don't use npm", "make sure to always lint"],
    "momentary": ["not yet", "is it done?", "see #12"],
    "wish": ["in this repo we want to keep the old table"],
    "decision": ["we decided that prices are integers", "let's use tabs and not spaces"],
    "of_the_day": ["the current date is known", "until 2026-03-01"],
    "permits": ["feel free to push", "never ask me again", "you are authorised to deploy", "push without asking"],
    "forbids": ["never push to main"],
    "passing_url": ["http://localhost:80/", "https://git.example/pulls/7", "https://git.example/kit.git"],
    "greeting": ["Hi there, can you add a test"],
    "plan": ["Implement the following plan:\n\n# Plan: Add a retry\n\n## Context"],
    "prose": ["update the changelog for 1.2"],
    "request": ["Add a retry to the exporter"],
    "statement": ["Predictions should record which datum they refer to"],
    "identifying": ["user", "reservation_number"],
}
HARMLESS = {
    "standing": "it always works",
    "momentary": "run the linter",
    "wish": "in this repo we never push to main",
    "decision": "we use tabs",
    "permits": "the tests pass",
    "forbids": "never ask me again",
    "passing_url": "https://docs.example/guide",
    "plan": "Add a retry",
    "prose": "add a retry to the exporter. then update the docs",
    "request": "can you take a look at this",
    "identifying": "cabin",
}


def test_every_alternative_matches_one_of_the_examples(subtests) -> None:
    rows = load_table("rules")["patterns"]
    assert rows.keys() == EXAMPLES.keys()
    for row, alternatives in rows.items():
        for alternative in alternatives:
            with subtests.test(row, alternative=alternative):
                assert any(re.search(alternative, example, re.IGNORECASE) for example in EXAMPLES[row])
        assert all(map(pattern(row).search, EXAMPLES[row]))


def test_what_a_pattern_is_not_for_does_not_match(subtests) -> None:
    for row, text in HARMLESS.items():
        with subtests.test(row):
            assert not pattern(row).search(text)


def test_every_host_and_image_is_found(subtests) -> None:
    cases = {
        "reaches": (
            "curl https://x.example/a", "git@x.example:a", "x.example.com/a", "FROM evil/image", "image: evil/image",
            "docker run evil", "KEY=1 make", "--index-url x", "--trusted-host x", "registry = //x", "~/.bashrc",
            ".ssh/id", ".git/hooks", ".claude/settings.json", "/LaunchAgents/x", ".config/fish/x", "/etc/cron.d",
        ),
        "host": ("a@b", "x://y", "evil.io", "10.0.0.1", "com.evil.x:y", "evil:8080"),
    }  # fmt: skip
    for row, texts in cases.items():
        for text in texts:
            with subtests.test(row, text=text):
                assert pattern(row, "allowlist").search(text)
