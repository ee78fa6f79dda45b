"""Frames: new lines as the text that every viewer is sent, kept for a while for those who are slower."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deployments.log import Block

LARGEST_FRAME = 64 * 1024
_AROUND = len('{"type":"lines","blocks":[]}')
MOST_KEPT_BYTES = 1024 * 1024
MOST_KEPT = 256


@dataclass(frozen=True)
class Frame:
    """One message to a browser, with consecutive lines."""

    first: int
    last: int
    text: str


def frames_of(blocks: Iterable[Block]) -> Iterator[Frame]:
    """Blocks joined into as few frames of at most 64 KiB as will do; blocks must follow on each other."""
    waiting: list[Block] = []
    size = _AROUND
    for block in blocks:
        more = len(block.body.encode()) + 1
        if waiting and size + more > LARGEST_FRAME:
            yield _frame(waiting)
            waiting, size = [], _AROUND
        waiting.append(block)
        size += more
    if waiting:
        yield _frame(waiting)


def _frame(blocks: list[Block]) -> Frame:
    bodies = ",".join(block.body for block in blocks)
    return Frame(blocks[0].first, blocks[-1].last, f'{{"type":"lines","blocks":[{bodies}]}}')


class Recent:
    """The newest frames of one execution, at most a megabyte, without a gap."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._firsts: list[int] = []
        self._bytes = 0

    def add(self, frame: Frame) -> None:
        """Append a frame that follows on the newest one."""
        self._frames.append(frame)
        self._firsts.append(frame.first)
        self._bytes += len(frame.text)
        drop = 0
        while self._bytes > MOST_KEPT_BYTES or len(self._frames) - drop > MOST_KEPT:
            self._bytes -= len(self._frames[drop].text)
            drop += 1
        del self._frames[:drop], self._firsts[:drop]

    def holding(self, number: int) -> Frame | None:
        """The frame that holds a line."""
        at = bisect_right(self._firsts, number) - 1
        return self._frames[at] if at >= 0 and number <= self._frames[at].last else None

    @property
    def newest(self) -> Frame | None:
        return self._frames[-1] if self._frames else None
