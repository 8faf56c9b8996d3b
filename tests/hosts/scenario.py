"""What a person does with an agent that has Warmstart, and what there is to see of it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from tests.hosts.clients import SECONDS, Client
from tests.waiting import wait_until
from warmstart.sessions.marks import END, END_TAG, MARK, TAG
from warmstart.sessions.values import Message
from warmstart.testing.model import Reply, Request

RULE = "Never commit to main without my review."
FIRST = f"Please run the tests of the tide gauge. {RULE}"
PORT = "The tide gauge database listens on port 5433."
QUESTION = "Which port did the tide gauge database listen on yesterday?"

SILENT = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
_NOTE = re.compile(rf"{re.escape(MARK)}.*?{re.escape(END)}|{TAG}[\s>].*?{END_TAG}", re.DOTALL)


@contextmanager
def watching(client: Client, folder: Path) -> Iterator[None]:
    """`sync --watch` beside the agent, into a store of its own."""
    line = [client.python, "-m", "warmstart", "sync", "--watch", "--interval", "0.2"]
    environment = {**client.environment, "WARMSTART_HOME": str(folder)}
    with subprocess.Popen(line, env=environment, cwd=client.work, **SILENT) as watch:
        try:
            yield
        finally:
            watch.terminate()
            watch.wait(SECONDS)


@contextmanager
def waiting(client: Client, *arguments: str) -> Iterator[int]:
    """The agent while it runs `cat pipe`, as the id of its group of processes: a script may start the program."""
    pipe, line = client.work / "pipe", [str(client.program), *arguments]
    os.mkfifo(pipe)
    with subprocess.Popen(line, env=client.environment, cwd=client.work, start_new_session=True, **SILENT) as process:
        # Opening the pipe waits for the one who reads it, who may never come.
        deadline = Timer(SECONDS, lambda: os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        deadline.start()
        with pipe.open("w"):
            deadline.cancel()
            yield process.pid
            process.wait(SECONDS)
    pipe.unlink()


def work_once(client: Client) -> str:
    """A session to learn from. Returns when it is in our store."""
    session_id = learn(client)
    wait_until(lambda: is_extracted(client), every=0.2)
    return session_id


def learn(client: Client) -> str:
    """A session with a mistake, its fix, a command that works, and an answer."""
    client.model.add(
        Reply(when=FIRST, calls=[client.shell("yarn test")]),
        Reply(when=FIRST, calls=[client.shell("make test")]),
        Reply(when=FIRST, text=f"They pass. {PORT}"),
    )
    return client.ask(FIRST).session_id


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
