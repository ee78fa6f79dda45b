"""The look that finds what notices lost: open offers, and sessions that are over."""

from collections.abc import Sequence
from dataclasses import dataclass

from delegates.clock import database_now
from delegates.models import Delegate, DelegateInstance, DelegateTask
from delegates.protocol.sessions import is_trusted

MOST_OFFERS = 1000


@dataclass(frozen=True)
class Seen:
    """Offers as (delegate, task), and instances whose sessions ended, with the code that says why."""

    offers: tuple[tuple[int, str], ...]
    ended: tuple[tuple[int, str], ...]


def look(instance_ids: Sequence[int]) -> Seen:
    """What all agents are offered just now, and which of these instances have no session any more."""
    queued = DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_until__gt=database_now())
    offers = queued.exclude(offered_to=None).order_by("queued_at").values_list("offered_to", "pk")
    found = DelegateInstance.objects.select_related("token", "delegate").in_bulk(list(instance_ids))
    return Seen(
        offers=tuple((delegate_id, str(pk)) for delegate_id, pk in offers[:MOST_OFFERS]),
        ended=tuple((pk, code) for pk in instance_ids if (code := end_of(found.get(pk)))),
    )


def end_of(instance: DelegateInstance | None) -> str:
    """Why the session of an instance is over, as the code of a refusal; empty while it goes on."""
    if instance is None or not instance.session_hash:
        return "session_invalid"
    if not is_trusted(instance.token):
        return "token_revoked"
    return "delegate_rejected" if instance.delegate.admission == Delegate.Admission.REJECTED else ""
