"""What is refused before anything of it is kept: long addresses, large bodies, slow senders."""

import asyncio
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client as DjangoClient

from guards.limits import BODY_BYTES, FORM_FILES, URL_BYTES
from web.http import asgi_limits
from web.http.asgi_limits import RequestLimits

CHUNK = b"x" * 65_536


class Client:
    """A client that sends prepared chunks and records the answer."""

    def __init__(self, *chunks: bytes, is_endless: bool = False, is_silent: bool = False) -> None:
        self.chunks = list(chunks)
        self.is_endless = is_endless
        self.is_silent = is_silent
        self.chunk_count = 0
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        self.chunk_count += 1
        if self.is_silent:
            await asyncio.Event().wait()
        body = CHUNK if self.is_endless else self.chunks.pop(0)
        return {"type": "http.request", "body": body, "more_body": self.is_endless or bool(self.chunks)}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return bytes(self.sent[1]["body"])


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads all of the body, as Django does, and tells its size."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def send_request(
    client: Client, *, path: str = "/api/v1/orgs", query: bytes = b"", length: str = ""
) -> Client:
    headers = [(b"content-length", length.encode())] if length else []
    scope = {
        "type": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": headers,
    }
    await RequestLimits(application)(scope, client.receive, client.send)
    return client


async def test_a_body_of_the_largest_size_goes_in() -> None:
    client = await send_request(Client(b"x" * (BODY_BYTES - 1), b"x"), length=str(int(BODY_BYTES)))
    assert (client.status, client.body) == (200, str(int(BODY_BYTES)).encode())


async def test_a_body_that_says_that_it_is_too_large_is_never_read() -> None:
    client = await send_request(Client(is_endless=True), length=str(BODY_BYTES + 1))
    assert (client.status, client.chunk_count) == (413, 0)
    assert b"2,048 KiB" in client.body


async def test_a_body_without_a_length_is_counted_while_it_comes() -> None:
    client = await send_request(Client(is_endless=True))
    assert client.status == 413
    assert client.chunk_count == BODY_BYTES // len(CHUNK) + 1
    assert len(client.sent) == 2


async def test_a_long_address_is_refused() -> None:
    client = await send_request(Client(b""), query=b"a=" + b"b" * URL_BYTES)
    assert client.status == 414
    assert b"address_too_long" in client.body


async def test_people_get_a_page() -> None:
    client = await send_request(Client(b""), path="/files/", length=str(BODY_BYTES + 1))
    assert b"<h1>Request too large</h1>" in client.body


async def test_who_does_not_send_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_limits, "BODY_SECONDS", 0.01)
    client = await send_request(Client(is_silent=True))
    assert client.status == 408


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, "²"])
async def test_a_length_that_is_none_is_counted_instead(length: str) -> None:
    headers = [(b"content-length", length.encode("utf-8"))]
    client = Client(b"abc")
    scope = {"type": "http", "path": "/", "query_string": b"", "headers": headers}
    await RequestLimits(application)(scope, client.receive, client.send)
    assert client.body == b"3"


@pytest.mark.django_db
def test_files_can_be_uploaded_and_too_many_are_refused_by_number(client: DjangoClient) -> None:
    """The framework counts them before any form is asked."""
    few = [SimpleUploadedFile(f"{number}.txt", b"a") for number in range(3)]
    assert client.post("/sign-in/", {"uploaded": few}).status_code == 200
    many = [SimpleUploadedFile(f"{number}.txt", b"a") for number in range(FORM_FILES + 1)]
    refused = client.post("/sign-in/", {"uploaded": many})
    assert refused.status_code == 400
    assert "Upload at most 100 files at once." in refused.content.decode()
