"""Many agents in one process that record the delays of tasks; a process of `benchmarks.agents`."""

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

OPENING_AT_ONCE = 50
HEARTBEAT = json.dumps(
    {"type": "heartbeat", "running": [], "cpu_process": 1, "cpu_system": 2, "memory_mib": 50}
)


class Crowd:
    """Agents on sockets and agents that poll; delays in milliseconds since a task was submitted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sockets: list[ClientConnection] = []
        self.path = ""
        self.sessions: list[str] = []
        self.polling: list[asyncio.Task[None]] = []
        self.heard: dict[str, float] = {}
        self.taken: dict[str, float] = {}
        self.acknowledged = 0
        self.polls = 0
        self._beating: asyncio.Task[None] | None = None
        self._jobs: list[asyncio.Task[None]] = []

    async def open(self, sessions: list[str], path: str) -> None:
        """Open a socket for each session."""
        self.path = path
        self.sessions += sessions
        at_once = asyncio.Semaphore(OPENING_AT_ONCE)
        await asyncio.gather(*(self._open(session, at_once) for session in sessions))

    async def _open(self, session: str, at_once: asyncio.Semaphore) -> None:
        async with at_once:
            socket = await connect(
                self.url.replace("http", "ws", 1) + self.path,
                additional_headers={"Authorization": f"Bearer {session}"},
                compression=None,
                ping_interval=None,
                max_queue=4,
            )
        self.sockets.append(socket)
        self._jobs.append(asyncio.create_task(self._listen(socket, session)))

    async def reconnect(self, seconds: float) -> float:
        """Open all sockets again after the server's end, and return the seconds until the last one.

        Each agent tries again after a delay that doubles, with its own share of chance, as the product's do.
        """
        self.sockets.clear()
        at_once, began = asyncio.Semaphore(OPENING_AT_ONCE), time.monotonic()

        async def retry(session: str) -> None:
            delay = 0.5
            while time.monotonic() < began + seconds:
                await asyncio.sleep(random.uniform(0, delay))
                with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                    await self._open(session, at_once)
                    return
                delay = min(delay * 2, 15)

        await asyncio.gather(*(retry(session) for session in self.sessions))
        return time.monotonic() - began if len(self.sockets) == len(self.sessions) else -1.0

    async def _listen(self, socket: ClientConnection, session: str) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in socket:
                if '"heartbeat_ack"' in str(text):
                    self.acknowledged += 1
                    continue
                notice = json.loads(text)
                if notice["type"] == "task_available" and notice["task_id"] not in self.heard:
                    self.heard[notice["task_id"]] = time.time()
                    await self._acquire(session, 0)

    async def poll(self, sessions: list[str]) -> None:
        """Poll for tasks with each session, in a loop."""
        self.polling += [asyncio.create_task(self._poll(session)) for session in sessions]

    async def _poll(self, session: str) -> None:
        while True:
            try:
                await self._acquire(session, 50)
                self.polls += 1
            except (OSError, json.JSONDecodeError):
                # The server restarts.
                await asyncio.sleep(random.uniform(0.5, 2))

    async def _acquire(self, session: str, seconds: float) -> None:
        answer = await self._post("tasks/acquire", {"wait_seconds": seconds, "free": 10}, session)
        now = time.time()
        for task in answer.get("tasks", ()):
            self.taken[task["id"]] = now
            body = {"fence": task["fence"], "status": "SUCCEEDED", "result": {}, "error": None}
            await self._post(f"tasks/{task['id']}/complete", body, session)

    async def _post(self, path: str, body: Mapping[str, Any], session: str) -> Any:
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        content = json.dumps(body).encode()
        head = (
            f"POST /agent/v1/{path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {session}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}")

    def keep_beating(self, per_second: float) -> None:
        """Send heartbeats at a rate from now on; none at the rate 0."""
        if self._beating:
            self._beating.cancel()
        self._beating = asyncio.create_task(self._beat_on(per_second)) if per_second else None

    async def _beat_on(self, per_second: float) -> None:
        for number in itertools.count():
            with contextlib.suppress(ConnectionClosed):
                await self.sockets[number % len(self.sockets)].send(HEARTBEAT)
            await asyncio.sleep(1 / per_second)

    async def beat(self, seconds: float, per_second: float) -> float:
        """Send heartbeats over all sockets at a rate; return the answers per second."""
        clock = asyncio.get_running_loop().time
        began, sent_count, before = clock(), 0, self.acknowledged
        while clock() < began + seconds:
            due_count = int((clock() - began) * per_second)
            while sent_count < due_count:
                await self.sockets[sent_count % len(self.sockets)].send(HEARTBEAT)
                sent_count += 1
            await asyncio.sleep(0.01)
        await asyncio.sleep(2.5)
        return (self.acknowledged - before) / seconds


async def main() -> None:
    """Answer each order, a line of input, with a line."""
    loop = asyncio.get_running_loop()
    crowd = Crowd("")

    async def opened(order: dict[str, Any]) -> Any:
        crowd.url = order["url"]
        await crowd.open(order["sessions"], order["path"])
        return len(crowd.sockets)

    async def polling(order: dict[str, Any]) -> Any:
        await crowd.poll(order["sessions"])
        return len(crowd.polling)

    async def beat(order: dict[str, Any]) -> Any:
        return await crowd.beat(order["seconds"], order["per_second"])

    async def figures(order: dict[str, Any]) -> Any:
        return {"heard": crowd.heard, "taken": crowd.taken} if order["do"] == "figures" else crowd.polls

    async def keep_beating(order: dict[str, Any]) -> Any:
        crowd.keep_beating(order["per_second"])

    async def reconnected(order: dict[str, Any]) -> Any:
        return await crowd.reconnect(order["seconds"])

    orders: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
        "open": opened,
        "poll": polling,
        "beat": beat,
        "keep beating": keep_beating,
        "reconnect": reconnected,
        "figures": figures,
        "count polls": figures,
    }
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        print(json.dumps({"answer": await orders[order["do"]](order)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
