"""Embedders behind HTTP, asked through a real server on this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

import numpy as np
import pytest

from warmstart import Settings
from warmstart.embedding.embedders import EndpointEmbedder, open_embedder
from warmstart.errors import ConfigError, EmbedderError


class Service(ThreadingHTTPServer):
    """Answers like OpenAI's embeddings: the length of each text, and its number of spaces."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict] = []
        self.keys: list[str | None] = []
        self.failures: list[int] = []
        self.answer: object = None
        self.delay = threading.Event()
        self.delay.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.delay.wait(180)
        self.server.asked.append(asked)
        self.server.keys.append(self.headers["Authorization"])
        if self.server.failures:
            self.send_error(self.server.failures.pop(0))
            return
        rows = [
            {"index": place, "embedding": [float(len(text)), float(text.count(" ")), 1.0]}
            for place, text in enumerate(asked["input"])
        ]
        found = self.server.answer or {"data": rows[::-1]}  # in any order
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.delay.set()
        running.shutdown()
        thread.join()


def test_texts_are_sent_in_batches_and_come_back_in_order(service):
    embedder = EndpointEmbedder("tiny", url=service.url + "/", key="k-1")
    texts = ["x" * number for number in range(150)]
    found = embedder.embed(texts)
    assert found[1:, 0].tolist() == [float(number) for number in range(1, 150)]
    assert not found[0].any()
    assert [len(asked["input"]) for asked in service.asked] == [64, 64, 21]
    assert {asked["model"] for asked in service.asked} == {"tiny"}
    assert set(service.keys) == {"Bearer k-1"}
    assert embedder.dimensions == 3
    assert not embedder.local
    assert embedder.name == f"openai:tiny@127.0.0.1:{service.server_port}/v1"
    assert embedder.embed(["", " "]).shape == (2, 3)


def test_secrets_are_replaced_before_anything_is_sent(service, tmp_path):
    settings = Settings(home=tmp_path, store_path=tmp_path / "s.db", recall_endpoint=service.url)
    secret = "AKIA" + "Z7QWERTY2345ABCD"
    open_embedder("openai:tiny", settings).embed([f"the key is {secret}"])
    assert "the key is " in service.asked[0]["input"][0]
    assert secret not in json.dumps(service.asked)
    assert service.keys == [None]


def test_a_failing_service_is_retried(service):
    service.failures = [503, 429]
    assert EndpointEmbedder("tiny", url=service.url).embed(["abc"])[0, 0] == 3.0
    assert len(service.asked) == 3


def test_a_rejected_request_is_not_retried(service):
    service.failures = [401, 401]
    with pytest.raises(EmbedderError, match="401"):
        EndpointEmbedder("tiny", url=service.url).embed(["abc"])
    assert len(service.asked) == 1


ANSWERS = [
    {"data": []},
    {"error": "no"},
    {"data": [{"index": 0, "embedding": "x"}]},
    [1],
    {"data": [{"index": 0}]},
    {"data": [{"index": 0, "embedding": [float("nan"), 1.0]}]},
]


def test_an_answer_without_embeddings_is_an_error(service, subtests):
    for answer in ANSWERS:
        with subtests.test(str(answer)):
            service.answer = answer
            with pytest.raises(EmbedderError, match="check the model"):
                EndpointEmbedder("tiny", url=service.url).embed(["abc"])


def test_other_dimensions_than_before_are_an_error(service):
    embedder = EndpointEmbedder("tiny", url=service.url)
    embedder.embed(["abc"])
    service.answer = {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}
    with pytest.raises(EmbedderError, match="check the model"):
        embedder.embed(["abc"])


def test_a_slow_service_is_given_up_in_time(service):
    embedder = EndpointEmbedder("tiny", url=service.url)
    service.delay.clear()
    began = monotonic()
    with pytest.raises(EmbedderError, match="returned no embeddings"):
        embedder.embed(["abc"], 0.2)
    assert monotonic() - began < 5  # the service would take ten


def test_a_service_that_does_not_listen(service):
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(EmbedderError, match="returned no embeddings"):
        EndpointEmbedder("tiny", url=url).embed(["abc"], 0.5)


INVALID = [
    "",
    "ftp://x/v1",
    "nonsense",
    "http://",
    "file:///etc/passwd",
    "http://[bad",
    "http://h/v 1",
    "http://h:x/v1",
]


def test_an_invalid_address_is_refused(subtests):
    for url in INVALID:
        with subtests.test(url), pytest.raises(ConfigError, match=r"recall\.endpoint"):
            EndpointEmbedder("tiny", url=url)


def test_an_address_may_have_any_host(subtests):
    for url in ("http://[::1]:8080/v1", "http://localhost", "https://a.example.com:443/v1/", "http://10.0.0.1:8080/v1"):
        with subtests.test(url):
            assert EndpointEmbedder("tiny", url=url).name.startswith("openai:tiny@")


def test_a_service_is_not_local():
    embedder = EndpointEmbedder("tiny", url="https://user:pass@api.example.com/v1")
    assert not embedder.local
    assert embedder.name == "openai:tiny@api.example.com/v1"


def test_vectors_are_numbers_of_one_kind(service):
    assert EndpointEmbedder("tiny", url=service.url).embed(["abc"]).dtype == np.float32


def test_an_invalid_key_is_not_shown():
    with pytest.raises(ConfigError) as refused:
        EndpointEmbedder("tiny", url="http://127.0.0.1:9/v1", key="s3cret\nvalue")
    assert "s3cret" not in str(refused.value)


REPLIES = [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"]


def test_a_broken_reply_is_an_error_of_ours(subtests):
    for reply in REPLIES:
        with subtests.test(str(reply)), socket.create_server(("127.0.0.1", 0)) as listening:

            def answer(listening: socket.socket = listening, reply: bytes = reply) -> None:
                client, _ = listening.accept()
                client.recv(65536)
                client.sendall(reply)
                client.close()

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(EmbedderError, match="returned no embeddings"):
                EndpointEmbedder("tiny", url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1").embed(["abc"], 2.0)
            thread.join()
