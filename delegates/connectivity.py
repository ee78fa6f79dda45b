"""Connectivity of delegates from heartbeats, sockets and admission, in Python and in SQL."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When

from delegates.models import Delegate, DelegateInstance

HEARTBEAT_INTERVAL = timedelta(seconds=60)
LATE_AFTER = 1.5 * HEARTBEAT_INTERVAL
AWAY_AFTER = 2.5 * HEARTBEAT_INTERVAL


class Connectivity(StrEnum):
    """Connectivity columns of a delegate."""

    CONNECTED = "CONNECTED"
    LATE = "LATE"
    DISCONNECTED = "DISCONNECTED"
    NEVER_CONTACTED = "NEVER_CONTACTED"
    DRAINING = "DRAINING"
    PENDING_APPROVAL = "PENDING_APPROVAL"
    REJECTED = "REJECTED"
    DISABLED = "DISABLED"
    ARCHIVED = "ARCHIVED"


def is_connected(instance: DelegateInstance, now: datetime) -> bool:
    """Return whether the connection of an instance allows new tasks."""
    return compute_instance_status(instance, now) in (Connectivity.CONNECTED, Connectivity.LATE) and not (
        instance.suspect_since
    )


def build_live_filter(now: datetime) -> Q:
    """Return the condition of instances for which `is_connected` is true."""
    return Q(
        status=DelegateInstance.Status.REGISTERED,
        suspect_since__isnull=True,
        last_heartbeat_at__gt=now - AWAY_AFTER,
    )


def compute_instance_status(instance: DelegateInstance, now: datetime) -> Connectivity:
    """Return the status of an instance at a moment of the database's clock."""
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


def compute_delegate_status(
    delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime
) -> Connectivity:
    """Return the status of a delegate: users' decisions and the archive first, then its best instance."""
    if delegate.archived_at is not None:
        return Connectivity.ARCHIVED
    if delegate.admission != Delegate.Admission.ENABLED:
        return Connectivity(delegate.admission)
    statuses = {compute_instance_status(instance, now) for instance in instances}
    if delegate.draining and statuses & {Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING}:
        return Connectivity.DRAINING
    best_first = (
        Connectivity.CONNECTED,
        Connectivity.LATE,
        Connectivity.DRAINING,
        Connectivity.DISCONNECTED,
    )
    return next((status for status in best_first if status in statuses), Connectivity.NEVER_CONTACTED)


InstanceStatus = DelegateInstance.Status
_ARCHIVED: Final = Q(archived_at__isnull=False)
_ENABLED: Final = Q(admission=Delegate.Admission.ENABLED, archived_at__isnull=True)


def build_connectivity_case(now: datetime) -> Case:
    """Return the SQL status of each delegate, equal to `compute_delegate_status`."""
    alive_instances = _select_alive(now)
    working = alive_instances.filter(status=InstanceStatus.REGISTERED)
    return Case(
        When(_ARCHIVED, then=Value(Connectivity.ARCHIVED.value)),
        When(~_ENABLED, then=F("admission")),
        When(Q(draining=True) & Exists(alive_instances), then=Value(Connectivity.DRAINING.value)),
        When(Exists(_select_connected(now)), then=Value(Connectivity.CONNECTED.value)),
        When(Exists(working), then=Value(Connectivity.LATE.value)),
        When(Exists(alive_instances), then=Value(Connectivity.DRAINING.value)),
        When(Exists(_select_contacted()), then=Value(Connectivity.DISCONNECTED.value)),
        default=Value(Connectivity.NEVER_CONTACTED.value),
        output_field=CharField(),
    )


def build_connected_filter(now: datetime) -> Q:
    """Return a cheaper condition for `connectivity_at` equal to CONNECTED."""
    return Q(_ENABLED, Exists(_select_connected(now)), draining=False)


def build_away_filter(now: datetime) -> Q:
    """Return the condition for `connectivity_at` equal to LATE or DISCONNECTED."""
    alive_instances = _select_alive(now)
    is_late = Q(
        Exists(alive_instances.filter(status=InstanceStatus.REGISTERED)),
        ~Exists(_select_connected(now)),
        draining=False,
    )
    return _ENABLED & (is_late | Q(~Exists(alive_instances), Exists(_select_contacted())))


def _select_instances() -> QuerySet[DelegateInstance]:
    return DelegateInstance.objects.filter(delegate=OuterRef("pk"))


def _select_alive(now: datetime) -> QuerySet[DelegateInstance]:
    return (
        _select_instances().filter(last_heartbeat_at__gt=now - AWAY_AFTER).exclude(status=InstanceStatus.GONE)
    )


def _select_connected(now: datetime) -> QuerySet[DelegateInstance]:
    return _select_instances().filter(
        status=InstanceStatus.REGISTERED, suspect_since__isnull=True, last_heartbeat_at__gt=now - LATE_AFTER
    )


def _select_contacted() -> QuerySet[DelegateInstance]:
    return _select_instances().filter(last_heartbeat_at__isnull=False)
