"""Sockets of many browsers that record the delay of each line; a process of `benchmarks.logs`."""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Origin

BLOCK_START = re.compile(r'"first":(\d+),"at":\[([\d,-]+)\]')


def _decode_times(text: str) -> Iterator[int]:
    """Yield the times of a block in microseconds: the first one, and each as a distance to the one before."""
    return accumulate(map(int, text.split(",")))


class Watch:
    """Received lines of all viewers; delays in whole milliseconds."""

    def __init__(self) -> None:
        self.delays: Counter[int] = Counter()
        self.lines = 0
        self.skipped = 0
        self.largest = 0
        self.open = 0

    async def view(self, address: str, cookie: str, origin: str) -> None:
        """Watch one execution until this process ends."""
        headers = {"Cookie": cookie}
        async with connect(
            address, origin=Origin(origin), additional_headers=headers, compression=None, max_queue=2
        ) as socket:
            self.open += 1
            last = 0
            async for text in socket:
                last = self.note(str(text), time.time() * 1000, last)

    def note(self, text: str, now: float, last: int) -> int:
        """Record the lines and delays of a message to a viewer that has the lines up to `last`."""
        self.largest = max(self.largest, len(text.encode()))
        if text.startswith('{"type":"skipped"'):
            message = json.loads(text)
            self.skipped += message["last"] - message["first"] + 1
        # Parse only the times: parsing all texts would dominate the measurement.
        for found in BLOCK_START.finditer(text):
            first, delays = int(found[1]), [int(now - at / 1000) for at in _decode_times(found[2])]
            # A viewer that had to catch up gets some lines again.
            delays, last = delays[max(last + 1 - first, 0) :], max(last, first + len(delays) - 1)
            self.lines += len(delays)
            self.delays.update(delays)
        return last

    def report(self) -> dict[str, Any]:
        """Return the current figures."""
        return {
            "open": self.open,
            "lines": self.lines,
            "skipped": self.skipped,
            "largest": self.largest,
            "p50": self.percentile(50),
            "p99": self.percentile(99),
            "max": max(self.delays, default=0),
        }

    def percentile(self, percent: int) -> int:
        threshold, count = self.delays.total() * percent / 100, 0
        for delay in sorted(self.delays):
            count += self.delays[delay]
            if count >= threshold:
                return delay
        return 0


async def main() -> None:
    """Open the sockets named in the first line of input; answer each further line with figures."""
    loop, watch = asyncio.get_running_loop(), Watch()
    order = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    ids = order["executions"]
    tasks = [
        asyncio.create_task(
            watch.view(
                f"{order['socket']}/ws/executions/{ids[n % len(ids)]}/", order["cookie"], order["origin"]
            )
        )
        for n in range(order["viewers"])
    ]
    while watch.open < order["viewers"]:
        await asyncio.sleep(0.05)
    print(json.dumps(watch.report()), flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(watch.report()), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
