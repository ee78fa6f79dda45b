"""Clients of several web servers, each with a connection of its own; a process of `benchmarks.scale_runs`."""

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

LINE = "10.0.0.1 - - GET /orders/4711?expand=items HTTP/1.1 200 1834 - curl/8.5.0 request 7f3a9c21 in 12 ms"


@dataclass
class HttpConnection:
    """A kept-alive connection to a web server, and the durations of its requests in seconds."""

    url: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    durations: list[float] = field(default_factory=list)

    @classmethod
    async def open(cls, url: str) -> "HttpConnection":
        """Connect to the server of an address."""
        parts = urlsplit(url)
        return cls(url, *await asyncio.open_connection(parts.hostname, parts.port, limit=2**24))

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
        """Send a request and return the body of its answer. Raises `RuntimeError` if it is no success."""
        began = time.perf_counter()
        all_headers = {"Host": urlsplit(self.url).netloc, "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        content = await self._read_body(answer)
        if " 200 " not in answer.partition("\r\n")[0]:
            raise RuntimeError(f"{method} {path}: {answer.partition(chr(13))[0]} {content[:300]!r}")
        self.durations.append(time.perf_counter() - began)
        return content

    async def _read_body(self, head: str) -> bytes:
        if "content-length: " in head:
            length = int(head.partition("content-length: ")[2].partition("\r")[0])
            return await self.reader.readexactly(length)
        content = b""
        while length := int(await self.reader.readuntil(b"\r\n"), 16):
            content += (await self.reader.readexactly(length + 2))[:-2]
        await self.reader.readexactly(2)
        return content


async def load_pages(order: Mapping[str, Any]) -> dict[str, float]:
    """Load pages in turn with each client, one after the other, for some seconds."""
    headers = {"Cookie": order["cookie"]}

    async def load(connection: HttpConnection, number: int) -> None:
        paths, until = itertools.cycle(order["paths"]), time.perf_counter() + order["seconds"]
        for path in itertools.islice(paths, number, None):
            if time.perf_counter() > until:
                return
            await connection.request("GET", path, headers)

    return await _run(order, load)


async def upload_lines(order: Mapping[str, Any]) -> dict[str, float]:
    """Upload log lines of tasks, `lines` with each request, one task of an agent for each client."""

    async def upload(connection: HttpConnection, number: int) -> None:
        task, until = order["tasks"][number], time.perf_counter() + order["seconds"]
        headers = {"Authorization": f"Bearer {task['session']}"}
        lines = [{"t": int(time.time() * 1000), "level": "INFO", "text": LINE}] * order["lines"]
        while time.perf_counter() < until:
            body = {"fence": 1, "sequence": task["next"], "lines": lines}
            path = f"/agent/v1/tasks/{task['id']}/logs"
            answer = await connection.request("POST", path, headers, json.dumps(body).encode())
            task["next"] = json.loads(answer)["next"]

    return await _run(order, upload)


async def _run(order: Mapping[str, Any], work: Any) -> dict[str, float]:
    """Run the clients, spread over the servers; requests, seconds, and durations in milliseconds."""
    urls = itertools.cycle(order["urls"])
    connections = [await HttpConnection.open(next(urls)) for _ in range(order["clients"])]
    began = time.perf_counter()
    await asyncio.gather(*(work(connection, number) for number, connection in enumerate(connections)))
    took = time.perf_counter() - began
    for connection in connections:
        connection.writer.close()
    durations = sorted(duration * 1000 for connection in connections for duration in connection.durations)
    return {
        "requests": len(durations),
        "seconds": took,
        "p50": statistics.median(durations),
        "p95": durations[int(len(durations) * 0.95)],
    }


WORK = {"pages": load_pages, "logs": upload_lines}


def main() -> None:
    """Answer each order, a line of input, with a line."""
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(asyncio.run(WORK[order["do"]](order))), flush=True)


if __name__ == "__main__":
    main()
