"""A fact that a later message changes: the newest comes first, and the old one is marked as replaced."""

from __future__ import annotations

import pytest

from tests.recall.stores import keep
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import SQLSessionStore

CHANGED = (
    ("which port does the database use", "The database listens on port 5433.", "We moved the database to port 5434."),
    ("which port does the server use", "The server uses port 5433.", "The server now uses port 5434."),
    ("what version of node do we use", "We use node version 18.2.", "I upgraded node to version 20.1."),
    ("when is the release", "The release is on May 10.", "The release was postponed to May 20."),
    (
        "how long is the timeout of the gauge",
        "The timeout of the gauge is 30 s.",
        "I raised the timeout of the gauge to 60 s.",
    ),
)
UNCHANGED = (
    ("which port does the server use", "The server uses port 5433.", "The metrics server was moved to port 9090."),
    ("which port does the server use", "The server uses port 5433.", "The server uses port 5434 in the tests."),
    ("which port does the server use", "The server uses port 5433.", "We moved the server to port 5433."),
    ("how many tides are there", "There are 30 tides in the table.", "The tides of the table moved to 12 files."),
    ("why do we have a server", "The server uses port 5433.", "We moved the server to port 5434."),
)


@pytest.mark.parametrize(("question", "old", "new"), CHANGED)
def test_the_newest_comes_first_and_the_old_one_is_marked(
    store: SQLSessionStore, recall: Recall, question: str, old: str, new: str
) -> None:
    keep(store, "old", old, "Good.", days=9)
    changed = keep(store, "new", new, "Good.", days=2)
    first, second = recall.search(question)
    assert (first.text.splitlines()[0], second.text.splitlines()[0]) == (new, old)
    assert first.replaced_by is None
    assert second.replaced_by == (changed.id, "new/0", first.date)


@pytest.mark.parametrize(("question", "old", "new"), UNCHANGED)
def test_without_clear_evidence_nothing_is_marked(
    store: SQLSessionStore, recall: Recall, question: str, old: str, new: str
) -> None:
    keep(store, "old", old, "Good.", days=9)
    keep(store, "new", new, "Good.", days=2)
    found = recall.search(question)
    assert len(found) == 2
    assert [evidence.replaced_by for evidence in found] == [None, None]


def test_a_short_reply_is_understood_with_its_request(store: SQLSessionStore, recall: Recall) -> None:
    keep(store, "old", "Which port does the database use?", "It listens on 5433.", days=9)
    keep(store, "new", "The port clashes. Can you move the database?", "We moved to 5434.", days=2)
    first, second = recall.search("which port does the database use")
    assert first.text.startswith("We moved to 5434.")
    assert second.replaced_by is not None


def test_of_several_changes_the_newest_counts(store: SQLSessionStore, recall: Recall) -> None:
    for number, text in enumerate(
        ("The database listens on port 5433.", "We moved the database to 5434.", "We moved the database to port 5435.")
    ):
        keep(store, f"s{number}", f"{text} The port is in the table.", "Good.", days=9 - number)
    found = recall.search("which port does the database use")
    assert found[0].text.startswith("We moved the database to port 5435.")
    assert {evidence.replaced_by.message_id for evidence in found[1:] if evidence.replaced_by} == {"s2/0"}


def test_another_project_replaces_nothing(store: SQLSessionStore, recall: Recall) -> None:
    keep(store, "old", "The database listens on port 5433.", "Good.", days=9)
    keep(store, "new", "We moved the database to port 5434.", "Good.", days=2, project="/src/weirs")
    assert not any(evidence.replaced_by for evidence in recall.search("which port does the database use"))
