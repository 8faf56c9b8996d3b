import json
import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.errors import LogError, WarmstartError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.readers.transcript import MAX_DOCUMENT

DATA = Path(__file__).parents[4] / "shared" / "data"
HEAD = 64 * 1024
NAME = "conv_20260101_lamp_7f"

CHAT = [
    {"role": "system", "content": "You keep the lamp."},
    {"role": "user", "content": "Is the lamp lit?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "lamp", "arguments": '{"q":"lit"}'}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "name": "lamp", "content": "lit since 18:04"},
    {"role": "assistant", "content": "Since four past six."},
]


def write(folder, name, value):
    path = folder / name
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(item) + "\n" for item in value))
    else:
        path.write_text(json.dumps(value, indent=1))
    return path


def read(path, reading=None):
    reading = reading or Reading(path)
    pairs = list(OpenAIReader().read(path, reading))
    return pairs, reading


def messages_of(path):
    return [message for _, message in read(path)[0] if message]


def claims(path):
    with path.open("rb") as file:
        return OpenAIReader().claims(path, file.read(HEAD))


def result_of(tmp_path, content, **beside):
    path = write(tmp_path, "one.json", [{"role": "tool", "tool_call_id": "c", "content": content, **beside}])
    return messages_of(path)[0].tool_results[0]


# The wrappings.


def test_a_list_of_messages_is_one_session(tmp_path):
    pairs, reading = read(write(tmp_path, "chat.json", CHAT))
    session = pairs[0][0]
    assert {pair[0].native_id for pair in pairs} == {session.native_id}
    assert session.native_id.startswith("chat-")
    assert [message.role for _, message in pairs] == ["system", "user", "assistant", "tool", "assistant"]
    assert [message.native_id for _, message in pairs] == [f"{session.native_id}#{place}" for place in range(5)]
    assert pairs[2][1].tool_calls[0].name == "lamp"
    assert pairs[2][1].tool_calls[0].arguments == '{"q":"lit"}'
    assert pairs[3][1].tool_results[0].call_id == "call_1"
    assert reading.offset == (tmp_path / "chat.json").stat().st_size


def test_lines_of_messages_are_one_session(tmp_path):
    pairs, reading = read(write(tmp_path, "chat.jsonl", CHAT))
    assert len({session.native_id for session, _ in pairs}) == 1
    assert [message.native_id.partition("#")[2] for _, message in pairs] == ["0", "1", "2", "3", "4"]
    assert reading.offset == (tmp_path / "chat.jsonl").stat().st_size


def test_lines_of_messages_are_continued_where_they_were_left(tmp_path):
    path = write(tmp_path, "chat.jsonl", CHAT[:3])
    first, reading = read(path)
    with path.open("a") as file:
        file.write("".join(json.dumps(item) + "\n" for item in CHAT[3:]))
    left = Reading(path, reading.offset, reading.line, json.loads(json.dumps(reading.state)))
    second, _ = read(path, left)
    assert [message for _, message in first + second] == messages_of(path)
    assert len(second) == 2


def test_stopping_anywhere_and_going_on_yields_every_message(tmp_path):
    whole = [*CHAT, {"role": "odd"}, *CHAT]
    path = write(tmp_path, "chat.jsonl", whole)
    with path.open("a") as file:
        file.write(json.dumps(CHAT[1]) + json.dumps(CHAT[4]) + "\n")
    everything = messages_of(path)
    for stop in range(len(everything)):
        reading = Reading(path)
        stream = OpenAIReader().read(path, reading)
        taken = [next(stream)[1] for _ in range(stop + 1)]
        left = Reading(path, reading.offset, reading.line, json.loads(json.dumps(reading.state)))
        rest = [message for _, message in read(path, left)[0]]
        assert {message.native_id: message for message in taken + rest} == {m.native_id: m for m in everything}


def test_an_unfinished_last_line_waits(tmp_path):
    path = write(tmp_path, "chat.jsonl", CHAT)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    pairs, reading = read(path)
    assert len(pairs) == 4
    assert reading.malformed == 0
    path.write_bytes(whole)
    assert [message.text for _, message in read(path, reading)[0]] == ["Since four past six."]


def test_an_object_with_messages_keeps_its_own_id_and_facts(tmp_path):
    record = {"id": NAME, "model": "gpt-x", "title": "The lamp", "created": 1767225600, "messages": CHAT}
    pairs, _ = read(write(tmp_path, "c.json", record))
    session = pairs[0][0]
    assert (session.native_id, session.model, session.title) == (NAME, "gpt-x", "The lamp")
    assert session.started_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert session.outcome == "unknown"
    assert pairs[4][1].model == "gpt-x"
    assert pairs[1][1].model == ""


def test_several_objects_are_a_session_each(tmp_path, subtests):
    for name in ["many.json", "many.jsonl"]:
        with subtests.test(name=name):
            records = [{"messages": CHAT}, {"session_id": NAME, "messages": CHAT}, {"id": 2, "messages": CHAT}]
            pairs, _ = read(write(tmp_path, name, records))
            ids = list(dict.fromkeys(session.native_id for session, _ in pairs))
            assert len(pairs) == 15
            assert ids[0].endswith(":0")
            assert ids[1] == NAME
            assert ids[2].startswith("many-")  # a number names nothing outside its file
            assert ids[2].endswith(":2")


def test_lines_of_objects_are_continued_with_the_next_number(tmp_path):
    path = write(tmp_path, "many.jsonl", [{"messages": CHAT}])
    _, reading = read(path)
    with path.open("a") as file:
        file.write(json.dumps({"messages": CHAT}) + "\n")
    assert {session.native_id[-2:] for session, _ in read(path, reading)[0]} == {":1"}


def test_equal_names_in_different_folders_are_different_sessions(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = write(tmp_path / "a", "chat.json", CHAT), write(tmp_path / "b", "chat.json", CHAT)
    assert read(one)[0][0][0].native_id != read(two)[0][0][0].native_id
    assert read(one)[0] == read(one)[0]


def test_equal_short_ids_in_different_files_are_different_sessions(tmp_path, subtests):
    for name, key in product(
        ["conv-1", "session", "7", "2026", "12345678901234567890123"], ["id", "session_id", "conversation_id"]
    ):
        with subtests.test(name=name, key=key):
            paths = [write(tmp_path, f"{file}.json", {key: name, "messages": CHAT}) for file in ("a", "b")]
            one, two = (read(path)[0][0][0].native_id for path in paths)
            assert one != two
            assert one.endswith(f":{name}")
            assert read(paths[0])[0] == read(paths[0])[0]


def test_a_long_id_is_the_same_session_in_every_file(tmp_path, subtests):
    for name in [NAME, "0b9f4c8e-6a55-4d1c-9d56-0f1c5f6f9c11", "chatcmpl-9aBcDeFgHiJkLm"]:
        with subtests.test(name=name):
            paths = [write(tmp_path, f"{file}.json", {"id": name, "messages": CHAT}) for file in ("a", "b")]
            assert {read(path)[0][0][0].native_id for path in paths} == {name}


def test_deep_nesting_next_to_another_object_is_a_fault_not_a_crash(tmp_path):
    # Where exactly it is too deep for being mended, but not for being split, depends on who calls.
    for depth in range(sys.getrecursionlimit() - 250, sys.getrecursionlimit()):
        deep = b'{"role": "user", "content": "\\ud83d", "a": ' + b"[" * depth + b"]" * depth + b"}"
        path = write(tmp_path, "a.jsonl", json.dumps(CHAT[0]).encode() + deep + b"\n")
        pairs, reading = read(path)
        assert len(pairs) + reading.malformed in (1, 2)


def test_one_pretty_printed_object_named_jsonl_is_a_document(tmp_path):
    path = write(tmp_path, "c.jsonl", json.dumps({"id": NAME, "messages": CHAT}, indent=2).encode())
    assert claims(path)
    assert {session.native_id for session, _ in read(path)[0]} == {NAME}


def test_a_changed_document_is_read_again_from_the_start(tmp_path):
    path = write(tmp_path, "chat.json", CHAT[:2])
    _, reading = read(path)
    write(tmp_path, "chat.json", CHAT)
    assert len(read(path, reading)[0]) == 5
    assert reading.offset == path.stat().st_size


# The benchmarks.


def tau2(reward):
    tool_call = {"id": "t1", "name": "find", "arguments": {"name": "Ann"}, "requestor": "assistant"}
    usage = {"prompt_tokens": 90, "completion_tokens": 7}
    return {
        "timestamp": "2026-01-01T10:00:00",
        "info": {"user_info": {"llm": "u"}, "agent_info": {"llm": "gpt-y"}},
        "tasks": [{"id": "0", "padding": "x" * (2 * HEAD)}],
        "simulations": [
            {
                "id": "sim-1",
                "task_id": "0",
                "trial": 0,
                "start_time": "2026-01-01T10:00:01",
                "end_time": "2026-01-01T10:00:09",
                "reward_info": reward,
                "messages": [
                    {"role": "user", "content": "Find Ann", "tool_calls": None, "usage": usage},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [tool_call],
                        "usage": usage,
                        "reasoning": "hm",
                    },
                    {"role": "tool", "id": "t1", "content": "Error: no Ann", "error": True, "requestor": "assistant"},
                ],
            }
        ],
    }


def test_tau2_simulations_carry_their_reward(tmp_path):
    path = write(tmp_path, "tau2.json", tau2({"reward": 1.0}))
    pairs, _ = read(path)
    session = pairs[0][0]
    assert claims(path)
    assert (session.native_id[-6:], session.model) == (":sim-1", "gpt-y")
    assert (session.outcome, session.evidence, session.judge) == ("success", "reward 1.0", "log")
    assert session.started_at == datetime(2026, 1, 1, 10, 0, 1, tzinfo=UTC)
    assert session.ended_at == datetime(2026, 1, 1, 10, 0, 9, tzinfo=UTC)
    user, assistant, tool = (message for _, message in pairs)
    assert user.usage is None  # the simulated user's tokens are not the agent's
    assert assistant.usage.input == 90
    assert assistant.reasoning == "hm"
    assert assistant.tool_calls[0].arguments == '{"name":"Ann"}'
    assert (tool.tool_results[0].call_id, tool.tool_results[0].outcome) == ("t1", "error")
    assert tool.tool_results[0].flag is True


def test_a_missing_reward_says_nothing(tmp_path, subtests):
    for reward in [None, {}, {"reward": None}, {"reward": "1.0"}, {"reward": True}, "odd"]:
        with subtests.test(reward=reward):
            session = read(write(tmp_path, "tau2.json", tau2(reward)))[0][0][0]
            assert (session.outcome, session.evidence, session.judge) == ("unknown", "", "")


def test_tau_bench_runs_are_distinguished_by_task_and_trial(tmp_path):
    runs = [{"task_id": 4, "trial": trial, "reward": reward, "traj": CHAT} for trial, reward in [(0, 0.5), (1, 1)]]
    path = write(tmp_path, "runs.json", [*runs, runs[1]])
    sessions = list({session.native_id: session for session, _ in read(path)[0]}.values())
    assert claims(path)
    assert [session.native_id.partition(":")[2] for session in sessions] == ["4:0", "4:1", "4:1:2"]
    assert [session.outcome for session in sessions] == ["failure", "success", "success"]
    assert [session.evidence for session in sessions] == ["reward 0.5", "reward 1.0", "reward 1.0"]


def test_a_reward_outside_the_benchmarks_is_no_outcome(tmp_path):
    assert read(write(tmp_path, "c.json", {"messages": CHAT, "reward": 3}))[0][0][0].outcome == "unknown"


# Messages.


def test_contents_come_as_text_blocks_or_nothing(tmp_path):
    blocks = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    chat = [{"role": "user", "content": content} for content in ("a", blocks, None, {"odd": 1}, 7)]
    texts = [message.text for message in messages_of(write(tmp_path, "c.json", chat))]
    assert texts == ["a", "look\n[image]", "", '{"odd":1}', "7"]


def test_a_simulated_users_own_calls_stay_on_the_users_message(tmp_path):
    chat = [{"role": "user", "content": None, "tool_calls": [{"id": "u1", "name": "reboot", "arguments": {}}]}]
    message = messages_of(write(tmp_path, "c.json", chat))[0]
    assert (message.role, message.tool_calls[0].name) == ("user", "reboot")


def test_developers_speak_as_the_system_and_unknown_roles_are_counted(tmp_path):
    chat = [{"role": "developer", "content": "a"}, {"role": "narrator", "content": "b"}, "text", {"role": ["x"]}]
    pairs, reading = read(write(tmp_path, "c.json", chat))
    assert [message.role for _, message in pairs] == ["system"]
    assert reading.skipped == {"narrator": 1, "no role": 2}


def test_cached_and_reasoning_tokens_are_kept(tmp_path):
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    found = messages_of(write(tmp_path, "c.json", [{"role": "assistant", "content": "x", "usage": usage}]))[0].usage
    assert (found.input, found.output, found.cache_read, found.reasoning) == (36, 20, 64, 12)


OUTCOMES = [
    ("fine", "ok", None),
    ("", "ok", None),
    (None, "ok", None),
    ("no Error: here", "ok", None),
    ("Error: flight is full", "error", None),
    ("Error executing tool: boom", "error", None),
    ("Traceback (most recent call last):\n  File", "error", None),
    ("Tool 'lamp' does not exist. Available tools: tide", "error", None),
    ("Unknown tool: lamp", "error", None),
    ("<tool_use_error>File has not been read yet.</tool_use_error>", "error", None),
    ("The page says: Unknown tool: lamp", "ok", None),
    ("Tool 'lamp' is lit", "ok", None),
    ("Exit code 2\nno such file", "error", 2),
    ("Exit code 0\ndone", "ok", 0),
    ('{"output": "x", "exit_code": 1, "error": null}', "error", 1),
    ('{"output": "x", "exit_code": 0, "error": null}', "ok", 0),
    ('{"error": "not found"}', "error", None),
    ('{"error": ""}', "ok", None),
    ('{"success": false}', "error", None),
    ('{"success": true}', "ok", None),
    ('{"error": "User denied the command"}', "rejected", None),
    ("User denied permission", "rejected", None),
    ("The user doesn't want to proceed with this.", "rejected", None),
    ("The user id is 7", "ok", None),
    ('{"cut off', "ok", None),
]


def test_outcomes_are_read_from_the_result(tmp_path, subtests):
    for content, outcome, exit_code in OUTCOMES:
        with subtests.test(content=content, outcome=outcome):
            result = result_of(tmp_path, content)
            assert (result.outcome, result.exit_code, result.flag) == (outcome, exit_code, None)


FLAGS = [
    ({"error": False}, "Error: is what the page says", "ok"),
    ({"error": True}, "fine", "error"),
    ({"error": "timed out"}, "", "error"),
    ({"is_error": True}, "fine", "error"),
    ({"status": "error"}, "fine", "error"),
    ({"error": False}, "Exit code 1", "error"),
]


def test_a_flag_outweighs_words_and_an_exit_code_both(tmp_path, subtests):
    for beside, content, outcome in FLAGS:
        with subtests.test(beside=beside, content=content):
            assert result_of(tmp_path, content, **beside).outcome == outcome


# What is not ours, and what is broken.

FOREIGN = {
    "package.json": {"name": "x", "version": "1", "scripts": {"test": "y"}, "dependencies": {}},
    "users.json": [{"role": "user", "name": "Ann"}, {"role": "admin", "name": "Bo"}],
    "gemini.json": {"sessionId": "s", "projectHash": "h", "messages": [{"type": "user", "content": "x"}]},
    "opencode.json": {"info": {"id": "ses_1"}, "messages": [{"info": {"role": "user"}, "parts": []}]},
    "inspect.json": {"version": 2, "eval": {}, "samples": [{"messages": CHAT}]},
    "thread.json": {"messages": [{"author": "a", "content": "x"}]},
    "empty.json": {"messages": []},
    "number.json": 7,
    "list.json": [],
    "claude.jsonl": [{"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "x"}}],
    "codex.jsonl": [{"timestamp": "t", "type": "session_meta", "payload": {"id": "x"}}],
    "old-codex.jsonl": [{"id": "x", "instructions": None}, {"type": "message", "role": "user", "content": []}],
    "copilot.jsonl": [{"type": "user.message", "data": {"content": "x"}, "id": "1"}],
    "mixed.jsonl": [CHAT[0], {"type": "event"}, CHAT[1]],
}


def test_other_files_are_not_claimed(tmp_path, subtests):
    for name in FOREIGN:
        with subtests.test(name=name):
            assert not claims(write(tmp_path, name, FOREIGN[name]))


def test_files_longer_than_the_head_are_claimed(tmp_path, subtests):
    for name in ["long.json", "long.jsonl"]:
        with subtests.test(name=name):
            long = {"role": "system", "content": "é" * HEAD}
            assert claims(write(tmp_path, name, [long, *CHAT]))
            assert claims(write(tmp_path, name, [{"messages": [long, *CHAT]}]))


def test_only_json_is_found_below_a_folder(tmp_path):
    reader = OpenAIReader()
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "a.json", "c.txt", "deep/d.json"):
        (tmp_path / name).write_text("")
    assert [path.name for path in reader.find(tmp_path)] == ["a.json", "b.jsonl", "d.json"]
    assert list(reader.find(tmp_path / "a.json")) == [tmp_path / "a.json"]
    assert list(reader.find(tmp_path / "none")) == []
    assert reader.roots({}, tmp_path) == []


def test_a_cut_off_document_is_one_fault_and_waits(tmp_path):
    path = write(tmp_path, "chat.json", json.dumps(CHAT).encode()[:-30])
    pairs, reading = read(path)
    assert (pairs, reading.malformed, reading.offset) == ([], 1, 0)


def test_an_empty_file_holds_nothing(tmp_path):
    for name in ("a.json", "a.jsonl"):
        pairs, reading = read(write(tmp_path, name, b" \n"))
        assert (pairs, reading.malformed) == ([], 0)


def test_a_file_that_is_not_there_is_a_log_error(tmp_path):
    with pytest.raises(LogError, match=r"none\.json"):
        read(tmp_path / "none.json")


def test_a_document_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "chat.json"
    with path.open("wb") as file:
        file.truncate(MAX_DOCUMENT + 1)
    with pytest.raises(LogError, match="512 MB"):
        read(path)


ODD_VALUES = [
    rb'"half a pair \ud83d"',
    b'"not utf-8 \xff"',
    b"9" * 5000,
    b"1e999",
    b"-1",
    b"[[{}]]",
    b"{}",
    b"null",
]


def test_one_odd_field_loses_no_message(tmp_path, subtests):
    for name, odd, key in product(
        ["odd.json", "odd.jsonl"],
        ODD_VALUES,
        ["content", "timestamp", "tool_calls", "usage", "reasoning", "model", "id", "extra"],
    ):
        with subtests.test(name=name, odd=odd):
            line = b'{"role":"assistant","%s":%s,"refusal":"kept"}' % (key.encode(), odd)
            data = b"[" + line + b"]" if name == "odd.json" else line + b"\n"
            pairs, reading = read(write(tmp_path, name, data))
            assert len(pairs) == 1
            assert reading.malformed == 0
            pairs[0][1].text.encode()


def test_a_time_that_no_clock_shows_is_none(tmp_path):
    path = write(tmp_path, "c.json", b'[{"role":"user","content":"x","timestamp":1%s}]' % (b"0" * 400))
    assert messages_of(path)[0].timestamp is None


def test_deep_nesting_is_a_fault_not_a_crash(tmp_path, subtests):
    for name in ["deep.json", "deep.jsonl"]:
        with subtests.test(name=name):
            nested = b"[" * 100_000 + b"]" * 100_000
            data = b'{"role":"user","content":' + nested + b"}"
            data = b"[" + data + b"]" if name == "deep.json" else data + b"\n" + json.dumps(CHAT[1]).encode() + b"\n"
            path = write(tmp_path, name, data)
            pairs, reading = read(path)
            assert reading.malformed == 1
            assert len(pairs) == (0 if name == "deep.json" else 1)
            claims(path)


KEYS = ["role", "content", "tool_calls", "function", "name", "arguments", "id", "tool_call_id", "usage", "messages"]
KEYS += ["traj", "simulations", "info", "reward", "reward_info", "task_id", "trial", "error", "timestamp", "model"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner | st.sampled_from(["user", "assistant", "tool", "system"]),
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(
    value=json_values, cut=st.integers(0, 400), noise=st.binary(max_size=3), suffix=st.sampled_from(["json", "jsonl"])
)
def test_nothing_but_our_own_errors_escapes(tmp_path, value, cut, noise, suffix):
    data = json.dumps(value).encode()
    path = tmp_path / f"fuzz.{suffix}"
    for damaged in (data, data + b"\n" + data, data[:cut] + noise + data[cut:], data[:cut]):
        path.write_bytes(damaged)
        claims(path)
        try:
            for session, message in OpenAIReader().read(path, Reading(path)):
                assert session.native_id
                assert message is None or message.native_id
        except WarmstartError:
            pass


# The real files, with totals counted apart from this reader.

TOTALS = {
    "tau_bench/gpt-4o-airline-trials-0-1.json": (100, 2658, 572, 33, 43),
    "tau2/airline_gpt-4.1-finetuned.json": (20, 549, 147, 1, 13),
    "tau2/airline_gpt-4.1.json": (20, 510, 148, 1, 10),
    "tau2/retail_gpt-4.1-finetuned.json": (40, 1179, 292, 23, 34),
    "tau2/retail_gpt-4.1.json": (40, 1105, 299, 12, 34),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", TOTALS)
def test_real_benchmark_runs_are_read_in_full(name):
    path = DATA / name
    if not path.exists():
        pytest.skip("no benchmark data")
    pairs, reading = read(path)
    sessions = {session.native_id: session for session, _ in pairs}
    calls = {(session.id, call.id) for session, message in pairs for call in message.tool_calls}
    results = [(session.id, result) for session, message in pairs for result in message.tool_results]
    outcomes = Counter(session.outcome for session in sessions.values())
    errors = sum(result.outcome == "error" for _, result in results)
    assert claims(path)
    assert (len(sessions), len(pairs), len(results), errors, outcomes["success"]) == TOTALS[name]
    assert {(session, result.call_id) for session, result in results} == calls
    assert outcomes["unknown"] == 0
    assert len({message.native_id for _, message in pairs}) == len(pairs)
    assert (reading.malformed, reading.skipped, reading.offset) == (0, {}, path.stat().st_size)


@pytest.mark.corpus
def test_no_other_real_log_is_claimed():
    others = [path for folder in ("sessions", "locomo") for path in (DATA / folder).rglob("*.json*")]
    if not others:
        pytest.skip("no benchmark data")
    assert [path for path in others if claims(path)] == []
