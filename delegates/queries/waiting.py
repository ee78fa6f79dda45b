"""What the manager itself has seen of a delegate that somebody waits for."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from delegates.connectivity import Connectivity, status_of
from delegates.models import Delegate, DelegateEvent

# A delegate that has not come after this long most likely will not come by itself.
PATIENCE = timedelta(minutes=2)
MOST_REFUSALS = 5
HERE = (Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING)


@dataclass(frozen=True)
class Waiting:
    """How far a delegate is from being connected; `refusals` are tries that failed, newest first."""

    status: str
    instances: int
    refusals: list[DelegateEvent]
    seconds_left: int

    @property
    def is_here(self) -> bool:
        return self.status in HERE

    @property
    def is_late(self) -> bool:
        return not self.is_here and (self.seconds_left == 0 or bool(self.refusals))


def waiting_for(delegate: Delegate, now: datetime) -> Waiting:
    """Look at a delegate, and at whoever tried to register by its name since it was made."""
    instances = list(delegate.instances.all())
    left = delegate.created_at + PATIENCE - now
    return Waiting(
        status=status_of(delegate, instances, now),
        instances=len(instances),
        refusals=list(_refusals(delegate)),
        seconds_left=max(0, int(left.total_seconds())),
    )


def _refusals(delegate: Delegate) -> list[DelegateEvent]:
    """A try with an unknown token belongs to no scope below the account: only the name tells whose it was."""
    here = Q(scope_id=delegate.scope_id) | Q(scope__parent__isnull=True)
    found = DelegateEvent.objects.filter(
        here, name=delegate.name, kind=DelegateEvent.Kind.REFUSED, at__gte=delegate.created_at
    )
    return list(found.order_by("-at")[:MOST_REFUSALS])
