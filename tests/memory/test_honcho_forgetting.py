"""What deleting at Honcho comes to: of a key, of all of a user, and of a session there."""

from __future__ import annotations

import json
from contextlib import closing

from tests.memory.honcho_server import running
from tests.ports import free_port
from tests.waiting import wait_until
from warmstart.memory.honcho.mirror import Mirror
from warmstart.memory.values import digest


def test_a_deleted_entry_is_hidden_at_once_and_what_honcho_keeps_is_said(server, opened, tmp_path):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("u", "city", "Oldenburg", {"source": "chat"})
    assert here.flush()
    server.derive()
    assert there.sync("u")
    assert here.delete("u", "city")
    assert here.retrieve("u", "city") is None
    assert here.query("u", "Oldenburg") == []
    assert here.list_keys("u") == []
    assert not here.delete("u", "city")
    assert here.flush()
    assert "keeps the text of deleted messages" in here.deletion_note
    assert there.retrieve("u", "city") is None
    assert [version.value for version in there.history("u", "city")] == [None]
    first = server.messages()[0]
    assert first["content"] == "city: Oldenburg"  # what cannot be deleted
    assert "chat" not in json.dumps(first["metadata"])
    assert opened(server.url, "fresh").retrieve("u", "city") is None
    here.close()
    assert all(b"Oldenburg" not in path.read_bytes() for path in (tmp_path / "here").iterdir())


def test_what_was_deleted_before_it_was_sent_is_never_sent(opened):
    port = free_port()
    backend = opened(f"http://127.0.0.1:{port}")
    backend.store("u", "city", "Oldenburg")
    backend.store("mara", "city", "Leer")
    while not backend.status().error:  # so that it is not on its way just now
        assert not backend.flush(0.05)
    assert backend.delete("u", "city")
    assert backend.forget_user("mara") == 1
    backend.store("u", "city", "Bremen")
    with running(port) as server:
        assert backend.flush()
        assert server.entries() == ["(forgotten)", "city: Bremen"]
    assert backend.retrieve("u", "city").value == "Bremen"


def test_a_session_deleted_at_honcho_is_recreated(honcho, server):
    honcho.store("u", "k", "v")
    assert honcho.flush()
    assert honcho.sync("u")
    server.answer("DELETE", "/v3/workspaces/warmstart/sessions/warmstart-memory-u", {}, None)
    server.reap()
    assert honcho.retrieve("u", "k").value == "v"
    honcho.store("u", "other", "w")
    assert honcho.flush()
    assert honcho.sync("u")
    assert honcho.list_keys("u") == ["other", "k"]


# -- a whole user


def test_a_forgotten_user_is_gone_here_and_at_honcho(server, opened, tmp_path):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("mara", "city", "Oldenburg")
    here.store("mara", "city", "Bremen")
    here.store("mara", "editor", "vim", {"scope": "project", "project": "web"})
    here.delete("mara", "editor")
    here.store("ben", "city", "Leer")
    assert here.flush()
    server.derive()
    assert there.retrieve("mara", "city").value == "Bremen"
    assert here.forget_user("mara") == 1
    assert here.forget_user("nobody") == 0
    assert here.flush()
    assert here.sync("mara")  # which still shows the messages
    assert server.messages()[0]["content"] == "city: Oldenburg"
    for backend in (here, there, opened(server.url, "new")) * 2:
        assert backend.list_keys("mara") == []
        assert backend.retrieve("mara", "city") is None
        assert backend.query("mara", "Bremen") == []
        assert backend.history("mara", "city") == []
        assert backend.users() == ["ben"]
        if backend is not here and backend is not there:
            server.reap()
    assert server.entries() == ["city: Leer"]
    assert [each["content"] for each in server.workspaces["warmstart"].conclusions] == ["city: Leer"]
    for backend, machine in ((here, "here"), (there, "there")):
        backend.close()
        kept = b"".join(path.read_bytes() for path in (tmp_path / machine).iterdir())
        assert b"Oldenburg" not in kept
        assert b"Bremen" not in kept


def test_forgetting_a_user_leaves_what_is_another_applications(server, opened):
    here = opened(server.url, "here")
    here.store("mara", "city", "Oldenburg")
    assert here.flush()
    server.derive()
    ask = lambda method, path, body=None: server.answer(method, f"/v3/workspaces/warmstart/{path}", {}, body)  # noqa: E731
    theirs = [("mara likes tea", "chats"), ("mara lives in Oldenburg", "chats"), ("mara is 40", None)]
    made = [
        {"content": content, "observer_id": "mara", "observed_id": "mara", "session_id": session}
        for content, session in theirs
    ]
    ask("POST", "conclusions", {"conclusions": made})
    ask("PUT", "peers/mara/card", {"peer_card": ["likes tea"]})
    ask("POST", "sessions", {"id": "chats", "peers": {"mara": {}}})
    ask("POST", "sessions", {"id": "warmstart-memory-ben", "peers": {"ben": {}}})
    here.forget_user("mara")
    here.forget_user("ben")  # who has a session of that name, but not of ours
    assert here.flush()
    server.reap()
    space = server.workspaces["warmstart"]
    assert [(each["content"], each["session_id"]) for each in space.conclusions] == theirs
    assert space.peers["mara"]["card"] == ["likes tea"]
    assert list(space.sessions) == ["chats", "warmstart-memory-ben"]
    deleted = [request.path for request in server.requests if request.method == "DELETE"]
    assert deleted == ["/v3/workspaces/warmstart/sessions/warmstart-memory-mara"]


def test_what_another_machine_wrote_after_it_stays(server, opened):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("mara", "city", "Oldenburg")
    assert here.flush()
    assert there.sync("mara")
    here.forget_user("mara")
    assert here.flush()
    there.store("mara", "editor", "vim")
    assert there.sync("mara")
    assert there.list_keys("mara") == ["editor"]
    server.reap()
    assert there.flush()
    assert here.sync("mara")
    assert here.list_keys("mara") == ["editor"]


def test_a_forgotten_user_may_come_back_and_holds_nobody_up(server, opened):
    """Until Honcho has deleted the session it takes nothing new for it; that is for the others no reason to wait."""
    here, away = opened(server.url, "here"), opened(server.url, "away")
    here.store("mara", "pet", "a cat")
    assert here.flush()
    assert away.sync("mara")
    here.forget_user("mara")
    here.store("mara", "city", "Leer")
    here.store("ben", "k", "v")
    wait_until(lambda: here.status().waiting == 1 and "not finished deleting" in here.status().error)
    assert "k: v" in server.entries()
    assert here.is_reachable()
    assert here.retrieve("mara", "city").value == "Leer"
    server.reap()
    assert here.flush()
    assert here.sync("mara")
    assert server.entries() == ["k: v", "(forgotten: everything)", "city: Leer"]
    assert away.list_keys("mara") == ["city"]
    assert [version.value for version in here.history("mara", "city")] == ["Leer"]
    assert opened(server.url, "there").retrieve("mara", "city").value == "Leer"


def test_an_earlier_mirror_knows_whom_it_forgot(tmp_path):
    class Earlier(Mirror):
        MIGRATIONS = Mirror.MIGRATIONS[:-1]

    with closing(Earlier(tmp_path / "m.db", redact=True, send_scoped=False)) as mirror, mirror.writing() as connection:
        row = (digest("mara"), 1.5, 1, 1)
        connection.execute("INSERT INTO mirror_forgotten (owner, at, is_done, is_told) VALUES (?, ?, ?, ?)", row)
    with closing(Mirror(tmp_path / "m.db", redact=True, send_scoped=False)) as mirror:
        assert mirror.has_deleted("mara")
        assert not mirror.has_deleted("ben")


def test_a_user_forgotten_elsewhere_is_synchronized(server, opened):
    """After Honcho has deleted the session: there is nothing to wait for, and a missing key is missing."""
    here, there = opened(server.url, "here"), opened(server.url, "there", fresh_seconds=60.0)
    here.store("u", "city", "Leer")
    assert here.flush()
    assert there.sync("u")
    here.forget_user("u")
    assert here.flush()
    here.store("u", "city", "Aurich")
    assert there.sync("u")
    server.reap()
    assert there.sync("u")
    assert there.retrieve("u", "city") is None
    assert here.flush()
    assert there.sync("u")
    assert there.retrieve("u", "city").value == "Aurich"
