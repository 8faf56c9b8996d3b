from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.templates.crowd import crowd
from warmstart.recall.evidence import Evidence
from warmstart.templates.selection import sureness
from warmstart.templates.similarity import Described, Fit, Similarity, add_recall, by_recall, says_enough

SURE = 0.3  # from which on a template is chosen


def nearest(task: str, *templates: Described) -> str:
    fits = Similarity(templates).by_words(task)
    return max(fits, key=lambda each: fits[each].similarity, default="")


def likeness(task: str, *templates: Described) -> float:
    return max((fit.similarity for fit in Similarity(templates).by_words(task).values()), default=0.0)


def test_endings_capitals_and_accents_do_not_matter():
    told = Described("t", ("Cancelling Café reservations",))
    assert likeness("please cancel the cafe reservation", told) > 0.5


def test_a_sub_task_is_compared_by_itself_and_not_with_all_the_others():
    one = Described("one", ("Migrate the search index", "Round the totals", "Draw the label", "Translate the menu"))
    other = Described("other", ("Migrate the totals", "Search the label", "Index the menu"))
    assert nearest("migrate our search index", one, other) == "one"


def test_words_that_any_task_has_make_nothing_alike():
    assert likeness("please add a new test to the project", Described("t", ("Add a new test to the project",))) == 0.0
    assert likeness("fix the error in the file", Described("t", ("Fix the error in the label file",))) == 0.0


def test_one_common_word_is_little():
    assert sureness(likeness("sing a song about the harbour", Described("t", ("Paint the harbour wall blue",)))) < SURE


def test_a_rare_word_tells_more_than_a_common_one():
    many = [Described(f"t{number}", (f"Repair the engine of boat {number}",)) for number in range(30)]
    rare = Described("rare", ("Repair the gyroscope",))
    assert nearest("the engine gyroscope is broken", *many, rare) == "rare"


def test_many_templates_of_one_kind_of_work_do_not_make_it_strange():
    one = Described("t", ("Change the flight of a reservation",))
    many = [one._replace(id=f"t{number}") for number in range(300)]
    asked = "I want to change my flight, the reservation is K1NW8N"
    assert sureness(likeness(asked, one)) > SURE
    assert sureness(likeness(asked, *many)) > SURE
    assert sureness(likeness("is there a flight to Mars", *many)) < SURE


def test_an_unknown_id_in_the_task_says_nothing_against_a_template():
    told = Described("t", ("Cancel the reservation {{reservation_id}}",))
    plain = likeness("cancel my reservation", told)
    assert likeness("cancel my reservation XEHM4B", told) == pytest.approx(plain)


def test_name_description_and_tags_count_too():
    told = Described("t", about="Tide tables Harbour forecasts moon")
    found = Similarity([told]).by_words("compute the tide tables from the moon")
    assert found["t"].similarity > 0.3
    assert found["t"].task == ""


def test_languages_without_spaces_are_compared():
    told = Described("t", ("予約をキャンセルする",))
    assert likeness("予約のキャンセルをお願いします", told) > 0.3


def test_whatever_is_asked_nothing_breaks(subtests):
    for task in ["", "   ", "\0", "🙂🙂", "a" * 10_000, "?" * 500, "\ud800 broken"]:
        with subtests.test(task=task):
            likeness(task, *(Described(f"t{number}", each.sources) for number, each in enumerate(crowd(5))))
            says_enough(task)


def test_a_very_long_task_is_compared_by_what_tells_most():
    told = [Described(f"t{number}", (f"Repair the engine of boat {number}",)) for number in range(30)]
    padding = "and then some more words about nothing in particular, as people write them, " * 40
    assert nearest(
        f"Please adjust the gyroscope calibration. {padding}", *told, Described("rare", ("Gyroscope calibration",))
    )


class Recalled:
    """A recall that knows what it will say."""

    def __init__(self, *found: Evidence) -> None:
        self.found = list(found)
        self.asked: dict[str, object] = {}

    def search(self, text: str, **options: object) -> list[Evidence]:
        self.asked = options
        return self.found


def evidence(session: str, score: float, matched: tuple[str, ...]) -> Evidence:
    return Evidence(
        session_id=session,
        native_id=session,
        agent="a",
        project="p",
        date=None,
        role="user",
        score=score,
        text="",
        message_ids=("m",),
        matched=matched,
        terms=("tide", "table", "moon", "port"),
    )


def test_recall_counts_by_score_and_by_the_words_that_it_found():
    recall = Recalled(
        evidence("s1", 8.0, ("tide", "table", "moon", "port")),
        evidence("s2", 2.0, ("tide", "table", "moon", "port")),
        evidence("s3", 8.0, ("tide",)),
        evidence("s1", 1.0, ("tide",)),
    )
    points = by_recall(recall, "tides", project="/p", session="mine")
    assert points == pytest.approx({"s1": 1.0, "s2": 0.5, "s3": 0.25})
    assert recall.asked == {"project": "/p", "limit": 10, "exclude_session": "mine", "deadline_ms": 3.0}


def test_nothing_recalled_is_nothing():
    assert by_recall(Recalled(), "tides", project=None, session="") == {}


def test_recall_adds_to_what_words_say_and_never_takes_away():
    fit = Fit(0.4, "task", ("tide",))
    assert add_recall(fit, ("s9",), {"s1": 1.0}) == fit
    more = add_recall(fit, ("s1", "s2"), {"s1": 0.5, "s2": 1.0})
    assert (more.recalled, more.task) == ("s2", "task")
    assert 0.4 < more.similarity < 1.0


def test_sureness_rises_with_likeness():
    steps = [sureness(number / 10) for number in range(11)]
    assert steps == sorted(steps)
    assert steps[0] < 0.05
    assert steps[6] > 0.95


@pytest.mark.corpus
def test_real_tasks_find_their_own_kind_and_leave_the_rest_alone(corpus: Path):
    (path,) = (corpus / "tau_bench").glob("*.json")
    said: dict[int, list[list[str]]] = {}
    for run in json.loads(path.read_text()):
        user = [message["content"] for message in run["traj"] if message["role"] == "user"]
        said.setdefault(run["task_id"], []).append(user)
    templates = [
        Described(str(task), tuple(" ".join(text.split())[:200] for text in trials[0][:8]))
        for task, trials in said.items()
    ]
    similarity = Similarity(templates)

    def best(task: str) -> tuple[str, float]:
        fits = similarity.by_words(task)
        found = max(fits, key=lambda each: fits[each].similarity, default="")
        return found, sureness(fits[found].similarity) if found else 0.0

    again = [(str(task), *best(trials[1][0])) for task, trials in said.items() if len(trials) > 1]
    right = sum(task == found for task, found, _ in again) / len(again)
    started = sum(sure >= SURE for *_, sure in again) / len(again)
    queries = (corpus / "sessions" / "commit_to_session_queries.jsonl").read_text().splitlines()
    others = [best(json.loads(line)["query"])[1] for line in queries]
    led_astray = sum(sure >= SURE for sure in others) / len(others)
    assert right >= 0.5
    assert started >= 0.85
    assert led_astray <= 0.03
