from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from warmstart.text.irregular import FORMS
from warmstart.text.words import (
    MAX_WORD,
    STOPWORDS,
    identifier_parts,
    root_word,
    split_words,
    stem_word,
    tokenize,
)

TOKENS = {
    "": [],
    "?!_-": [],
    "🦀": [],
    "Hello, World": ["hello", "world"],
    "pref_python": ["pref", "python"],
    "tides.py:12 <error>": ["tides", "py", "12", "error"],
    "readConfigFile": ["readconfigfile"],
    "Résumé naïve": ["resume", "naive"],
    "Re\u0301sume\u0301 x\u0302y": ["resume", "xy"],  # accents as characters of their own
    "İstanbul ΑΒΓ Привет": ["istanbul", "αβγ", "привет"],
    "it’s — “quoted”…": ["it", "s", "quoted"],
    "Ｆｕｌｌ ﬁne": ["full", "fine"],
    "東京タワー": ["東京", "京タ", "タワ", "ワー"],
    "東": ["東"],
    "日本・中国": ["日本", "中国"],
    "ﾀﾜｰ": ["タワ", "ワー"],
    "서울에": ["서울", "울에"],
    "ภาษา": ["ภา", "าษ", "ษา"],
    "port5433東京": ["port5433", "東京"],
}
STEMS = {
    "prefers running": ["prefer", "run"],
    "is this s as us": ["is", "thi", "s", "as", "us"],  # short words have no ending
    "python3 naïvely": ["python3", "naiv"],
    "a" * 29 + "ing": ["a" * 29 + "ing"],  # longer than any English word
    "caféing привет": ["cafe", "привет"],
    "x" * 100: ["x" * MAX_WORD],
    "é" * 100: ["e" * MAX_WORD],
}
PARTS = {
    "camelCase": ["camel", "case"],
    "HTTPServer": ["http", "server"],
    "python3": ["python", "3"],
    "readAFile": ["read", "file"],
    "plain": [],
    "Title": [],
    "HTTP": [],
    "12": [],
    "naïveCase": [],
}


def test_tokenize(subtests):
    for text, words in TOKENS.items():
        with subtests.test(text):
            assert tokenize(text) == words


def test_stems(subtests):
    for text, words in STEMS.items():
        with subtests.test(text):
            assert [*map(stem_word, tokenize(text))] == words


def test_identifier_parts(subtests):
    for word, parts in PARTS.items():
        with subtests.test(word):
            assert identifier_parts(word) == parts


def test_a_dash_or_an_umlaut_compiles_no_pattern() -> None:
    code = (
        "import re; from warmstart.text.words import topic_terms; re.compile = None; "
        "print(*topic_terms('fix – it’s → the “Höhe” ✅'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "fix hohe\n"


def test_split_words_keeps_case_and_runs():
    assert split_words("readConfig_file Résumé 東京タワー") == ["readConfig", "file", "Résumé", "東京タワー"]


@given(st.text())
def test_tokenizing_the_split_words_gives_the_words_of_the_text(text):
    assert [part for word in split_words(text) for part in tokenize(word)] == tokenize(text)


@given(st.text())
def test_words_have_no_spaces_and_are_stable(text):
    words = tokenize(text)
    assert all(word and not word.isspace() for word in words)
    assert all(len(each) <= MAX_WORD for each in map(stem_word, words))
    assert tokenize(" ".join(words)) == words


def test_english_words_are_stemmed_as_in_fts5():
    """With exceptions: FTS5 stems `technology` to `technolog` and `possibly` to `possibl`, Porter's rules do not."""
    text = "running caresses ponies relational conditional vietnamization happy sky dying agreed sized"
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'porter ascii')")
    connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance)")
    connection.execute("INSERT INTO words VALUES (?)", (text,))
    expected = [term for (term,) in connection.execute("SELECT term FROM terms ORDER BY offset")]
    connection.close()
    assert [*map(stem_word, text.split())] == expected


def test_every_irregular_form_has_the_root_of_its_word(subtests):
    for word, forms in FORMS.items():
        assert word not in STOPWORDS
        for form in forms:
            with subtests.test(form):
                assert root_word(form) == root_word(word) == stem_word(word)
                assert form not in STOPWORDS
                assert form not in FORMS


def test_a_regular_word_is_its_own_base():
    assert [*map(root_word, ["buying", "tides", "went"])] == ["bui", "tide", "go"]


def test_threads_share_the_stemmer():
    texts = [
        " ".join(f"{chr(97 + number % 26)}{chr(97 + i % 26)}word{'ing' * (i % 2)}" for i in range(200))
        for number in range(50)
    ]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: [*map(stem_word, tokenize(text))], texts))
        assert found == [[*map(stem_word, tokenize(text))] for text in texts]


def test_stopwords_are_words():
    assert all(tokenize(word) == [word] for word in STOPWORDS)
