"""Webhook channel: one signed POST with limits on address, time and response size."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from guards.address_policy import AddressPolicy, AddressRefused
from guards.limits import NOTIFICATION_ANSWER_BYTES
from guards.masks import SecretMask
from guards.safe_http import RequestFailed, RequestPolicy, SafeRequest, send_request
from guards.text import sanitize_text
from guards.urls import HostNotResolved, InvalidUrl

USER_AGENT: Final = "Slipway-Notifications/1"
REASON_CHARACTERS: Final = 512
TIMEOUT_SECONDS: Final = 15.0
RESPONSE_CHARACTERS: Final = 200
# Shorter parts of a URL are words such as "services".
TOKEN_CHARACTERS: Final = 12
# Separators of names and values in a query.
_QUERY_SEPARATORS: Final = re.compile("[&;=]")


@dataclass(frozen=True)
class WebhookRequest:
    """Request of one delivery; `key` is the same for every attempt, `sent_at` is its time in Unix seconds."""

    key: str
    event: str
    url: str
    secret: str
    body: str
    sent_at: int


@dataclass(frozen=True)
class WebhookResult:
    """Result of a delivery: the HTTP status or None, and the reason of a failure ("" after a success)."""

    status_code: int | None
    reason: str = ""

    @property
    def is_delivered(self) -> bool:
        return not self.reason


def send_webhook(letter: WebhookRequest, reach: AddressPolicy) -> WebhookResult:
    """Send a request and return its result. Raises no error: every failure is a result."""
    body = letter.body.encode()
    way = RequestPolicy(
        address_policy=reach,
        max_bytes=NOTIFICATION_ANSWER_BYTES,
        truncates=True,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    try:
        reply = send_request(SafeRequest("POST", letter.url, build_headers(letter, body), body), way)
    except (InvalidUrl, AddressRefused, HostNotResolved, RequestFailed) as problem:
        return WebhookResult(None, _format_reason(str(problem)))
    if 200 <= reply.status < 300:
        return WebhookResult(reply.status)
    if 300 <= reply.status < 400:
        return WebhookResult(
            reply.status,
            "The receiver answered with a redirect, which is not followed. Enter the final URL.",
        )
    # A receiver may repeat the request and its secret in the response.
    excerpt = _build_mask(letter).mask_text(reply.text[:2_000])[:RESPONSE_CHARACTERS]
    return WebhookResult(
        reply.status, _format_reason(f"The receiver answered {reply.status}: {excerpt}".rstrip(": "))
    )


def build_headers(letter: WebhookRequest, body: bytes) -> dict[str, str]:
    """Return the headers with the id, by which receivers detect duplicates, and the signature."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "Slipway-Notification": letter.key,
        "Slipway-Event": letter.event,
        "Slipway-Timestamp": str(letter.sent_at),
    }
    if letter.secret:
        headers["Slipway-Signature"] = f"v1={compute_signature(letter.secret, letter.sent_at, body)}"
    return headers


def compute_signature(secret: str, sent_at: int, body: bytes) -> str:
    """Return the HMAC-SHA256, in hex, over the timestamp, a full stop, and the body."""
    return hmac.new(secret.encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()


def _build_mask(letter: WebhookRequest) -> SecretMask:
    parts = urlsplit(letter.url)
    url_parts = [*parts.path.split("/"), parts.query, *_QUERY_SEPARATORS.split(parts.query)]
    pieces = [
        token
        for piece in url_parts
        for token in (piece, unquote_plus(piece))
        if len(token) >= TOKEN_CHARACTERS
    ]
    return SecretMask([letter.url, f"{parts.path}?{parts.query}", *pieces, letter.secret])


def _format_reason(text: str) -> str:
    line = " ".join(sanitize_text(text).split())
    return f"{line[:1].upper()}{line[1:]}"[:REASON_CHARACTERS]
