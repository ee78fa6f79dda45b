"""What a delegate's status is, worked out by the database, so that lists can be filtered and paged by it."""

from datetime import datetime
from typing import Final

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When

from delegates.connectivity import AWAY_AFTER, LATE_AFTER, Connectivity
from delegates.models import Delegate, DelegateInstance

Status = DelegateInstance.Status
_ENABLED: Final = Q(admission=Delegate.Admission.ENABLED)


def connectivity_at(now: datetime) -> Case:
    """The status of each delegate of a query: the same word as `delegates.connectivity.status_of` gives."""
    heard = _heard(now)
    working = heard.filter(status=Status.REGISTERED)
    return Case(
        When(~_ENABLED, then=F("admission")),
        When(Q(draining=True) & Exists(heard), then=Value(Connectivity.DRAINING.value)),
        When(Exists(_connected(now)), then=Value(Connectivity.CONNECTED.value)),
        When(Exists(working), then=Value(Connectivity.LATE.value)),
        When(Exists(heard), then=Value(Connectivity.DRAINING.value)),
        When(Exists(_ever_heard()), then=Value(Connectivity.DISCONNECTED.value)),
        default=Value(Connectivity.NEVER_CONTACTED.value),
        output_field=CharField(),
    )


def is_connected_at(now: datetime) -> Q:
    """The condition that `connectivity_at` says CONNECTED, which asks for less."""
    return Q(_ENABLED, Exists(_connected(now)), draining=False)


def is_away_at(now: datetime) -> Q:
    """The condition that `connectivity_at` says LATE or DISCONNECTED."""
    heard = _heard(now)
    is_late = Q(Exists(heard.filter(status=Status.REGISTERED)), ~Exists(_connected(now)), draining=False)
    return _ENABLED & (is_late | Q(~Exists(heard), Exists(_ever_heard())))


def _known() -> QuerySet[DelegateInstance]:
    return DelegateInstance.objects.filter(delegate=OuterRef("pk"))


def _heard(now: datetime) -> QuerySet[DelegateInstance]:
    return _known().filter(last_heartbeat_at__gt=now - AWAY_AFTER).exclude(status=Status.GONE)


def _connected(now: datetime) -> QuerySet[DelegateInstance]:
    return _known().filter(
        status=Status.REGISTERED, suspect_since__isnull=True, last_heartbeat_at__gt=now - LATE_AFTER
    )


def _ever_heard() -> QuerySet[DelegateInstance]:
    return _known().filter(last_heartbeat_at__isnull=False)
