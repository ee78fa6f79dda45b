"""What a program prints, read in pieces that end anywhere, as lines."""

from codecs import getincrementaldecoder

from guards.masks import NOTHING_SECRET, Mask
from guards.text import LONGEST_LINE


class Output:
    """Joins reads into lines, with at most one line in memory.

    A line that does not end is told in pieces of 16 KiB; a secret on the border of two of them is hidden
    before it is taken apart.
    """

    def __init__(self, mask: Mask = NOTHING_SECRET) -> None:
        self._mask = mask
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that one more read completes, without their ends."""
        text = self._begun + self._decoder.decode(data)
        *lines, self._begun = text.replace("\r\n", "\n").split("\n")
        self._begun = self._take_apart(lines, self._begun)
        return [line.removesuffix("\r") for line in lines]

    def end(self) -> list[str]:
        """What is left when nothing more comes."""
        rest, self._begun = self._begun + self._decoder.decode(b"", final=True), ""
        return [rest] if rest else []

    def _take_apart(self, lines: list[str], begun: str) -> str:
        longest = self._mask.longest
        if len(begun) <= LONGEST_LINE + longest:
            return begun
        begun = self._mask.text(begun)
        while len(begun) > LONGEST_LINE + longest:
            lines.append(begun[:LONGEST_LINE])
            begun = begun[LONGEST_LINE:]
        return begun
