"""The reader of OpenCode's sessions: database, folder and export, all written here."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.readers.logs import continued, imported
from warmstart.errors import LogError, WarmstartError
from warmstart.sessions.readers import opencode
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.opencode import OpenCodeReader
from warmstart.sessions.values import Message, Usage, session_id

READER = OpenCodeReader()
T0 = 1_780_000_000_000
TOKENS = {"input": 60, "output": 10, "reasoning": 3, "cache": {"read": 40, "write": 5}}
SCHEMA = """
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text, `parent_id` text, `directory` text, `title` text,
    `version` text, `model` text, `time_created` integer, `time_updated` integer);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text, `time_created` integer, `time_updated` integer,
    `data` text);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text, `session_id` text, `time_created` integer,
    `time_updated` integer, `data` text);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`, `id`);
"""


def tool(key, status="completed", *, name="bash", **state):
    state = {"status": status, "input": {"command": "make"}, "time": {"start": T0 + 100, "end": T0 + 600}, **state}
    return {"type": "tool", "tool": name, "callID": key, "state": state}


def text(words, **extra):
    return {"type": "text", "text": words, **extra}


STEP = {"type": "step-finish", "reason": "stop", "tokens": TOKENS, "cost": 0}
FAILED = tool("c1", output="no such target", metadata={"exit": 2})
FACTS = {
    "id": "ses_1",
    "directory": "/srv/fence",
    "title": "Fence",
    "version": "1.18.0",
    "time": {"created": T0, "updated": T0 + 9000},
}
TALK = [
    (
        {"id": "msg_1", "role": "user", "summary": {"diffs": []}},
        [text("paint the fence"), text("file", synthetic=True)],
    ),
    (
        {"id": "msg_2", "role": "assistant", "modelID": "m-1", "tokens": TOKENS},
        [{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, text("Trying."), FAILED, STEP],
    ),
    ({"id": "msg_3", "role": "user"}, [{"type": "compaction", "auto": True}]),
    ({"id": "msg_4", "role": "assistant", "modelID": "m-1", "summary": True}, [text("So far: paint."), STEP]),
    ({"id": "msg_5", "role": "user"}, [text("Continue if you have next steps", synthetic=True)]),
]


def timed(info, number):
    return {**info, "time": {"created": T0 + number * 1000}}


def export(path, talk=None, facts=None):
    messages = [
        {"info": timed(info, n), "parts": parts} for n, (info, parts) in enumerate(TALK if talk is None else talk)
    ]
    path.write_text(json.dumps({"info": {**FACTS, **(facts or {})}, "messages": messages}, indent=2))
    return path


def database(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(SCHEMA)
    return db


def put_session(db, key, updated, *, parent=None, title="Fence"):
    model = json.dumps({"id": "m-0", "providerID": "p"})
    row = (key, "global", parent, "/srv/fence", title, "1.18.0", model, T0, updated)
    db.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.commit()


def put_message(db, session, info, parts, at):
    data = json.dumps({name: value for name, value in timed(info, 1).items() if name != "id"})
    db.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (info["id"], session, at, at, data))
    for number, part in enumerate(parts):
        put_part(db, session, info["id"], f"prt_{info['id']}_{number}", part, at)
    db.commit()


def put_part(db, session, message, key, part, at):
    row = (key, message, session, at, at, json.dumps(part))
    db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    db.commit()


def fill(db, session="ses_1", start=T0, **facts):
    put_session(db, session, start + 9000, **facts)
    for number, (info, parts) in enumerate(TALK):
        put_message(db, session, {**info, "id": f"{info['id']}{session[3:]}"}, parts, start + number * 1000)


def read(path, reading=None):
    reading = reading or Reading(path)
    return list(READER.read(path, reading)), reading


def last_wins(pairs):
    return {message.native_id: message for _, message in pairs if message}


def result_of(tmp_path, part):
    pairs, _ = read(export(tmp_path / "export.json", [({"id": "m", "role": "assistant"}, [part])]))
    return next((message.tool_results[0] for _, message in pairs if message.tool_results), None)


def check_talk(pairs, suffix=""):
    found = last_wins(pairs)
    keys = ["msg_1", "msg_2", "msg_2", "msg_4", "msg_5"]
    assert [message.native_id.split(":")[0] for message in found.values()] == [key + suffix for key in keys]
    first, second, third, fourth, fifth = found.values()
    assert (first.role, first.text, first.injected) == ("user", "paint the fence", False)
    assert (second.text, second.reasoning, second.model) == ("Trying.", "hm", "m-1")
    assert second.usage == Usage(input=60, output=10, cache_read=40, cache_write=5, reasoning=3)
    assert second.tool_calls[0].arguments == '{"command":"make"}'
    (result,) = third.tool_results
    assert (result.call_id, result.outcome, result.exit_code, result.duration) == ("c1", "error", 2, 0.5)
    assert (result.text, result.flag) == ("no such target", False)
    assert third.native_id == f"msg_2{suffix}:c1:result"
    assert fourth.compaction_summary
    assert not second.compaction_summary
    assert fifth.injected


def test_an_export_is_read(tmp_path):
    path = export(tmp_path / "export.json")
    pairs, reading = read(path)
    check_talk(pairs)
    session = pairs[0][0]
    assert (session.native_id, session.title, session.version) == ("ses_1", "Fence", "1.18.0")
    assert (session.project, session.source, session.parent_id) == ("/srv/fence", str(path), None)
    assert session.started_at.timestamp() * 1000 == T0
    assert reading.skipped == Counter({"compaction": 1})
    assert reading.offset == path.stat().st_size


def test_the_offset_of_an_export_is_its_size_when_all_is_read(tmp_path):
    path = export(tmp_path / "export.json")
    reading = Reading(path)
    offsets = [reading.offset for _ in READER.read(path, reading)]
    assert (offsets, reading.offset) == ([0] * 5, path.stat().st_size)


def test_an_export_cut_anywhere_is_one_fault_and_no_pair(tmp_path):
    whole = export(tmp_path / "whole.json", TALK[:1]).read_bytes()
    path = tmp_path / "export.json"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        pairs, reading = read(path)
        assert (pairs, reading.malformed, reading.offset) == ([], 1, 0)


CALL_STATES = [
    (tool("c", output="", metadata={"exit": 0}), "ok"),
    (tool("c", output="x", metadata={"exit": 1}), "error"),
    (tool("c", output="x", name="read", metadata={}), "ok"),
    (tool("c", "error", error="File not found"), "error"),
    (tool("c", "error", error="The user rejected permission to use this specific tool call."), "rejected"),
    (tool("c", "error", error="The user dismissed this question"), "rejected"),
    (
        tool("c", "error", error="The user rejected permission to use this specific tool call with the following …"),
        "rejected",
    ),
    (
        tool("c", "error", error="The user has specified a rule which prevents you from using this tool call. […]"),
        "rejected",
    ),
    (tool("c", "error", error="Error: The user has specified a rule which prevents you from using …"), "rejected"),
    (tool("c", "error", error="Tool execution aborted", metadata={"interrupted": True}), "rejected"),
    (tool("c", output="x\n<metadata>\nUser aborted the command\n</metadata>", metadata={"exit": None}), "rejected"),
    (
        tool("c", output="shell tool terminated command after exceeding timeout 5 ms", metadata={"exit": None}),
        "error",
    ),
]


def test_the_state_of_a_call_says_what_it_came_to(tmp_path, subtests):
    for part, outcome in CALL_STATES:
        with subtests.test(part=part, outcome=outcome):
            assert result_of(tmp_path, part).outcome == outcome


def test_a_call_that_runs_has_no_result(tmp_path, subtests):
    for status in ["pending", "running", None, 3]:
        with subtests.test(status=status):
            assert result_of(tmp_path, tool("c", status)) is None


def test_steps_are_added_up(tmp_path):
    talk = [({"id": "m", "role": "assistant", "tokens": TOKENS}, [text("a"), STEP, STEP])]
    ((_, message),), _ = read(export(tmp_path / "export.json", talk))
    assert message.usage == Usage(input=120, output=20, cache_read=80, cache_write=10, reasoning=6)


def test_calls_with_the_same_id_in_one_message_stay_apart(tmp_path):
    talk = [({"id": "m", "role": "assistant"}, [tool("c", output="one"), tool("c", output="two")])]
    pairs, _ = read(export(tmp_path / "export.json", talk))
    assert [call.id for call in pairs[0][1].tool_calls] == ["c", "c#1"]
    assert [message.tool_results[0].call_id for _, message in pairs[1:]] == ["c", "c#1"]
    assert len(last_wins(pairs)) == 3


def test_messages_with_one_id_in_one_session_are_both_kept(tmp_path):
    talk = [({"id": "m", "role": "assistant"}, [tool("c", output=word)]) for word in ("one", "two")]
    with imported(tmp_path / "store.db", export(tmp_path / "export.json", talk)) as store:
        (row,) = store.list()
        results = [message.tool_results for message in store.messages(row.session.id) if message.tool_results]
    assert (row.tool_calls, [result.text for (result,) in results]) == (2, ["one", "two"])


def test_messages_with_one_id_in_two_sessions_are_both_kept(tmp_path):
    exports = [export(tmp_path / f"{key}.json", facts={"id": key}) for key in ("ses_1", "ses_2")]
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        put_session(db, "ses_3", T0)
        put_message(db, "ses_3", {"id": "msg_2", "role": "assistant"}, [tool("c1", output="x")], T0)
    with imported(tmp_path / "store.db", *exports, path) as store:
        rows = {row.session.native_id: (row.messages, row.tool_calls, row.errors) for row in store.list()}
    assert rows == {"ses_1": (5, 1, 1), "ses_2": (5, 1, 1), "ses_3": (2, 1, 0)}
    with imported(tmp_path / "store.db", *exports, path) as store:
        assert {row.session.native_id: (row.messages, row.tool_calls, row.errors) for row in store.list()} == rows


FORK = T0 + 77_000
LATER = FORK + 50_000


def said(key, role, at, *parts):
    return {"id": key, "role": role, "time": {"created": at}, "modelID": "m-1"}, list(parts)


ASKED = [
    said("msg_a", "user", T0 + 1, text("paint the fence")),
    said("msg_b", "assistant", T0 + 2, text("Trying."), FAILED, STEP),
]
BRANCHED = [said("msg_c", "user", FORK + 1, text("in red")), said("msg_d", "assistant", FORK + 2, text("Red."), STEP)]
AGAIN = [said("msg_e", "user", LATER + 1, text("in blue"))]


def copied(talk, suffix):
    """The messages of a talk as a fork has them: under new ids, with the old times."""
    return [({**info, "id": info["id"] + suffix}, parts) for info, parts in talk]


def put_talk(db, session, created, talk, project="p1"):
    put_session(db, session, created + 9000)
    db.execute("UPDATE session SET time_created = ?, project_id = ? WHERE id = ?", (created, project, session))
    for info, parts in talk:
        put_message(db, session, info, parts, info["time"]["created"])
        db.execute("UPDATE message SET data = ? WHERE id = ?", (json.dumps(info), info["id"]))
    db.commit()


def overview(store):
    rows = {row.session.native_id: row for row in store.list()}
    names = {row.session.id: key for key, row in rows.items()}
    usage = {key: [m.usage.output for m in store.messages(row.session.id) if m.usage] for key, row in rows.items()}
    return {
        key: (row.messages, row.tool_calls, row.errors, names.get(row.session.parent_id), sum(usage[key]))
        for key, row in rows.items()
    }


def test_a_fork_is_a_branch_with_its_own_messages_only(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        put_talk(db, "ses_z", T0, ASKED)
        put_talk(db, "ses_y", FORK, [*copied(ASKED, "2"), *BRANCHED])
        # A fork of the fork, and one of the first session from before its answer.
        put_talk(db, "ses_x", LATER, [*copied(ASKED, "3"), *copied(BRANCHED, "3"), *AGAIN])
        put_talk(db, "ses_w", LATER, [*copied(ASKED[:1], "4"), *copied(AGAIN, "4")])
    with imported(tmp_path / "store.db", path) as store:
        assert overview(store) == {
            "ses_z": (3, 1, 1, None, 10),
            "ses_y": (2, 0, 0, "ses_z", 10),
            "ses_x": (1, 0, 0, "ses_y", 0),
            "ses_w": (1, 0, 0, "ses_z", 0),
        }
        fork = store.get(session_id("opencode", "ses_y"))
    assert (fork.parent_kind, fork.started_at.timestamp() * 1000) == ("branch", FORK + 1)


def test_a_fork_that_goes_on_keeps_its_parent(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        put_talk(db, "ses_z", T0, ASKED)
        put_talk(db, "ses_y", FORK, [*copied(ASKED, "2"), *BRANCHED])
        _, reading = read(path)
        assert reading.skipped == Counter({"copied message": 2})
        put_message(db, "ses_y", {"id": "msg_f", "role": "user"}, [text("more")], LATER)
        db.execute("UPDATE part SET time_updated = ? WHERE message_id = 'msg_a2'", (LATER,))
        db.commit()
        pairs, again = read(path, continued(path, reading))
    assert (set(last_wins(pairs)), again.skipped) == ({"msg_f"}, Counter({"copied message": 1}))
    assert {session.parent_id for session, _ in pairs} == {session_id("opencode", "ses_z")}


def test_old_messages_that_no_other_session_has_are_kept(tmp_path, subtests):
    for project in ["p1", "p2"]:
        with subtests.test(project=project):
            path = tmp_path / f"opencode-{project}.db"
            with closing(database(path)) as db:
                if project == "p2":
                    put_talk(db, "ses_z", T0, ASKED)
                put_talk(db, "ses_y", FORK, [*copied(ASKED, "2"), *BRANCHED], project)
            with imported(tmp_path / f"{project}.db", path) as store:
                assert overview(store)["ses_y"] == (5, 1, 1, None, 20)


def test_files_and_subtasks_of_the_user_are_named(tmp_path):
    parts = [
        {"type": "file", "mime": "image/png"},
        {"type": "file", "filename": "a.txt"},
        {"type": "subtask", "prompt": "do"},
    ]
    ((_, message),), _ = read(export(tmp_path / "export.json", [({"id": "m", "role": "user"}, parts)]))
    assert message.text == "[image]\n[file a.txt]\ndo"
    assert not message.injected


def test_a_subagent_has_a_parent(tmp_path):
    pairs, _ = read(export(tmp_path / "export.json", facts={"parentID": "ses_0"}))
    assert pairs[0][0].parent_id == session_id("opencode", "ses_0")
    assert pairs[0][0].parent_kind == "subagent"
    assert pairs[0][1].sidechain


def test_a_database_is_read_while_its_writer_lives(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        fill(db, "ses_2", parent="ses_1", title="Part")
        pairs, reading = read(path)
    one = [pair for pair in pairs if pair[0].native_id == "ses_1"]
    two = [pair for pair in pairs if pair[0].native_id == "ses_2"]
    check_talk(one, "_1")
    check_talk(two, "_2")
    assert one[0][1] is None
    assert (one[0][0].model, one[0][0].title, one[0][0].project) == ("m-0", "Fence", "/srv/fence")
    assert two[0][0].parent_id == one[0][0].id
    assert reading.skipped == Counter({"compaction": 2})
    assert reading.offset == 0


def test_a_database_goes_on_with_what_changed(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        fill(db, "ses_2")
        _, reading = read(path)
        later = T0 + 60_000
        done = tool("c9", output="done", metadata={"exit": 0})
        put_part(db, "ses_2", "msg_2_2", "prt_msg_2_2_9", done, later)
        put_message(db, "ses_1", {"id": "msg_9", "role": "user"}, [text("more")], later)
        more, again = read(path, Reading(path, state=json.loads(json.dumps(reading.state))))
        assert set(last_wins(more)) == {"msg_9", "msg_2_2", "msg_2_2:c1:result", "msg_2_2:c9:result"}
        put_session(db, "ses_1", later + 5000)
        read(path, again)
        put_session(db, "ses_1", later + 9000, title="Fence, painted")
        (session, nothing), *rest = read(path, again)[0]
    assert (session.title, nothing, rest) == ("Fence, painted", None, [])


def test_a_part_written_while_the_model_streams_is_read_again(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        put_session(db, "ses_1", T0)
        put_message(db, "ses_1", {"id": "m", "role": "assistant"}, [text("Ha"), tool("c", "running")], T0)
        first, reading = read(path)
        put_part(db, "ses_1", "m", "prt_m_0", text("Half done"), T0 + 5000)
        put_part(db, "ses_1", "m", "prt_m_1", tool("c", output="", metadata={"exit": 0}), T0 + 5000)
        second, _ = read(path, reading)
    assert last_wins(first)["m"].text == "Ha"
    assert list(last_wins(second)) == ["m", "m:c:result"]
    assert last_wins(second)["m"].text == "Half done"


def test_a_pass_given_up_after_any_pair_can_be_continued(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        for number in range(3):
            fill(db, f"ses_{number}", start=T0 + number * 20_000)
        everything, _ = read(path)
        expected = last_wins(everything)
        for count in range(1, len(everything) + 1):
            reading = Reading(path)
            source = READER.read(path, reading)
            pairs = [next(source) for _ in range(count)]
            state = json.loads(json.dumps(reading.state))
            source.close()
            put_message(db, "ses_0", {"id": "msg_late", "role": "user"}, [text("late")], T0 + 90_000 + count)
            more, after = read(path, Reading(path, state=state))
            final, _ = read(path, after)
            found = last_wins(pairs + more + final)
            assert found.pop("msg_late").text == "late"
            assert found == expected
            db.execute("DELETE FROM message WHERE id = 'msg_late'")
            db.execute("DELETE FROM part WHERE message_id = 'msg_late'")
            db.commit()


def test_a_finished_pass_does_not_start_over(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        for number in range(3):
            fill(db, f"ses_{number}", start=T0 + number * 20_000)
        reading = Reading(path)
        assert not any("since" in reading.state for _ in READER.read(path, reading))
        assert reading.state["since"] == T0 + 40_000 + 9000 - 1000
        assert not last_wins(read(path, continued(path, reading))[0])


def test_a_message_written_after_the_clock_was_set_back_is_read(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        _, reading = read(path)
        put_message(db, "ses_1", {"id": "msg_8", "role": "user"}, [text("earlier")], T0 - 3_600_000)
        put_part(db, "ses_1", "msg_4_1", "prt_msg_4_1_9", text("And brush."), T0 - 3_600_000)
        more, again = read(path, continued(path, reading))
        assert set(last_wins(more)) == {"msg_8", "msg_4_1"}
        # All of it has been read once: nothing is told twice but what is as new as the newest.
        assert not last_wins(read(path, continued(path, again))[0])


def test_a_part_changed_after_the_clock_was_set_back_is_read(tmp_path, monkeypatch):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        _, reading = read(path)
        monkeypatch.setattr(opencode, "_now", lambda: T0 - 3_500_000)
        db.execute(
            "UPDATE part SET data = ?, time_updated = ? WHERE id = 'prt_msg_4_1_0'",
            ('{"type": "text", "text": "x"}', T0 - 3_600_000),
        )
        db.commit()
        assert last_wins(read(path, continued(path, reading))[0])["msg_4_1"].text == "x"


def test_a_row_dated_in_the_future_hides_nothing(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        put_message(db, "ses_1", {"id": "msg_8", "role": "user"}, [text("to come")], T0 * 2)
        _, reading = read(path)
        assert reading.state["since"] < T0 * 2 - opencode.MARGIN_MS
        put_message(db, "ses_1", {"id": "msg_9", "role": "user"}, [text("more")], T0 + 60_000)
        more, again = read(path, continued(path, reading))
        assert set(last_wins(more)) == {"msg_8", "msg_9"}
        db.execute(
            "UPDATE part SET data = ?, time_updated = ? WHERE id = 'prt_msg_9_0'",
            ('{"type": "text", "text": "x"}', again.state["since"] + 5000),
        )
        db.commit()
        assert last_wins(read(path, continued(path, again))[0])["msg_9"].text == "x"


def test_another_database_in_the_same_place_is_read_from_its_start(tmp_path, subtests):
    for size in [1, 2, 5]:
        with subtests.test(size=size):
            path = tmp_path / f"opencode-{size}.db"
            with closing(database(path)) as db:
                for number in range(2):
                    fill(db, f"ses_{number}", start=T0 + 90_000)
                _, reading = read(path)
            path.unlink()
            with closing(database(path)) as db:
                for number in range(size):
                    fill(db, f"ses_1{number}")
                pairs, _ = read(path, continued(path, reading))
                assert {session.native_id for session, _ in pairs} == {f"ses_1{number}" for number in range(size)}
                assert last_wins(pairs) == last_wins(read(path)[0])


def test_odd_rows_are_reported_and_passed_over(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(database(path)) as db:
        fill(db)
        db.execute("INSERT INTO message VALUES ('msg_7', 'ses_1', 1, NULL, '{\"role\"')")
        db.execute("INSERT INTO message VALUES ('msg_8', 'ses_1', 2, 'x', ?)", (b"\xff\xfe",))
        db.execute("INSERT INTO message VALUES ('msg_9', 'ses_1', 3, 1, '{\"role\":\"robot\"}')")
        db.execute("INSERT INTO part VALUES ('prt_9', 'msg_1_1', 'ses_1', 3, 1, CAST(x'22ff22' AS TEXT))")
        db.commit()
        pairs, reading = read(path)
    check_talk(pairs, "_1")
    assert reading.malformed == 3
    assert reading.skipped["robot"] == 1


def test_what_is_no_database_is_a_log_error(tmp_path, subtests):
    for content in [b"", b"SQLite format 3\0" + b"x" * 4096, b"not a database at all" * 100]:
        with subtests.test(content=content):
            path = tmp_path / "opencode.db"
            path.write_bytes(content)
            with pytest.raises(LogError, match=r"opencode\.db"):
                read(path)


def test_another_database_is_a_log_error(tmp_path):
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE session (id TEXT)")
    with pytest.raises(LogError, match="no such column: time_updated"):
        read(path)


def test_a_missing_file_is_a_log_error(tmp_path):
    for name in ("opencode.db", "export.json"):
        with pytest.raises(LogError, match=name):
            read(tmp_path / name)


def test_finds_databases_sessions_and_exports(tmp_path):
    (root,) = READER.roots({"XDG_DATA_HOME": str(tmp_path)}, Path("/nowhere"))
    assert READER.roots({}, Path("/home/u")) == [Path("/home/u/.local/share/opencode")]
    named = READER.roots({"XDG_DATA_HOME": str(tmp_path), "OPENCODE_DB": "/else/my.db"}, Path("/nowhere"))
    assert named == [root, Path("/else/my.db")]
    names = ["opencode.db", "opencode-dev.db", "opencode.db-wal", "opencode.db-shm", "auth.json"]
    for path in [*(root / name for name in names), tmp_path / "exports" / "a.json"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert list(READER.find(root)) == [root / "opencode-dev.db", root / "opencode.db"]
    assert list(READER.find(tmp_path / "exports")) == [tmp_path / "exports" / "a.json"]
    assert list(READER.find(root / "opencode.db")) == [root / "opencode.db"]


def test_claims_its_own_logs_only(tmp_path):
    with closing(database(tmp_path / "copy.sqlite")) as db:
        fill(db)
    head = (tmp_path / "copy.sqlite").read_bytes()[:65536]
    assert READER.claims(tmp_path / "copy.sqlite", head)
    assert READER.claims(tmp_path / "opencode.db", head[:4096])
    assert READER.claims(tmp_path / "a.json", export(tmp_path / "a.json").read_bytes())
    others = [
        b"",
        b"SQLite format 3\0" + b"x" * 100,
        b'[{"role":"user","content":"ses_1"}]',
        b'{"type":"user","uuid":"u","sessionId":"ses_1","message":{"role":"user","content":"hi"}}\n',
        b'{"type":"session.start","data":{"sessionId":"s"},"id":"ses_1","timestamp":"t"}\n',
        b'{"sessionId":"s","projectHash":"h","messages":[]}',
        b'{"info":{"title":"an API"},"messages":[]}',
    ]
    assert not any(READER.claims(tmp_path / "state.json", other) for other in others)
    assert not any(READER.claims(tmp_path / "state.db", other) for other in others)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "input", "output", "metadata", "exit", "cache"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(["text", "tool", "reasoning", "file", "subtask", "step-finish"]) | JSON
PARTS = st.fixed_dictionaries(
    {"type": KINDS}, optional=dict.fromkeys(["text", "callID", "tool", "state", "synthetic", "tokens", "mime"], JSON)
)
INFOS = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]) | JSON},
    optional=dict.fromkeys(["id", "time", "tokens", "summary", "modelID", "path"], JSON),
)


@given(
    facts=st.dictionaries(st.sampled_from(["id", "time", "directory", "title", "parentID", "model"]), JSON),
    info=INFOS | JSON,
    parts=st.lists(PARTS | JSON, max_size=3) | JSON,
    cut=st.integers(0, 20),
    junk=st.binary(max_size=8),
)
def test_no_bytes_make_it_fail(tmp_path_factory, facts, info, parts, cut, junk):
    path = tmp_path_factory.mktemp("odd") / "export.json"
    whole = json.dumps({"info": facts, "messages": [{"info": info, "parts": parts}]}).encode()
    for content in (whole, whole[: len(whole) - cut] + junk, b'{"info":' + b"[" * 5000):
        path.write_bytes(content)
        READER.claims(path, content)
        try:
            pairs, _ = read(path)
        except WarmstartError:
            continue
        assert all(isinstance(message, Message | None) for _, message in pairs)
