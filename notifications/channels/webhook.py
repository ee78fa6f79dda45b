"""Webhook channel: one signed POST with limits on address, time and response size."""

import hashlib
import hmac
import re
from typing import ClassVar, Final
from urllib.parse import unquote_plus, urlsplit

from guards.address_policy import AddressPolicy, AddressRefused
from guards.limits import NOTIFICATION_ANSWER_BYTES
from guards.masks import SecretMask
from guards.safe_http import RequestFailed, RequestPolicy, SafeRequest, send_request
from guards.urls import HostNotResolved, InvalidUrl, describe_url_problem
from notifications.channels.base import (
    TIMEOUT_SECONDS,
    USER_AGENT,
    Channel,
    ChannelInput,
    ChannelSettings,
    Delivery,
    DeliveryResult,
    Problems,
    format_reason,
)

RESPONSE_CHARACTERS: Final = 200
# Shorter parts of a URL are words such as "services".
TOKEN_CHARACTERS: Final = 12
# Separators of names and values in a query.
_QUERY_SEPARATORS: Final = re.compile("[&;=]")


class WebhookChannel(Channel):
    """A program that takes the events as JSON."""

    address: ClassVar[ChannelInput] = ChannelInput(
        "Address",
        "Events are sent to this URL as JSON with POST. It is stored encrypted and not shown again.",
    )
    key: ClassVar[ChannelInput] = ChannelInput(
        "Signing secret",
        "Signs each request, so that the receiver can verify the sender.",
        is_required=False,
    )

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        if settings.url and (problem := describe_url_problem(settings.url, reach)):
            yield "url", format_reason(f"{problem}.")

    def describe_target(self, settings: ChannelSettings) -> str:
        return get_visible_host(settings.url)

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        return send_webhook(delivery, reach)


def get_visible_host(url: str) -> str:
    """Return the displayed part of an address, which ends before a possible token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"[:255]


def send_webhook(delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
    """Send a request and return its result. Raises no error: every failure is a result."""
    body = delivery.body.encode()
    way = RequestPolicy(
        address_policy=reach,
        max_bytes=NOTIFICATION_ANSWER_BYTES,
        truncates=True,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    try:
        reply = send_request(SafeRequest("POST", delivery.url, build_headers(delivery, body), body), way)
    except (InvalidUrl, AddressRefused, HostNotResolved, RequestFailed) as problem:
        return DeliveryResult(None, format_reason(str(problem)))
    if 200 <= reply.status < 300:
        return DeliveryResult(reply.status)
    if 300 <= reply.status < 400:
        return DeliveryResult(
            reply.status,
            "The receiver answered with a redirect, which is not followed. Enter the final URL.",
        )
    # A receiver may repeat the request and its secret in the response.
    excerpt = _build_mask(delivery).mask_text(reply.text[:2_000])[:RESPONSE_CHARACTERS]
    return DeliveryResult(
        reply.status, format_reason(f"The receiver answered {reply.status}: {excerpt}".rstrip(": "))
    )


def build_headers(delivery: Delivery, body: bytes) -> dict[str, str]:
    """Return the headers with the id, by which receivers detect duplicates, and the signature."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "Slipway-Notification": delivery.key,
        "Slipway-Event": delivery.event,
        "Slipway-Timestamp": str(delivery.sent_at),
    }
    if delivery.secret:
        headers["Slipway-Signature"] = f"v1={compute_signature(delivery.secret, delivery.sent_at, body)}"
    return headers


def compute_signature(secret: str, sent_at: int, body: bytes) -> str:
    """Return the HMAC-SHA256, in hex, over the timestamp, a full stop, and the body."""
    return hmac.new(secret.encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()


def _build_mask(delivery: Delivery) -> SecretMask:
    parts = urlsplit(delivery.url)
    url_parts = [*parts.path.split("/"), parts.query, *_QUERY_SEPARATORS.split(parts.query)]
    pieces = [
        token
        for piece in url_parts
        for token in (piece, unquote_plus(piece))
        if len(token) >= TOKEN_CHARACTERS
    ]
    return SecretMask([delivery.url, f"{parts.path}?{parts.query}", *pieces, delivery.secret])
