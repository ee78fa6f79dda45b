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
from rbac.policy import Grants, Principal, filter_visible, get_resource_locations
from web.clock import get_database_time

VIEW_ENVIRONMENT: Final = "core_environment_view"
EDIT_ENVIRONMENT: Final = "core_environment_edit"
ACCESS_ENVIRONMENT: Final = "core_environment_access"
MAX_RESOLVED_DRIFTS: Final = 50


def select_comparison_relations(rows: QuerySet[DriftComparison]) -> QuerySet[DriftComparison]:
    """Load the relations that a list shows of each comparison."""
    # A subquery counts for the rows of a page only.
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
    """Return the open drift, ordered by document and path."""
    rows = filter_open_drifts(comparison).select_related("accepted_by").order_by("document", "path")
    return list(rows[:DRIFT_FIELDS])


def list_comparisons(principal: Principal, state: str = "") -> QuerySet[DriftComparison]:
    """Return the visible comparisons; `state` filters them."""
    rows = DriftComparison.objects.filter(ecs_service__gone_at=None)
    rows = rows.filter(state=state) if state else rows
    return filter_visible(principal, VIEW_ENVIRONMENT, select_comparison_relations(rows))


def count_by_state(rows: QuerySet[DriftComparison]) -> Mapping[str, int]:
    """Return the number of comparisons by state."""
    counts = rows.order_by().values_list("state").annotate(many=Count("pk"))
    return dict(counts.values_list("state", "many"))


def list_resolved_drifts(comparison: DriftComparison) -> list[Drift]:
    """Return the resolved drift, the latest first."""
    rows = Drift.objects.filter(comparison=comparison).exclude(resolved_at=None)
    return list(rows.select_related("accepted_by").order_by("-resolved_at", "-pk")[:MAX_RESOLVED_DRIFTS])


def get_adoption_failure(adoption: Adoption) -> str:
    """Return the failure of the last scan since the adoption was requested."""
    if adoption.state != Adoption.State.READING:
        return ""
    failed = ClusterDriftScan.objects.filter(
        cluster=adoption.ecs_service.cluster_id, failed_at__gte=adoption.requested_at
    ).exclude(failure="")
    return failed.values_list("failure", flat=True).first() or ""


def filter_open_drifts(comparison: DriftComparison, keys: list[int] | None = None) -> QuerySet[Drift]:
    """Return the open drift, or the part of it with these keys."""
    condition = Q() if keys is None else Q(pk__in=keys)
    return Drift.objects.filter(condition, comparison=comparison, resolved_at=None)


def serialize_comparison(row: DriftComparison) -> dict[str, Any]:
    """Serialize a comparison with its number of differing fields, from `select_comparison_relations`."""
    ecs_service, execution = row.ecs_service, row.execution
    infrastructure = ecs_service.infrastructure
    return {
        "id": row.pk,
        "ecs_service": ecs_service.name,
        "service": ecs_service.service.identifier if ecs_service.service else None,
        "environment": infrastructure.environment.identifier if infrastructure else None,
        "infrastructure": infrastructure.identifier if infrastructure else None,
        "region": ecs_service.cluster.region,
        "cluster": ecs_service.cluster.cluster,
        "state": row.state,
        "reason": row.reason,
        "execution": str(execution.pk) if execution else None,
        "task_definition": ecs_service.task_definition,
        "compared_at": row.compared_at,
        "fields": row.fields,  # type: ignore[attr-defined]
    }


def serialize_comparison_with_drift(row: DriftComparison) -> dict[str, Any]:
    """Serialize a comparison with its drift and freshness."""
    return {
        **serialize_comparison(row),
        "look": DriftFreshness.of(row).serialize(get_database_time()),
        "drifts": [serialize_drift(drift) for drift in list_open_drifts(row)],
        "earlier": [serialize_drift(drift) for drift in list_resolved_drifts(row)],
    }


def serialize_drift(row: Drift) -> dict[str, Any]:
    """Serialize one field that differs."""
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
    """Count the drifted services visible to each person; the number of queries is fixed."""
    drifted = DriftComparison.objects.filter(ecs_service__gone_at=None, state=DriftComparison.State.DRIFTED)
    # All services of an environment are visible to the same people.
    grouped = drifted.order_by().values("ecs_service__infrastructure__environment")
    rows = list(grouped.annotate(many=Count("pk"), one=Min("pk")).values_list("one", "many"))
    if not rows:
        return Counter()
    grants, places = Grants(people), get_resource_locations(DriftComparison, {key for key, _ in rows})
    totals: Counter[int] = Counter()
    for person in people:
        for key, count in rows:
            if key in places and VIEW_ENVIRONMENT in grants.get_permissions(person, places[key]):
                totals[person.pk] += count
    return totals
