from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from time import process_time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profile.talks import asked, bash, did, talk
from warmstart.sessions.marks import CALL, MARK
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.templates.extraction.extractor import SessionExtractor
from warmstart.templates.values import SessionSeed

PROJECT = "/home/mira/shop"
SESSION = Session(agent="claude-code", native_id="s1", project=PROJECT)
EDITED = "The file has been updated successfully."


def extracted(*parts: list[Message], session: Session = SESSION, **options: Any) -> SessionSeed:
    return SessionExtractor(**options).extract(session, talk(*parts))


def edit(path: str, old: str = "a = 1", new: str = "a = 2", outcome: Any = "ok") -> list[Message]:
    return did("Edit", {"file_path": f"{PROJECT}/{path}", "old_string": old, "new_string": new}, outcome, EDITED)


def read(path: str, text: str = "a = 1") -> list[Message]:
    return did("Read", {"file_path": f"{PROJECT}/{path}"}, "ok", text)


def said(text: str) -> list[Message]:
    return [Message(native_id=f"said {text[:20]}", role="assistant", text=text)]


def tools(seed: SessionSeed) -> list[list[str]]:
    return [[act.tool for act in shown.acts] for shown in seed.demonstrations]


def carried(seed: SessionSeed) -> str:
    return json.dumps([[shown.task, *shown.acts] for shown in seed.demonstrations])


PASSED = bash("python -m pytest -q", "ok", "4 passed in 0.12s")


def test_a_sub_task_whose_tests_passed_is_shown_with_what_says_so() -> None:
    seed = extracted(asked("Round the prices."), read("prices.py"), edit("prices.py"), PASSED)
    (shown,) = seed.demonstrations
    assert shown.task == "Round the prices."
    assert [act.tool for act in shown.acts] == ["Read", "Edit", "Bash"]
    assert shown.acts[2].result == "4 passed in 0.12s"
    assert shown.evidence == "`python -m pytest` passed after the last edit"
    assert json.loads(shown.acts[1].arguments)["file_path"] == "{{project}}/prices.py"
    assert {source.session for source in shown.sources} == {SESSION.id}
    assert len(shown.sources) == 4


def test_each_request_is_a_sub_task_and_a_go_ahead_is_none() -> None:
    seed = extracted(
        asked("Round the prices."),
        edit("prices.py"),
        asked("yes, go on"),
        PASSED,
        asked("Now add a discount to the cart, please."),
        edit("cart.py"),
        bash("git commit -am 'Add a discount'", "ok", "[main 1a2b3c4] Add a discount"),
    )
    assert [task.text for task in seed.tasks] == ["Round the prices.", "Now add a discount to the cart, please."]
    assert sorted(map(len, tools(seed))) == [2, 2]
    assert {shown.evidence for shown in seed.demonstrations} == {
        "`python -m pytest` passed after the last edit",
        "committed after the last edit",
    }


def test_an_answer_to_a_question_belongs_to_the_request() -> None:
    seed = extracted(
        asked("I want to change my booking."),
        said("Which booking is it?"),
        asked("It is the one to Oslo."),
        did("get_booking", {"city": "Oslo"}, "ok", '{"seats": 2}'),
        said("Shall I change it?"),
        asked("Yes, please go ahead with it."),
        did("update_booking", {"seats": 3}, "ok", '{"seats": 3}'),
    )
    assert [task.text for task in seed.tasks] == ["I want to change my booking."]
    assert tools(seed) == [["get_booking", "update_booking"]]


def test_failed_steps_are_left_out_of_a_sub_task_that_ended_well() -> None:
    seed = extracted(
        asked("Round the prices."),
        edit("prices.py", outcome="error"),
        bash("cat price.py", "error", "cat: price.py: No such file or directory"),
        did("Edit", {"file_path": "x.py"}, "rejected", "The user said no."),
        did("Edit", {"file_path": "y.py"}, None),
        edit("prices.py"),
        PASSED,
    )
    assert tools(seed) == [["Edit", "Bash"]]


def test_a_result_that_tells_of_an_error_is_not_shown_although_it_was_flagged_ok(subtests) -> None:
    cases = [
        "Traceback (most recent call last):\n  File 'x.py'\nKeyError: 'a'",
        "Error: reservation not found",
        "ok so far\nValueError: no price",
        "fatal: not a git repository",
        "npm ERR! missing script",
    ]
    for text in cases:
        with subtests.test(text=text):
            seed = extracted(asked("Round the prices."), bash("./round.sh", "ok", text), edit("prices.py"), PASSED)
            assert tools(seed) == [["Edit", "Bash"]]
            assert "round.sh" not in carried(seed)


def test_what_does_nothing_is_left_out() -> None:
    seed = extracted(
        asked("Round the prices."),
        bash("ls -la", "ok", "prices.py"),
        bash("pwd", "ok", PROJECT),
        did("TodoWrite", {"todos": []}, "ok", "Todos have been modified successfully."),
        did("update_plan", {"plan": []}, "ok", "Plan updated"),
        did("Grep", {"pattern": "nothing"}, "ok", ""),
        edit("prices.py", "a", "a"),
        edit("prices.py"),
        edit("prices.py"),
        PASSED,
        PASSED,
    )
    assert tools(seed) == [["Edit", "Bash"]]


def test_a_session_that_failed_by_reward_or_by_the_person_gives_nothing() -> None:
    parts = (asked("Round the prices. Always use decimals."), edit("prices.py"), PASSED)
    for judge in ("log", "user"):
        failed = replace(SESSION, outcome="failure", judge=judge, evidence="reward 0.0")
        assert extracted(*parts, session=failed) == SessionSeed()


def test_a_reward_speaks_for_every_sub_task_of_the_session() -> None:
    won = replace(SESSION, agent="openai", outcome="success", judge="log", evidence="reward 1.0")
    seed = extracted(asked("Book a seat for me."), did("book_seat", {"row": 3}, "ok", "booked"), session=won)
    assert [shown.evidence for shown in seed.demonstrations] == ["reward 1.0"]


def test_what_the_person_objected_to_is_not_shown(subtests) -> None:
    cases = [
        "No, that is wrong, undo it.",
        "That's not what I asked for.",
        "It still fails.",
        "[Request interrupted by user]",
    ]
    for reaction in cases:
        with subtests.test(reaction=reaction):
            seed = extracted(
                asked("Round the prices."),
                edit("prices.py"),
                PASSED,
                asked(reaction),
                edit("cart.py", "x", "y"),
                PASSED,
            )
            assert "prices.py" not in carried(seed)
            assert "cart.py" in carried(seed)


def test_a_sub_task_without_a_check_says_that_nobody_objected() -> None:
    seed = extracted(asked("Round the prices."), edit("prices.py"), asked("Thanks, perfect!"))
    assert [shown.evidence for shown in seed.demonstrations] == ["its call succeeded, and the person approved"]
    seed = extracted(asked("Round the prices."), edit("prices.py"), edit("a.py"), asked("Which tests cover the cart?"))
    assert [shown.evidence for shown in seed.demonstrations] == ["all of its 2 calls succeeded, and the person went on"]


def test_an_error_that_the_person_pastes_right_after_speaks_against_what_was_not_checked() -> None:
    pasted = asked("Now I get this:\n```\nTraceback (most recent call last):\nKeyError: 'price'\n```")
    unchecked = extracted(asked("Round the prices."), edit("prices.py"), pasted, edit("cart.py", "x", "y"), PASSED)
    assert "prices.py" not in carried(unchecked)
    checked = extracted(
        asked("Round the prices."), edit("prices.py"), PASSED, pasted, edit("cart.py", "x", "y"), PASSED
    )
    assert "prices.py" in carried(checked)


def test_an_error_that_nobody_mended_is_no_good_end() -> None:
    seed = extracted(asked("Deploy it."), edit("a.py"), did("deploy", {}, "error", "Error: no host"), asked("And now?"))
    assert seed.demonstrations == ()


def test_what_was_taken_back_later_is_not_shown(subtests) -> None:
    cases = [
        bash("git checkout -- prices.py"),
        bash("git restore prices.py"),
        bash("git restore ."),
        bash("git reset --hard"),
        bash("git stash"),
        bash(f"rm {PROJECT}/prices.py"),
        edit("prices.py", "a = 2", "a = 1"),
        bash("cd /home/mira/shop && git checkout HEAD -- ./prices.py"),
        bash("git checkout HEAD prices.py"),
        bash("git commit -am Round -q && git revert --no-edit HEAD", "ok", "[main 1a2b3c4] Revert"),
    ]
    for undoing in cases:
        with subtests.test(undoing=undoing):
            seed = extracted(
                asked("Round the prices."),
                edit("prices.py"),
                PASSED,
                asked("Let us look at the cart."),
                undoing,
                read("cart.py"),
            )
            assert "a = 2" not in carried(seed)


def test_of_several_commits_the_one_that_was_reverted_goes(subtests) -> None:
    cases = [
        ("git revert --no-edit HEAD~1", "a = 2", "x = 2"),
        ("git revert --no-edit 1a2b3c4", "a = 2", "x = 2"),
        ("git revert --no-edit HEAD", "x = 2", "a = 2"),
        ("git reset --hard HEAD~1", "x = 2", "a = 2"),
        ("git reset --hard 1a2b3c4d5e6f", "x = 2", "a = 2"),
        ("git revert --no-edit fedcba9", "", "a = 2"),
    ]
    for undoing, gone, stays in cases:
        with subtests.test(undoing=undoing, gone=gone, stays=stays):
            seed = extracted(
                asked("Round the prices."),
                edit("prices.py"),
                bash("git commit -am Round", "ok", "[main 1a2b3c4] Round"),
                asked("Add a discount to the cart."),
                edit("cart.py", "x = 1", "x = 2"),
                bash("git commit -am Discount", "ok", "[main 5d6e7f8] Discount"),
                asked("What does the log look like?"),
                bash(undoing, "ok", "done"),
            )
            assert stays in carried(seed)
            assert not gone or gone not in carried(seed)


def test_what_is_stashed_and_fetched_again_stays() -> None:
    seed = extracted(
        asked("Round the prices."),
        edit("prices.py"),
        PASSED,
        asked("Switch the branch for a moment and come back."),
        bash("git stash", "ok", "Saved working directory"),
        bash("git stash pop", "ok", "On branch main"),
    )
    assert "a = 2" in carried(seed)


def test_a_file_written_back_as_it_was_takes_the_change_back() -> None:
    def write(text: str) -> list[Message]:
        return did("Write", {"file_path": "a.md", "content": text}, "ok", f"wrote {len(text)} characters")

    seed = extracted(
        asked("Write the first draft."),
        write("one"),
        asked("Try it in verse instead of prose."),
        write("rhyme"),
        asked("Put it as it was before."),
        write("one"),
    )
    assert "rhyme" not in carried(seed)
    assert '\\"one\\"' in carried(seed)


def test_changes_after_which_the_tests_fail_for_good_are_not_shown() -> None:
    failed = bash("python -m pytest -q", "error", "1 failed, 3 passed")
    seed = extracted(
        asked("Round the prices."),
        edit("prices.py"),
        PASSED,
        asked("Add a discount to the cart."),
        edit("cart.py", "x = 1", "x = 2"),
        asked("Run all of the tests."),
        failed,
    )
    assert "prices.py" in carried(seed)
    assert "cart.py" not in carried(seed)


def test_the_same_call_is_shown_once_and_at_most_three_sub_tasks_are() -> None:
    parts: list[list[Message]] = []
    for number in range(6):
        parts += [asked(f"Please mend part {number} of the shop now."), edit(f"part{number}.py"), PASSED]
    seed = extracted(*parts)
    assert len(seed.demonstrations) == 3
    calls = [(act.tool, act.arguments) for shown in seed.demonstrations for act in shown.acts]
    assert len(calls) == len(set(calls))
    assert sum(tool == "Bash" for tool, _ in calls) == 1
    assert len(extracted(*parts, max_examples=1).demonstrations) == 1
    assert extracted(*parts, max_examples=0).demonstrations == ()


def test_a_long_sub_task_is_shown_by_few_calls_that_matter() -> None:
    looks = [bash(f"cat notes{number}.txt", "ok", f"note {number}") for number in range(30)]
    seed = extracted(asked("Round the prices."), *looks, read("prices.py"), edit("prices.py"), PASSED)
    (shown,) = seed.demonstrations
    assert len(shown.acts) <= 8
    assert [act.tool for act in shown.acts[-3:]] == ["Read", "Edit", "Bash"]


def test_a_long_result_is_shortened_and_says_by_how_much() -> None:
    output = "\n".join(f"tests/test_{number}.py ok" for number in range(200)) + "\n200 passed in 3.10s"
    seed = extracted(asked("Round the prices."), edit("prices.py"), bash("pytest -v", "ok", output))
    result = seed.demonstrations[0].acts[-1].result
    assert len(result) <= 320
    assert "tests/test_0.py ok" in result
    assert "195 lines left out" in result
    assert result.endswith("200 passed in 3.10s")


def test_a_shortened_result_is_whole_text() -> None:
    output = " ".join(f"mail{number}@example.org 😀" for number in range(400))
    seed = extracted(asked("List them."), did("list_mails", {"all": True}, "ok", output), asked("And the last one?"))
    result = seed.demonstrations[0].acts[0].result
    result.encode()
    assert result.count("{{") == result.count("}}")
    assert "@" not in result


def test_long_text_that_was_written_is_shown_as_its_shape() -> None:
    story = "Once upon a time. " * 40
    patch = f"*** Begin Patch\n*** Update File: src/a.py\n@@\n-{story}\n+x\n*** End Patch"
    seed = extracted(
        asked("Write it down."),
        did("Write", {"file_path": "a.md", "content": story}, "ok", "written"),
        did("apply_patch", patch, "ok", "Success. Updated the following files:\nM src/a.py"),
        bash("git commit -am 'Write'", "ok", "[main 1a2b3c4] Write"),
    )
    shown = {act.tool: json.loads(act.arguments) for act in seed.demonstrations[0].acts[:3]}
    assert shown["Write"] == {"file_path": "a.md", "content": "{{content}}"}
    assert shown["apply_patch"]["input"].splitlines()[:3] == [
        "*** Begin Patch",
        "*** Update File: src/a.py",
        "{{patch}}",
    ]
    assert "Once upon" not in carried(seed)
    written = did("Write", {"file_path": "a.md", "content": story}, "ok", "written")
    assert "Once upon" not in carried(extracted(asked("Write it."), written, asked("And b?"), placeholders=False))


def test_the_shell_of_every_agent_is_understood(subtests) -> None:
    cases = [
        ("exec_command", {"cmd": "go test ./...", "workdir": PROJECT, "yield_time_ms": 1000}, "ok  shop 0.1s"),
        ("run_shell_command", {"command": "go test ./...", "description": "test"}, "ok  shop 0.1s"),
        ("bash", {"command": "go test ./...", "description": "test"}, "ok  shop 0.1s"),
        ("shell", {"command": ["bash", "-lc", "go test ./..."]}, "ok  shop 0.1s"),
    ]
    for tool, arguments, result in cases:
        with subtests.test(tool=tool, arguments=arguments, result=result):
            framed = f"Chunk ID: d61bd2\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n{result}\n"
            for output in (result, framed):
                seed = extracted(asked("Round the prices."), edit("a.go"), did(tool, arguments, "ok", output))
                (shown,) = seed.demonstrations
                assert "passed after the last edit" in shown.evidence
                assert [act.tool for act in shown.acts] == ["Edit", tool]
                assert shown.acts[1].result == result


def test_calls_that_are_not_known_to_be_safe_are_not_shown() -> None:
    parts = (
        asked("Fetch the list and clean up."),
        bash("curl -sS https://example.org/list.txt", "ok", "one two"),
        bash("rm -rf build/old", "ok"),
        edit("a.py"),
        PASSED,
    )
    assert "curl" not in carried(extracted(*parts))
    assert "rm -rf" not in carried(extracted(*parts))


def test_tasks_are_single_short_lines_in_the_person_s_own_words() -> None:
    seed = extracted(
        asked("/compact"),
        asked("Hello there! Please round\n\nthe prices of order #W1234567 to 2 digits, " + "really " * 60),
        edit("prices.py"),
        asked("continue"),
        PASSED,
        asked("Implement the following plan:\n1. everything"),
        edit("b.py"),
        PASSED,
    )
    (task,) = seed.tasks
    assert task.text.startswith("Please round the prices of order {{order_id}} to 2 digits")
    assert len(task.text) <= 160
    assert "\n" not in task.text


def test_summaries_injected_text_and_our_own_words_are_never_taken() -> None:
    shown_before = ToolCall(id=f"{CALL}1", name="Edit", arguments='{"file_path": "old-template.py"}')
    ours: Sequence[Message] = (
        Message(native_id="m1", role="user", text="Summary: rename everything.", compaction_summary=True),
        Message(native_id="m2", role="user", text="Always rename everything.", injected=True),
        Message(native_id="m3", role="system", text=f"{MARK} Always rename everything."),
        Message(native_id="m4", role="assistant", tool_calls=(shown_before,)),
        Message(
            native_id="m5",
            role="tool",
            tool_results=(ToolResult(call_id=f"{CALL}1", outcome="ok", text="renamed everything"),),
        ),
        Message(native_id="m6", role="user", text="Always rename everything too.", sidechain=True),
    )
    seed = extracted(list(ours), asked("Round the prices."), edit("prices.py"), PASSED)
    assert "rename" not in repr(seed)
    assert "old-template" not in repr(seed)
    assert tools(seed) == [["Edit", "Bash"]]


def test_what_an_agent_adds_to_a_file_that_it_reads_is_left_out() -> None:
    added = (
        "\n\n<system-reminder>\nWhenever you read a file, you should consider whether it would be considered malware. "
        "You MUST refuse to improve or augment the code.\n</system-reminder>\n"
    )
    code = "def price(order):\n    return order.total * order.rate"
    seed = extracted(
        asked("Round the prices."),
        read("prices.py", code + added),
        edit("prices.py", "return order.total * order.rate", "return round(order.total * order.rate)"),
        PASSED,
    )
    assert tools(seed) == [["Read", "Edit", "Bash"]]
    assert seed.demonstrations[0].acts[0].result == code


def test_secrets_are_replaced_in_all_that_is_carried() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
    seed = extracted(
        asked(f"Use the token {token} to mend the prices."),
        bash(f"GH_TOKEN={token} make prices", "ok", f"using {token}"),
        edit("prices.py"),
        PASSED,
        placeholders=False,
    )
    assert len(seed.demonstrations) == 1
    assert token not in repr(seed)


def test_without_placeholders_values_stay() -> None:
    seed = extracted(
        asked("Show order #W1234567 of 2024-05-01."),
        did("get_order", {"order_id": "#W1234567"}, "ok", '{"order_id": "#W1234567"}'),
        asked("And the next one?"),
        placeholders=False,
    )
    assert "#W1234567" in seed.tasks[0].text
    assert json.loads(seed.demonstrations[0].acts[0].arguments) == {"order_id": "#W1234567"}


def test_with_tools_only_arguments_that_fit_their_schema_are_carried() -> None:
    schema = {
        "type": "object",
        "properties": {
            "reservation_id": {"type": "string", "pattern": "^[A-Z0-9]{6}$"},
            "date": {"type": "string", "format": "date"},
            "cabin": {"type": "string", "enum": ["economy", "business"]},
            "seats": {"type": "integer", "maximum": 9},
        },
        "required": ["reservation_id"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "book", "parameters": schema}}
    good = {"reservation_id": "NO6JO3", "date": "2024-05-24", "cabin": "economy", "seats": 2}
    seed = extracted(
        asked("Book it for me."),
        did("book", {"reservation_id": "NO6JO3", "seats": 12}, "ok", "booked 12"),
        did("book", {"seats": 3}, "ok", "booked 3"),
        did("book", good, "ok", "booked 2"),
        asked("And the next one?"),
        tools=[tool],
    )
    shown = [json.loads(act.arguments) for each in seed.demonstrations for act in each.acts]
    assert shown == [{"reservation_id": "XX0XX0", "date": "2000-01-01", "cabin": "economy", "seats": 2}]
    assert [json.loads(each.arguments) for card in seed.cards for each in card.exemplars] == shown


def test_the_same_session_gives_the_same_seed() -> None:
    parts = talk(asked("Round the prices."), read("prices.py"), edit("prices.py"), PASSED)
    assert SessionExtractor().extract(SESSION, parts) == SessionExtractor().extract(SESSION, parts)


def test_an_empty_session_gives_an_empty_seed() -> None:
    assert extracted() == SessionSeed()


def test_a_long_session_is_quick() -> None:
    parts: list[list[Message]] = []
    for number in range(125):
        parts += [
            asked(f"Please mend part {number} of the shop."),
            read(f"part{number}.py", "def price(x):\n    return x\n" * 20),
            edit(f"part{number}.py", f"price{number}", f"cost{number}"),
            bash("python -m pytest -q tests", "ok", "....\n" * 30 + f"{number} passed in 0.12s"),
        ]
    messages = talk(*parts)
    extractor = SessionExtractor()
    times = []
    for _ in range(3):
        began = process_time()
        seed = extractor.extract(SESSION, messages)
        times.append(process_time() - began)
    assert len(seed.demonstrations) == 3
    assert min(times) < 1.2  # a tenth of it on a machine that does nothing else


texts = st.text(max_size=60) | st.sampled_from(
    ["", "{", "[1,", '{"command": "git reset --hard"}', "\ud800", "\x00", "```", "{{date}}", "Error: x", "a" * 5_000]
)
arguments = texts | st.dictionaries(
    st.sampled_from(["command", "cmd", "file_path", "old_string", "new_string", "content", "user_id", "date"]),
    st.none() | st.integers() | texts | st.lists(texts, max_size=3),
    max_size=4,
).map(json.dumps)
calls = st.builds(
    did,
    st.sampled_from(["Bash", "Edit", "Write", "exec_command", "apply_patch", "TodoWrite", "get_user", "", "a b"]),
    arguments,
    st.sampled_from(["ok", "error", "rejected", "unknown", None]),
    texts,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(calls | st.builds(asked, texts), max_size=8))
def test_any_session_can_be_extracted_from(parts: list[list[Message]]) -> None:
    for options in ({}, {"placeholders": False}):
        seed = extracted(*parts, **options)
        for shown in seed.demonstrations:
            assert shown.acts
            for act in shown.acts:
                assert isinstance(json.loads(act.arguments), dict)
                assert act.result
                act.result.encode()
                act.arguments.encode()
