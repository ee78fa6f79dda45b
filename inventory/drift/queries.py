"""What differs where, as pages and routes read it: never more than the reader may see."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from guards.limits import DRIFT_FIELDS
from inventory.drift.freshness import Freshness
from inventory.models.drift import Adoption, ComparedCluster, Comparison, Drift
from inventory.sync.queries import UNSHOWN
from rbac.policy import Principal, visible_below
from web.clock import database_now

VIEW: Final = "core_environment_view"
EDIT: Final = "core_environment_edit"
LOOK: Final = "core_environment_access"
MOST_EARLIER: Final = 50


def with_places(rows: QuerySet[Comparison]) -> QuerySet[Comparison]:
    """The same rows, read together with what a list says of each."""
    # Counted for the rows of a page, not for all that are then left out.
    differing = Drift.objects.filter(comparison=OuterRef("pk"), ended_at=None).order_by()
    counted = differing.values("comparison").annotate(many=Count("pk")).values("many")
    return (
        rows.select_related(
            "seen__service",
            "seen__cluster",
            "seen__infrastructure__environment__scope",
            "execution__pipeline",
        )
        .defer("execution__yaml", "execution__pipeline__yaml", *(f"seen__{name}" for name in UNSHOWN))
        .annotate(fields=Coalesce(Subquery(counted), 0))
    )


def open_fields(comparison: Comparison) -> list[Drift]:
    """What differs now, in the order of the documents."""
    rows = open_of(comparison).select_related("accepted_by").order_by("document", "path")
    return list(rows[:DRIFT_FIELDS])


def comparisons(principal: Principal, state: str = "") -> QuerySet[Comparison]:
    """What was compared in environments that the reader may see; `state` narrows it."""
    rows = Comparison.objects.filter(seen__gone_at=None)
    rows = rows.filter(state=state) if state else rows
    return visible_below(principal, VIEW, with_places(rows))


def counted(rows: QuerySet[Comparison]) -> Mapping[str, int]:
    """How many of these are in which state."""
    found = rows.order_by().values_list("state").annotate(many=Count("pk"))
    return dict(found.values_list("state", "many"))


def earlier_drifts(comparison: Comparison) -> list[Drift]:
    """What differed and does no more, the latest first."""
    rows = Drift.objects.filter(comparison=comparison).exclude(ended_at=None)
    return list(rows.select_related("accepted_by").order_by("-ended_at", "-pk")[:MOST_EARLIER])


def trouble_of(adoption: Adoption) -> str:
    """Why what somebody waits for has not been read yet: the last look since then has failed."""
    if adoption.state != Adoption.State.READING:
        return ""
    failed = ComparedCluster.objects.filter(
        cluster=adoption.seen.cluster_id, failed_at__gte=adoption.asked_at
    ).exclude(failure="")
    return failed.values_list("failure", flat=True).first() or ""


def open_of(comparison: Comparison, keys: list[int] | None = None) -> QuerySet[Drift]:
    """What differs now, or those of it that are named."""
    chosen = Q() if keys is None else Q(pk__in=keys)
    return Drift.objects.filter(chosen, comparison=comparison, ended_at=None)


def comparison_document(row: Comparison) -> dict[str, Any]:
    """A comparison as the API tells it, with how many fields differ; read by `with_places`."""
    seen, execution = row.seen, row.execution
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


def whole_document(row: Comparison) -> dict[str, Any]:
    """A comparison with all that differs, and how fresh that is."""
    return {
        **comparison_document(row),
        "look": Freshness.of(row).document(database_now()),
        "drifts": [drift_document(one) for one in open_fields(row)],
        "earlier": [drift_document(one) for one in earlier_drifts(row)],
    }


def drift_document(row: Drift) -> dict[str, Any]:
    """One field that differs, as the API tells it."""
    return {
        "id": row.pk,
        "document": row.document,
        "path": row.path,
        "desired": row.desired,
        "found": row.found,
        "told": row.told,
        "found_at": row.found_at,
        "ended_at": row.ended_at,
        "accepted": row.accepted_at is not None,
        "accepted_at": row.accepted_at,
        "accepted_by": row.accepted_by.get_username() if row.accepted_by else None,
        "reason": row.reason,
    }
