"""Drift that the reader may view, and its count for the navigation badge."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from guards.limits import DRIFT_FIELDS
from inventory.models.adoption import Adoption
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.queries.freshness import DriftFreshness
from inventory.queries.instances import DEFERRED_FIELDS
from rbac.models import User
from rbac.policy import Grants, Principal, filter_visible_below, get_resource_locations
from web.clock import get_database_time

VIEW_ENVIRONMENT: Final = "core_environment_view"
EDIT_ENVIRONMENT: Final = "core_environment_edit"
ACCESS_ENVIRONMENT: Final = "core_environment_access"
MAX_RESOLVED_DRIFTS: Final = 50


def select_comparison_relations(rows: QuerySet[DriftComparison]) -> QuerySet[DriftComparison]:
    """The same rows, read together with what a list says of each."""
    # Counted for the rows of a page, not for all that are then left out.
    differing = Drift.objects.filter(comparison=OuterRef("pk"), resolved_at=None).order_by()
    counted = differing.values("comparison").annotate(many=Count("pk")).values("many")
    return (
        rows.select_related(
            "ecs_service__service",
            "ecs_service__cluster",
            "ecs_service__infrastructure__environment__scope",
            "execution__pipeline",
        )
        .defer(
            "execution__yaml",
            "execution__pipeline__yaml",
            *(f"ecs_service__{name}" for name in DEFERRED_FIELDS),
        )
        .annotate(fields=Coalesce(Subquery(counted), 0))
    )


def list_open_drifts(comparison: DriftComparison) -> list[Drift]:
    """What differs now, in the order of the documents."""
    rows = filter_open_drifts(comparison).select_related("accepted_by").order_by("document", "path")
    return list(rows[:DRIFT_FIELDS])


def list_comparisons(principal: Principal, state: str = "") -> QuerySet[DriftComparison]:
    """What was compared in environments that the reader may see; `state` narrows it."""
    rows = DriftComparison.objects.filter(ecs_service__gone_at=None)
    rows = rows.filter(state=state) if state else rows
    return filter_visible_below(principal, VIEW_ENVIRONMENT, select_comparison_relations(rows))


def count_by_state(rows: QuerySet[DriftComparison]) -> Mapping[str, int]:
    """How many of these are in which state."""
    found = rows.order_by().values_list("state").annotate(many=Count("pk"))
    return dict(found.values_list("state", "many"))


def list_resolved_drifts(comparison: DriftComparison) -> list[Drift]:
    """What differed and does no more, the latest first."""
    rows = Drift.objects.filter(comparison=comparison).exclude(resolved_at=None)
    return list(rows.select_related("accepted_by").order_by("-resolved_at", "-pk")[:MAX_RESOLVED_DRIFTS])


def get_adoption_failure(adoption: Adoption) -> str:
    """Why what somebody waits for has not been read yet: the last look since then has failed."""
    if adoption.state != Adoption.State.READING:
        return ""
    failed = ClusterDriftScan.objects.filter(
        cluster=adoption.ecs_service.cluster_id, failed_at__gte=adoption.requested_at
    ).exclude(failure="")
    return failed.values_list("failure", flat=True).first() or ""


def filter_open_drifts(comparison: DriftComparison, keys: list[int] | None = None) -> QuerySet[Drift]:
    """What differs now, or those of it that are named."""
    chosen = Q() if keys is None else Q(pk__in=keys)
    return Drift.objects.filter(chosen, comparison=comparison, resolved_at=None)


def serialize_comparison(row: DriftComparison) -> dict[str, Any]:
    """A comparison as the API tells it, with how many fields differ; read by `with_places`."""
    seen, execution = row.ecs_service, row.execution
    place = seen.infrastructure
    return {
        "id": row.pk,
        "ecs_service": seen.name,
        "service": seen.service.identifier if seen.service else None,
        "environment": place.environment.identifier if place else None,
        "infrastructure": place.identifier if place else None,
        "region": seen.cluster.region,
        "cluster": seen.cluster.cluster,
        "state": row.state,
        "reason": row.reason,
        "execution": str(execution.pk) if execution else None,
        "task_definition": seen.task_definition,
        "compared_at": row.compared_at,
        "fields": row.fields,  # type: ignore[attr-defined]
    }


def serialize_comparison_with_drift(row: DriftComparison) -> dict[str, Any]:
    """A comparison with all that differs, and how fresh that is."""
    return {
        **serialize_comparison(row),
        "look": DriftFreshness.of(row).serialize(get_database_time()),
        "drifts": [serialize_drift(one) for one in list_open_drifts(row)],
        "earlier": [serialize_drift(one) for one in list_resolved_drifts(row)],
    }


def serialize_drift(row: Drift) -> dict[str, Any]:
    """One field that differs, as the API tells it."""
    return {
        "id": row.pk,
        "document": row.document,
        "path": row.path,
        "desired": row.desired,
        "found": row.actual,
        "told": row.attribution,
        "found_at": row.detected_at,
        "ended_at": row.resolved_at,
        "accepted": row.accepted_at is not None,
        "accepted_at": row.accepted_at,
        "accepted_by": row.accepted_by.get_username() if row.accepted_by else None,
        "reason": row.reason,
    }


DRIFT_BADGE: Final = "drift"


def count_drifted_services(people: Sequence[User]) -> Counter[int]:
    """How many there are for each of these; asks the database as often for many as for one.

    Each is somebody who came without an API key.
    """
    drifted = DriftComparison.objects.filter(ecs_service__gone_at=None, state=DriftComparison.State.DRIFTED)
    # All of an environment are seen by the same people.
    grouped = drifted.order_by().values("ecs_service__infrastructure__environment")
    rows = list(grouped.annotate(many=Count("pk"), one=Min("pk")).values_list("one", "many"))
    if not rows:
        return Counter()
    grants, places = Grants(people), get_resource_locations(DriftComparison, {one for one, _ in rows})
    found: Counter[int] = Counter()
    for person in people:
        for one, many in rows:
            if one in places and VIEW_ENVIRONMENT in grants.get_permissions(person, places[one]):
                found[person.pk] += many
    return found
