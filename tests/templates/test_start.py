from __future__ import annotations

from collections import Counter
from threading import Barrier, Thread

import pytest

from tests.templates.crowd import PROJECT, fill, happened, outcomes, template_for
from tests.templates.made import uses
from warmstart.sessions.marks import is_marked, is_marked_call
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.templates import Selector, SQLTemplateStore, start_warm
from warmstart.templates.audit import why
from warmstart.templates.revoke import revoke
from warmstart.templates.start import last_request
from warmstart.templates.tools import fingerprint

TASK = "Fix the rounding of the invoice totals"
MESSAGES = [{"role": "system", "content": "You are careful."}, {"role": "user", "content": f"{TASK}, please"}]
WARM = {"project": PROJECT, "holdout": 0.0}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = [{"name": "Bash", "input_schema": SCHEMA}, "Edit"]


def test_a_session_starts_with_the_template_that_fits_and_leaves_a_row(either):
    kept = either.add(template_for(TASK))
    given = [dict(message) for message in MESSAGES]
    started = start_warm(either, "abc", given, agent="claude-code", **WARM)
    assert given == MESSAGES
    assert started.messages[0] == MESSAGES[0]
    assert started.messages[-1] == MESSAGES[-1]
    assert is_marked(started.messages[1]["content"])
    assert any(is_marked_call(message.get("tool_call_id", "")) for message in started.messages)
    (use,) = why(either, "abc")
    assert (use.id, use.arm, use.template, use.version) == (started.use_id, "warm", kept.id, 1)
    assert (use.items, use.tokens) == (started.rendering.items, started.rendering.tokens)
    assert use.tokens > 0
    assert use.items
    assert either.get(kept.id).used == 1


def test_a_session_that_starts_again_gets_the_same_bytes_and_no_second_row(store):
    kept = store.add(template_for(TASK))
    first = start_warm(store, "abc", MESSAGES, **WARM)
    store.change(kept.id, author="mara", reason="better", description="Other words")
    fill(store, 20)
    outcomes(store, kept.id, successes=0, failures=20)
    again = start_warm(store, "abc", MESSAGES, **WARM)
    assert again.messages == first.messages
    assert (again.use_id, again.choice.template.version) == (first.use_id, 1)
    assert again.choice.propensity == first.choice.propensity
    assert len([use for use in uses(store) if use.session == "abc"]) == 1


def test_a_session_is_known_again_by_either_of_its_ids(store):
    store.add(template_for(TASK))
    first = start_warm(store, "native-1", MESSAGES, **WARM)
    session = happened(store.sessions, "native-1")
    assert start_warm(store, session.id, MESSAGES, **WARM).use_id == first.use_id


def test_what_was_put_in_is_not_put_in_twice(store):
    store.add(template_for(TASK))
    first = start_warm(store, "abc", MESSAGES, **WARM)
    assert start_warm(store, "abc", first.messages, **WARM).messages == first.messages
    other = start_warm(store, "def", first.messages, **WARM)
    assert (other.messages, other.use_id, other.choice.arm) == (first.messages, 0, "abstained")


def test_a_session_that_is_held_out_starts_cold_and_is_on_record(store):
    kept = store.add(template_for(TASK))
    started = start_warm(store, "abc", MESSAGES, project=PROJECT, holdout=1.0)
    assert started.messages == MESSAGES
    assert started.messages is not MESSAGES
    assert started.rendering is None
    (use,) = why(store, "abc")
    assert (use.arm, use.template, use.tokens, use.items) == ("holdout", kept.id, 0, ())
    assert start_warm(store, "abc", MESSAGES, **WARM).choice.arm == "holdout"


def test_the_brief_is_part_of_every_start(store, subtests):
    store.add(template_for(TASK))
    brief = "[warmstart] Notes from earlier sessions in this project.\n- `make test`\n[/warmstart]"
    for name, options in (("warm", WARM), ("held out", {**WARM, "holdout": 1.0}), ("other", {"project": "/srv/other"})):
        with subtests.test(name):
            started = start_warm(store, name, MESSAGES, brief=brief, **options)
            assert started.messages[1] == {"role": "system", "content": brief}
            assert started.messages == start_warm(store, name, MESSAGES, brief=brief, **options).messages
            again = start_warm(store, name, started.messages, brief=brief, **options)
            assert again.messages == started.messages


def test_one_session_in_ten_is_held_out_by_default(store):
    store.add(template_for(TASK))
    selector = Selector(store)
    arms = Counter(
        start_warm(store, f"s{number}", MESSAGES, project=PROJECT, selector=selector).choice.arm
        for number in range(200)
    )
    assert 4 <= arms["holdout"] <= 36  # four standard deviations
    assert arms["warm"] == 200 - arms["holdout"]


def test_nothing_fits_and_the_session_starts_cold(store):
    store.add(template_for(TASK))
    started = start_warm(store, "abc", [{"role": "user", "content": "Compose a lullaby about owls"}], **WARM)
    assert (started.choice.arm, started.rendering) == ("abstained", None)
    assert why(store, "abc")[0].arm == "abstained"


def test_where_nothing_can_be_shown_the_session_starts_cold_and_says_so(store):
    store.add(template_for(TASK))
    started = start_warm(store, "abc", MESSAGES, budget_tokens=5, **WARM)
    assert started.messages == MESSAGES
    assert started.choice.arm == "abstained"
    assert "fits into the budget" in why(store, "abc")[0].why


def test_a_template_does_not_start_a_session_with_another_schema_of_its_tool(store):
    store.add(template_for(TASK, tools={"Bash": fingerprint(SCHEMA), "Edit": ""}))
    assert start_warm(store, "one", MESSAGES, tools=TOOLS, **WARM).choice.arm == "warm"
    changed = [{"name": "Bash", "input_schema": {**SCHEMA, "required": ["command"]}}]
    started = start_warm(store, "two", MESSAGES, tools=changed, **WARM)
    assert started.messages == MESSAGES


def test_a_session_whose_template_was_revoked_or_deleted_since_starts_cold(store):
    source = happened(store.sessions, "source")
    revoked = store.add(template_for(TASK, session=source.id))
    start_warm(store, "abc", MESSAGES, **WARM)
    revoke(store, source.id)
    again = start_warm(store, "abc", MESSAGES, **WARM)
    assert again.messages == MESSAGES
    assert "gone" in again.choice.why
    store.delete(revoked.id)
    assert start_warm(store, "abc", MESSAGES, **WARM).messages == MESSAGES


def test_no_session_starts_from_a_candidate(store):
    store.add(template_for(TASK, state="candidate"))
    started = start_warm(store, "abc", MESSAGES, explore=1.0, **WARM)
    assert started.messages == MESSAGES
    assert started.choice.why == "no template may be used here: 1 not promoted"


def test_the_task_may_be_given_apart_from_the_messages(store):
    store.add(template_for(TASK))
    started = start_warm(store, "abc", [{"role": "user", "content": "see the ticket"}], task=TASK, **WARM)
    assert started.choice.arm == "warm"
    assert why(store, "abc")[0].task == TASK


def test_tools_may_be_given_as_anything_that_can_be_gone_through_once(store):
    store.add(template_for(TASK))
    started = start_warm(store, "abc", MESSAGES, tools=iter(["Bash", "Edit"]), **WARM)
    assert started.choice.arm == "warm"
    assert started.rendering.parts


@pytest.mark.parametrize("renderer", ["messages", "system", "xml"])
def test_every_renderer_can_start_a_session(store, renderer):
    store.add(template_for(TASK))
    started = start_warm(store, "abc", MESSAGES, renderer=renderer, **WARM)
    assert started.rendering.renderer == renderer
    assert len(started.messages) > len(MESSAGES)


def test_the_task_is_the_last_thing_that_the_user_said(subtests):
    cases = [
        ([], ""),
        ([{"role": "system", "content": "x"}], ""),
        ([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}], "two"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "a\nb"),
        (
            [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}],
            "a",
        ),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "[warmstart] a note"}], "a"),
        ([{"role": "user", "content": None}], ""),
    ]
    for messages, request_ in cases:
        with subtests.test(messages=messages, request_=request_):
            assert last_request(messages) == request_


def test_two_processes_that_start_the_same_session_agree(tmp_path):
    path = tmp_path / "shared.db"
    store = SQLTemplateStore(SQLiteSessionStore(path))
    for number in range(4):
        store.add(template_for(TASK, name=f"t{number}"))
    ready, found = Barrier(2), []

    def start(holdout: float) -> None:
        own = SQLTemplateStore(SQLiteSessionStore(path))
        ready.wait()
        for number in range(10):
            # One would hold every session out and the other none: the first row decides.
            started = start_warm(own, f"s{number}", MESSAGES, project=PROJECT, holdout=holdout)
            found.append((number, started.choice.arm, started.choice.template.id, str(started.messages)))
        own.sessions.close()

    threads = [Thread(target=start, args=(holdout,)) for holdout in (0.0, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert len(set(found)) == 10
    assert len(uses(store)) == 10
    store.sessions.close()
