"""One POST to an address that somebody gave: signed, to where this Slipway may ask, and not for long."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from guards.addresses import AddressRefused, Reach
from guards.limits import NOTIFICATION_ANSWER_BYTES
from guards.masks import Mask
from guards.places import BadAddress, NameNotResolved
from guards.safe_http import Ask, NotReached, Way, ask
from guards.text import clean

USER_AGENT: Final = "Slipway-Notifications/1"
REASON_CHARACTERS: Final = 512
WHOLE_SECONDS: Final = 15.0
ANSWER_CHARACTERS: Final = 200
# A piece of an address that is shorter is a word such as "services".
TOKEN_CHARACTERS: Final = 12
# What stands between the names and values of a query.
_PIECES: Final = re.compile("[&;=]")


@dataclass(frozen=True)
class Letter:
    """What is sent once: `key` is the same however often, `sent_at` is this sending's, in Unix seconds."""

    key: str
    event: str
    url: str
    secret: str
    body: str
    sent_at: int


@dataclass(frozen=True)
class Answer:
    """What became of it: a status, or none, and why it does not count as taken ("" where it does)."""

    code: int | None
    reason: str = ""

    @property
    def is_taken(self) -> bool:
        return not self.reason


def post(letter: Letter, reach: Reach) -> Answer:
    """Send it, and say what was answered. Raises nothing: whatever goes wrong is the answer."""
    body = letter.body.encode()
    way = Way(reach=reach, most=NOTIFICATION_ANSWER_BYTES, cuts=True, seconds=WHOLE_SECONDS)
    try:
        reply = ask(Ask("POST", letter.url, headers_of(letter, body), body), way)
    except (BadAddress, AddressRefused, NameNotResolved, NotReached) as problem:
        return Answer(None, _sentence(str(problem)))
    if 200 <= reply.status < 300:
        return Answer(reply.status)
    if 300 <= reply.status < 400:
        return Answer(reply.status, "It redirects elsewhere, which is not followed. Enter where it leads to.")
    # A receiver may say back what it was sent, and what opens it.
    said = _mask(letter).text(reply.text[:2_000])[:ANSWER_CHARACTERS]
    return Answer(reply.status, _sentence(f"it answered {reply.status}: {said}".rstrip(": ")))


def headers_of(letter: Letter, body: bytes) -> dict[str, str]:
    """The headers: the id, by which receivers know what they have already, and the signature."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "Slipway-Notification": letter.key,
        "Slipway-Event": letter.event,
        "Slipway-Timestamp": str(letter.sent_at),
    }
    if letter.secret:
        headers["Slipway-Signature"] = f"v1={signature(letter.secret, letter.sent_at, body)}"
    return headers


def signature(secret: str, sent_at: int, body: bytes) -> str:
    """The HMAC-SHA256, in hex, over the timestamp, a full stop, and the body."""
    return hmac.new(secret.encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()


def _mask(letter: Letter) -> Mask:
    parts = urlsplit(letter.url)
    given = [*parts.path.split("/"), parts.query, *_PIECES.split(parts.query)]
    pieces = [one for piece in given for one in (piece, unquote_plus(piece)) if len(one) >= TOKEN_CHARACTERS]
    return Mask([letter.url, f"{parts.path}?{parts.query}", *pieces, letter.secret])


def _sentence(text: str) -> str:
    said = " ".join(clean(text).split())
    return f"{said[:1].upper()}{said[1:]}"[:REASON_CHARACTERS]
