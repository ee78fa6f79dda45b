"""Values that must turn up nowhere, in the forms they could take, and the places where they could turn up."""

import base64
import codecs
import contextlib
import json
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import redis
from django.db import connection

_FEWEST = 8


@dataclass(frozen=True)
class Planted:
    """One value and its name."""

    name: str
    value: str

    def forms(self) -> list[bytes]:
        """Return the encodings of the value, independent of Slipway's redaction."""
        parts = [self.value, *(line for line in self.value.splitlines() if len(line) >= _FEWEST)]
        forms: dict[bytes, None] = {}
        for part in parts:
            plain = part.encode()
            forms |= dict.fromkeys((plain, json.dumps(part)[1:-1].encode(), quote(part, safe="").encode()))
            forms |= dict.fromkeys((plain.hex().encode(), plain.hex().upper().encode()))
            for before in range(3):
                whole = base64.b64encode(b"." * before + plain + b"..")
                # Without the letters that a neighbour has a part in.
                inner = whole[4 if before else 0 : len(whole) // 4 * 4 - 8]
                forms |= dict.fromkeys((inner, inner.replace(b"+", b"-").replace(b"/", b"_")))
        return [form for form in forms if len(form) >= _FEWEST]


@dataclass
class Search:
    """A search for planted values, with the searched bytes and the findings."""

    planted: list[Planted]
    findings: list[str] = field(default_factory=list)
    searched_bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._forms = [(secret.name, form) for secret in self.planted for form in secret.forms()]

    def search_content(self, place: str, content: object) -> None:
        """Look into a text or bytes, also as they are when unpacked."""
        data = content if isinstance(content, bytes) else str(content).encode(errors="replace")
        kind = place.split(" ")[0]
        self.searched_bytes[kind] = self.searched_bytes.get(kind, 0) + len(data)
        for layer in _unpacked(data):
            self.findings += [f"{name} in {place}" for name, form in self._forms if form in layer]

    def search_database(self) -> None:
        """Look into every column of every table."""
        with connection.cursor() as cursor:
            for table in connection.introspection.table_names(cursor):
                cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
                names = [column[0] for column in cursor.description]
                for row in cursor.fetchall():
                    for name, value in zip(names, row, strict=True):
                        content = bytes(value) if isinstance(value, memoryview) else value
                        self.search_content(f"database {table}.{name}", content)

    def search_files(self, folder: Path) -> None:
        """Look into every file below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.search_content(f"file {path.relative_to(folder)}", path.read_bytes())

    def search_broker(self, url: str) -> None:
        """Look into every key of every database of a Valkey."""
        for number in range(3):
            with redis.Redis.from_url(url, db=number) as client:
                for key in client.scan_iter(count=1000):
                    self.search_content(f"broker {number} {key!r}", key)
                    with contextlib.suppress(redis.RedisError):
                        self.search_content(f"broker {number} {key!r}", client.dump(key) or b"")


@contextlib.contextmanager
def collect_broker_commands(url: str) -> Iterator[list[bytes]]:
    """Collect all commands sent to a Valkey until the block ends."""
    commands: list[bytes] = []
    with redis.Redis.from_url(url) as client, client.monitor() as monitor:
        begin_event, last_words = threading.Event(), f"no more after {id(commands)}"

        def listen() -> None:
            begin_event.set()
            # Valkey tells commands in their order: whatever came before the last words has been read then.
            while not (commands and last_words.encode() in commands[-1]):
                response = monitor.connection.read_response()
                raw = response if isinstance(response, bytes) else str(response).encode()
                # Valkey quotes what it tells.
                commands.append(codecs.escape_decode(raw)[0])

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert begin_event.wait(60), "the broker never said what it was asked"
        yield commands
        with redis.Redis.from_url(url) as last:
            last.echo(last_words)
        thread.join(60)


def _unpacked(data: bytes) -> Iterator[bytes]:
    yield data
    for bits in (15, 31):
        with contextlib.suppress(zlib.error):
            yield zlib.decompress(data, bits)
