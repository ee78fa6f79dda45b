"""Events of triggers, written as firings before anybody is answered."""

import uuid
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from guards.limits import TRIGGER_FIRING_DAYS
from guards.masks import SecretMask, redact_sensitive_names
from guards.text import sanitize_text
from pipelines.models import Trigger, TriggerFiring
from pipelines.tasks import request_firings
from pipelines.triggers.base import TriggerEvent
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import NotVisible, require
from web.clock import get_database_time
from web.http.problems import Conflict

EXECUTE: Final = "core_pipeline_execute"
SUMMARY_CHARACTERS: Final = 255


def record_event(
    trigger: Trigger, event: TriggerEvent, *, by: User | None = None, now: datetime | None = None
) -> tuple[TriggerFiring, bool]:
    """Write the firing of an event, and return it, with whether it is new.

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
            transaction.on_commit(request_firings, robust=True)
    except IntegrityError:
        same = Q(delivery_id=event.delivery_id) | Q(event_key=event.key)
        if earlier := TriggerFiring.objects.filter(same, trigger=trigger).first():
            return earlier, False
        raise NotVisible("This trigger was deleted.") from None
    return firing, True


def redeliver(*, actor: User, firing: TriggerFiring) -> TriggerFiring:
    """Handle a stored event again with the current settings of its trigger, as a firing of its own.

    Raises `Conflict` if retention has emptied it.
    """
    require(actor, EXECUTE, firing.trigger.pipeline)
    if not firing.values and not firing.payload:
        raise Conflict(f"The payload of this firing was deleted after {TRIGGER_FIRING_DAYS}.")
    key = f"redelivery:{uuid.uuid4()}"
    event = TriggerEvent(key, key, firing.summary, firing.values, firing.payload)
    with transaction.atomic():
        made, _ = record_event(firing.trigger, event, by=actor)
        record_audit_entry(
            actor=actor,
            action="trigger.redeliver",
            thing=made,
            after={"trigger": firing.trigger.identifier, "firing": str(firing.pk)},
        )
    return made


def _mask_payload(trigger: Trigger, payload: Any) -> Any:
    """Return a payload without the trigger's secret, and without the values of names such as password."""
    mask = SecretMask([trigger.secret] if trigger.secret else [])
    return mask.mask_json(redact_sensitive_names(payload))
