"""Looks for planted secrets in whatever a process writes, sends or shows, and tells the test of a find."""

import base64
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from ops.demo.seed import SECRET_ACCESS_KEY
from tests.secret_watch.marker import FOUND, MARKER

# Around a find, in a report.
CONTEXT = 60


def _forms(value: str) -> Iterator[bytes]:
    plain = value.encode()
    yield from (plain, json.dumps(value)[1:-1].encode(), quote(value, safe="").encode())
    yield from (plain.hex().encode(), plain.hex().upper().encode())
    for before in range(3):
        whole = base64.b64encode(b"." * before + plain + b"..")
        # Without the letters that a neighbour has a part in.
        inner = whole[4 if before else 0 : len(whole) // 4 * 4 - 8]
        yield from (inner, inner.replace(b"+", b"-").replace(b"/", b"_"))


# The demo brings its own secret, which every story of a whole installation has.
NEEDLES = tuple(dict.fromkeys((*_forms(MARKER), *_forms(SECRET_ACCESS_KEY))))
SHORTEST = min(map(len, NEEDLES))
TEXT_NEEDLES = tuple(needle.decode() for needle in NEEDLES)


def is_planted(value: str) -> bool:
    """Return whether a value carries the marker of the watch."""
    return MARKER in value or SECRET_ACCESS_KEY in value


def search_content(place: str, content: str | bytes) -> None:
    """Report a find in `content`; costs microseconds where there is none."""
    if len(content) < SHORTEST:
        return
    if isinstance(content, str):
        for text in TEXT_NEEDLES:
            if text in content:
                report(place, _get_excerpt(content, text))
                return
        return
    for needle in NEEDLES:
        if needle in content:
            report(place, _get_excerpt(content.decode(errors="replace"), needle.decode()))
            return
    if content[:2] == b"\x1f\x8b":
        with suppress(zlib.error):
            search_content(f"{place}, unpacked", zlib.decompress(content, 31))


def search_file(path: Path) -> None:
    """Look into a file; one that went away meanwhile holds nothing."""
    with suppress(OSError):
        search_content(f"file {path}", path.read_bytes())


def report(place: str, detail: str) -> None:
    """Report a find to the test process, which may be another one."""
    line = json.dumps({"place": place, "what": detail}) + "\n"
    file = os.open(os.environ[FOUND], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def _get_excerpt(text: str, needle: str) -> str:
    at = text.index(needle)
    return text[max(0, at - CONTEXT) : at + len(needle) + CONTEXT]


class Finds:
    """The findings since the last check."""

    def __init__(self) -> None:
        self._read = 0

    def new(self) -> list[str]:
        """The finds that nobody was told of yet, each as a place with what is around it."""
        try:
            size = Path(os.environ[FOUND]).stat().st_size
        except FileNotFoundError:
            return []
        if size == self._read:
            return []
        with Path(os.environ[FOUND]).open("rb") as file:
            file.seek(self._read)
            lines = file.read(size - self._read).splitlines()
        self._read = size
        return list(dict.fromkeys("{place}: {what}".format(**json.loads(line)) for line in lines))


finds = Finds()


@contextmanager
def expected() -> Iterator[list[str]]:
    """Accept the finds of the block, and yield a list that contains them after it."""
    new_finds: list[str] = []
    before = finds.new()
    assert not before, before
    yield new_finds
    new_finds += finds.new()
