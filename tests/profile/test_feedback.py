"""How the person writes: only their own words, each message in one class, and nothing claimed on thin ground."""

from __future__ import annotations

import time

import pytest

from warmstart.profile.feedback import own_words, writing_style
from warmstart.sessions.values import Message, Role


def said(*texts: str, role: Role = "user") -> list[Message]:
    return [Message(native_id=str(number), role=role, text=text) for number, text in enumerate(texts)]


def after(text: str, *, before: str = "Done, the tide table is in place.") -> list[Message]:
    """A session in which the person says this after the assistant has said something."""
    return [
        *said("Add a tide table to the page"),
        *said(before, role="assistant"),
        *said(text),
    ]


def corrections(messages: list[Message]) -> int:
    return writing_style(messages).feedback.get("corrective", 0)


CORRECTIONS = [
    "no",
    "No, that one is for the harbour page",
    "nope. use the other file",
    "Hmm, that's not what I asked for",
    "that's wrong, the unit is metres",
    "wrong file",
    "you are not correct: the docs say otherwise",
    "I told you to leave the config alone",
    "I already said the port is 8080.",
    "you forgot the tests",
    "undo that",
    "please revert this",
    "can you revert your last change?",
    "don't do that",
    "stop",
    "stop for a second, this is the wrong branch",
    "why did you delete the fixture?",
    "it still fails on CI",
    "There are still errors in the log",
    "that didn't work",
    "It’s still broken",
    "not as a comment, but as a file",
    "it was in memory",
    "not again",
    "Nein, die andere Datei",
    "Das ist falsch, es sind Meter",
    "Geht immer noch nicht",
    "Non, pas ce fichier",
    "c'est pas ça",
    "J'ai toujours cette erreur",
    "Eso no es lo que pedí",
    "Não, é o outro arquivo",
    "Isso não está certo",
    "Non è quello che ho chiesto",
    "That's not how it works",
    "I've told you already",
    "as I said, use uv",
    "it's not working",
    "you didn't run the tests",
    "I never asked for that",
    "do not stash anything, read the files you need",
    "why are you still using pip?",
    "不对，应该用米",
    "还是一样的错误",
    "まだ動かない",
    "違います、別のファイルです",
]


def test_corrections(subtests: pytest.Subtests) -> None:
    for text in CORRECTIONS:
        with subtests.test(text=text):
            assert writing_style(after(text)).feedback == {"corrective": 1}


WHAT_ONLY_LOOKS_LIKE_A_CORRECTION = [
    "no problem",
    "No worries, take your time",
    "no need to change the docs",
    "not sure",
    "nothing else, thanks",
    "No, that's all. Thank you!",
    "now add a test",
    "Notice the gap in the table?",
    "know any good library for it?",
    "stop the dev server when you are done",
    "what happens if it is not right?",
    "is that not right?",
    "check again?",
    "there is no test for this, add one",
    "If it still doesn't work, ask me",
    "the wrong button opens a menu, is that on purpose?",
    "yes please",
    "add a revert button",
    "why did you choose sqlite?",
    "I just asked Bob and he agrees",
    "The bug: login still fails when the password is empty",
    "Login still fails when the password is empty, mend that next",
    "implement retry when it is not working",
    "find out why it's not working on Windows",
    "there are still some issues in the backlog, pick one",
    "if you didn't run the tests, run them",
    "do not forget the tests, please",
    "Nochmal alle Tests, bitte",
    "Nada más, gracias",
    "不用了，谢谢",
]


def test_what_only_looks_like_a_correction(subtests: pytest.Subtests) -> None:
    for text in WHAT_ONLY_LOOKS_LIKE_A_CORRECTION:
        with subtests.test(text=text):
            assert corrections(after(text)) == 0


def test_a_no_that_answers_a_question_is_an_answer() -> None:
    asked = "Shall I use the first table or the second one?"
    assert corrections(after("No, the second one", before=asked)) == 0
    assert corrections(after("No, the second one")) == 1
    assert corrections(after("No, that's not what I meant", before=asked)) == 1


def test_the_first_message_corrects_nothing() -> None:
    assert corrections(said("that's wrong in the README, fix it")) == 0


def test_only_the_persons_own_messages_count() -> None:
    wrong = "that's wrong"
    machine = [
        Message(native_id="i", role="user", text=wrong, injected=True),
        Message(native_id="c", role="user", text=wrong, compaction_summary=True),
        Message(native_id="s", role="user", text=wrong, sidechain=True),
        Message(native_id="a", role="assistant", text=wrong),
    ]
    assert corrections([*said("Add a page"), *machine]) == 0
    assert writing_style([*said("Add a page"), *machine]).messages == 1
    assert writing_style(machine).length is None


PASTED_BLOCKS_ARE_NOT_THE_PERSONS_WORDS = [
    ("Look at this:\n```\nno, wrong\n```\nplease", "Look at this:\n \nplease"),
    ("Look at this:\n```\nno, wrong", "Look at this:"),
    ("> no, that's wrong\nI agree with the above", "I agree with the above"),
    ("<ide_selection>never do this</ide_selection>fix it", "fix it"),
    ("a < b and c > d", "a < b and c > d"),
    ("<div> without an end", "<div> without an end"),
    ("Implement the following plan:\n\n# Always test\nNever stop", "Implement the following plan:"),
]


def test_pasted_blocks_are_not_the_persons_words(subtests: pytest.Subtests) -> None:
    for text, kept in PASTED_BLOCKS_ARE_NOT_THE_PERSONS_WORDS:
        with subtests.test(text=text, kept=kept):
            assert own_words(said(text)[0]) == kept


EACH_MESSAGE_AFTER_THE_FIRST_HAS_ONE_STYLE = [
    ("thanks!", "approving"),
    ("Great, now the same for the harbour", "approving"),
    ("lgtm", "approving"),
    ("yes, do it", "approving"),
    ("Danke, passt", "approving"),
    ("谢谢", "approving"),
    ("commit and push", "terse"),
    ("origin/main", "terse"),
    ("Move the table above the map and keep its title", "plain"),
    ("yesterday's table was better sorted", "plain"),
]


def test_each_message_after_the_first_has_one_style(subtests: pytest.Subtests) -> None:
    for text, style in EACH_MESSAGE_AFTER_THE_FIRST_HAS_ONE_STYLE:
        with subtests.test(text=text, style=style):
            assert writing_style(after(text)).feedback == {style: 1}


def test_length_is_the_median_number_of_words() -> None:
    assert writing_style(said("one two three", "one", "one two three four five")).length == 3.0
    assert writing_style(said("这个函数应该返回米")).length == 5.0  # nine characters


def test_directness_is_the_share_that_neither_asks_nor_hedges() -> None:
    assert writing_style(said("Add a table", "Rename it to tides.")).directness == 1.0
    assert (
        writing_style(said("can you add a table", "maybe rename it", "Add it. Does that work?", "Add it")).directness
        == 0.25
    )


LANGUAGE = [
    ("Please add a table to the page and make sure that it is sorted by the time, not by the name of it", "en"),
    (
        "Bitte füge der Seite eine Tabelle hinzu und sorge dafür, dass sie nach der Zeit und nicht nach dem Namen "
        "sortiert ist, wenn das für die Tests noch geht",
        "de",
    ),
    (
        "Ajoute une table à la page et trie les lignes par heure et pas par nom, pour que je puisse voir ce qui "
        "est dans le port",
        "fr",
    ),
    (
        "Añade una tabla a la página y ordena las filas por la hora, no por el nombre, para que se vea lo que está "
        "en el puerto",
        "es",
    ),
    (
        "Adicione uma tabela à página e ordene as linhas pela hora e não pelo nome, para que você veja o que está "
        "no porto com mais clareza",
        "pt",
    ),
    (
        "Aggiungi una tabella alla pagina e ordina le righe per ora e non per nome, così che si veda che cosa "
        "è nel porto, ma non di più",
        "it",
    ),
    (
        "Voeg een tabel toe aan de pagina en sorteer het op de tijd en niet op de naam, zodat je kan zien wat er "
        "in de haven is",
        "nl",
    ),
    (
        "Dodaj tabelę do strony i posortuj wiersze po czasie, a nie po nazwie, tak żeby było widać co jest w porcie, "
        "ale nie więcej niż to",
        "pl",
    ),
    (
        "Добавь таблицу на страницу и отсортируй строки по времени, а не по имени, чтобы было видно, что сейчас "
        "стоит в порту и когда уйдёт в море",
        "ru",
    ),
    (
        "Додай таблицю на сторінку і відсортуй рядки за часом, а не за іменем, щоб було видно, що зараз стоїть "
        "у порту і коли піде в море",
        "uk",
    ),
    ("请在页面上添加一个潮汐表，并按时间而不是按名称排序，这样就可以看到港口里现在有什么，还有什么时候出海", "zh"),
    ("ページに潮汐表を追加して、名前ではなく時間で並べ替えてください。そうすれば港の様子がすぐに分かります", "ja"),
    (
        "페이지에 조석표를 추가하고 이름이 아니라 시간순으로 정렬해 주세요 그러면 항구에 무엇이 있는지 "
        "바로 볼 수 있습니다 그리고 테스트도 하나 추가해 주시고 문서도 함께 고쳐 주세요",
        "ko",
    ),
    ("add table", ""),
    ("foo bar baz qux " * 10, ""),
]


def test_language(subtests: pytest.Subtests) -> None:
    for text, language in LANGUAGE:
        with subtests.test(text=text, language=language):
            assert writing_style(said(text)).language == language


STANDING_INSTRUCTIONS_ARE_KEPT_WORD_FOR_WORD = [
    "Always run the linter before you commit",
    "never push to main",
    "From now on write the docs in British English.",
    "make sure to always add a test",
    "Don't ever touch the generated files",
    "please use pnpm instead of npm",
    "use uv, not pip",
    "prefer composition over inheritance",
    "we use tabs in this codebase",
    "In this repo we squash commits",
    "remember to use pagination",
    "use uv",
    "Use pnpm.",
    "Don't use emojis.",
    "please don't use mocks in tests",
    "we use pnpm, not npm",
    "Always pass the flag",
    "we should be using the strong types wherever we can",
    "Immer zuerst die Tests laufen lassen",
    "Siempre usa comillas simples",
    "以后都用中文回答",
]


def test_standing_instructions_are_kept_word_for_word(subtests: pytest.Subtests) -> None:
    for sentence in STANDING_INSTRUCTIONS_ARE_KEPT_WORD_FOR_WORD:
        with subtests.test(sentence=sentence):
            found = writing_style(said(f"Add a tide table.\n- {sentence}\nThen stop.")).instructions
            assert found == (sentence,)


WHAT_IS_OF_THE_MOMENT_IS_NO_STANDING_INSTRUCTION = [
    "use the file I gave you",
    "The function always returns the same value",
    "this has never worked",
    "Never mind",
    "I never said that it was urgent",
    "why do we always start a new branch?",
    "we use it here: foo = always(bar);",
    "if x::never run this",
    "can we use tabs instead of spaces?",
    "2026-01-04 10:11:12 always failing to connect",
    "always fails on Windows",
    "Never worked for me",
    "we use Postgres, and the query fails",
    "use it",
    "use caching",
    "don't use that",
    "Add a table and sort it",
]


def test_what_is_of_the_moment_is_no_standing_instruction(subtests: pytest.Subtests) -> None:
    for sentence in WHAT_IS_OF_THE_MOMENT_IS_NO_STANDING_INSTRUCTION:
        with subtests.test(sentence=sentence):
            assert writing_style(said(sentence)).instructions == ()


def test_instructions_are_few_short_and_different() -> None:
    many = [f"Always run check number {number}" for number in range(50)]
    assert writing_style(said("\n".join([*many, *many]))).instructions == tuple(many[:20])
    assert writing_style(said("Always run it.", "always run it")).instructions == ("Always run it.",)
    assert writing_style(said("Always " + "run it and " * 40)).instructions == ()


A_HUGE_PASTE_COSTS_NEXT_TO_NOTHING = [
    "a" * 500_000,
    "no " * 170_000,
    " " * 500_000,
    "\n" * 500_000,
    "<a1>" * 125_000,
    "<a>" * 160_000,
    "The bug: it still " * 25_000,
    "".join(f"<t{number}>" for number in range(60_000)),
    "```" * 160_000,
    "> " * 250_000,
    "Always, " * 60_000,
    "wait, " * 80_000,
    "是" * 200_000,
]


def test_a_huge_paste_costs_next_to_nothing(subtests: pytest.Subtests) -> None:
    for text in A_HUGE_PASTE_COSTS_NEXT_TO_NOTHING:
        with subtests.test(text=text):
            began = time.process_time()
            writing_style(after(text))
            corrections(after(text))
            assert time.process_time() - began < 1
