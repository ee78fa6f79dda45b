"""Hides secrets in what is stored or sent: as they are, and in the forms that programs print them in."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from urllib.parse import quote, quote_plus

from guards.text import clean

HIDDEN = "•••"
# Anything shorter would hide half of every log.
FEWEST_CHARACTERS = 6


class Mask:
    """Hides a set of secrets; made once for many lines, because the forms take time to work out."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        found = {form for secret in secrets for form in _forms(secret) if len(form) >= FEWEST_CHARACTERS}
        # The longest first: a secret that holds another one goes as a whole.
        self._forms = sorted(found, key=lambda form: (-len(form), form))

    @property
    def longest(self) -> int:
        """Characters of the longest form."""
        return len(self._forms[0]) if self._forms else 0

    def text(self, text: str) -> str:
        """A text with every known secret hidden."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN + "\n" * form.count("\n"))
        return text

    def texts(self, texts: Sequence[str]) -> list[str]:
        """The same for many lines at once, also where a secret runs over the end of a line."""
        if not self._forms or not texts:
            return list(texts)
        return self.text("\n".join(texts)).split("\n")


NOTHING_SECRET = Mask()


def _forms(secret: str) -> Iterator[str]:
    for spelled in {secret, *secret.splitlines(), secret.strip()}:
        if len(spelled) >= FEWEST_CHARACTERS:
            yield from _spellings(spelled)


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield "\n".join(clean(line) for line in secret.splitlines())
    yield clean(secret)
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    encoded = secret.encode("utf-8", "replace")
    for quoted in (quote(encoded, safe=""), quote(encoded), quote_plus(encoded)):
        yield quoted
        yield _with_small_hex(quoted)
    yield from _base64(encoded)


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
