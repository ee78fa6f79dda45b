"""Connections of ECS tasks as instances of a delegate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.db.models.functions import Length

from delegates.connectivity import is_connected
from delegates.models import Delegate, DelegateEvent
from rbac.models import Scope

MAX_REFUSALS = 3


@dataclass(frozen=True)
class TaskConnections:
    """ARNs of connected tasks, and the texts of refused registrations, newest first."""

    connected: tuple[str, ...]
    refusals: tuple[str, ...]


def find_delegate(scope: Scope, name: str) -> Delegate | None:
    """Return the delegate of this name in a scope or above it, the nearest one; None if there is none."""
    delegates = Delegate.objects.filter(scope__path__in=scope.ancestor_paths(), name=name, is_built_in=False)
    return delegates.select_related("scope").order_by(Length("scope__path").desc()).first()


def find_task_connections(
    scope: Scope, name: str, tasks: Sequence[str], *, since: datetime, now: datetime
) -> TaskConnections | None:
    """Return which tasks are connected as a delegate, and refusals since a time; None if it is missing."""
    if (delegate := find_delegate(scope, name)) is None:
        return None
    instances = delegate.instances.filter(key__in=tasks).order_by("pk")
    # A token that is not known has no scope: the event of its refusal belongs to the account.
    scopes = Q(scope_id=delegate.scope_id) | Q(scope__parent__isnull=True)
    refusals = DelegateEvent.objects.filter(
        scopes, name=delegate.name, kind=DelegateEvent.Kind.REFUSED, at__gte=since
    )
    return TaskConnections(
        tuple(instance.key for instance in instances if is_connected(instance, now)),
        tuple(refusals.order_by("-at").values_list("text", flat=True)[:MAX_REFUSALS]),
    )
