"""A program that takes webhooks, on loopback: it keeps what it was sent and answers as it is told to."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LONGEST_WAIT = 60


class Server(ThreadingHTTPServer):
    """Takes dozens of connections at a time: what the system's short queue drops counts as not delivered."""

    daemon_threads = True
    request_queue_size = 128


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class Receiver:
    """A receiver that records requests; `answer` may hang, kill, or return status, headers and body."""

    address: str
    received: list[Received] = field(default_factory=list)
    answer: Callable[[Received], tuple[int, Mapping[str, str], bytes]] = lambda request: (204, {}, b"")

    def url(self, path: str = "/hook") -> str:
        return f"{self.address}{path}"

    @property
    def events(self) -> list[str]:
        return [request.document["event"] for request in self.received]

    @property
    def ids(self) -> list[str]:
        return [request.headers["Slipway-Notification"] for request in self.received]


@contextmanager
def listening(certificate: Path | None = None) -> Iterator[Receiver]:
    """Run a receiver until the block ends; with a file of key and certificate, over TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Received(self.path, dict(self.headers.items()), body)
            receiver.received.append(request)
            status, headers, answer = receiver.answer(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST

        def log_message(self, *args: Any) -> None:
            """Suppress the access log."""

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    origin = "http://127.0.0.1" if certificate is None else "https://localhost"
    receiver = Receiver(f"{origin}:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LONGEST_WAIT)
