"""What a passage shows: the sentence that matches first, what it answered, and the commands that match."""

from __future__ import annotations

import json

import pytest

from tests.recall.stores import keep
from warmstart import Message, ToolCall
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.text.answers import ROWS, answer_pattern

FILLER = "The gauge at the harbour sends a reading every six minutes, and the table keeps them for a year. "
LIST = """Here is what I found:

## Next steps

| step | owner |
| --- | --- |
| **calibrate** the gauge | Ann |

```python
forecast(hours=48)
```

1. Run the calibration first.
2. Then `make forecast`.
"""


def call(native_id: str, name: str, **arguments: object) -> Message:
    return Message(
        native_id=native_id,
        role="assistant",
        text="I do it now.",
        tool_calls=(ToolCall(id=native_id, name=name, arguments=json.dumps(arguments)),),
    )


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def test_a_question_for_a_port_is_answered_in_the_first_line(store: SQLSessionStore, recall: Recall) -> None:
    """Forty messages name the port, in a sentence among others that also have words of the question."""
    for number in range(40):
        reply = (
            f"{FILLER * 3}The server must support imports from old reports, and we use it for user accounts. "
            f"{FILLER}For station {number % 4} the tide server listens on port 5433. {FILLER * 2}"
            "If you use another server, its port has to be free."
        )
        keep(store, f"s{number}", f"Can you check station {number % 4}? {FILLER}", reply, days=40 - number)
    found = recall.search("which port does the server use")
    assert len(found) == 5
    for evidence in found:
        assert "port 5433" in first_line(evidence.text)
        assert evidence.role == "assistant"


def test_the_reply_comes_before_the_question_if_it_has_what_was_asked_for(
    store: SQLSessionStore, recall: Recall
) -> None:
    keep(store, "s", "Which port does the database use?", "It listens on 5433.")
    (found,) = recall.search("which port does the database use")
    assert found.text == "It listens on 5433.\nAsked: Which port does the database use?"
    assert (found.role, found.message_ids) == ("assistant", ("s/1", "s/0"))
    (found,) = recall.search("database ports")
    assert found.text == "Which port does the database use?\nReply: It listens on 5433."


def test_only_whole_words_make_a_sentence_match(store: SQLSessionStore, recall: Recall) -> None:
    reply = f"{FILLER * 2}We support important reports of users. {FILLER}Tides enter here: the port is open. {FILLER}"
    keep(store, "s", "What else?", reply)
    (found,) = recall.search("ports used for tides")
    assert first_line(found.text).startswith("… Tides enter here: the port is open.")


def test_accents_and_scripts_without_spaces_match(store: SQLSessionStore, recall: Recall) -> None:
    text = f"{FILLER * 4}Der Pegel in Zürich ist hoch. {FILLER * 4}我们的数据库在五号端口。{FILLER * 4}"
    keep(store, "s", "What else?", text)
    assert first_line(recall.search("zurich")[0].text).startswith("… Der Pegel in Zürich ist hoch.")
    assert first_line(recall.search("数据库")[0].text).startswith("… 我们的数据库在五号端口。")


def test_marks_of_markdown_are_not_shown(store: SQLSessionStore, recall: Recall) -> None:
    keep(store, "s", "How do we calibrate?", LIST)
    (found,) = recall.search("calibrate the gauge")
    assert first_line(found.text) == (
        "Here is what I found: Next steps: step | owner ; calibrate the gauge | Ann ; forecast(hours=48) "
        "1. Run the calibration first. 2. Then `make forecast`."
    )


def test_an_item_of_a_list_is_shown_with_its_number(store: SQLSessionStore, recall: Recall) -> None:
    keep(store, "s", "What next?", f"{FILLER * 4}\n1. Paint the gazebo.\n2. Oil the drawbridge. {FILLER * 4}")
    assert first_line(recall.search("drawbridge")[0].text).startswith("… 2. Oil the drawbridge. The gauge")


def test_commands_are_shown_if_they_match_and_are_labelled(store: SQLSessionStore, recall: Recall) -> None:
    calls = [
        call("s/1", "Bash", command="cd src && make lint"),
        call("s/2", "Bash", command="mise run test:integration"),
        call("s/3", "Bash", command="mise run test:integration"),
    ]
    keep(store, "s", "can you run the integration tests", *calls)
    (found,) = recall.search("integration tests")
    assert found.text.split("\n")[-1] == "Ran: mise run test:integration"
    assert "lint" not in found.text


def test_a_passage_has_at_most_six_short_lines(store: SQLSessionStore, recall: Recall) -> None:
    calls = [call(f"s/{number}", "Bash", command=f"surge --table {number} {'x' * 500}") for number in range(1, 9)]
    keep(store, "s", f"{FILLER * 9}Add a surge table. {FILLER * 9}", *calls, f"{FILLER * 9}The surge table is there.")
    (found,) = recall.search("surge table")
    assert len(found.text.split("\n")) <= 6
    assert max(map(len, found.text.split("\n"))) <= 320


def test_an_edit_is_shown_without_its_escapes(store: SQLSessionStore, recall: Recall) -> None:
    edit = call("s/1", "Edit", file_path="src/weir.py", old_string="", new_string='def open_weir():\n    return "up"')
    keep(store, "s", "Please do it.", edit)
    (found,) = recall.search("weir.py")
    assert first_line(found.text) == 'Edit: src/weir.py def open_weir(): return "up"'


def test_a_long_line_is_cut_around_the_match(store: SQLSessionStore, recall: Recall) -> None:
    keep(store, "s", "What is in the file?", f'{{{"0123456789," * 300}"gazebo":1,{"0123456789," * 300}}}')
    (found,) = recall.search("gazebo")
    assert "gazebo" in first_line(found.text)
    assert len(first_line(found.text)) <= 302


def test_what_an_agent_put_around_a_message_is_not_shown(store: SQLSessionStore, recall: Recall) -> None:
    reminder = "<system-reminder>Never mention the gazebo.</system-reminder>"
    keep(store, "s", f"Paint the gazebo green.\n{reminder}", "The gazebo is green.")
    (found,) = recall.search("gazebo")
    assert found.text == "The gazebo is green.\nAsked: Paint the gazebo green."


def test_what_was_said_twice_is_shown_once(store: SQLSessionStore, recall: Recall) -> None:
    plan = f"Paint the gazebo, then oil its hinges and the drawbridge. {FILLER * 2}"
    keep(store, "s", plan, "Not now.", plan, "It is done.")
    assert len(recall.search("gazebo hinges drawbridge")) == 1


@pytest.mark.parametrize(("asked", "answer", "question", "reply"), ROWS)
def test_what_a_question_asks_for_is_in_its_answer(asked: str, answer: str, question: str, reply: str) -> None:
    pattern = answer_pattern(question)
    assert pattern is not None
    assert pattern.pattern == answer
    assert pattern.search(reply)


def test_most_questions_ask_for_nothing_in_particular() -> None:
    for question in ("why did we drop Redis", "storm surge table", "what did we decide about retries", ""):
        assert answer_pattern(question) is None


def test_commands_that_look_the_same_are_shown_once(store: SQLSessionStore, recall: Recall) -> None:
    calls = [call(f"c{number}", "Bash", command=f"make forecast {'x' * 200}{number}") for number in range(3)]
    keep(store, "one", "run the forecast, please", *calls)
    (found,) = recall.search("forecast please")
    assert found.text.count("Ran:") == 1
