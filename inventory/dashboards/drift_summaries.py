"""Drift of ECS services on dashboards; unknown where the data is old."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from catalog.models import Environment, Service
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord
from inventory.queries.freshness import is_outdated
from inventory.queries.instances import DEFERRED_FIELDS, MAX_LISTED_ECS_SERVICES

# Drift scans run every two minutes.
COMPARISON_STALE_AFTER: Final = timedelta(minutes=10)
UNKNOWN: Final = "UNKNOWN_DRIFT"


@dataclass(frozen=True)
class DriftSummary:
    """The drift of one ECS service; `reason` explains a state without a current comparison."""

    ecs_service: EcsServiceRecord
    state: str
    reason: str = ""

    @property
    def comparison(self) -> DriftComparison | None:
        """Return the last comparison; None before the first one."""
        return getattr(self.ecs_service, "comparison", None)


def summarize_drift(ecs_service: EcsServiceRecord, now: datetime) -> DriftSummary:
    """Return the drift of an ECS service, loaded with its comparison and cluster."""
    comparison = getattr(ecs_service, "comparison", None)
    if comparison is None or comparison.compared_at is None:
        return DriftSummary(ecs_service, DriftComparison.State.NOT_COMPARED, "No comparison yet.")
    last = f"Last known: {comparison.get_state_display().lower()}."
    if is_outdated(ecs_service.cluster.synced_at, now):
        return DriftSummary(ecs_service, UNKNOWN, f"The cluster was not synced for 6 minutes. {last}")
    if comparison.compared_at < now - COMPARISON_STALE_AFTER:
        return DriftSummary(ecs_service, UNKNOWN, f"Not compared for 10 minutes. {last}")
    return DriftSummary(ecs_service, comparison.state, comparison.reason)


def list_environment_drift(
    environment: Environment, services: Sequence[Service], now: datetime
) -> Mapping[int, list[DriftSummary]]:
    """Return the drift of the ECS services of each service in an environment; one query."""
    # Whoever views an environment views its ECS services.
    rows = EcsServiceRecord.objects.filter(
        infrastructure__environment=environment, service__in=services, gone_at=None
    )
    rows = rows.select_related("comparison", "cluster", "infrastructure").defer(*DEFERRED_FIELDS)
    summaries: defaultdict[int, list[DriftSummary]] = defaultdict(list)
    for row in rows.order_by("infrastructure__name", "name")[:MAX_LISTED_ECS_SERVICES]:
        summaries[row.service_id or 0].append(summarize_drift(row, now))
    return summaries
