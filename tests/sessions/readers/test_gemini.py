"""The reader of Gemini CLI's chats, on logs written here and on the benchmark data."""

import json
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.readers.logs import imported
from warmstart.errors import LogError, WarmstartError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.gemini import GeminiReader
from warmstart.sessions.readers.registry import judge
from warmstart.sessions.readers.transcript import MAX_DOCUMENT
from warmstart.sessions.values import Message, Usage, session_id

DATA = Path(__file__).parents[4] / "shared" / "data" / "sessions" / "gemini_cli"
READER = GeminiReader()
T0 = "2026-03-01T10:00:00.000Z"
HEAD = {"sessionId": "s-1", "projectHash": "ab" * 32, "startTime": T0, "lastUpdated": T0, "kind": "main"}
CONTEXT = {
    "id": "ctx",
    "timestamp": T0,
    "type": "user",
    "content": [{"text": "<session_context>\nday\n</session_context>"}],
}
SNAPSHOT = "<state_snapshot><goal>paint</goal></state_snapshot>"


def user(key, text, **extra):
    return {"id": key, "timestamp": "2026-03-01T10:00:01.000Z", "type": "user", "content": [{"text": text}], **extra}


def model(key, text, calls=None, **extra):
    message = {"id": key, "timestamp": "2026-03-01T10:00:02.000Z", "type": "gemini", "content": text, "thoughts": []}
    message |= {"tokens": {"input": 50, "output": 5, "cached": 7, "thoughts": 2}, "model": "gemini-x", **extra}
    return message | ({"toolCalls": calls} if calls else {})


def call(key, output, *, name="run_shell_command", status="success", field="output", result=None):
    answer = {"functionResponse": {"id": key, "name": name, "response": {field: output}}}
    entry = {"id": key, "name": name, "args": {"command": "make"}, "status": status}
    return entry | {"timestamp": "2026-03-01T10:00:05.000Z", "result": [answer] if result is None else result}


def answers(*calls):
    parts = [part for entry in calls for part in entry["result"]]
    return {"id": "r-" + calls[0]["id"], "timestamp": T0, "type": "user", "content": parts}


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_document(path, messages, **facts):
    path.write_text(json.dumps({**HEAD, "messages": messages, **facts}, indent=2))
    return path


def read(path, reading=None):
    reading = reading or Reading(path)
    pairs = list(READER.read(path, reading))
    return pairs, reading


def last_wins(pairs):
    return {message.native_id: message for _, message in pairs if message}


def results(pairs):
    return [result for message in last_wins(pairs).values() for result in message.tool_results]


def chat_lines():
    """A chat with all that happens to one: updates in place, a resume, a masking and a compression."""
    failed = call("c1", "<untrusted_context>\nOutput: no\nExit Code: 2\nProcess Group PGID: 9\n</untrusted_context>")
    fine = call("c2", "<untrusted_context>\nOutput: yes\nProcess Group PGID: 9\n</untrusted_context>")
    copied = model("m1", [{"text": "Trying."}, {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {}}}])
    bare = {key: copied[key] for key in ("id", "timestamp", "type", "content")}
    masked = call("c1", "<masked/>")
    return [
        HEAD,
        {"$set": {"messages": [CONTEXT], "lastUpdated": T0}},
        user("u1", "paint the fence"),
        {"$set": {"lastUpdated": "2026-03-01T10:00:01.500Z"}},
        model("m1", "Trying."),
        model("m1", "Trying.", [failed, fine]),
        answers(failed, fine),
        model("m2", "It failed."),
        {**HEAD, "startTime": "2026-03-02T10:00:00.000Z"},
        {"$set": {"messages": [CONTEXT, user("u1", "paint the fence"), bare, answers(failed), bare | {"id": "m2"}]}},
        user("u2", "again"),
        # Old outputs are masked: the history is written again, each message under a new id.
        user("x0", "<session_context>\nday\n</session_context>paint the fence"),
        bare | {"id": "x1"},
        answers(masked) | {"id": "x2"},
        user("x3", "again"),
        {"$set": {"messages": [user("x0", "paint the fence"), bare | {"id": "x1"}, user("x3", "again")]}},
        model("m3", "Better.", thoughts=[{"subject": "Plan", "description": "use paint"}]),
        {"$set": {"messages": [CONTEXT, user("y1", SNAPSHOT), bare | {"id": "y2"}, user("y3", "again")]}},
        {"$rewindTo": "u2"},
        user("u3", "again"),
        {"$set": {"summary": "Fence painting"}},
    ]


EXPECTED = ["ctx", "u1", "m1", "m1:c1", "m1:c2", "m2", "u2", "m3", "y1", "u3"]


def test_a_document_gives_messages_calls_and_results(tmp_path):
    shell = call("c1", "Command: make\nOutput: x\nError: (none)\nExit Code: 2\nSignal: 0\nProcess Group PGID: 4")
    refused = call("c2", "[Operation Cancelled]", name="write_file", status="cancelled", field="error")
    broken = call("c3", "File not found", name="read_file", status="error", field="error")
    messages = [
        {"id": "i", "type": "info", "content": "Update available"},
        user("u", "hello"),
        model(
            "m", "Hi", [shell, refused, broken], thoughts=[{"subject": "A", "description": "b"}, {"description": "c"}]
        ),
    ]
    pairs, reading = read(write_document(tmp_path / "session-1.json", messages, summary="Greeting"))

    session = pairs[-1][0]
    assert (session.native_id, session.title, session.model) == ("s-1", "Greeting", "gemini-x")
    assert session.source == str(tmp_path / "session-1.json")
    first, second = pairs[0][1], pairs[1][1]
    assert (first.native_id, first.role, first.text) == ("s-1/u", "user", "hello")
    assert second.usage == Usage(input=43, output=7, cache_read=7, reasoning=2)
    assert second.reasoning == "A: b\nc"
    assert (second.tool_calls[0].id, second.tool_calls[0].name) == ("c1", "run_shell_command")
    assert [(r.call_id, r.outcome, r.exit_code, r.flag) for r in results(pairs)] == [
        ("c1", "error", 2, False),
        ("c2", "rejected", None, None),
        ("c3", "error", None, True),
    ]
    assert reading.skipped == Counter({"info": 1})
    assert reading.offset == (tmp_path / "session-1.json").stat().st_size


def test_the_offset_of_a_document_is_its_size_when_all_is_read(tmp_path):
    path = write_document(tmp_path / "session-1.json", [user("u", "a"), model("m", "b")])
    reading = Reading(path)
    offsets = [reading.offset for _ in READER.read(path, reading)]
    assert (offsets, reading.offset) == ([0, 0], path.stat().st_size)


def test_a_document_cut_anywhere_is_one_fault_and_no_pair(tmp_path):
    whole = write_document(tmp_path / "whole.json", [user("u", "a"), model("m", "b")]).read_bytes()
    path = tmp_path / "session-1.json"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        pairs, reading = read(path)
        assert (pairs, reading.malformed, reading.offset) == ([], 1, 0)


def test_one_odd_message_does_not_lose_the_others(tmp_path):
    odd = [
        3,
        None,
        [],
        {"type": 4},
        {"id": 5, "type": "user", "content": {"text": 6}},
        {"type": "gemini", "toolCalls": [7]},
    ]
    pairs, reading = read(write_document(tmp_path / "session-1.json", [*odd, user("u", "hello")]))
    assert [message.text for _, message in pairs] == ["hello"]
    assert reading.malformed == 3


def test_a_lone_surrogate_becomes_a_replacement_character(tmp_path):
    path = tmp_path / "session-1.json"
    text = json.dumps({**HEAD, "messages": [user("u", "HERE")]}).replace("HERE", r"cut \ud83d, C:\\ud83d, \ud83d\ude00")
    path.write_text(text)
    pairs, _ = read(path)
    assert pairs[0][1].text == "cut \ufffd, C:\\ud83d, \U0001f600"


def test_a_document_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "session-1.json"
    with path.open("wb") as file:
        file.truncate(MAX_DOCUMENT + 1)
    with pytest.raises(LogError, match="above the limit"):
        read(path)


def test_a_missing_file_is_a_log_error(tmp_path):
    for name in ("session-1.json", "session-1.jsonl"):
        with pytest.raises(LogError, match=name):
            read(tmp_path / name)


def test_lines_update_in_place_and_restated_history_is_not_repeated(tmp_path):
    pairs, reading = read(write_lines(tmp_path / "session-1.jsonl", chat_lines()))
    found = last_wins(pairs)
    assert list(found) == ["s-1/" + key for key in EXPECTED]
    assert found["s-1/m1"].model == "gemini-x"
    assert len(found["s-1/m1"].tool_calls) == 2
    assert [(r.call_id, r.outcome, r.exit_code) for r in results(pairs)] == [("c1", "error", 2), ("c2", "ok", None)]
    assert "masked" not in results(pairs)[0].text
    assert reading.skipped["$rewindTo"] == 1
    assert reading.malformed == 0


def test_lines_know_their_session(tmp_path):
    pairs, _ = read(write_lines(tmp_path / "session-1.jsonl", chat_lines()))
    session, nothing = pairs[-1]
    assert nothing is None
    assert session.title == "Fence painting"
    assert session.started_at.isoformat() == "2026-03-01T10:00:00+00:00"
    assert session.ended_at >= session.started_at


def test_context_is_injected_and_a_snapshot_is_a_summary(tmp_path):
    hooked = user("u", "<hook_context>remember</hook_context>\n\nreal words")
    alone = user("v", "<hook_context>remember</hook_context>")
    setup = user("w", "This is the Gemini CLI. We are setting up the context for our chat.")
    pairs, _ = read(
        write_lines(tmp_path / "session-1.jsonl", [HEAD, CONTEXT, hooked, alone, setup, user("x", SNAPSHOT)])
    )
    found = last_wins(pairs)
    assert [message.injected for message in found.values()] == [True, False, True, True, True]
    assert found["s-1/u"].text == "real words"
    assert [message.compaction_summary for message in found.values()] == [False] * 4 + [True]


HOOK = "<hook_context>recalled\nwords</hook_context>"
LOADED = "\n<loaded_context>\n<project_context>\nUse tabs.\n</project_context>\n</loaded_context>"
TASK = "look for the gate"


def as_written(path, records, kind):
    """The messages of a chat in either of the two formats."""
    if kind == "lines":
        return last_wins(read(write_lines(path / "session-1.jsonl", [HEAD, *records]))[0])
    return last_wins(read(write_document(path / "session-1.json", records))[0])


CONTEXTS = [
    f"{HOOK}\n\n{TASK}",
    f"{TASK}\n\n{HOOK}",
    [{"text": TASK}, {"text": HOOK}],
    [{"text": HOOK}, {"text": TASK}],
    [{"text": f"{HOOK}\n\n{TASK}"}, {"text": HOOK}, {"text": HOOK}],
    f"{HOOK}{HOOK}\n{TASK} {HOOK}\n",
    f"look for {HOOK}the gate",
    [{"text": LOADED}, {"text": TASK}],
    [{"text": HOOK}, {"text": LOADED}, {"text": TASK}],
    f"<session_context>\nday\n</session_context>{LOADED}\n\n{TASK}",
]


def test_context_is_not_the_users_words(tmp_path, subtests):
    for kind, content in product(["lines", "document"], CONTEXTS):
        with subtests.test(kind=kind, content=content):
            (message,) = as_written(tmp_path, [user("u", "") | {"content": content}], kind).values()
            assert (message.text, message.injected) == (TASK, False)


MACHINE_TEXTS = [
    LOADED,
    "<loaded_context> that was cut",
    "You have stopped calling tools without finishing. You have one final chance to complete the task with a …",
    "You have exceeded the time limit. You have one final chance to complete the task with a short grace period.",
    "You have exceeded the maximum number of turns. You have one final chance to complete the task with a …",
    f"System: Potential loop detected. Details: Repetitive patterns identified.\n\n{HOOK}",
]


def test_what_gemini_cli_tells_the_model_is_injected(tmp_path, subtests):
    for text in MACHINE_TEXTS:
        with subtests.test(text=text):
            (message,) = as_written(tmp_path, [user("u", text)], "lines").values()
            assert (message.injected, message.text) == (True, text.removesuffix(f"\n\n{HOOK}"))


def test_the_title_of_a_subagent_is_its_prompt(tmp_path):
    nudge = "You have stopped calling tools without finishing. You have one final chance to complete the task."
    opening = user("u", "") | {"content": [{"text": LOADED}, {"text": TASK}]}
    path = tmp_path / "tmp" / "fence" / "chats" / "s-0" / "s-1.jsonl"
    write_lines(path, [HEAD | {"kind": "subagent"}, opening, model("m", "Hm."), user("v", nudge)])
    with imported(tmp_path / "store.db", path) as store:
        ((session, *_),) = store.list()
    assert (session.title, session.parent_kind) == (TASK, "subagent")


SHELL = "<untrusted_context>\nOutput: no\nExit Code: 3\nProcess Group PGID: 9\n</untrusted_context>"


HOOK_OUTPUTS = [
    call("c", f"{SHELL}\n\n{HOOK}"),
    call("c", f"{SHELL}\n\n{HOOK}\n\n{HOOK}\n"),
    call("c", f"{HOOK}\n{SHELL}"),
    call("c", f"{SHELL}\n\n{HOOK}", status="error", field="error"),
    call("c", SHELL, result=[*call("c", SHELL)["result"], {"text": f"\n\n{HOOK}"}]),
    call("c", SHELL, result=f"{SHELL}\n\n{HOOK}"),
]


def test_a_hook_does_not_hide_how_a_command_ended(tmp_path, subtests):
    for kind, made in product(["lines", "document"], HOOK_OUTPUTS):
        with subtests.test(kind=kind, made=made):
            messages = as_written(tmp_path, [model("m", "", [made])], kind)
            (result,) = messages["s-1/m:c"].tool_results
            assert (result.text, result.outcome, result.exit_code) == (SHELL, "error", 3)
            # As it was stored before: what a hook added still stands in it.
            assert (
                judge("gemini-cli", "run_shell_command", replace(result, text=f"{SHELL}\n\n{HOOK}", exit_code=None))
                == "error"
            )


def test_a_call_takes_until_its_own_time(tmp_path):
    at_once = call("d", "x") | {"timestamp": "2026-03-01T10:00:02.000Z"}
    messages = as_written(tmp_path, [model("m", "", [call("c", "x"), at_once])], "lines")
    assert [messages[f"s-1/m:{key}"].tool_results[0].duration for key in "cd"] == [3.0, None]


def test_the_answer_of_a_call_is_picked_by_its_id(tmp_path):
    both = call("c1", "one")["result"] + call("c2", "two", field="error")["result"]
    calls = [call("c1", "", name="grep", result=both), call("c2", "", name="grep", status="error", result=both)]
    pairs, _ = read(write_lines(tmp_path / "session-1.jsonl", [HEAD, model("m", "", calls)]))
    assert [(r.text, r.outcome) for r in results(pairs)] == [("one", "ok"), ("two", "error")]


SHELL_OUTPUTS = [
    ("Output: x\nExit Code: 7", "error", 7),
    ("Output: Exit Code: 7\nProcess Group PGID: 3", "ok", None),
    ("Output: a\nExit Code: 7\nb\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)", "ok", 0),
    ("Output: x\nError: (none)\nExit Code: (none)\nSignal: 9", "error", None),
    ("Output: x\nExit Code: -1\nSignal: 0", "error", -1),
    ("<untrusted_context>\nCommand was cancelled by user before it could complete.", "rejected", None),
    ("Command was automatically cancelled because it exceeded the timeout of 5 minutes.", "error", None),
    ("", "ok", None),
]


def test_a_shell_result_says_how_the_command_ended(tmp_path, subtests):
    for output, outcome, code in SHELL_OUTPUTS:
        with subtests.test(output=output, outcome=outcome):
            pairs, _ = read(write_lines(tmp_path / "session-1.jsonl", [HEAD, model("m", "", [call("c", output)])]))
            (result,) = results(pairs)
            assert (result.outcome, result.exit_code) == (outcome, code)


def test_a_call_without_an_end_has_no_result(tmp_path):
    pairs, _ = read(
        write_lines(tmp_path / "session-1.jsonl", [HEAD, model("m", "", [call("c", "", status="executing")])])
    )
    assert results(pairs) == []
    assert pairs[0][1].tool_calls[0].id == "c"


def test_the_chat_of_a_subagent_is_a_child(tmp_path):
    path = tmp_path / "chats" / "s-parent" / "s-child.jsonl"
    write_lines(
        path, [{**HEAD, "sessionId": "s-child", "kind": "subagent", "directories": ["/srv/fence"]}, user("u", "go")]
    )
    ((session, message),), _ = read(path)
    assert session.parent_id == session_id("gemini-cli", "s-parent")
    assert session.parent_kind == "subagent"
    assert session.project == "/srv/fence"
    assert message.sidechain


def test_the_project_comes_from_the_files_beside_the_chats(tmp_path):
    path = write_lines(tmp_path / ".gemini" / "tmp" / "fence" / "chats" / "session-1.jsonl", [HEAD, user("u", "go")])
    assert read(path)[0][0][0].project == ""
    registry = tmp_path / ".gemini" / "projects.json"
    registry.write_text(json.dumps({"projects": {"/srv/other": "other", "/srv/fence": "fence"}}))
    assert read(path)[0][0][0].project == "/srv/fence"
    (path.parent.parent / ".project_root").write_text("/srv/painted")
    assert read(path)[0][0][0].project == "/srv/painted"


def test_the_project_of_a_hashed_folder_comes_from_the_registry(tmp_path):
    digest = sha256(b"/srv/fence").hexdigest()
    path = tmp_path / ".gemini" / "tmp" / digest / "chats" / "session-1.jsonl"
    write_lines(path, [{**HEAD, "projectHash": digest}, user("u", "go")])
    (tmp_path / ".gemini" / "projects.json").write_text(json.dumps({"projects": {"/srv/fence": "fence"}}))
    assert read(path)[0][0][0].project == "/srv/fence"


def test_a_log_cut_anywhere_and_continued_gives_the_same(tmp_path):
    whole = write_lines(tmp_path / "whole" / "session-1.jsonl", chat_lines()).read_bytes()
    path = tmp_path / "session-1.jsonl"
    path.write_bytes(whole)
    expected = last_wins(read(path)[0])
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        pairs, reading = read(path)
        path.write_bytes(whole)
        later = Reading(path, reading.offset, reading.line, json.loads(json.dumps(reading.state)))
        more, _ = read(path, later)
        assert last_wins(pairs + more) == expected
        assert later.malformed == 0


def test_a_reading_given_up_after_any_pair_can_be_continued(tmp_path):
    path = write_lines(tmp_path / "session-1.jsonl", chat_lines())
    everything = read(path)[0]
    expected = last_wins(everything)
    for count in range(1, len(everything)):
        reading = Reading(path)
        source = READER.read(path, reading)
        pairs = [next(source) for _ in range(count)]
        place = (reading.offset, reading.line, json.loads(json.dumps(reading.state)))
        source.close()
        more, _ = read(path, Reading(path, *place))
        assert last_wins(pairs + more) == expected


def test_two_records_on_one_line_are_both_read(tmp_path):
    path = tmp_path / "session-1.jsonl"
    path.write_text(json.dumps(HEAD) + "\n" + json.dumps(user("a", "one")) + json.dumps(user("b", "two")) + "\n")
    assert [message.text for _, message in read(path)[0]] == ["one", "two"]


def test_claims_its_own_logs_only(tmp_path):
    name = tmp_path / "session-1.jsonl"
    own = write_document(tmp_path / "session-1.json", [user("u", "x" * 100_000)]).read_bytes()[:65536]
    assert READER.claims(tmp_path / "session-1.json", own)
    assert READER.claims(name, json.dumps(HEAD).encode() + b"\n" + b'{"id"')
    others = [
        b"",
        b"\xff\xfe",
        b'[{"role":"user","content":"hi"}]',
        b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"projectHash"}}\n',
        b'{"type":"session.start","data":{"sessionId":"s"},"id":"e","timestamp":"t"}\n',
        b'{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}\n',
        b'{"info":{"id":"ses_1"},"messages":[]}',
    ]
    for head in others:
        assert not READER.claims(name, head)
        assert not READER.claims(tmp_path / "session-1.json", head)
    assert not READER.claims(tmp_path / "notes.md", json.dumps(HEAD).encode())


def test_finds_chats_and_nothing_else(tmp_path):
    root = READER.roots({"GEMINI_CLI_HOME": str(tmp_path)}, Path("/nowhere"))[0]
    assert READER.roots({}, tmp_path) == [root]
    chats = root / "fence" / "chats"
    wanted = [chats / "p" / "child.jsonl", chats / "session-1.json", chats / "session-2.jsonl"]
    for path in [
        *wanted,
        root / "fence" / "logs.json",
        chats / "session-3.jsonl.tmp-1",
        root / "fence" / "checkpoint-a.json",
    ]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert READER.find(root) == wanted
    assert READER.find(wanted[0]) == wanted[:1]


def test_finds_chats_that_were_copied_elsewhere(tmp_path):
    copied = tmp_path / "backup" / "monday.json"
    copied.parent.mkdir()
    copied.touch()
    assert READER.find(tmp_path) == [copied]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "name", "text", "result", "status", "output", "functionCall"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
FIELDS = ["id", "type", "timestamp", "content", "thoughts", "tokens", "model", "toolCalls", "sessionId", "projectHash"]
RECORDS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*FIELDS, "$set", "$rewindTo", "messages", "directories", "kind"], JSON)
) | st.fixed_dictionaries(
    {"id": st.just("m"), "type": st.sampled_from(["user", "gemini"])}, optional=dict.fromkeys(FIELDS[2:8], JSON)
)


@given(records=st.lists(RECORDS, max_size=4), cut=st.integers(0, 40), junk=st.binary(max_size=8))
def test_no_bytes_make_it_fail(tmp_path_factory, records, cut, junk):
    folder = tmp_path_factory.mktemp("odd")
    lines = "\n".join(json.dumps(record) for record in records).encode()
    whole = json.dumps({**HEAD, "messages": records}).encode()
    for name, data in (("session-1.jsonl", lines), ("session-1.json", whole)):
        for content in (
            data,
            data[: max(0, len(data) - cut)] + junk,
            b"[" * 5000,
            b'{"id":"a","content":' + b"[" * 5000,
        ):
            path = folder / name
            path.write_bytes(content)
            READER.claims(path, content[:65536])
            try:
                pairs, _ = read(path)
            except WarmstartError:
                continue
            assert all(isinstance(message, Message | None) for _, message in pairs)


@pytest.mark.corpus
@pytest.mark.skipif(not DATA.exists(), reason="benchmark data is missing")
def test_the_benchmark_data_gives_known_totals():
    counts = Counter()
    ids = set()
    for path in sorted(DATA.glob("*/*.json")):
        with path.open("rb") as file:
            assert READER.claims(path, file.read(65536))
        pairs, reading = read(path)
        assert reading.malformed == 0
        counts.update(reading.skipped)
        for _, message in pairs:
            ids.add(message.native_id)
            counts[message.role] += 1
            counts["calls"] += len(message.tool_calls)
            counts["exit 0"] += sum(result.exit_code == 0 for result in message.tool_results)
    assert counts == {"user": 5, "assistant": 17, "tool": 12, "calls": 12, "exit 0": 6, "info": 1, "warning": 1}
    assert len(ids) == 34


def test_a_call_that_a_policy_denies_is_rejected(tmp_path):
    denied = call("c1", "Tool execution denied by policy.", name="write_file", status="error", field="error")
    path = write_lines(tmp_path / "chats" / "session-1.jsonl", [HEAD, user("u1", "go"), model("m1", "", [denied])])
    (result,) = results(read(path)[0])
    assert result.outcome == "rejected"
    assert judge("gemini-cli", "write_file", replace(result, outcome="error")) == "rejected"
