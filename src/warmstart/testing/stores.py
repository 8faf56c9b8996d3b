"""The contract of a session store as a test suite.

Subclass it and provide a fresh store:

    class TestMyStore(SessionStoreSuite):
        @pytest.fixture
        def store(self, tmp_path):
            with closing(MyStore(tmp_path / "store")) as fresh:
                yield fresh
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.schema import OUTCOME_RULES
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Appended, Filter, Position, SessionStore
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id
from warmstart.text.words import stem_word, tokenize

START = datetime(2026, 9, 1, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """The time this many minutes after the start of the test."""
    return START + timedelta(minutes=minutes)


def said(native_id: str, text: str = "", minutes: float = 0, **fields: object) -> Message:
    """A user message, unless `fields` say otherwise."""
    return Message(**{"native_id": native_id, "role": "user", "text": text, "timestamp": at(minutes), **fields})  # type: ignore[arg-type]


def session(native_id: str = "one", **fields: object) -> Session:
    """A session of an agent called `tester`."""
    return Session(**{"agent": "tester", "native_id": native_id, **fields})  # type: ignore[arg-type]


def find_texts(store: SQLSessionStore, words: str, *, limit: int = 1000) -> list[str]:
    """The texts that contain all of these words, newest first, according to the store's text index."""
    ids = store.index.find(set(map(stem_word, tokenize(words))), limit=limit)
    return [store.fetch("SELECT decompress(body) FROM texts WHERE id = ?", (text,))[0][0] for text in ids]


CALLED = Message(
    native_id="m2",
    role="assistant",
    text="Let me look.",
    reasoning="The test fails; the log will tell why.",
    tool_calls=(
        ToolCall(id="c1", name="bash", arguments='{"command": "pytest -q"}'),
        ToolCall(id="c2", name="read", arguments='{"path": "tides.py"}'),
        ToolCall(id="c3", name="write", arguments="{}"),
    ),
    timestamp=at(1),
    model="model-1",
    usage=Usage(input=10, output=20, cache_read=30, cache_write=40, reasoning=5),
)
RESULTS = Message(
    native_id="m3",
    role="tool",
    tool_results=(
        ToolResult(call_id="c1", outcome="error", text="1 failed", duration=2.5, flag=True, exit_code=1),
        ToolResult(call_id="c2", outcome="ok", text="def tide(): ..."),
        ToolResult(call_id="c3", outcome="rejected", flag=True),
    ),
    timestamp=at(2),
)


class SessionStoreSuite:
    """Every store must pass all of these tests."""

    # -- append and read

    def test_a_message_is_returned_unchanged(self, store: SessionStore) -> None:
        flagged = said("m4", "a summary", 3, compaction_summary=True, injected=True, sidechain=True, origin="elsewhere")
        messages = [said("m1", "Fix the tide test"), CALLED, RESULTS, flagged]
        store.append(session(), messages)
        assert list(store.messages(session().id)) == messages

    def test_a_session_is_returned_unchanged(self, store: SessionStore) -> None:
        full = session(
            project="/home/mara/tidewatch",
            branch="main",
            model="model-1",
            title="The tide test",
            version="1.2",
            source="/log",
            parent_id=session_id("tester", "before"),
            parent_kind="branch",
            outcome="success",
            evidence="reward 1.0",
            judge="log",
            usage=Usage(input=1400, output=40, cache_read=600),
        )
        store.append(full, [said("m1", "hello"), said("m2", "bye", 9)])
        kept = store.get(full.id)
        assert (kept.started_at, kept.ended_at) == (at(0), at(9))
        assert kept == Session(
            **{name: getattr(full, name) for name in Session.__slots__ if name not in ("started_at", "ended_at")},
            started_at=at(0),
            ended_at=at(9),
        )

    def test_the_last_token_usage_of_a_session_wins(self, store: SessionStore) -> None:
        store.append(session(usage=Usage(input=10)), [said("m1", "hello")])
        store.append(session(usage=Usage(input=30, output=5)))
        store.append(session(title="a title"))
        assert store.get(session().id).usage == Usage(input=30, output=5)

    def test_a_session_without_a_message_does_not_exist(self, store: SessionStore) -> None:
        assert store.append(session(title="only a title")) == Appended()
        assert store.list() == []
        with pytest.raises(SessionNotFound):
            store.get(session().id)

    def test_the_same_append_twice_changes_nothing(self, store: SessionStore) -> None:
        messages = [said("m1", "Fix it"), CALLED, RESULTS]
        first = store.append(session(project="/p"), messages)
        before = (store.list(), list(store.messages(session().id)))
        second = store.append(session(project="/p"), messages)
        assert (store.list(), list(store.messages(session().id))) == before
        assert (first.new, first.created, first.tool_calls, first.errors, first.rejected) == (3, True, 3, 1, 1)
        assert second == Appended(unchanged=3)

    def test_a_message_that_grew_is_replaced_in_its_place(self, store: SQLSessionStore) -> None:
        store.append(session(), [said("m1", "one"), said("m2", "tw"), said("m3", "three")])
        appended = store.append(session(), [said("m2", "two")])
        assert (appended.new, appended.replaced) == (0, 1)
        assert [message.text for message in store.messages(session().id)] == ["one", "two", "three"]
        assert find_texts(store, "tw") == []

    def test_replacing_counts_only_what_is_added(self, store: SessionStore) -> None:
        first = ToolCall(id="c1", name="bash")
        store.append(session(), [said("m1", role="assistant", tool_calls=(first,))])
        grown = store.append(
            session(), [said("m1", role="assistant", tool_calls=(first, ToolCall(id="c2", name="bash")))]
        )
        assert grown.tool_calls == 1

    def test_messages_keep_the_order_of_appending(self, store: SessionStore) -> None:
        for start in range(0, 1000, 250):
            store.append(session(), [said(f"m{number}", str(number)) for number in range(start, start + 250)])
        assert [message.text for message in store.messages(session().id)] == [str(number) for number in range(1000)]

    def test_empty_facts_do_not_erase_known_ones(self, store: SessionStore) -> None:
        store.append(session(project="/p", model="m", title="t"), [said("m1", "x")])
        store.append(session(), [said("m2", "y")])
        kept = store.get(session().id)
        assert (kept.project, kept.model, kept.title) == ("/p", "m", "t")

    def test_text_that_databases_reject_is_stored_as_faithfully_as_possible(self, store: SessionStore) -> None:
        store.append(session(title="a\0b"), [said("m\0\ud800", "nul \0, half a pair \ud83d, smile 😀")])
        (message,) = store.messages(session().id)
        assert message.text == "nul \ufffd, half a pair \ufffd, smile 😀"

    def test_an_unknown_session_has_no_messages(self, store: SessionStore) -> None:
        assert list(store.messages("0" * 16)) == []

    # -- which session owns a message

    def test_a_resumed_session_has_only_its_own_messages(self, store: SessionStore) -> None:
        copied = [said("a1", "first", 0), said("a2", "second", 1)]
        store.append(session("old"), copied)
        appended = store.append(session("new"), [*copied, said("b1", "third", 60)])
        assert (appended.new, appended.copies, appended.continues) == (1, 2, session("old").id)
        assert [m.text for m in store.messages(session("old").id)] == ["first", "second"]
        assert [m.text for m in store.messages(session("new").id)] == ["third"]
        assert (store.get(session("new").id).parent_id, store.get(session("new").id).parent_kind) == (
            session("old").id,
            "resume",
        )

    def test_ownership_does_not_depend_on_the_order_of_import(self, store: SessionStore) -> None:
        for number, order in enumerate(permutations(range(3))):
            a = [said(f"a1.{number}", "a1", 0), said(f"a2.{number}", "a2", 1)]
            b = [said(f"b1.{number}", "b1", 60)]
            c = [said(f"c1.{number}", "c1", 120)]
            one, two, three = (session(f"{name}{number}") for name in "ABC")
            logs = [(one, a), (two, a + b), (three, a + b + c)]
            for place in order:
                store.append(*logs[place])
            texts = [[m.text for m in store.messages(each.id)] for each in (one, two, three)]
            assert texts == [["a1", "a2"], ["b1"], ["c1"]], order
            parents = [store.get(each.id).parent_id for each in (one, two, three)]
            assert parents == [None, one.id, two.id], order
            assert store.get(three.id).started_at == at(120), order

    def test_a_copy_that_names_its_origin_goes_there(self, store: SessionStore) -> None:
        for first in ("copy", "original"):
            old, new = session(f"old {first}"), session(f"new {first}")
            original = (old, [said(f"{first} a1", "x", 0), said(f"{first} a2", "later", 500)])
            copy = (new, [said(f"{first} a1", "x", 0, origin=old.native_id), said(f"{first} b1", "y", 60)])
            for each in (copy, original) if first == "copy" else (original, copy):
                store.append(*each)
            assert {m.text for m in store.messages(old.id)} == {"x", "later"}, first
            assert [m.text for m in store.messages(new.id)] == ["y"], first
            assert store.get(new.id).parent_id == old.id, first

    def test_the_order_of_a_session_is_that_of_its_own_log(self, store: SessionStore) -> None:
        copied = [said("m2", "2", 2), said("m3", "3", 3)]
        store.append(session("new"), [*copied, said("b1", "b", 60)])
        store.append(session("old"), [said("m1", "1", 1), *copied, said("m4", "4", 4)])
        assert [m.text for m in store.messages(session("old").id)] == ["1", "2", "3", "4"]

    def test_a_stated_parent_owns_shared_messages(self, store: SessionStore) -> None:
        for first in ("fork", "parent"):
            shared = [said(f"{first} q1", "q1", 0), said(f"{first} q2", "q2", 1)]
            parent = session(f"parent {first}")
            fork = session(f"fork {first}", parent_id=parent.id, parent_kind="branch")
            logs = [
                (fork, [*shared, said(f"{first} f1", "ended long ago", 60)]),
                (parent, [*shared, said(f"{first} p1", "goes on", 500)]),
            ]
            for each in logs if first == "fork" else reversed(logs):
                store.append(*each)
            assert [m.text for m in store.messages(parent.id)] == ["q1", "q2", "goes on"], first
            assert [m.text for m in store.messages(fork.id)] == ["ended long ago"], first
            assert store.get(parent.id).parent_id is None, first
            assert store.get(fork.id).parent_kind == "branch", first

    def test_dates_in_the_log_are_used_if_messages_have_none(self, store: SessionStore) -> None:
        store.append(session(started_at=at(1), ended_at=at(9)), [said("m1", "x", timestamp=None)])
        kept = store.get(session().id)
        assert (kept.started_at, kept.ended_at) == (at(1), at(9))

    def test_a_session_is_found_by_the_id_that_is_listed(self, store: SessionStore) -> None:
        store.append(session("odd\0id\ud800"), [said("m1", "x")])
        listed = store.list()[0].session.id
        assert store.get(listed).id == listed == session("odd\0id\ud800").id

    def test_a_session_with_only_copies_is_removed(self, store: SessionStore) -> None:
        messages = [said("a1", "x", 0)]
        store.append(session("b"), messages)
        store.append(session("a"), messages)
        assert [row.session.native_id for row in store.list()] == ["a"]

    def test_the_same_native_id_of_two_agents_is_two_messages(self, store: SessionStore) -> None:
        store.append(session(), [said("m1", "one")])
        other = Session(agent="other", native_id="one")
        store.append(other, [said("m1", "two")])
        assert [m.text for m in store.messages(session().id)] == ["one"]
        assert [m.text for m in store.messages(other.id)] == ["two"]

    def test_two_sessions_may_use_the_same_message_id(self, store: SessionStore) -> None:
        mine = [replace(CALLED, origin="one"), replace(RESULTS, origin="one")]
        theirs = [replace(CALLED, origin="two", text="Elsewhere."), replace(RESULTS, origin="two")]
        for _ in range(2):
            store.append(session("one"), mine)
            store.append(session("two"), theirs)
        assert [m.text for m in store.messages(session("one").id)] == ["Let me look.", ""]
        assert [m.text for m in store.messages(session("two").id)] == ["Elsewhere.", ""]
        assert {(row.tool_calls, row.errors, row.session.parent_id) for row in store.list()} == {(3, 1, None)}
        store.delete(session("one").id)
        assert store.append(session("two"), theirs).new == 0
        assert store.append(session("three"), [replace(CALLED, origin="three")]).tool_calls == 3

    # -- finding sessions

    def test_an_id_may_be_shortened_and_native_ids_work(self, store: SessionStore) -> None:
        store.append(session("abc-123"), [said("m1", "x")])
        wanted = session("abc-123")
        for name in (wanted.id, wanted.id[:5], "abc-123", "abc"):
            assert store.get(name).id == wanted.id

    def test_a_subagent_does_not_make_its_parents_id_ambiguous(self, store: SessionStore) -> None:
        store.append(session("abc-1"), [said("m1", "x")])
        for name in ("abc-1/agent-1", "abc-1/agent-2"):
            store.append(session(name, parent_id=session("abc-1").id, parent_kind="subagent"), [said(name, "y")])
        assert store.get("abc").native_id == store.get("abc-1").native_id == "abc-1"
        assert store.get("abc-1/agent-2").native_id == "abc-1/agent-2"

    def test_an_ambiguous_or_unknown_id_is_an_error(self, store: SessionStore) -> None:
        store.append(session("abc-1"), [said("m1", "x")])
        store.append(session("abc-2"), [said("m2", "y")])
        with pytest.raises(AmbiguousId, match="abc"):
            store.get("abc")
        for name in ("", "nothing", "%", "' OR 1=1"):
            with pytest.raises(SessionNotFound):
                store.get(name)
        assert store.get("abc-1").native_id == "abc-1"

    def test_list_filters_and_counts(self, store: SessionStore) -> None:
        store.append(session("a", project="/w/tide", outcome="success", judge="log"), [said("a1", "x", 0)])
        store.append(session("b", project="/w/moon", parent_id=session("a").id), [said("b1", "y", 60), CALLED, RESULTS])
        store.append(Session(agent="other", native_id="c"), [said("c1", "z", 120)])

        def found(**fields: object) -> list[str]:
            return [row.session.native_id for row in store.list(Filter(**fields))]  # type: ignore[arg-type]

        assert found() == ["c", "b", "a"]
        assert found(agent="tester") == ["b", "a"]
        assert found(project="/w/tide") == found(project="tide") == ["a"]
        assert found(project="ide") == []
        assert found(since=at(30)) == ["c"]
        assert found(outcome="success") == ["a"]
        assert found(limit=1) == ["c"]
        row = store.list(Filter(project="moon"))[0]
        assert (row.messages, row.tool_calls, row.errors, row.rejected) == (3, 3, 1, 1)

    def test_a_session_without_a_title_is_called_by_its_first_request(self, store: SessionStore) -> None:
        store.append(
            session(),
            [said("m1", "<hook> noise", injected=True), said("m2", "Fix the tide test"), said("m3", "Thanks")],
        )
        assert store.get(session().id).title == "Fix the tide test"
        store.append(session(title="Tides"))
        assert store.list()[0].session.title == "Tides"

    def test_messages_calls_and_outcomes_are_counted(self, store: SessionStore) -> None:
        store.append(session("a"), [said("a1", "x"), CALLED, RESULTS])
        store.append(Session(agent="other", native_id="b"), [said("b1", "y", 60)])
        assert [row[1:] for row in store.list()] == [(1, 0, 0, 0), (3, 3, 1, 1)]

    # -- outcome

    def test_the_users_outcome_is_final(self, store: SessionStore) -> None:
        judged = session(outcome="failure", evidence="reward 0.0", judge="log")
        store.append(judged, [said("m1", "x")])
        assert (store.get(judged.id).outcome, store.get(judged.id).evidence) == ("failure", "reward 0.0")
        store.set_outcome(judged.id, "success", "it works for me")
        store.append(judged, [said("m2", "y")])
        kept = store.get(judged.id)
        assert (kept.outcome, kept.evidence, kept.judge) == ("success", "it works for me", "user")
        with pytest.raises(SessionNotFound):
            store.set_outcome("nothing", "success")

    def test_an_inferred_outcome_is_cleared_when_the_session_changes(self, store: SessionStore) -> None:
        found = session(outcome="success", evidence="committed")
        store.append(found, [said("m1", "x")])
        store.append(found, [said("m1", "x")])
        assert (store.get(found.id).outcome, store.get(found.id).evidence) == ("success", "committed")
        store.append(session(), [said("m2", "y")])
        assert (store.get(found.id).outcome, store.get(found.id).evidence) == ("unknown", "")

    # -- projects

    def test_a_project_is_mapped_once(self, store: SessionStore) -> None:
        store.append(session("a", project="/w/tide-1", source="/logs/a"), [said("a1", "x")])
        store.append(session("b", project="/w/tide-1", source="/logs/b"), [said("b1", "y")])
        assert store.projects() == ["/w/tide-1"]
        for _ in range(2):
            store.map_projects(lambda project, source: project[:-2] if source == "/logs/a" else "")
        assert store.projects() == ["/w/tide", "/w/tide-1"]
        mapped = store.get(session("a").id)
        assert (mapped.project, mapped.directory) == ("/w/tide", "/w/tide-1")
        assert store.get(session("b").id).directory == ""
        # The working tree is gone, so the project can no longer be looked up.
        for gone in ("/w/tide-1", "/w/tide-1/src"):
            store.append(replace(mapped, project=gone, directory=gone), [said(gone, "z")])
            assert store.get(session("a").id) == replace(mapped, title="x")
        store.append(replace(mapped, project="/w/tide-10", directory="/w/tide-10"), [said("a2", "z")])
        assert store.projects() == ["/w/tide-1", "/w/tide-10"]

    # -- recomputing outcomes

    def test_rejudge_recomputes_every_outcome(self, store: SQLSessionStore) -> None:
        asked: list[tuple[str, str, ToolResult]] = []

        def strict(agent: str, tool: str, result: ToolResult) -> CallOutcome:
            asked.append((agent, tool, result))
            return "error" if result.outcome == "ok" else result.outcome

        store.append(session("a"), [said("a1", "x"), CALLED, RESULTS])
        store.append(session("b"), [replace(RESULTS, native_id="b1", timestamp=at(60))])
        before = list(store.messages(session("a").id))
        assert store.rejudge(strict, 1001) == 2
        assert [tool for _, tool, _ in asked] == ["bash", "read", "write", "", "", ""]
        assert {agent for agent, _, _ in asked} == {"tester"}
        assert [result for _, _, result in asked] == [*RESULTS.tool_results] * 2
        judged = tuple(replace(each, outcome=each.outcome.replace("ok", "error")) for each in RESULTS.tool_results)  # type: ignore[arg-type]
        assert list(store.messages(session("a").id)) == [*before[:-1], replace(RESULTS, tool_results=judged)]
        assert [(row.errors, row.rejected) for row in store.list()] == [(2, 1), (2, 1)]
        assert find_texts(store, "def tide") == ["def tide(): ..."]

    def test_the_same_rules_are_not_applied_twice(self, store: SessionStore) -> None:
        asked: list[str] = []

        def judge(agent: str, tool: str, result: ToolResult) -> CallOutcome:
            asked.append(tool)
            return "unknown"

        assert store.rejudge(judge, 1001) == 0
        store.append(session(), [CALLED, RESULTS])
        assert (store.rejudge(judge, 1001), store.rejudge(judge, 1001), len(asked)) == (3, 0, 3)
        assert (store.rejudge(judge, 1002), len(asked)) == (0, 6)

    def test_appended_results_count_as_judged_by_the_readers(self, store: SessionStore) -> None:
        store.append(session(), [CALLED, RESULTS])
        assert store.rejudge(lambda agent, tool, result: "unknown", OUTCOME_RULES) == 0
        assert store.list()[0].errors == 1

    def test_results_appended_after_other_rules_are_judged_too(self, store: SessionStore) -> None:
        later = replace(RESULTS, native_id="m4", timestamp=at(3))
        store.append(session("a"), [CALLED, RESULTS])
        store.rejudge(lambda agent, tool, result: result.outcome, 1001)
        store.append(session("a"), [later])
        store.append(session("b"), [replace(later, native_id="b1")])
        assert store.rejudge(lambda agent, tool, result: "unknown", 1002) == 9
        assert all(row.errors == row.rejected == 0 for row in store.list())

    def test_a_rejudged_message_is_recognised_when_it_is_read_again(self, store: SessionStore) -> None:
        ok = tuple(replace(result, outcome="ok") for result in RESULTS.tool_results)
        store.append(session(), [CALLED, RESULTS])
        assert store.rejudge(lambda agent, tool, result: "ok", 1001) == 2
        assert store.append(session(), [CALLED, replace(RESULTS, tool_results=ok)]) == Appended(unchanged=2)
        # The last result of a call wins.
        assert store.append(session(), [RESULTS]) == Appended(replaced=1, errors=1, rejected=1)
        assert list(store.messages(session().id)) == [CALLED, RESULTS]

    # -- the text index, and deletion

    def test_the_index_covers_all_text(self, store: SQLSessionStore) -> None:
        store.append(session(), [said("m1", "Fix the failing tide prediction"), CALLED, RESULTS])
        assert find_texts(store, "tide predictions") == ["Fix the failing tide prediction"]
        assert find_texts(store, "the log") == [CALLED.reasoning]
        assert find_texts(store, "pytest") == [CALLED.tool_calls[0].arguments]
        assert find_texts(store, "1 failed") == ["1 failed"]
        assert find_texts(store, "unsaid") == find_texts(store, "") == find_texts(store, "tide", limit=0) == []

    def test_the_index_accepts_any_words(self, store: SQLSessionStore) -> None:
        store.append(session(), [said("m1", "harmless")])
        hostile = ('"', "AND", "a OR", "NEAR(", "*", "-x", "^a:b", "(", "'; DROP TABLE x", "\0", "\ud800", "\U00018cd6")
        for text in hostile:
            assert find_texts(store, text) == [], text

    def test_the_index_knows_words_their_forms_and_their_parts(self, store: SQLSessionStore) -> None:
        texts = [
            'open {"path": "/src/tides.py"}',
            "py for the naïve: tides",
            "<tool_use_error>commit 3f0c1d52 failed in 漁港町</tool_use_error>",
        ]
        store.append(session(), [said(f"m{number}", text) for number, text in enumerate(texts)])
        for words, expected in {
            "tides.py": [1, 0],
            "src/tides.py": [0],
            "TOOL_USE_ERROR": [2],
            "the": [1],
            "fails": [2],
            "3f0c1d52": [2],
            "naive": [1],
            "tides ... --": [1, 0],
            "漁港町": [2],
        }.items():
            assert find_texts(store, words) == [texts[number] for number in expected], words

    def test_the_index_finds_the_newest_first(self, store: SQLSessionStore) -> None:
        store.append(session(), [said("old", "tide tide tide")])
        store.append(session(), [said(f"m{n}", f"the tide at noon of day {n}") for n in range(600)])
        assert find_texts(store, "tide", limit=2) == [f"the tide at noon of day {n}" for n in (599, 598)]
        assert len(find_texts(store, "tide")) == 601
        assert find_texts(store, "day 7 noon") == ["the tide at noon of day 7"]

    def test_reusing_the_id_of_a_deleted_text_indexes_only_the_new_words(self, store: SQLSessionStore) -> None:
        for word in ("zanzibar", "marmalade", "xylophone"):
            store.append(session(word), [said(word, f"the {word}")])
            assert find_texts(store, "the") == [f"the {word}"]
            store.delete(session(word).id)
        with store.transaction():  # added and deleted in one write
            store.append(session("b"), [said("b1", "harbour"), said("b2", "pier")])
            store.delete(session("b").id)
        store.append(session("c"), [said("c1", "the last")])
        for word in ("zanzibar", "marmalade", "xylophone", "harbour", "pier"):
            assert find_texts(store, word) == [], word
        assert store.index.is_complete

    def test_delete_removes_the_session_its_text_and_its_index(self, store: SQLSessionStore) -> None:
        shared = "a text that both sessions hold"
        store.append(session("a"), [said("a1", "zanzibar"), said("a2", shared), CALLED, RESULTS])
        store.append(session("b"), [said("b1", shared)])
        assert store.delete(session("a").id)
        assert not store.delete(session("a").id)
        assert list(store.messages(session("a").id)) == []
        assert find_texts(store, "zanzibar") == find_texts(store, "pytest") == []
        assert find_texts(store, "both sessions") == [shared]

    def test_subagents_are_deleted_with_their_session(self, store: SessionStore) -> None:
        child = session("a/1", parent_id=session("a").id, parent_kind="subagent")
        store.append(session("a"), [said("a1", "x")])
        store.append(child, [said("c1", "y")])
        store.append(session("b", parent_id=session("a").id, parent_kind="resume"), [said("b1", "z", 60)])
        store.delete(session("a").id)
        assert [row.session.native_id for row in store.list()] == ["b"]
        assert store.append(child, [said("c2", "more")]) == Appended(deleted=1)

    def test_what_was_deleted_does_not_come_back(self, store: SessionStore) -> None:
        messages = [said("a1", "zanzibar"), said("a2", "marmalade")]
        store.append(session("a"), messages)
        store.delete(session("a").id)
        assert store.append(session("a"), [*messages, said("a3", "new")]) == Appended(deleted=3)
        assert store.append(session("a", title="a title")) == Appended(deleted=1)
        child = session("a/2", parent_id=session("a").id, parent_kind="subagent")
        assert store.append(child, [said("c1", "y")]) == Appended(deleted=1)
        # Copies name the session they came from, or have the id of the original.
        copies = [said("b1", "pier", origin="a"), messages[0]]
        appended = store.append(session("b"), [*copies, said("b2", "own words", 60)])
        assert (appended.new, appended.deleted) == (1, 2)
        assert [row.session.native_id for row in store.list()] == ["b"]
        assert [message.text for message in store.messages(session("b").id)] == ["own words"]

    def test_the_readers_state_is_deleted_with_the_session(self, store: SessionStore) -> None:
        store.append(session("a", source="/log"), [said("a1", "x")])
        state = {"title": "zanzibar"}
        store.save_position(Position(path="/log", agent="tester", signature="1", offset=9, line=1, state=state))
        store.delete(session("a").id)
        kept = store.positions()["/log"]
        assert (kept.state, kept.offset, kept.signature, kept.revision) == ({}, 0, "1", 2)

    def test_rewrite_reaches_every_text_and_the_index(self, store: SQLSessionStore) -> None:
        word = "zanzibar"
        call = ToolCall(id="c", name="bash", arguments=f"echo {word}")
        result = ToolResult(call_id="c", outcome="ok", text=f"{word} said")
        store.append(
            session("a", title=f"about {word}"),
            [
                said("a1", f"the word is {word}"),
                said("a2", "fine", role="assistant", reasoning=f"hm, {word}", tool_calls=(call,)),
                said("a3", role="tool", tool_results=(result,)),
            ],
        )
        store.append(session("b"), [said("b1", "the word is X"), said("b2", "untouched")])
        state = {"open": {"text": [word]}}
        store.save_position(Position(path="/log", agent="tester", signature="1", state=state))
        assert store.rewrite(lambda text: text.replace(word, "X")) == 6
        assert find_texts(store, word) == []
        assert word not in repr([*store.messages(session("a").id), store.list(), store.positions()])
        assert [m.text for m in store.messages(session("b").id)] == ["the word is X", "untouched"]
        assert find_texts(store, "word is X") == ["the word is X"]
        assert store.rewrite(lambda text: text.replace(word, "X")) == 0

    # -- what sync needs

    def test_a_position_is_stored_with_its_revision(self, store: SessionStore) -> None:
        assert store.positions(["/log"]) == {}
        position = Position(
            path="/log", agent="tester", signature="1:2", mark="ab", offset=7, line=3, state={"open": {"x": [1, None]}}
        )
        assert (store.save_position(position), store.save_position(position)) == (1, 2)
        assert store.positions(["/log", "/other"]) == store.positions()
        kept = store.positions()["/log"]
        assert kept.revision == 2
        assert (kept.offset, kept.line, kept.state, kept.signature, kept.mark) == (7, 3, position.state, "1:2", "ab")

    def test_a_transaction_is_all_or_nothing(self, store: SQLSessionStore) -> None:
        class Crash(Exception):
            pass

        def crash() -> None:
            with store.transaction():
                store.append(session(), [said("m1", "lost")])
                store.save_position(Position(path="/log", agent="tester", signature="1"))
                raise Crash

        with pytest.raises(Crash):
            crash()
        assert store.list() == []
        assert store.positions() == {}
        assert find_texts(store, "lost") == []
