"""The look that finds what notices lost: open offers, and sessions that are over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from delegates.models import Delegate, DelegateInstance, DelegateTask, DelegateToken
from web.clock import database_now

MOST_OFFERS = 1000
_SCOPE = "delegate__scope"
SESSION_COLUMNS = (
    "session_hash",
    "token__status",
    "delegate__admission",
    f"{_SCOPE}__archived_at",
    f"{_SCOPE}__parent__archived_at",
)
INVALID = "session_invalid"


@dataclass(frozen=True)
class Seen:
    """Offers as (delegate, task), and instances whose sessions ended, with the code that says why."""

    offers: tuple[tuple[int, str], ...]
    ended: tuple[tuple[int, str], ...]


def look(instance_ids: Sequence[int]) -> Seen:
    """What all agents are offered just now, and which of these instances have no session any more."""
    queued = DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_until__gt=database_now())
    offers = queued.exclude(offered_to=None).order_by("queued_at").values_list("offered_to", "pk")
    sessions = DelegateInstance.objects.filter(pk__in=list(instance_ids)).values_list("pk", *SESSION_COLUMNS)
    found = {pk: end_of(*columns) for pk, *columns in sessions}
    return Seen(
        offers=tuple((delegate_id, str(pk)) for delegate_id, pk in offers[:MOST_OFFERS]),
        ended=tuple((pk, code) for pk in instance_ids if (code := found.get(pk, INVALID))),
    )


def end_of(session_hash: str, token_status: str | None, admission: str, *archived: datetime | None) -> str:
    """Why a session with `SESSION_COLUMNS` is over, as the code of a refusal; empty while it goes on."""
    if not session_hash:
        return INVALID
    # A token that is there no more was revoked first.
    if token_status != DelegateToken.Status.ACTIVE:
        return "token_revoked"
    if any(archived):
        return "scope_archived"
    return "delegate_rejected" if admission == Delegate.Admission.REJECTED else ""
