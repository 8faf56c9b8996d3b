from __future__ import annotations

from contextlib import closing
from threading import Thread

import pytest

from tests.templates.made import Clock, template
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.templates.store import SQLTemplateStore


def test_an_id_says_when_a_template_was_made(store: SQLTemplateStore, clock: Clock) -> None:
    ids = [store.add(template()).id for _ in range(3)]
    clock.go(seconds=1)
    ids.append(store.add(template()).id)
    assert ids == ["warm_20260310_142530", "warm_20260310_142530_2", "warm_20260310_142530_3", "warm_20260310_142531"]


def test_an_id_is_given_once_for_all_time(store: SQLTemplateStore) -> None:
    first, second = (store.add(template()).id for _ in range(2))
    store.delete(first)
    store.delete(second)
    assert store.add(template()).id == "warm_20260310_142530_3"


def test_a_template_that_is_refused_takes_no_id(store: SQLTemplateStore) -> None:
    def fail() -> None:
        with store.database.transaction():
            store.add(template())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.add(template()).id == "warm_20260310_142530"


def test_whoever_adds_at_the_same_time_gets_ids_of_their_own(either: SQLTemplateStore, clock: Clock) -> None:
    place = either.sessions.name
    ids: list[str] = []

    def add() -> None:
        opened: SQLSessionStore = PostgresSessionStore(place) if "://" in place else SQLiteSessionStore(place)
        with closing(opened):
            store = SQLTemplateStore(opened, clock=clock)
            ids.extend(store.add(template()).id for _ in range(5))

    threads = [Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 20
    assert {each.id for each in either.list()} == set(ids)
