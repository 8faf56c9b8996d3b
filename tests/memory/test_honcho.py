"""Memory at Honcho, through its SDK, at a server on this machine that speaks its interface."""

from __future__ import annotations

import json
import socket
import threading
import time
from datetime import datetime
from functools import partial

import pytest

from tests.memory.honcho_server import running
from tests.ports import free_port
from tests.waiting import put_forward
from warmstart.errors import ConfigError, MemoryBackendError
from warmstart.memory.backend import Delivery
from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.honcho.link import Timeouts
from warmstart.memory.honcho.wire import PRODUCTION, Change, outgoing, peer_name, session_name
from warmstart.memory.values import View
from warmstart.testing.memory import MemoryBackendSuite

SECRET = "AKIA" + "Z7QWERTY2345ABCD"


class TestHoncho(MemoryBackendSuite):
    @pytest.fixture
    def backend(self, honcho):
        return honcho


# -- where anything goes


@pytest.fixture
def attempts(monkeypatch):
    """What anybody tried to reach; nothing is let out."""
    tried = []

    def refuse(*arguments, **_):
        tried.append(arguments)
        raise OSError("no way out")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tried


def test_without_a_key_nothing_leaves(attempts, tmp_path, monkeypatch, subtests):
    monkeypatch.setenv("HONCHO_API_KEY", "the-sdk-would-take-this")
    monkeypatch.setenv("HONCHO_URL", PRODUCTION)
    for base_url in ["", PRODUCTION, PRODUCTION + "/", "https://demo.honcho.dev", "https://API.honcho.dev."]:
        with subtests.test(base_url=base_url):
            backend = HonchoBackend(base_url=base_url, path=tmp_path / "index")
            assert not backend.is_available()
            assert not backend.is_reachable()
            for act in (
                partial(backend.store, "u", "k", "v"),
                partial(backend.retrieve, "u", "k"),
                partial(backend.query, "u", "k"),
                partial(backend.delete, "u", "k"),
                partial(backend.list_keys, "u"),
                partial(backend.history, "u", "k"),
                backend.users,
                backend.flush,
            ):
                with pytest.raises(MemoryBackendError, match="HONCHO_API_KEY"):
                    act()
            backend.close()
            assert attempts == []
            assert not (tmp_path / "index").exists()


def test_an_address_that_is_none_is_refused(tmp_path, subtests):
    for url in ["nonsense", "ftp://127.0.0.1", "file:///etc/passwd"]:
        with subtests.test(url=url), pytest.raises(ConfigError, match="address of a Honcho server"):
            HonchoBackend(base_url=url, path=tmp_path)


def test_a_key_of_the_environment_is_not_sent_where_it_is_not_for(honcho, server, monkeypatch):
    monkeypatch.setenv("HONCHO_API_KEY", "for-production")
    honcho.store("u", "k", "v")
    assert honcho.flush()
    assert {request.authorization for request in server.requests} == {None}


# -- what is stored and found


def test_an_answer_that_is_an_error_does_not_spoil_the_next(honcho, server):
    """The real server hangs up after an error that nobody caught, and does not say so."""
    assert honcho.sync("u")
    for _ in range(50):
        server.failures = [500]
        assert not honcho.sync("u")
        assert honcho.sync("u")


def test_an_entry_is_a_message_in_a_session_of_the_users_own(honcho, server):
    honcho.store("mara", "pref_editor", "vim", {"source": "USER.md", "confidence": 0.9})
    assert honcho.flush()
    [message] = server.messages()
    assert message["content"] == "pref_editor: vim"
    said = datetime.fromisoformat(message["created_at"]).timestamp()
    assert said == pytest.approx(honcho.retrieve("mara", "pref_editor").created_at, abs=1e-3)
    assert (message["peer_id"], message["session_id"]) == ("mara", "warmstart-memory-mara")
    entry = honcho.retrieve("mara", "pref_editor")
    assert entry.value == "vim"
    assert entry.metadata == {"source": "USER.md", "confidence": 0.9}
    assert entry.created_at == entry.updated_at
    assert honcho.users() == ["mara"]
    assert honcho.retrieve("mara", "pref") is None


def test_another_machine_sees_it_and_the_newest_value_wins(server, opened):
    here, there = opened(server.url, "here", send_scoped=True), opened(server.url, "there")
    here.store("mara@example.com", "editor", "vim", {"expires_at": time.time() + 1000, "session": "s-1"})
    assert here.flush()
    assert there.sync("mara@example.com")
    assert there.retrieve("mara@example.com", "editor") == here.retrieve("mara@example.com", "editor")
    there.store("mara@example.com", "editor", "emacs")
    assert there.flush()
    assert here.retrieve("mara@example.com", "editor").value == "emacs"
    assert here.list_keys("mara@example.com") == ["editor"]
    assert [version.value for version in here.history("mara@example.com", "editor")] == ["emacs", "vim"]
    assert here.history("mara@example.com", "editor")[1].session == "s-1"
    assert opened(server.url, "elsewhere").users() == ["mara@example.com"]


def test_another_machine_reads_what_was_stored_and_only_that_users(fresh_honcho, subtests):
    users = ["mara", "mara@example.com", "user-mara", "日本", "a/b", "x" * 500, "a b"]
    values = ["", "x" * 30_000, "a <|endoftext|> b", "tabs\tand\nlines", "naïve 日本語 🦊", ": :", " spaces "]
    for user, value in zip(users, values, strict=True):
        with subtests.test(user=user, value=value), fresh_honcho() as (server, opened):
            here, there = opened(server.url, "here"), opened(server.url, "there")
            here.store(user, "some: key", value)
            here.store("other", "some: key", "theirs")
            assert here.flush()
            assert here.status().rejected == ()
            assert there.sync(user)
            assert there.retrieve(user, "some: key").value == value
            assert [entry.value for entry in there.query(user, "key")] == [value]
            assert there.list_keys("nobody") == []
            assert len({peer_name(user), peer_name("other"), peer_name(peer_name(user) + " ")}) == 3


def test_secrets_are_replaced_before_anything_is_kept_or_sent(honcho, server, tmp_path):
    honcho.store("u", "note", f"the key is {SECRET}", {"source": f"said {SECRET}"})
    honcho.store("u", "database_password", "hunter2-Vq9!xz77")
    honcho.query("u", f"what is {SECRET}")
    honcho.query("u", f"what is {SECRET}", dialectic=True)
    assert honcho.flush()
    sent = json.dumps([request.body for request in server.requests])
    assert "the key is [redacted" in sent
    for secret in (SECRET, "hunter2-Vq9!xz77"):
        assert secret not in sent
        assert all(secret.encode() not in path.read_bytes() for path in (tmp_path / "here").iterdir())


LIMITED = [
    {"scope": "project", "project": "web"},
    {"scope": "agent", "agent": "codex"},
    {"expires_at": time.time() + 1000},
    {"expires_at": "2100-01-31"},
    {"scope": "project", "project": "web", "expires_at": time.time() + 1000},
]


def test_what_waited_when_sending_was_turned_off_is_not_sent(opened):
    port = free_port()
    backend = opened(f"http://127.0.0.1:{port}", send_scoped=True, timeouts=Timeouts())
    backend.store("u", "codename", "Albatross", LIMITED[0])
    backend.store("u", "editor", "vim")
    assert not backend.flush(0.05)
    backend.close()
    with running(port) as server:
        assert opened(server.url).flush()
        assert server.entries() == ["editor: vim"]


def conclude(server, content, session=None, peer="u"):
    """Have another application, or Honcho itself, conclude something about a peer."""
    body = {"conclusions": [{"content": content, "observer_id": peer, "observed_id": peer, "session_id": session}]}
    server.answer("POST", "/v3/workspaces/warmstart/conclusions", {}, body)


def test_a_near_conclusion_leads_to_its_entry(honcho, server):
    """And one that is far away does not: without a limit Honcho returns all."""
    honcho.store("u", "editor", "vim")
    honcho.store("u", "editor", "emacs")
    honcho.store("u", "shell", "fish")
    assert honcho.flush()
    assert honcho.query("u", "what do I type into") == []
    conclude(server, "u likes to type into emacs as an editor")
    entry, derived = honcho.query("u", "what do I type into")
    assert (entry.key, entry.value) == ("editor", "emacs")
    assert derived.metadata["derived"]
    assert honcho.query("u", "quantum chromodynamics") == []


def conclusions(server):
    return [each["content"] for each in server.workspaces["warmstart"].conclusions]


def test_deleting_a_key_deletes_no_conclusion_and_shows_none_that_may_repeat_it(honcho, server):
    honcho.store("u", "city", "Oldenburg")
    honcho.store("u", "editor", "vim")
    assert honcho.flush()
    server.derive()
    conclude(server, "u moved to Oldenburg")
    conclude(server, "u said that the Oldenburg office is closed", "somebody-elses")
    known = conclusions(server)
    honcho.delete("u", "city")
    shown = [entry.value for query in ("Oldenburg", "city") for entry in honcho.query("u", query)]
    assert set(shown) == {"u said that the Oldenburg office is closed"}
    assert honcho.flush()
    assert conclusions(server) == known


def test_a_server_without_embeddings_is_not_asked_for_conclusions_again(honcho, server):
    server.has_embeddings = False
    honcho.store("u", "editor", "vim")
    assert honcho.flush()
    for _ in range(3):
        assert [entry.value for entry in honcho.query("u", "editor")] == ["vim"]
    assert sum(request.path.endswith("/conclusions/query") for request in server.requests) == 1


def test_conclusions_that_do_not_come_in_time_are_not_waited_for_again(server, opened):
    """As where the real server tries its language model again and again."""
    backend = opened(server.url, timeouts=Timeouts(read=0.8))
    backend.store("u", "editor", "vim")
    assert backend.flush()
    is_over = threading.Event()
    server.delay = lambda: is_over.wait(180) if server.requests[-1].path.endswith("/conclusions/query") else None
    for _ in range(20):
        assert [entry.value for entry in backend.query("u", "editor")] == ["vim"]
    is_over.set()
    assert sum(request.path.endswith("/conclusions/query") for request in server.requests) == 1


def test_the_dialectic_answers_only_when_asked(server, opened):
    backend = opened(server.url)
    backend.store("u", "editor", "vim")
    assert backend.flush()
    server.says = "They use vim."
    assert [entry.key for entry in backend.query("u", "Which editor?")] == ["editor"]
    answer, entry = backend.query("u", "Which editor?", dialectic=True)
    assert answer.value == "They use vim."
    assert answer.metadata["source"] == "honcho answer"
    assert entry.key == "editor"
    assert len(opened(server.url, dialectic=True).query("u", "Which editor?")) == 2


def test_a_closed_memory_says_so(honcho):
    honcho.store("u", "k", "v")
    honcho.close()
    with pytest.raises(MemoryBackendError, match="closed"):
        honcho.retrieve("u", "k")
    honcho.close()


# -- scopes and expiry


def test_scoped_and_expiring_entries_stay_here_by_default(honcho, server):
    for number, metadata in enumerate(LIMITED):
        honcho.store("u", f"codename_{number}", "Albatross", metadata)
    honcho.store("u", "editor", "vim")
    assert honcho.flush()
    assert server.entries() == ["editor: vim"]
    assert honcho.stays_local(LIMITED[0])
    assert honcho.at(View(project="web")).retrieve("u", "codename_0").value == "Albatross"
    honcho.delete("u", "codename_0")
    assert honcho.flush()
    assert server.entries() == ["editor: vim"]


def test_scoped_entries_have_a_session_and_a_peer_of_their_own(server, opened):
    here, there = opened(server.url, "here", send_scoped=True), opened(server.url, "there", send_scoped=True)
    here.store("u", "codename", "Albatross", {"scope": "project", "project": "web"})
    here.store("u", "editor", "vim")
    assert here.flush()
    server.derive()
    sessions = {message["content"]: (message["session_id"], message["peer_id"]) for message in server.messages()}
    own = sessions["codename: Albatross"]
    assert sessions["editor: vim"] == (session_name("u"), "u")
    assert own == (session_name("u", "project:web"), peer_name("u", "project:web"))
    assert there.sync("u")
    assert there.at(View(project="web")).retrieve("u", "codename").value == "Albatross"
    elsewhere = there.at(View(project="api"))
    assert elsewhere.retrieve("u", "codename") is None
    conclude(server, "u leads the project called Albatross", own[0], peer=own[1])
    assert "Albatross" not in str(elsewhere.query("u", "Albatross project"))
    assert "leads the project" in str(there.at(View(project="web")).query("u", "Albatross project"))
    assert here.at(View(project="web")).delete("u", "codename")
    assert here.flush()
    assert there.sync("u")
    assert there.at(View(project="web")).retrieve("u", "codename") is None


def test_the_session_of_an_entry_is_deleted_when_it_expires(server, opened, monkeypatch):
    here, there = opened(server.url, "here", send_scoped=True), opened(server.url, "there", send_scoped=True)
    here.store("u", "parking", "P4")
    here.store("u", "parking", "P2 this week", {"expires_at": time.time() + 1000})
    assert here.flush()
    assert there.sync("u")
    assert there.retrieve("u", "parking").value == "P2 this week"
    own = next(message["session_id"] for message in server.messages() if message["content"] == "parking: P2 this week")
    assert own != session_name("u")
    put_forward(monkeypatch, 2000)
    assert here.retrieve("u", "parking") is None
    here.store("u", "other", "value")  # writes remove what has expired
    here._update_index("u")
    assert here.flush()
    assert not server.workspaces["warmstart"].sessions[own]["is_active"]
    assert there.sync("u")
    assert there.retrieve("u", "parking") is None
    server.reap()
    assert opened(server.url, "new").sync("u")
    assert opened(server.url, "new").retrieve("u", "parking") is None  # the value before does not come back


# -- what Honcho says


def test_replacing_a_value_deletes_no_conclusion_and_ranks_it_below(fresh_honcho, subtests):
    for before, after in [("True", "False"), ("vim with four spaces", "emacs"), ("x", "x y")]:
        with subtests.test(before=before, after=after), fresh_honcho() as (server, opened):
            honcho = opened(server.url)
            honcho.store("u", "prefers_python", before)
            assert honcho.flush()
            server.derive()
            for session in (None, "warmstart-memory-u", "somebody-elses"):
                conclude(server, f"u prefers python at work: {before}", session)
            known = conclusions(server)
            honcho.store("u", "prefers_python", after)
            assert honcho.flush()
            for query in ("prefers python", before, f"is it {before}?"):
                honcho.query("u", query)
            assert honcho.flush()
            assert conclusions(server) == known
            assert not any(request.method == "DELETE" for request in server.requests)
            first, *derived = honcho.query("u", "prefers python")
            assert first.value == after
            assert derived
            for each in derived:
                assert (each.metadata["source"], each.metadata["derived"]) == ("honcho conclusion", True)
                assert each.created_at  # it is dated


def test_an_entry_is_shown_once(honcho, server):
    """Not again because conclusions lead to it, nor as a conclusion that says the same."""
    honcho.store("u", "editor", "vim")
    honcho.store("u", "shell", "fish")
    assert honcho.flush()
    server.derive()
    conclude(server, "u uses vim on a boat")
    conclude(server, "u uses vim on a boat")
    found = honcho.query("u", "vim editor")
    assert [entry.value for entry in found if not entry.metadata.get("derived")] == ["vim"]
    assert [entry.value for entry in found if entry.metadata.get("derived")] == ["u uses vim on a boat"]


def test_entries_are_not_crowded_out(honcho, server):
    for number in range(9):
        honcho.store("u", f"editor_{number}", f"editor {number}")
    assert honcho.flush()
    for number in range(9):
        conclude(server, f"u tries the editor on ship {number}")
    found = honcho.query("u", "editor", limit=6)
    assert ["conclusion" in entry.key for entry in found] == [False] * 4 + [True] * 2


def test_deleting_an_entry_that_would_expire_reaches_other_machines(server, opened):
    here, there = opened(server.url, "here", send_scoped=True), opened(server.url, "there", send_scoped=True)
    for number in range(40):
        here.store("u", f"spot_{number}", f"P{number}", {"expires_at": time.time() + 1000})
    assert here.flush()
    assert there.sync("u")
    for number in range(1, 40):
        assert there.delete("u", f"spot_{number}")
    assert there.flush()
    for _ in ("deleted", "reaped"):
        assert here.sync("u")
        assert here.list_keys("u") == ["spot_0"]
        server.reap()
    seen = len(server.requests)
    assert here.retrieve("u", "spot_0").value == "P0"
    assert len(server.requests) == seen + 1  # not one for each session


# -- a second machine, a slow server, a wrong key


def test_the_first_read_on_another_machine_waits_for_the_first_synchronization(server, opened):
    here = opened(server.url, "here")
    for number in range(350):
        here.store("u", f"key_{number}", f"value {number}")
    assert here.flush()
    server.delay = lambda: time.sleep(0.1)
    fresh = opened(server.url, "fresh", timeouts=Timeouts(read=0.05, connect=180.0))
    assert fresh.retrieve("u", "key_349").value == "value 349"
    assert len(fresh.list_keys("u")) == 350


def test_a_key_that_was_not_synchronized_is_not_said_to_be_missing(server, opened):
    here = opened(server.url, "here")
    here.store("u", "key", "value")
    assert here.flush()
    is_over = threading.Event()
    server.delay = lambda: is_over.wait(180)
    fresh = opened(server.url, "fresh", timeouts=Timeouts(read=0.1, connect=0.2))
    with pytest.raises(MemoryBackendError, match=r"not synchronised yet.*memory\.honcho\.connect_timeout_ms = 200"):
        fresh.retrieve("u", "key")
    is_over.set()
    server.delay = lambda: None
    assert fresh.sync("u")
    assert fresh.retrieve("u", "key").value == "value"
    assert fresh.retrieve("u", "no such key") is None


def test_a_slow_server_still_delivers_and_synchronizes(server, opened):
    server.delay = lambda: time.sleep(0.4)
    here, there = (opened(server.url, name, timeouts=Timeouts(write=60, connect=60)) for name in ("here", "there"))
    here.store("u", "editor", "vim")
    assert here.is_reachable()
    assert here.flush(180)
    assert there.is_reachable()
    assert there.sync("u", 180)
    assert [record.entry.value for record in there.dump("u")] == ["vim"]


def test_a_timeout_names_its_setting(server, opened):
    is_over = threading.Event()
    server.delay = lambda: is_over.wait(180)
    backend = opened(server.url, timeouts=Timeouts(read=0.1, write=0.3))
    backend.store("u", "editor", "vim")
    assert not backend.flush(1.5)
    assert "memory.honcho.write_timeout_ms = 300" in backend.status().error
    is_over.set()


def test_a_rejected_key_keeps_writes_and_says_why(server, opened):
    server.key = "right"
    backend = opened(server.url, api_key="wrong")
    delivery = Delivery(backend)
    backend.store("u", "k", "v")
    said = delivery.finish(0.5)
    assert said.startswith("1 write waits on this machine: ")
    assert "does not accept the key (401 or 403); check HONCHO_API_KEY" in said
    assert backend.status().denied
    with pytest.raises(MemoryBackendError, match="does not accept the key"):
        opened(server.url, "other", api_key="wrong").retrieve("u", "missing")
    server.key = "wrong"
    assert backend.flush()
    assert server.entries() == ["k: v"]


# -- the wire


def test_a_deletion_names_neither_key_nor_place():
    message = outgoing(Change("v-1", "u", "project:web", "", None, 1.5, key_digest="d"))
    assert message.content == "(forgotten)"
    assert "web" not in str(message)
    assert not message.reasoning
    assert outgoing(Change("v-1", "u", "", "k", "v", 1.5)).reasoning
    assert not outgoing(Change("v-1", "u", "", "k", "v", 1.5, expires_at=2.0)).reasoning


def test_a_write_that_arrives_late_does_not_win(server, opened):
    """Written first, delivered last, because that machine was away."""
    here = opened(server.url, "here")
    here.store("u", "editor", "new")
    assert here.flush()
    late = Change("late", "u", "", "editor", "old", time.time() - 100)
    here._link.add(session_name("u"), "u", "u", [outgoing(late)])
    assert here.sync("u")
    assert here.retrieve("u", "editor").value == "new"
    here.delete("u", "editor")
    here._link.add(session_name("u"), "u", "u", [outgoing(Change("later", "u", "", "editor", "old", late.at + 1))])
    assert here.sync("u")
    assert here.retrieve("u", "editor") is None
