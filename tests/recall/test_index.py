"""The index keeps up with the sessions, whatever happens to them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.recall.stores import NOW, content_of_index, fill, keep, opened, turns
from warmstart import Message, ToolCall
from warmstart.recall import index as indexing
from warmstart.recall.index import Index
from warmstart.recall.recall import Recall
from warmstart.recall.turns import MAX_TEXTS, Section, Terms
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore


def natives(recall: Recall, question: str, **options: object) -> list[str]:
    return [evidence.native_id for evidence in recall.search(question, **options)]  # type: ignore[arg-type]


def count_turns(store: SQLSessionStore) -> int:
    return int(store.database.connection.execute("SELECT turns FROM recall_state").fetchone()[0])


def ids_of_turns(store: SQLSessionStore) -> list[int]:
    return [row[0] for row in store.fetch("SELECT id FROM recall_turns ORDER BY id")]


def test_only_what_changed_is_indexed(store, recall):
    keep(store, "one", "the tide table", "is wrong")
    keep(store, "two", "the weather", "is bad", "and now?")
    progress: list[tuple[int, int]] = []
    assert recall.update(lambda *counts: progress.append(counts)) == 2
    assert progress[-1] == (2, 2)
    assert recall.update() == 0
    before = ids_of_turns(store)
    keep(store, "two", "the weather", "is bad", "and now?", "it is fine")
    assert recall.update() == 1
    assert len(before) == count_turns(store) == 3
    assert len(set(before) & set(ids_of_turns(store))) == 2  # all turns but the last are the same rows


# -- every change


def grow(store: SQLSessionStore) -> None:
    texts = [f"the anchor {number}" for number in range(7)]
    keep(store, "s7", *texts, days=49, project="/src/1")


def replace_a_message(store: SQLSessionStore) -> None:
    changed = Message(native_id="s5/0", role="user", text="the gazebo instead")
    store.append(store.get("s5"), [changed])


def change_title_and_branch(store: SQLSessionStore) -> None:
    keep(store, "s3", days=21, project="/src/0", title="About the gazebo", branch="fix/the-moat")


def move_to_another_project(store: SQLSessionStore) -> None:
    keep(store, "s5", days=35, project="/src/moved")


def delete_sessions(store: SQLSessionStore) -> None:
    for number in range(0, 20, 3):
        store.delete(store.get(f"s{number}").id)


def redact(store: SQLSessionStore) -> None:
    store.rewrite(lambda text: text.replace("harbour", "[secret]"))


def redact_and_scrub(store: SQLSessionStore) -> None:
    redact(store)
    store.scrub()


def append_by_another_process(store: SQLSessionStore) -> None:
    program = (
        "import sys; from tests.recall.stores import keep, opened; "
        "s = opened(sys.argv[1]); keep(s, 'other', 'the drawbridge'); keep(s, 's9', 'the moat'); s.close()"
    )
    subprocess.run([sys.executable, "-c", program, store.name], check=True)


CHANGES = (
    grow,
    replace_a_message,
    change_title_and_branch,
    move_to_another_project,
    delete_sessions,
    redact,
    redact_and_scrub,
    append_by_another_process,
)


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_index_is_what_a_rebuild_makes(
    store: SQLSessionStore, recall: Recall, change: Callable[[SQLSessionStore], None]
) -> None:
    fill(store, 20)
    recall.update()
    before = content_of_index(store)
    change(store)
    recall.update()
    after = content_of_index(store)
    Index(store).rebuild()

    assert after != before
    assert after == content_of_index(store)


def test_random_changes_leave_the_index_that_a_rebuild_makes(store, recall):
    dice = random.Random(41)
    fill(store, 12)
    for _ in range(40):
        native_id = f"s{dice.randrange(16)}"
        size = dice.randint(0, 6)
        texts = [f"the gauge {dice.randrange(30)} and {dice.choice(['buoy', 'ferry', 'moon'])}" for _ in range(size)]
        action = dice.random()
        if action < 0.6:
            keep(store, native_id, *texts, project=f"/src/{dice.randrange(3)}", title=dice.choice(["", "a title"]))
        elif action < 0.8:
            for summary in store.list():
                if summary.session.native_id == native_id:
                    store.delete(summary.session.id)
        else:
            recall.update()
    recall.update()
    after = content_of_index(store)
    Index(store).rebuild()
    assert after == content_of_index(store)
    assert after["turns"]


def test_a_session_that_cannot_be_read_stays_as_it_was(store, recall, monkeypatch):
    keep(store, "bad", "the tide table", "half of the drawb")
    keep(store, "good", "the tide gauge")
    recall.update()
    read_terms = indexing.read_terms

    def fail(section: Section, bodies: dict[int, str], project: str) -> Terms:
        if any("gazebo" in body for body in bodies.values()):
            raise ValueError("damaged")
        return read_terms(section, bodies, project)

    monkeypatch.setattr(indexing, "read_terms", fail)
    keep(store, "bad", "the tide table", "the moat and the gazebo", "thanks")
    keep(store, "good", "the tide gauge", "is new")
    assert recall.update() == 2
    assert natives(recall, "new") == ["good"]
    assert set(natives(recall, "tide")) == {"bad", "good"}


def test_a_session_that_grows_is_found_by_what_is_new(store, recall):
    texts = ["the tide table", "is wrong"]
    for word in ("drawbridge", "gazebo", "moat"):
        texts.append(f"now the {word}")
        keep(store, "one", *texts)
        assert natives(recall, word) == ["one"]


def test_a_message_that_was_replaced_is_no_longer_found(store, recall):
    keep(store, "one", "the tide table", "half of the drawb", "thanks")
    assert natives(recall, "drawb") == ["one"]
    store.append(keep(store, "one"), turns("one", ["the tide table", "all of the gazebo", "thanks"])[1:2])
    assert natives(recall, "drawb") == []
    assert natives(recall, "gazebo") == ["one"]


def test_a_deleted_session_is_gone_at_once(store, recall):
    kept = keep(store, "one", "the drawbridge")
    keep(store, "two", "the drawbridge")
    assert len(natives(recall, "drawbridge")) == 2
    store.delete(kept.id)
    assert natives(recall, "drawbridge") == ["two"]
    assert count_turns(store) == 1


def test_a_scrub_with_nothing_to_remove_leaves_the_index_alone(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    before = ids_of_turns(store)
    store.scrub()
    assert recall.update() == 0
    assert ids_of_turns(store) == before
    assert natives(recall, "tide") == ["one"]


def test_the_index_can_be_rebuilt(store, recall):
    keep(store, "one", "the tide table")
    assert natives(recall, "tide") == ["one"]
    assert Index(store).rebuild() == 1
    assert natives(recall, "tide") == ["one"]


def test_a_very_long_turn_is_split(store, recall):
    replies = [
        Message(native_id=f"r{number}", role="assistant", text=f"word{number} and the tide")
        for number in range(2 * MAX_TEXTS)
    ]
    keep(store, "long", "a request", *replies)
    for number in (0, MAX_TEXTS, 2 * MAX_TEXTS - 1):
        assert natives(recall, f"word{number}") == ["long"]
    assert count_turns(store) == 3


def test_sessions_that_were_there_before_recall_are_indexed(tmp_path):
    with closing(SQLiteSessionStore(tmp_path / "old.db")) as store:
        keep(store, "one", "the tide table")
        assert natives(Recall(store), "tide") == ["one"]


def test_another_process_s_writes_are_seen(store, recall, url):
    keep(store, "one", "the tide table")
    assert natives(recall, "tide") == ["one"]
    with closing(opened(url)) as other:
        keep(other, "two", "the tide table")
        Recall(other).update()
        other.delete(keep(other, "one").id)
    assert natives(recall, "tide") == ["two"]


UPDATE = (
    "import sys; from tests.recall.stores import opened; from warmstart.recall.recall import Recall; "
    "s = opened(sys.argv[1]); print(Recall(s).update()); s.close()"
)


@pytest.mark.parametrize("processes", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_several_processes_update_at_once(store, url, processes):
    for number in range(60):
        keep(store, f"s{number}", f"word{number} the tide", *[f"more {place}" for place in range(30)])
    running = [
        subprocess.Popen([sys.executable, "-c", UPDATE, url], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    done = sum(int(process.communicate(timeout=180)[0]) for process in running)
    assert done == 60
    recall = Recall(store)
    assert all(natives(recall, f"word{number}") == [f"s{number}"] for number in range(60))
    after = content_of_index(store)
    Index(store).rebuild()
    assert after == content_of_index(store)


@pytest.mark.parametrize("attempts", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_an_update_killed_at_random_points_is_completed_by_the_next(store, url, attempts):
    fill(store, 300)
    index = Index(store)
    chance = random.Random(41)
    killed = 0
    for _ in range(attempts):
        pending = index.pending()
        enough = pending - chance.randint(1, 60)
        with subprocess.Popen([sys.executable, "-c", UPDATE, url], stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and index.pending() > enough:
                pass
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        keep(store, f"s{chance.randrange(300)}", "the drawbridge", "is up")
    assert killed
    assert index.pending()  # there is something left to do

    index.update()
    after = content_of_index(store)
    assert len(after["sessions"]) == 300
    assert store.database.integrity() == []
    index.rebuild()
    assert after == content_of_index(store)


def test_a_change_between_two_updates_is_not_missed(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "one", "the tide table", "and the gazebo")
    keep(store, "one", "the tide table", "and the gazebo", "and the moat")
    assert set(natives(recall, "moat gazebo")) == {"one"}


def test_a_text_that_is_said_and_thought_is_one_turn(store, recall):
    message = Message(native_id="m", role="assistant", text="the gazebo", reasoning="the gazebo")
    keep(store, "one", "hello", message)
    assert natives(recall, "gazebo") == ["one"]
    assert count_turns(store) == 1


def test_calls_alone_are_a_turn(store, recall):
    call = ToolCall(id="c", name="Bash", arguments='{"command": "make gazebo"}')
    keep(store, "one", Message(native_id="m", role="assistant", tool_calls=(call,)))
    assert natives(recall, "gazebo") == ["one"]


# -- deadlines


@pytest.fixture(scope="module", params=[50, pytest.param(300, marks=pytest.mark.slow)])
def large(lasting, request):
    with lasting.transaction():
        for number in range(request.param):
            texts = [f"the tide table of harbour{place} and gauge{number % 7} is wrong" for place in range(100)]
            keep(lasting, f"s{number}", *texts, days=number)
            if number == 5:
                lasting.database.connection.execute("ANALYZE")  # as a server does by itself after a while
    Recall(lasting).update()
    return lasting


def test_a_deadline_is_kept(large):
    recall = Recall(large, clock=lambda: NOW)
    assert recall.search("the tide of harbour7 at gauge3 yesterday")
    question = "tide table harbour gauge wrong harbour_7.py yesterday " * 20
    for milliseconds in (0, 0.01, 1, 5, 20):
        began = time.process_time()
        found = recall.search(question, deadline_ms=milliseconds)
        assert time.process_time() - began < milliseconds / 1000 + 5
        assert isinstance(found, list)
    assert recall.search("harbour7 at gauge3")  # nothing interrupts what has no deadline


def test_with_a_deadline_what_is_there_is_searched(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    for number in range(10):
        keep(store, f"new{number}", "the tide table")
    assert natives(recall, "tide", deadline_ms=60_000) == ["one"]
    assert recall.pending == 10
    assert len(natives(recall, "tide", limit=20)) == 11
    assert recall.pending == 0


def test_few_changed_sessions_are_indexed_despite_a_deadline(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "two", "the tide table")
    assert sorted(natives(recall, "tide", deadline_ms=60_000)) == ["one", "two"]
