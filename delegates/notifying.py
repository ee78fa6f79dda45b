"""What is told of delegates: that one is gone with all its instances, and that it is back."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from delegates.connectivity import AWAY_AFTER
from delegates.models import Delegate, DelegateInstance
from notifications.facts import Event, Fact
from notifications.outbox import notify
from web.page_paths import get_page_path


@transaction.atomic
def tell_away(instances: Iterable[DelegateInstance], now: datetime) -> None:
    """These instances are away; told of are the delegates that have no other one. In their transaction."""
    concerned = {one.delegate_id for one in instances}
    if not concerned:
        return
    heard = DelegateInstance.objects.filter(delegate__in=concerned, last_heartbeat_at__gt=now - AWAY_AFTER)
    there = heard.exclude(status=DelegateInstance.Status.GONE).values_list("delegate", flat=True)
    gone = _remote().filter(pk__in=concerned - set(there), away_since=None)
    _tell([one for one in gone if _note(one, None, now)], away=True)


@transaction.atomic
def tell_back(delegates: Iterable[int]) -> None:
    """Instances of these delegates are heard; told of are the delegates that were away. Cheap for others."""
    found = _remote().filter(pk__in=set(delegates), away_since__isnull=False)
    _tell([one for one in found if _note(one, one.away_since, None)], away=False)


def _remote() -> QuerySet[Delegate]:
    return Delegate.objects.filter(is_built_in=False).select_related("scope")


def _note(delegate: Delegate, before: datetime | None, after: datetime | None) -> bool:
    """The one conditional UPDATE that lets one process tell of it."""
    return bool(Delegate.objects.filter(pk=delegate.pk, away_since=before).update(away_since=after))


def _tell(delegates: Iterable[Delegate], *, away: bool) -> None:
    """Of one that is switched off it is noted only: once it is on again, it is told of as it is then."""
    enabled = (one for one in delegates if one.admission == Delegate.Admission.ENABLED)
    notify(*(_fact(one, away=away) for one in enabled))


def _fact(delegate: Delegate, *, away: bool) -> Fact:
    what = "is not heard any more: it is disconnected" if away else "is connected"
    return Fact(
        event=Event.DELEGATE_DISCONNECTED if away else Event.DELEGATE_CONNECTED,
        scope=delegate.scope,
        text=f"Delegate {delegate.name} {what}.",
        path=get_page_path("delegate", delegate.pk),
        status="DISCONNECTED" if away else "CONNECTED",
        delegate=delegate.name,
    )
