"""Whether delegates are there: a pure answer from heartbeats, sockets and what people decided (R031, T16)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from delegates.models import Delegate, DelegateInstance

HEARTBEAT = timedelta(seconds=60)
LATE_AFTER = 1.5 * HEARTBEAT
AWAY_AFTER = 2.5 * HEARTBEAT


class Connectivity(StrEnum):
    """What a delegate's row shows."""

    CONNECTED = "CONNECTED"
    LATE = "LATE"
    DISCONNECTED = "DISCONNECTED"
    NEVER_CONTACTED = "NEVER_CONTACTED"
    DRAINING = "DRAINING"
    PENDING_APPROVAL = "PENDING_APPROVAL"
    REJECTED = "REJECTED"
    DISABLED = "DISABLED"


def is_connected(instance: DelegateInstance, now: datetime) -> bool:
    """Whether an instance may be given new tasks as far as its connection goes."""
    return instance_status(instance, now) in (Connectivity.CONNECTED, Connectivity.LATE) and not (
        instance.suspect_since
    )


def instance_status(instance: DelegateInstance, now: datetime) -> Connectivity:
    """One instance at a moment of the database's clock."""
    if instance.last_heartbeat_at is None:
        return Connectivity.NEVER_CONTACTED
    age = now - instance.last_heartbeat_at
    if instance.status == DelegateInstance.Status.GONE or age >= AWAY_AFTER:
        return Connectivity.DISCONNECTED
    if instance.status == DelegateInstance.Status.DRAINING:
        return Connectivity.DRAINING
    if instance.suspect_since or age >= LATE_AFTER:
        return Connectivity.LATE
    return Connectivity.CONNECTED


def status_of(delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime) -> Connectivity:
    """A delegate: what people decided first, then the best of its instances."""
    if delegate.admission != Delegate.Admission.ENABLED:
        return Connectivity(delegate.admission)
    seen = {instance_status(one, now) for one in instances}
    if delegate.draining and seen & {Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING}:
        return Connectivity.DRAINING
    best_first = (
        Connectivity.CONNECTED,
        Connectivity.LATE,
        Connectivity.DRAINING,
        Connectivity.DISCONNECTED,
    )
    return next((one for one in best_first if one in seen), Connectivity.NEVER_CONTACTED)
