"""Webhook: signed JSON from any program."""

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from guards.limits import TRIGGER_REPLAY_SECONDS
from notifications.channels.webhook import compute_signature
from pipelines.triggers.base import HookRequest, RequestRefused, SetupStep, TriggerEvent, TriggerKind
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
_DELIVERY_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


@register_kind
class Webhook(TriggerKind):
    """Requests, signed like the notifications that Slipway sends."""

    identifier = "webhook"
    title = "Webhook"
    description = "when a program sends signed JSON, such as a build at its end"
    has_address = True
    sample_payload = '{\n  "tag": "v1.2.3"\n}'

    def list_setup_steps(self, address: str) -> list[SetupStep]:
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

    def authenticate(self, secret: str, request: HookRequest) -> None:
        """Check signature and age. Raises `RequestRefused`."""
        sent_at = request.headers.get(TIMESTAMP, "")
        signature = _get_signature(request.headers)
        seconds = int(sent_at) if _SECONDS.fullmatch(sent_at) else 0
        expected = compute_signature(secret, seconds, request.body)
        is_genuine = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        age = abs(request.received_at.timestamp() - seconds)
        if not is_genuine or age > TRIGGER_REPLAY_SECONDS:
            raise RequestRefused

    def read_event(self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]) -> TriggerEvent:
        """Return the event; the signature is its key, for the delivery id is not signed."""
        key = f"signature:{_get_signature(headers)}"
        delivery_id = headers.get(DELIVERY, "")
        sent_at = headers.get(TIMESTAMP, "")
        values = (
            {"sent_at": datetime.fromtimestamp(int(sent_at), UTC).isoformat()}
            if _SECONDS.fullmatch(sent_at)
            else {}
        )
        return TriggerEvent(
            key=key,
            delivery_id=delivery_id if _DELIVERY_ID.fullmatch(delivery_id) else key,
            summary="webhook",
            values=values,
            payload=payload,
        )


def _get_signature(headers: Mapping[str, str]) -> str:
    return headers.get(SIGNATURE, "").removeprefix("v1=")[:100]
