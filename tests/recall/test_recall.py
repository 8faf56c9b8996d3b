"""What a search promises."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recall.stores import NOW, keep
from warmstart import Evidence, Message, ToolCall, ToolResult
from warmstart.recall.recall import Recall


def natives(found: list[Evidence]) -> list[str]:
    return [each.native_id for each in found]


def test_a_passage_says_where_it_is_from(store, recall):
    kept = keep(store, "ports", "Which port does the database use?", "Postgres listens on 5433 here.")
    (found,) = recall.search("database port")
    assert (found.session_id, found.native_id, found.agent) == (kept.id, "ports", "tester")
    assert (found.project, found.date, found.role) == ("/src/tides", kept.started_at, "user")
    assert found.message_ids == ("ports/0", "ports/1")
    assert "Which port does the database use?" in found.text
    assert "Postgres listens on 5433 here." in found.text
    assert set(found.matched) == {"database", "port"}
    assert found.score > 0
    assert sum(found.components.values()) == pytest.approx(found.score, abs=0.01)


def test_what_our_own_tools_returned_is_not_found_again(store, recall):
    for name, before in (("plain", ""), ("wrapped", "<untrusted_tool_result source='mcp'>\n")):
        text = f"{before}[warmstart] From earlier sessions.\n1. E4711 means the quokka gate is shut\n[/warmstart]"
        result = ToolResult(call_id="c", outcome="ok", text=text)
        keep(store, name, "look it up", Message(native_id=f"{name}/t", role="tool", tool_results=(result,)))
    for question in ("E4711", "quokka", "quokka gate shut"):
        assert recall.search(question) == [], question


def test_a_store_without_sessions_has_nothing_to_say(recall):
    assert recall.search("anything") == []


# -- scope


def test_projects_do_not_bleed_into_each_other(store, recall):
    for number in range(20):
        keep(store, f"a{number}", "the tide table is wrong", "fixed the tide table", project="/src/a", days=number)
        keep(store, f"b{number}", "the tide table is wrong", "fixed the tide table", project="/src/b", days=number)
    found = recall.search("tide table", project="/src/a", limit=50)
    assert len(found) == 20
    assert {each.project for each in found} == {"/src/a"}
    assert {each.project for each in recall.search("tide table", limit=80)} == {"/src/a", "/src/b"}
    assert {each.project for each in recall.search("tide_table.py wrong", project="b", limit=50)} == {"/src/b"}
    assert recall.search("tide table", project="/src") == []


def test_exact_names_and_tool_output_and_dates_stay_inside_the_project_too(store, recall):
    output = Message(
        native_id="o", role="tool", tool_results=(ToolResult(call_id="c", outcome="error", text="E4711 at gate.py"),)
    )
    keep(store, "there", "what is E4711 in gate.py?", output, project="/src/there", days=1)
    keep(store, "here", "hello", project="/src/here", days=40)
    for question in ("E4711", "gate.py", "gate", "yesterday", "what did we do yesterday about gate.py"):
        assert recall.search(question, project="/src/here") == [], question
        assert natives(recall.search(question, project="/src/there"))[0] == "there", question


def test_agents_and_a_time_restrict(store, recall):
    keep(store, "old", "the tide table", days=30, agent="codex")
    keep(store, "new", "the tide table", days=2, agent="hermes")
    assert natives(recall.search("tide", since=NOW - timedelta(days=7))) == ["new"]
    assert natives(recall.search("tide", agents=["codex"])) == ["old"]
    assert sorted(natives(recall.search("tide", agents=["codex", "hermes"]))) == ["new", "old"]


def test_the_family_of_the_current_session_is_left_out(store, recall):
    root = keep(store, "root", "the tide table")
    middle = keep(store, "middle", "the tide table", parent_id=root.id, parent_kind="compaction")
    keep(store, "agent", "the tide table", parent_id=middle.id, parent_kind="subagent")
    keep(store, "branch", "the tide table", parent_id=root.id, parent_kind="branch")
    keep(store, "stranger", "the tide table")
    for current in (root.id, middle.id, "agent"):
        assert natives(recall.search("tide", exclude_session=current)) == ["stranger"]
    assert len(recall.search("tide", exclude_session="unknown")) == 5


# -- what is searched


def test_what_nobody_said_never_comes_back(store, recall):
    for number, fields in enumerate(({"injected": True}, {"compaction_summary": True}, {"role": "system"})):
        message = Message(**{"native_id": f"m{number}", "role": "user", "text": "zanzibar zz_top.py", **fields})
        keep(store, f"s{number}", message, "hello there")
    for question in ("zanzibar", "zz_top.py", '"zanzibar zz_top"'):
        assert recall.search(question) == []


def test_what_was_done_is_found(store, recall):
    call = ToolCall(id="c", name="Bash", arguments='{"command": "terraform apply\\nkubectl rollout"}')
    done = Message(native_id="d", role="assistant", reasoning="The gazebo needs paint.", tool_calls=(call,))
    keep(store, "doing", "please go on", done, title="Harden the moat", branch="feature/drawbridge")
    for question in ("terraform", "kubectl rollouts", "gazebo", "moat", "drawbridge"):
        (found,) = recall.search(question)
        assert found.native_id == "doing"
    assert "terraform" in recall.search("terraform")[0].text
    assert "The gazebo needs paint." in recall.search("gazebo")[0].text


def test_the_output_of_tools_is_found_but_counts_less(store, recall):
    result = ToolResult(call_id="c", outcome="ok", text="warning: the flux capacitor is at 88")
    keep(store, "output", "run it", Message(native_id="t", role="tool", tool_results=(result,)))
    (found,) = recall.search("flux capacitor")
    assert (found.native_id, found.role) == ("output", "tool")
    keep(store, "words", "why is the flux capacitor at 88?")
    assert natives(recall.search("flux capacitor")) == ["words"]
    assert natives(recall.search("flux capacitor warning")) == ["words", "output"]


NAMES = [
    ("conversation_loop.py", "look at src/agent/conversation_loop.py first"),
    ("ECONNREFUSED", "it fails with ECONNREFUSED every time"),
    ("--no-redact", "run it with --no-redact please"),
    ("#337", "this is issue #337 again"),
    ("src/tides/gauge.py", "see src/tides/gauge.py:12"),
    ("E0308", "error[E0308]: mismatched types"),
    ("`make check`", "then make check fails"),
    ("v1.2.3", "since v1.2.3 it is broken"),
    ("http://localhost:8080", "open http://localhost:8080/x"),
]


def test_names_match_as_people_type_them(store, recall, subtests):
    # The others hold the same words, but not side by side, or only in parts.
    for number in range(8):
        keep(store, f"other{number}", "conversation about a loop in py, no; redact src, tides and gauge, make it check")
        keep(store, f"more{number}", "337 errors on 8080, e0309, econn refused, v1 and 2.3, localhost http")
    for number, (_, text) in enumerate(NAMES):
        keep(store, f"right{number}", "hello", text, "and so on")
    for number, (typed, _) in enumerate(NAMES):
        with subtests.test(typed):
            found = recall.search(f"what about {typed}")
            assert found[0].native_id == f"right{number}"
            assert typed.strip("`").lower() in found[0].text.lower()


def test_the_parts_of_a_name_are_words(store, recall):
    keep(store, "camel", "call readConfigFile and HTTPServer first")
    assert natives(recall.search("config file")) == ["camel"]
    assert natives(recall.search("http server")) == ["camel"]


def test_words_count_in_all_their_forms(store, recall):
    keep(store, "form", "We decided to migrate the connections")
    for question in ("connection", "connecting", "MIGRATING", "deciding", "migrated?"):
        assert natives(recall.search(question)) == ["form"]


def test_irregular_forms_are_found_and_shown_first(store, recall):
    keep(store, "bought", f"{'The pier was closed. ' * 20}We bought two of them in spring.")
    found = recall.search("how many did they buy")
    assert natives(found) == ["bought"]
    assert found[0].text == "… We bought two of them in spring."
    assert found[0].matched == ("buy",)


SCRIPTS = [
    ("数据库连接失败了", "数据库"),
    ("数据库连接失败了", "连接"),
    ("数据库连接失败了", "库"),
    ("サーバーを再起動する", "再起動"),
    ("데이터베이스를 다시 시작했다", "데이터베이스"),
    ("เริ่มเซิร์ฟเวอร์ใหม่", "เซิร์ฟเวอร์"),
    ("Die Gezeitentafel für Zürich", "zurich"),
    ("Приливная таблица сломана", "таблица"),
    ("ο πίνακας παλίρροιας", "πίνακας"),
    ("جدول المد خاطئ", "المد"),
]


def test_every_script_is_searched(store, recall, subtests):
    for text, _ in SCRIPTS:
        keep(store, text, text)
    keep(store, "wrong", "something else, 全く違う話, совсем другое")
    for text, question in SCRIPTS:
        with subtests.test(question):
            assert natives(recall.search(question)) == [text]


# -- dates


DATES = [
    ("what did we do yesterday", "yesterday"),
    ("what did we do in March", "march"),
    ("What happened on 7 May 2023?", "may"),
    ("what happened on May 7, 2023", "may"),
    ("2023-05-07", "may"),
    ("three days ago", "sunday"),
    ("last Sunday", "sunday"),
    ("what was it in 2023", "may"),
]


def test_dates_find_the_sessions_of_that_time(store, recall, subtests):
    for name, days in (("yesterday", 1), ("sunday", 3), ("last week", 7), ("march", 185), ("may", 1228), ("old", 700)):
        keep(store, name, "we talked about the weather", "indeed", days=days)
    for question, right in DATES:
        with subtests.test(question):
            assert natives(recall.search(question))[0] == right


def test_last_week_goes_from_monday_to_sunday(store, recall):
    for days in (2, 3, 9, 10, 20):  # Monday, Sunday, Monday, Sunday
        keep(store, f"{days}", "we talked about the weather", days=days)
    assert natives(recall.search("what happened last week?"))[:2] == ["3", "9"]


def test_a_date_decides_between_equals_and_words_between_dates(store, recall):
    keep(store, "march", "the tide table is wrong", days=185)
    keep(store, "now", "the tide table is wrong", days=1)
    keep(store, "other", "the weather in spring", days=185)
    assert natives(recall.search("tide table in March"))[0] == "march"


def test_of_equal_sessions_the_newest_comes_first(store, recall):
    for days in (30, 2, 9):
        keep(store, f"{days}", "the tide table is wrong", days=days)
    assert natives(recall.search("tide table")) == ["2", "9", "30"]


def test_a_long_session_gives_all_passages_where_others_are_worse(store, recall):
    turns = [f"the tide table of harbour {number} is wrong" if number % 3 == 0 else "ok" for number in range(60)]
    keep(store, "long", *turns)
    for number in range(30):
        keep(store, f"other{number}", f"a table with {number} rows", "and a reply", "fine")
    found = recall.search("tide of the harbour", limit=10)
    assert natives(found) == ["long"] * 10
    assert len({each.message_ids[0] for each in found}) == 10


def test_a_request_shows_the_commands_that_answered_it(store, recall):
    def call(number, command):
        arguments = f'{{"command": "{command}"}}'
        calls = (ToolCall(id=f"c{number}", name="Bash", arguments=arguments),)
        return Message(native_id=f"d{number}", role="assistant", tool_calls=calls)

    commands = ["ls", "git status", "cat mise.toml", "git diff", "mise run test:integration"]
    calls = [call(number, command) for number, command in enumerate(commands)]
    keep(
        store,
        "tests",
        "run the integration tests",
        *calls,
        "All of them pass.",
        "now deploy it",
        call(9, "make deploy"),
    )
    (found,) = recall.search("how do we run the integration tests")
    assert "mise run test:integration" in found.text
    assert "make deploy" not in found.text


def test_words_that_occur_nowhere_find_nothing(store, recall, subtests):
    keep(store, "tide", "the tide table of gauge.py is wrong", "it was changed yesterday", days=1)
    for question in ("zanzibar", "zanzibar yesterday", "xylophone in May 2026", "zanzibar.zz", "zanzibar #337"):
        with subtests.test(question):
            assert recall.search(question) == []


def test_no_more_passages_than_asked_for(store, recall):
    for number in range(5):
        keep(store, f"s{number}", "the tide table")
    for limit in (-1, 0, 1, 3):
        assert len(recall.search("tide", limit=limit)) == max(0, limit)


def test_a_long_message_is_cut_to_its_relevant_part(store, recall):
    keep(store, "long", "lorem ipsum " * 2000 + "the drawbridge is stuck " + "dolor sit " * 2000)
    (found,) = recall.search("drawbridge stuck")
    assert "the drawbridge is stuck" in found.text
    assert len(found.text) < 700


# -- whatever is typed

DATE_WORDS = (
    *("last", "this", "in", "on", "7", "31", "May", "March", "2023", "2026-02-30"),
    *("days", "ago", "week", "0", "999", "fall", "yesterday"),
)
HOSTILE = [
    "",
    " ",
    "a",
    "?",
    "🌊🌊🌊",
    '"',
    '"""',
    "'; DROP TABLE sessions; --",
    "NEAR(a b, 3)",
    "a AND OR NOT b",
    "body:x *",
    "^tide + - ( ) { } [ ]",
    "tide\0table",
    "\ud800",
    "tide \udfff table",
    "x" * 100_000,
    "tide table " * 10_000,
    " ".join(f"word{number}" for number in range(20_000)),
    "`" * 1000,
    "%s ?1 :name $x",
    "the of and to",
    "数" * 10_000,
    "99999999-99-99 on 31 February 2023 0 days ago 999 years ago",
]


def test_no_query_is_an_error(store, recall, subtests):
    keep(store, "one", "the tide table", "is wrong")
    for question in HOSTILE:
        with subtests.test(ascii(question[:20])):
            assert isinstance(recall.search(question), list)
            found = recall.search(question, project="/src/tides", exclude_session=question, agents=[question])
            assert isinstance(found, list)


@pytest.fixture(scope="module")
def searched(lasting):
    for number in range(10):
        keep(lasting, f"s{number}", "the tide_table.py is wrong: ECONNREFUSED", "数据库 okay", days=number)
    return Recall(lasting, clock=lambda: NOW)


@given(
    st.text(max_size=60)
    | st.from_regex(r"[\"'`*^:()\-+ a-zA-Z.#/_]{1,40}", fullmatch=True)
    | st.lists(st.sampled_from(DATE_WORDS)).map(" ".join)
)
def test_no_question_ends_in_an_error(searched, question):
    for found in searched.search(question):
        assert found.text


LOOKALIKES = ["ſeptember", "aprİl 3", "ſummer 2024", "laſt weeK", "ſunday ago"]


def test_letters_that_only_look_like_those_of_a_date_are_no_error(store, recall, subtests):
    keep(store, "tide", "the tide table")
    for question in LOOKALIKES:
        with subtests.test(question):
            assert recall.search(f"tide {question}")[0].native_id == "tide"


def test_passages_come_in_order_if_the_question_asks_for_it(store, recall):
    for number, text in enumerate(
        ("We drew the tide charts", "The tide charts have a legend", "We printed the charts")
    ):
        keep(store, f"s{number}", text, days=3 - number)
    for question in (
        "in what order did we work on the tide charts",
        "list the order in which I brought up tide charts",
    ):
        assert natives(recall.search(question)) == ["s0", "s1", "s2"]
    assert natives(recall.search("printed charts"))[0] == "s2"


def test_a_turn_that_only_repeats_the_question_ranks_below_one_that_says_something(store, recall):
    for number in range(8):
        keep(store, f"asked{number}", "why did the deploy of the gauge fail?")
    keep(store, "answered", "the deploy of the gauge", "It did fail: the disk of the harbour was full. " * 3)
    assert recall.search("why did the deploy of the gauge fail", limit=3)[0].native_id == "answered"


def test_a_turn_with_what_is_asked_for_ranks_above_one_without(store, recall):
    keep(store, "with", "and the tide server?", "It listens on port 5433.")
    keep(store, "without", "and the tide server?", "A port, a free port of the machine.")
    assert recall.search("which port has the tide server")[0].native_id == "with"
