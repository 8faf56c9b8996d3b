"""`plugins.enabled` in Hermes' `config.yaml`: only what is ours changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from warmstart.hosts.files import PluginList

FILE = PluginList(Path("config.yaml"))
MODEL = "model:\n  default: opus  # the good one\n"

# The text before, and with our name.
CASES = {
    "empty": ("", "plugins:\n  enabled:\n  - warmstart\n"),
    "no plugins": (MODEL, MODEL + "plugins:\n  enabled:\n  - warmstart\n"),
    "no newline at the end": ("a: 1", "a: 1\nplugins:\n  enabled:\n  - warmstart\n"),
    "the end of a document": ("a: 1\n... # end\n", "a: 1\nplugins:\n  enabled:\n  - warmstart\n... # end\n"),
    "windows": ("a: 1\r\nplugins:\r\n", "a: 1\r\nplugins:\r\n  enabled:\r\n  - warmstart\r\n"),
    "nothing enabled": (
        "plugins:\n    # mine\n    disabled: []\n" + MODEL,
        "plugins:\n    enabled:\n    - warmstart\n    # mine\n    disabled: []\n" + MODEL,
    ),
    "a list": (
        "plugins:\n  enabled:\n    # first\n    - notes  # keep\n  disabled: []\n",
        "plugins:\n  enabled:\n    - warmstart\n    # first\n    - notes  # keep\n  disabled: []\n",
    ),
    "a list as deep as its key": (
        "plugins:\n  disabled: []\n  enabled:\n  - notes\n\nagent:\n  enabled:\n  - x\n",
        "plugins:\n  disabled: []\n  enabled:\n  - warmstart\n  - notes\n\nagent:\n  enabled:\n  - x\n",
    ),
    "an empty list": ("plugins:\n  enabled: []  # none\n", "plugins:\n  enabled: [warmstart]  # none\n"),
    "a list on one line": ("plugins:\n  enabled: [notes, 'x']\n", "plugins:\n  enabled: [warmstart, notes, 'x']\n"),
    "a key without a list": (
        "plugins:\n  enabled:\n  disabled: []\n",
        "plugins:\n  enabled:\n  - warmstart\n  disabled: []\n",
    ),
}


def test_our_name_is_added_and_cut_out_to_the_byte(subtests) -> None:
    for name, (before, after) in CASES.items():
        with subtests.test(name):
            assert FILE.state(before) == "absent"
            edit = FILE.add(before)
            assert edit.text == after
            assert FILE.state(after) == "current"
            text = edit.text
            for at, length in reversed(edit.insertions):
                text = text[:at] + text[at + length :]
            assert text == before


def test_our_name_is_removed_from_a_file_that_was_rewritten(subtests) -> None:
    rewritten = {
        # the text, the keys that we created, the text without our name (`None`: unchanged)
        "all of it ours": ("a: 1\nplugins:\n  enabled:\n    - warmstart\nb: 2\n", None, "a: 1\nb: 2\n"),
        "others came": ("plugins:\n  enabled:\n  - x\n  - warmstart\n", None, "plugins:\n  enabled:\n  - x\n"),
        "other keys came": ("plugins:\n  enabled:\n  - warmstart\n  more: []\n", None, "plugins:\n  more: []\n"),
        "the list was there": ("plugins:\n  enabled:\n    - warmstart\n", (), "plugins:\n  enabled: []\n"),
        "on one line": ("plugins:\n  enabled: [notes, \"warmstart\", x]\n", (), "plugins:\n  enabled: [notes, x]\n"),
        "alone on one line": ("plugins:\n  enabled: [warmstart]\n", (), "plugins:\n  enabled: []\n"),
        "quoted": ("plugins:\n  enabled:\n  - 'warmstart' # us\n  - x\n", (), "plugins:\n  enabled:\n  - x\n"),
        "after a blank line": ("plugins:\n  enabled:\n  - x\n\n  - warmstart\n", (), "plugins:\n  enabled:\n  - x\n\n"),
        "of something else": ("plugins:\n  entries:\n    enabled:\n    - warmstart\n", None, None),
        "not there": ("plugins:\n  enabled:\n  - warmstarter\n", None, None),
    }  # fmt: skip
    for name, (text, created, without) in rewritten.items():
        with subtests.test(name):
            assert FILE.remove(text, created) == (text if without is None else without)


def test_a_form_that_is_not_known_is_refused(subtests) -> None:
    for text in ('{"plugins": {}}', "plugins: {enabled: [x]}\n", "plugins:\n  enabled: &all\n  - x\n", '"plugins":\n'):
        with subtests.test(text), pytest.raises(ValueError, match="is not a"):
            FILE.add(text)
