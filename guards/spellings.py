"""The forms in which programs print a text: quoted, escaped and encoded."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from guards.text import clean

_FEWEST = 6


def forms_of(secret: str) -> set[str]:
    """Every form that a secret is known by, and those of each of its lines."""
    parts = {secret, secret.strip(), *secret.splitlines(), *map(str.strip, secret.splitlines())}
    return {form for part in parts if len(part) >= _FEWEST for form in _spellings(part)}


def _spellings(text: str) -> Iterator[str]:
    encoded = text.encode("utf-8", "replace")
    yield text
    yield "\n".join(clean(line) for line in text.splitlines())
    yield clean(text)
    yield from _escaped(text)
    yield from (
        html.escape(text),
        html.escape(text).replace("&#x27;", "&#39;"),
        html.escape(text, quote=False),
    )
    for quoted in (quote(encoded, safe=""), quote(encoded), quote_plus(encoded)):
        yield quoted
        yield _with_small_hex(quoted)
        yield quote(quoted, safe="")
    for letters in _base64(encoded):
        yield letters
        yield quote(letters, safe="")
        yield letters.replace("/", "\\/")
    yield from (encoded.hex(), encoded.hex().upper(), encoded.hex(" "), encoded.hex(":"))


def _escaped(text: str) -> Iterator[str]:
    """As string literals: of JSON as several writers escape it, of JSON in JSON, of Python and of a shell."""
    for plain in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield plain
        yield json.dumps(plain)[1:-1]
        yield plain.replace("/", "\\/")
        yield _UNICODE.sub(lambda found: found[0].upper().replace("\\U", "\\u"), plain)
        for signs in ("[<>]", "[<>&]"):
            yield re.sub(signs, lambda found: f"\\u{ord(found[0]):04x}", plain)
        yield re.sub("[<>&'+]", lambda found: f"\\u{ord(found[0]):04X}", plain)
    yield from (repr(text)[1:-1], repr(text.encode("utf-8", "replace"))[2:-1])
    yield text.replace("'", "'\\''")


_UNICODE = re.compile(r"\\u[0-9a-f]{4}")


def _with_small_hex(quoted: str) -> str:
    head, *parts = quoted.split("%")
    return "".join((head, *(f"%{part[:2].lower()}{part[2:]}" for part in parts)))


def _base64(secret: bytes) -> Iterator[str]:
    """The letters that no neighbour has a part in, for each of the three places a secret can begin at."""
    for before in range(3):
        bits = (before + len(secret)) * 8
        whole = b64encode(b"\0" * before + secret).decode()[-(-before * 8 // 6) : bits // 6]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")
