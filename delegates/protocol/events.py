"""Delegate events, and notifications of delegates that are away or back."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from delegates.connectivity import AWAY_AFTER
from delegates.models import Delegate, DelegateEvent, DelegateInstance
from delegates.state_log import log_delegate_event
from notifications.event_texts import describe_delegate
from notifications.events import EventType, NotificationEvent
from notifications.outbox import notify
from rbac.models import Scope
from web.page_paths import get_page_path


def record_event(
    instance: DelegateInstance, kind: DelegateEvent.Kind, text: str, *, at: datetime, address: str = ""
) -> DelegateEvent:
    """Record an event of an instance; its delegate must be loaded."""
    event = DelegateEvent.objects.create(
        scope_id=instance.delegate.scope_id,
        delegate=instance.delegate,
        instance=instance,
        name=instance.delegate.name,
        at=at,
        kind=kind,
        text=text,
        address=address,
    )
    log_delegate_event(event)
    return event


def record_refusal_event(*, scope: Scope, name: str, text: str, at: datetime, address: str) -> DelegateEvent:
    """Record a refused registration, with its delegate if the delegate is known."""
    return DelegateEvent.objects.create(
        scope=scope,
        delegate=Delegate.objects.filter(scope=scope, name=name).first(),
        name=name,
        at=at,
        kind=DelegateEvent.Kind.REFUSED,
        text=text,
        address=address,
    )


def get_instance_label(instance: DelegateInstance) -> str:
    """Return the instance's name in events: its host or a substitute."""
    return instance.hostname or instance.key


@transaction.atomic
def notify_away(instances: Iterable[DelegateInstance], now: datetime) -> None:
    """Notify about delegates without another connected instance, in the transaction of the disconnect."""
    concerned = {instance.delegate_id for instance in instances}
    if not concerned:
        return
    contacted = DelegateInstance.objects.filter(
        delegate__in=concerned, last_heartbeat_at__gt=now - AWAY_AFTER
    )
    connected = contacted.exclude(status=DelegateInstance.Status.GONE).values_list("delegate", flat=True)
    silent = _list_remote_delegates().filter(pk__in=concerned - set(connected), away_since=None)
    _publish_facts([delegate for delegate in silent if _record_transition(delegate, None, now)], away=True)


@transaction.atomic
def notify_back(delegates: Iterable[int]) -> None:
    """Notify about delegates that were away and have a connected instance again; cheap for others."""
    returned = _list_remote_delegates().filter(pk__in=set(delegates), away_since__isnull=False)
    _publish_facts(
        [delegate for delegate in returned if _record_transition(delegate, delegate.away_since, None)],
        away=False,
    )


def _list_remote_delegates() -> QuerySet[Delegate]:
    return Delegate.objects.filter(is_built_in=False).select_related("scope")


def _record_transition(delegate: Delegate, before: datetime | None, after: datetime | None) -> bool:
    """Return the conditional UPDATE that lets one process send the notification."""
    return bool(Delegate.objects.filter(pk=delegate.pk, away_since=before).update(away_since=after))


def _publish_facts(delegates: Iterable[Delegate], *, away: bool) -> None:
    """Publish the state; for a disabled delegate only record it until the delegate is enabled."""
    enabled = (delegate for delegate in delegates if delegate.admission == Delegate.Admission.ENABLED)
    notify(*(_build_fact(delegate, away=away) for delegate in enabled))


def _build_fact(delegate: Delegate, *, away: bool) -> NotificationEvent:
    return NotificationEvent(
        event=EventType.DELEGATE_DISCONNECTED if away else EventType.DELEGATE_CONNECTED,
        scope=delegate.scope,
        text=describe_delegate(delegate.name, is_away=away),
        path=get_page_path("delegate", delegate.pk),
        status="DISCONNECTED" if away else "CONNECTED",
        delegate=delegate.name,
    )
