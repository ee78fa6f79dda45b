"""A pretend AWS endpoint on a real socket, scripted answer by answer."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from aws.caller import BotoCaller
from aws.clients import AccessKey
from tests.aws.fake_caller import skip_sleep

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Endpoint:
    """An AWS endpoint with prepared answers and a record of its requests; the last answer repeats."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def answer(
        self, status: int, body: str | bytes, *, content_type: str = "application/x-amz-json-1.1"
    ) -> None:
        content = body.encode() if isinstance(body, str) else body

        def send(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            request.send_header("Content-Type", content_type)
            request.send_header("Content-Length", str(len(content)))
            request.send_header("Connection", "close")
            request.end_headers()
            request.wfile.write(content)

        self.answers.append(send)

    def answer_in_part(self, body: str, length: int) -> None:
        """Announce `length` bytes, and close the connection after those of the body."""

        def send(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            request.send_header("Content-Length", str(length))
            request.end_headers()
            request.wfile.write(body.encode())

        self.answers.append(send)

    def refuse(self, code: str, message: str = "", status: int = 400) -> None:
        self.answer(status, json.dumps({"__type": code, "message": message}))

    def cut(self) -> None:
        """Read the request, then close the connection without a word."""

        def close(request: BaseHTTPRequestHandler) -> None:
            request.connection.shutdown(socket.SHUT_RDWR)

        self.answers.append(close)

    def hang(self) -> None:
        """Read the request and stay silent until the test is over."""
        self.answers.append(lambda _request: self.release.wait(30) and None)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            served.requests.append({"target": self.headers.get("X-Amz-Target", ""), "body": body})
            answer = served.answers.pop(0) if len(served.answers) > 1 else served.answers[0]
            answer(self)
            self.close_connection = True

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Endpoint(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield served
    served.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def caller(endpoint: Endpoint) -> BotoCaller:
    return BotoCaller(AccessKey("AKIATEST", "secret"), "us-east-1", endpoint.url, sleep=skip_sleep)
