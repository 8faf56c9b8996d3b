"""What a person does with an agent that has Warmstart, and what there is to see of it."""

from __future__ import annotations

import re

from tests.hosts.clients import Client
from tests.memory.waiting import wait_until
from warmstart.sessions.marks import END, END_TAG, MARK, TAG
from warmstart.sessions.values import Message
from warmstart.testing.model import Reply, Request

RULE = "Never commit to main without my review."
FIRST = f"Please run the tests of the tide gauge. {RULE}"
PORT = "The tide gauge database listens on port 5433."
QUESTION = "Which port did the tide gauge database listen on yesterday?"

_NOTE = re.compile(rf"{re.escape(MARK)}.*?{re.escape(END)}|{TAG}[\s>].*?{END_TAG}", re.DOTALL)


def work_once(client: Client) -> str:
    """A session with a mistake, its fix, a command that works, and an answer. Returns when it is in our store."""
    client.model.add(
        Reply(when=FIRST, calls=[client.shell("yarn test")]),
        Reply(when=FIRST, calls=[client.shell("make test")]),
        Reply(when=FIRST, text=f"They pass. {PORT}"),
    )
    session_id = client.ask(FIRST).session_id
    wait_until(lambda: is_extracted(client), every=0.2)
    return session_id


def is_extracted(client: Client) -> bool:
    """Whether the sync that the agent's hook started has come to its end."""
    if not (client.home / ".warmstart" / "warmstart.db").exists():
        return False
    with client.open() as ws:
        return "yarn" in ws.brief(project=str(client.work)).text


def stored(client: Client) -> list[Message]:
    """All messages of our store, after all logs were imported."""
    client.warmstart("sync")
    with client.open() as ws:
        return [message for one in ws.store.list() for message in ws.store.messages(one.session.id)]


def ours(request: Request) -> str:
    """What we put into a request, as our marks tell."""
    return "\n".join(_NOTE.findall(request.text))
