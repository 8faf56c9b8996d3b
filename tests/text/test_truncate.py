from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmstart.text.truncate import count_left_out, head_and_tail, left_out, one_line, truncate

TRUNCATED = {
    ("short", 10): "short",
    ("exactly ten", 11): "exactly ten",
    ("some more words here", 12): "some more …",
    ("a" * 60, 20): "a" * 18 + " …",
    ("see {{project}}/file", 12): "see …",
    ("key [redacted:token:ab12] end of it", 20): "key …",
}


def test_truncate(subtests):
    for (text, length), expected in TRUNCATED.items():
        with subtests.test(text):
            assert truncate(text, length) == expected


def test_one_line_joins_lines():
    assert one_line("  one\n\ttwo   three ", 100) == "one two three"
    assert one_line("one\ntwo three", 10) == "one two …"


def test_head_and_tail_keep_both_ends_and_say_how_much_is_missing():
    text = "\n".join(f"line {number}" for number in range(1, 21))
    assert head_and_tail(text, 80) == "line 1\nline 2\nline 3\nline 4\n… 14 lines left out …\nline 19\nline 20"
    assert head_and_tail(text, 1000) == text
    assert head_and_tail("first words " * 5 + "last words", 40) == "first words first words … last words"


def test_shortening_again_adds_up_what_is_left_out():
    text = "\n".join(f"line {number}" for number in range(1, 41))
    again = head_and_tail(head_and_tail(text, 150), 80)
    assert sum(map(count_left_out, again.split("\n"))) + len(again.split("\n")) - 1 == 40


def test_the_note_reads_as_english():
    assert left_out(1) == "… 1 line left out …"
    assert count_left_out(left_out(12)) == 12
    assert count_left_out("… and more") == 0


@given(st.text(), st.integers(3, 60))
def test_truncated_texts_fit(text, length):
    assert len(truncate(text, length)) <= length
    assert len(one_line(text, length)) <= length


@given(st.text(alphabet="ab \n{}", max_size=300), st.integers(60, 200))
def test_head_and_tail_fit(text, length):
    assert len(head_and_tail(text, length)) <= length + 2
