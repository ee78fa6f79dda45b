"""Webhook: signed JSON from any program."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from guards.limits import TRIGGER_REPLAY_SECONDS
from notifications.channels.webhook import compute_signature
from pipelines.triggers.base import (
    HookRequest,
    RequestRefused,
    SetupStep,
    TriggerEvent,
    TriggerKind,
    read_delivery_id,
    require_equal,
)
from pipelines.triggers.registry import register_kind

TIMESTAMP: Final = "Slipway-Timestamp"
SIGNATURE: Final = "Slipway-Signature"
DELIVERY: Final = "Slipway-Delivery"
_COMMAND: Final = """\
BODY='{body}'
TIME=$(date +%s)
SIGNATURE=$(printf '%s.%s' "$TIME" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)
curl --fail --request POST '{address}' \\
  --header 'Content-Type: application/json' \\
  --header "{timestamp}: $TIME" \\
  --header "{signature}: v1=$SIGNATURE" \\
  --header "{delivery}: build-1234" \\
  --data-raw "$BODY"
"""
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


@register_kind
class Webhook(TriggerKind):
    """Requests, signed like the notifications that Slipway sends."""

    identifier = "webhook"
    title = "Webhook"
    description = "when a program sends signed JSON, such as a build at its end"
    has_address = True
    values = {"sent_at": "Time of the signature"}
    sample_payload = '{\n  "tag": "v1.2.3"\n}'

    def list_setup_steps(self, spec: Mapping[str, Any], address: str) -> list[SetupStep]:
        """Return a request with curl and openssl."""
        command = _COMMAND.format(
            address=address,
            timestamp=TIMESTAMP,
            signature=SIGNATURE,
            delivery=DELIVERY,
            body='{"tag": "v1.2.3"}',
        )
        text = (
            "The signature is the HMAC-SHA256, in hex, over the time in Unix seconds, a full stop and the "
            f"body. A request is refused if its time differs by more than {TRIGGER_REPLAY_SECONDS}. Requests "
            f"with the same `{DELIVERY}` start one run; the header may be left out."
        )
        return [SetupStep("Send a request", text, command)]

    def authenticate(self, spec: Mapping[str, Any], secret: str, request: HookRequest) -> None:
        """Check signature and age. Raises `RequestRefused`."""
        check_signature(secret, request)

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return the event; the signature is its key, for the delivery id is not signed."""
        key = f"signature:{_get_signature(headers)}"
        sent_at = headers.get(TIMESTAMP, "")
        values = (
            {"sent_at": datetime.fromtimestamp(int(sent_at), UTC).isoformat()}
            if _SECONDS.fullmatch(sent_at)
            else {}
        )
        return [TriggerEvent(key, read_delivery_id(headers, DELIVERY) or key, "webhook", values, payload)]


def check_signature(secret: str, request: HookRequest) -> None:
    """Check that a request was signed with a secret a short time ago. Raises `RequestRefused`."""
    sent_at = request.headers.get(TIMESTAMP, "")
    seconds = int(sent_at) if _SECONDS.fullmatch(sent_at) else 0
    require_equal(compute_signature(secret, seconds, request.body), _get_signature(request.headers))
    if abs(request.received_at.timestamp() - seconds) > TRIGGER_REPLAY_SECONDS:
        raise RequestRefused


def _get_signature(headers: Mapping[str, str]) -> str:
    return headers.get(SIGNATURE, "").removeprefix("v1=")[:100]
