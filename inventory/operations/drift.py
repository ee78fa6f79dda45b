"""Operations on drift: request a scan, accept fields, revoke acceptance."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from deployments.live.badges import publish_badges_changed
from guards.limits import DRIFT_REASON_CHARACTERS
from inventory.drift.clusters import advance_due_date
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import SyncedCluster
from inventory.queries.drift import ACCESS_ENVIRONMENT, EDIT_ENVIRONMENT, filter_open_drifts
from inventory.tasks import queue_drift_scan, queue_sync
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput


def request_drift_scan(*, actor: User, comparison: DriftComparison) -> ClusterDriftScan:
    """Request a drift scan of the cluster now; it is repeated after the next sync.

    Raises `Forbidden` without access to the environment.
    """
    require(actor, ACCESS_ENVIRONMENT, comparison)
    now = get_database_time()
    cluster = comparison.ecs_service.cluster
    with transaction.atomic():
        SyncedCluster.objects.filter(pk=cluster.pk, failures=0, due_at__gt=now).update(due_at=now)
        compared = advance_due_date(cluster, now)
        where = {"region": cluster.region, "cluster": cluster.cluster}
        record_audit_entry(actor=actor, action="drift.look", thing=comparison, after=where)
        transaction.on_commit(lambda: _request_tasks(cluster.pk, compared.pk))
    return compared


def _request_tasks(cluster: int, compared: int) -> None:
    queue_sync(cluster)
    queue_drift_scan(compared)


def accept_drift(
    *, actor: User, comparison: DriftComparison, keys: Sequence[int], reason: str
) -> list[Drift]:
    """Accept drifted fields in their current state; a further change is reported again.

    Raises `BadInput` without a reason, or if no field differs any more.
    """
    require(actor, EDIT_ENVIRONMENT, comparison)
    reason = _validate_reason(reason)
    now = get_database_time()
    with transaction.atomic():
        rows = _get_open_drifts(comparison, keys)
        for row in rows:
            row.accepted_at, row.accepted_by, row.reason = now, actor, reason
        _save_decision(comparison, rows, actor, "drift.accept", reason)
    return rows


def revoke_acceptance(*, actor: User, comparison: DriftComparison, keys: Sequence[int]) -> list[Drift]:
    """Revoke the acceptance of fields. Raises `BadInput` where none differs any more."""
    require(actor, EDIT_ENVIRONMENT, comparison)
    with transaction.atomic():
        rows = _get_open_drifts(comparison, keys)
        for row in rows:
            row.accepted_at, row.accepted_by, row.reason = None, None, ""
        _save_decision(comparison, rows, actor, "drift.withdraw", "")
    return rows


def _get_open_drifts(comparison: DriftComparison, keys: Sequence[int]) -> list[Drift]:
    rows = list(filter_open_drifts(comparison, list(keys)))
    if not rows:
        message = "Select at least one field that differs. The list may have changed: reload the page."
        raise BadInput(message, errors=[{"path": "drifts", "message": message}])
    return rows


def _save_decision(
    comparison: DriftComparison, rows: Sequence[Drift], actor: User, action: str, reason: str
) -> None:
    # Drift that was resolved meanwhile stays unchanged.
    before = {"state": comparison.state}
    for row in rows:
        Drift.objects.filter(pk=row.pk, resolved_at=None).update(
            accepted_at=row.accepted_at, accepted_by=row.accepted_by, reason=row.reason
        )
    update_comparison_state(comparison)
    fields = [str(row) for row in rows]
    after: dict[str, Any] = {"state": comparison.state, "fields": fields, "reason": reason}
    record_audit_entry(actor=actor, action=action, thing=comparison, before=before, after=after)


def update_comparison_state(comparison: DriftComparison) -> None:
    """Update whether all differing fields are accepted."""
    states = DriftComparison.State
    if comparison.state not in (states.DRIFTED, states.ACCEPTED):
        return
    has_unaccepted = filter_open_drifts(comparison).filter(accepted_at=None).exists()
    comparison.state = states.DRIFTED if has_unaccepted else states.ACCEPTED
    DriftComparison.objects.filter(pk=comparison.pk, state__in=(states.DRIFTED, states.ACCEPTED)).update(
        state=comparison.state
    )
    publish_badges_changed()


def _validate_reason(reason: str) -> str:
    text = reason.strip()
    if not text or len(text) > DRIFT_REASON_CHARACTERS:
        message = f"Enter a reason of up to {DRIFT_REASON_CHARACTERS}."
        raise BadInput(message, errors=[{"path": "reason", "message": message}])
    return text
