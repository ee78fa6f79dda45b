"""Events of triggers, written as firings before anybody is answered."""

from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.masks import SecretMask, redact_sensitive_names
from guards.text import sanitize_text
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.base import TriggerEvent
from rbac.models import User
from rbac.policy import NotVisible
from web.clock import get_database_time
from web.http.problems import BadInput

SUMMARY_CHARACTERS: Final = 255


def record_event(
    trigger: Trigger,
    event: TriggerEvent,
    *,
    by: User | None = None,
    now: datetime | None = None,
    refusal: str = "",
) -> tuple[TriggerFiring, bool]:
    """Write the firing of an event, and return it, with whether it is new. The caller wakes a worker up.

    Another delivery of an event that the trigger has is not written: the earlier firing is returned. Raises
    `NotVisible` if the trigger was just deleted. With a `refusal`, no worker handles it.
    """
    at = now or get_database_time()
    firing = TriggerFiring(
        trigger=trigger,
        delivery_id=event.delivery_id,
        event_key=event.key,
        received_at=at,
        due_at=at,
        summary=sanitize_text(event.summary)[:SUMMARY_CHARACTERS],
        values=dict(event.values),
        payload=_mask_payload(trigger, event.payload),
        redelivered_by=by,
    )
    if refusal:
        firing.status, firing.reason, firing.ended_at = TriggerFiring.Status.REFUSED, refusal, at
    try:
        with transaction.atomic():
            firing.save(force_insert=True)
    except IntegrityError:
        same = Q(delivery_id=event.delivery_id) | Q(event_key=event.key)
        if earlier := TriggerFiring.objects.filter(same, trigger=trigger).first():
            return earlier, False
        raise NotVisible("This trigger was deleted.") from None
    return firing, True


def parse_payload(body: bytes) -> Any:
    """Parse the body of a request. Raises `BadInput`."""
    try:
        payload = parse_json(body.decode())
    except UnicodeDecodeError as error:
        raise BadInput("The body is not UTF-8.") from error
    except InputRejected as rejected:
        raise BadInput(f"The body is not usable JSON: {rejected.problem.display_message}") from rejected
    if not isinstance(payload, dict):
        raise BadInput("The body must be a JSON object.")
    return payload


def _mask_payload(trigger: Trigger, payload: Any) -> Any:
    """Return a payload without the trigger's secret, and without the values of names such as password."""
    mask = SecretMask([trigger.secret] if trigger.secret else [])
    return mask.mask_json(redact_sensitive_names(payload))
