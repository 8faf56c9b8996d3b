from __future__ import annotations

from warmstart.memory.words import asked, stems


def test_texts_are_divided_into_stems(subtests):
    for text, words in (
        ("pref_python", ["pref", "python"]),
        ("camelCase", ["camelcas", "camel", "case"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("python3", ["python3", "python", "3"]),
        ("prefers running", ["prefer", "run"]),
        ("Résumé naïve", ["resum", "naiv"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("東", ["東"]),
        ("서울에", ["서울", "울에"]),
        ("Ｆｕｌｌ ﬁne", ["full", "fine"]),
        ("", []),
        ("?!_-", []),
        ("🦀", []),
    ):
        with subtests.test(text):
            assert stems(text) == words


def test_a_question_is_its_telling_words() -> None:
    assert asked("Which editor do I use for the editor?") == [("editor",), ("us",)]
    assert asked("who are you") == [("who",), ("ar",), ("you",)]
    assert asked("python3") == [("python3", "python", "3")]
    assert asked("") == []
    assert asked("東京タワー") == [("東京",), ("京タ",), ("タワ",), ("ワー",)]
