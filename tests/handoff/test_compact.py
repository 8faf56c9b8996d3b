from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.handoff.validators import check_anthropic, check_openai
from tests.templates.test_inject import TEMPLATE
from warmstart.errors import ConfigError
from warmstart.handoff.compact import STRATEGIES, compact, measure, read_ledger
from warmstart.templates import inject

Chat = list[dict[str, Any]]
WORDS = st.sampled_from(("add a storm table", "Never push to main.", "ok", "why?", "gauge " * 40, "tide\n" * 200))
CALLS = st.lists(st.tuples(st.sampled_from(("Bash", "Read", "mcp__x__y")), WORDS, WORDS), max_size=3)
TURNS = st.lists(st.tuples(WORDS, st.lists(CALLS, max_size=4), WORDS), min_size=1, max_size=12)


def openai(turns: Any, *, system: bool = True) -> Chat:
    chat: Chat = [{"role": "system", "content": "You are a harbour master."}] if system else []
    number = 0
    for asked, steps, reply in turns:
        chat.append({"role": "user", "content": asked})
        for calls in filter(None, steps):
            ids = [f"call_{number + place}" for place in range(len(calls))]
            number += len(calls)
            made = [
                {"id": call_id, "function": {"name": tool, "arguments": json.dumps({"command": text})}}
                for call_id, (tool, text, _) in zip(ids, calls, strict=True)
            ]
            chat.append({"role": "assistant", "content": "", "tool_calls": made})
            for call_id, (_, _, output) in zip(ids, calls, strict=True):
                chat.append({"role": "tool", "tool_call_id": call_id, "content": output})
        chat.append({"role": "assistant", "content": reply})
    return chat


def anthropic(turns: Any) -> Chat:
    chat: Chat = []
    for message in openai(turns, system=False):
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if chat[-1]["role"] == "assistant":
                chat.append({"role": "user", "content": []})
            chat[-1]["content"].append(block)
        elif "tool_calls" in message:
            blocks = [
                {
                    "type": "tool_use",
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "input": json.loads(call["function"]["arguments"]),
                }
                for call in message["tool_calls"]
            ]
            chat.append({"role": "assistant", "content": blocks})
        else:
            chat.append(message)
    return chat


@given(TURNS, st.sampled_from(sorted(STRATEGIES)), st.integers(50, 4000), st.integers(0, 8))
def test_every_compaction_is_valid_for_both_apis(turns: Any, strategy: str, budget: int, keep: int) -> None:
    for chat, check in ((openai(turns), check_openai), (anthropic(turns), check_anthropic)):
        before = deepcopy(chat)
        check(chat)
        done = compact(chat, budget_tokens=budget, strategy=strategy, session="abc", keep=keep)
        check(done.messages)
        assert chat == before
        assert done.report.tokens_after == sum(map(measure, done.messages))
        assert done.report.fits == (done.report.tokens_after <= budget)
        if done.report.tokens_before <= budget:
            assert done.messages == chat


@given(TURNS, st.sampled_from(sorted(STRATEGIES)))
def test_requests_constraints_and_the_last_messages_stay(turns: Any, strategy: str) -> None:
    chat = openai([("Never touch the schema. Draw it.", [], "yes"), *turns])
    done = compact(chat, budget_tokens=300, strategy=strategy, session="abc", keep=2)
    assert done.messages[:2] == chat[:2]
    assert done.messages[-1] == chat[-1]
    assert "Never touch the schema." in str(done.messages)
    requests = [one["content"] for one in chat if one["role"] == "user"]
    assert requests[-1] in [one["content"] for one in done.messages]


LONG = openai([("draw it", [[("Bash", "make test", "gauge 17 is dry\n" * 300)]] * 30, "done"), ("thanks", [], "bye")])


def test_a_masked_output_says_what_it_was_and_how_to_get_it_back() -> None:
    done = compact(LONG, budget_tokens=20_000, session="3f0c1d52")
    masked = done.messages[3]["content"]
    assert masked == (
        "[warmstart] Output of `make test` left out here: 301 lines, 2100 tokens. "
        "`warmstart sessions show 3f0c1d52 --message call_0` shows it. [/warmstart]"
    ).replace("2100", masked.split(" lines, ")[1].split()[0])
    assert done.report.fits
    assert len(done.messages) == len(LONG)
    assert 0 < done.report.masked < 30
    assert done.messages[-5:] == LONG[-5:]


def test_the_ledger_replaces_old_turns_and_keeps_what_worked() -> None:
    done = compact(LONG, budget_tokens=5_000, strategy="ledger", session="3f0c1d52")
    assert done.report.fits
    assert len(done.messages) <= 12
    packet = done.messages[2]["content"]
    assert packet.startswith("[warmstart]\n# Handoff packet ")
    assert "- `make test` ×30: ok" in packet
    assert [item.text for item in done.items() if item.kind == "command"] == ["make test"]
    assert "make test" in str([item.calls for item in done.items() if item.kind == "example"])
    again = compact([*done.messages, *LONG[1:]], budget_tokens=5_000, strategy="hybrid", session="3f0c1d52")
    check_openai(again.messages)
    assert again.report.fits


def test_the_tool_patterns_of_a_template_survive(subtests: Any) -> None:
    work = ("draw it", [[("Bash", "make test", "gauge 17 is dry\n" * 300)]] * 30, "done")
    for chat, check in ((openai([work]), check_openai), (anthropic([work]), check_anthropic)):
        warm = inject(TEMPLATE, chat)
        template = [message for message in warm if message not in chat]
        assert "call_warmstart_" in str(template)
        check(warm)
        for strategy in STRATEGIES:
            with subtests.test(f"{strategy} {chat[0]['role']}"):
                done = compact(warm, budget_tokens=4_000, strategy=strategy, session="s")
                check(done.messages)
                assert done.report.tokens_after < done.report.tokens_before / 4
                assert [message for message in done.messages if message in template] == template


def test_words_of_the_user_that_follow_results_are_a_request() -> None:
    work = ("draw it", [[("Bash", "make test", "gauge 17 is dry\n" * 300)]] * 30, "done")
    chat = anthropic([work])
    last = chat[-2]["content"]
    chat[-2] = {"role": "user", "content": [*last, {"type": "text", "text": "Never push. Now the map."}]}
    chat += anthropic([work])[1:]
    for strategy in STRATEGIES:
        done = compact(chat, budget_tokens=4_000, strategy=strategy, session="s")
        check_anthropic(done.messages)
        assert {"type": "text", "text": "Never push. Now the map."} in [
            block for message in done.messages if isinstance(message["content"], list) for block in message["content"]
        ]
    ledger = read_ledger(chat, "s")
    assert [one.text for one in ledger.constraints] == ["Never push."]
    assert ledger.latest_request == ledger.requests[-1]
    assert ledger.commands["make test"].times == 60


def test_own_strategies_run_and_unknown_ones_do_not() -> None:
    def drop_all(talk: Any) -> None:
        talk.units = talk.units[:2]

    assert compact(LONG, budget_tokens=100, strategy=drop_all).messages == LONG[:2]
    with pytest.raises(ConfigError, match="unknown strategy 'summary'"):
        compact(LONG, budget_tokens=100, strategy="summary")


def test_what_the_user_said_when_they_refused_a_call_stays(subtests: Any) -> None:
    said = "Not before the storm table is done, and then only with SQLite."
    refusal = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, it "
        f"was NOT made). To tell you how to proceed, the user said:\n{said} " + "x " * 90
    )
    turns = [("draw it", [[("Bash", "git push", refusal)], *[[("Bash", "make", "gauge 17\n" * 300)]] * 9], "done")]
    for strategy in STRATEGIES:
        for chat in (openai(turns), anthropic(turns)):
            with subtests.test(f"{strategy} {chat[0]['role']}"):
                done = compact(chat, budget_tokens=2_500, strategy=strategy, session="s", keep=1)
                assert done.report.masked or done.report.packet
                assert said in str(done.messages)
