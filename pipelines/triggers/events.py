"""Events of triggers, written as firings before anybody is answered."""

from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from guards.masks import SecretMask, redact_sensitive_names
from guards.text import sanitize_text
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.base import TriggerEvent
from rbac.models import User
from rbac.policy import NotVisible
from web.clock import get_database_time

SUMMARY_CHARACTERS: Final = 255


def record_event(
    trigger: Trigger, event: TriggerEvent, *, by: User | None = None, now: datetime | None = None
) -> tuple[TriggerFiring, bool]:
    """Write the firing of an event, and return it, with whether it is new. The caller wakes a worker up.

    Another delivery of an event that the trigger has is not written: the earlier firing is returned. Raises
    `NotVisible` if the trigger was just deleted.
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
    try:
        with transaction.atomic():
            firing.save(force_insert=True)
    except IntegrityError:
        same = Q(delivery_id=event.delivery_id) | Q(event_key=event.key)
        if earlier := TriggerFiring.objects.filter(same, trigger=trigger).first():
            return earlier, False
        raise NotVisible("This trigger was deleted.") from None
    return firing, True


def _mask_payload(trigger: Trigger, payload: Any) -> Any:
    """Return a payload without the trigger's secret, and without the values of names such as password."""
    mask = SecretMask([trigger.secret] if trigger.secret else [])
    return mask.mask_json(redact_sensitive_names(payload))
