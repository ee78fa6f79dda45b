"""What a delegate's status is, worked out by the database, so that lists can be filtered and paged by it."""

from datetime import datetime

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, Value, When

from delegates.connectivity import AWAY_AFTER, LATE_AFTER, Connectivity
from delegates.models import Delegate, DelegateInstance

Status = DelegateInstance.Status


def connectivity_at(now: datetime) -> Case:
    """The status of each delegate of a query: the same word as `delegates.connectivity.status_of` gives."""
    known = DelegateInstance.objects.filter(delegate=OuterRef("pk"))
    heard = known.filter(last_heartbeat_at__gt=now - AWAY_AFTER).exclude(status=Status.GONE)
    working = heard.filter(status=Status.REGISTERED)
    connected = working.filter(suspect_since__isnull=True, last_heartbeat_at__gt=now - LATE_AFTER)
    return Case(
        When(~Q(admission=Delegate.Admission.ENABLED), then=F("admission")),
        When(Q(draining=True) & Exists(heard), then=Value(Connectivity.DRAINING.value)),
        When(Exists(connected), then=Value(Connectivity.CONNECTED.value)),
        When(Exists(working), then=Value(Connectivity.LATE.value)),
        When(Exists(heard), then=Value(Connectivity.DRAINING.value)),
        When(
            Exists(known.filter(last_heartbeat_at__isnull=False)), then=Value(Connectivity.DISCONNECTED.value)
        ),
        default=Value(Connectivity.NEVER_CONTACTED.value),
        output_field=CharField(),
    )
