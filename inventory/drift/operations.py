"""What a person can do about drift: have it looked for, accept what differs, take that back."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from deployments.watching.badges import badges_changed
from guards.limits import DRIFT_REASON_CHARACTERS
from inventory.drift.clusters import ask_for
from inventory.drift.queries import EDIT, LOOK, open_of
from inventory.drift.tasks import look_soon
from inventory.models.drift import ComparedCluster, Comparison, Drift
from inventory.models.instances import SyncedCluster
from inventory.sync.tasks import sync_soon
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.clock import database_now
from web.problems import BadInput


def look_now(*, actor: User, comparison: Comparison) -> ComparedCluster:
    """Look at the cluster of an ECS service now: what sync knows is compared, and again after the next sync.

    Raises `Forbidden` without access to the environment.
    """
    require(actor, LOOK, comparison)
    now = database_now()
    cluster = comparison.seen.cluster
    with transaction.atomic():
        SyncedCluster.objects.filter(pk=cluster.pk, failures=0, due_at__gt=now).update(due_at=now)
        compared = ask_for(cluster, now)
        where = {"region": cluster.region, "cluster": cluster.cluster}
        record(actor=actor, action="drift.look", thing=comparison, after=where)
        transaction.on_commit(lambda: _wake(cluster.pk, compared.pk))
    return compared


def _wake(cluster: int, compared: int) -> None:
    sync_soon(cluster)
    look_soon(compared)


def accept(*, actor: User, comparison: Comparison, keys: Sequence[int], reason: str) -> list[Drift]:
    """Accept fields that differ, as they are now: another change of the same field is told again.

    Raises `BadInput` where no reason is given or nothing of it differs any more.
    """
    require(actor, EDIT, comparison)
    reason = _checked_reason(reason)
    now = database_now()
    with transaction.atomic():
        rows = _named(comparison, keys)
        for row in rows:
            row.accepted_at, row.accepted_by, row.reason = now, actor, reason
        _save(comparison, rows, actor, "drift.accept", reason)
    return rows


def withdraw(*, actor: User, comparison: Comparison, keys: Sequence[int]) -> list[Drift]:
    """Accept fields no longer. Raises `BadInput` where nothing of it differs any more."""
    require(actor, EDIT, comparison)
    with transaction.atomic():
        rows = _named(comparison, keys)
        for row in rows:
            row.accepted_at, row.accepted_by, row.reason = None, None, ""
        _save(comparison, rows, actor, "drift.withdraw", "")
    return rows


def _named(comparison: Comparison, keys: Sequence[int]) -> list[Drift]:
    rows = list(open_of(comparison, list(keys)))
    if not rows:
        message = "Choose at least one field that differs now. What is listed may have changed: look again."
        raise BadInput(message, errors=[{"path": "drifts", "message": message}])
    return rows


def _save(comparison: Comparison, rows: Sequence[Drift], actor: User, action: str, reason: str) -> None:
    # One that ended meanwhile stays as it ended.
    before = {"state": comparison.state}
    for row in rows:
        Drift.objects.filter(pk=row.pk, ended_at=None).update(
            accepted_at=row.accepted_at, accepted_by=row.accepted_by, reason=row.reason
        )
    settle(comparison)
    fields = [str(row) for row in rows]
    after: dict[str, Any] = {"state": comparison.state, "fields": fields, "reason": reason}
    record(actor=actor, action=action, thing=comparison, before=before, after=after)


def settle(comparison: Comparison) -> None:
    """Say anew whether what differs is accepted."""
    states = Comparison.State
    if comparison.state not in (states.DRIFTED, states.ACCEPTED):
        return
    left = open_of(comparison).filter(accepted_at=None).exists()
    comparison.state = states.DRIFTED if left else states.ACCEPTED
    Comparison.objects.filter(pk=comparison.pk, state__in=(states.DRIFTED, states.ACCEPTED)).update(
        state=comparison.state
    )
    badges_changed()


def _checked_reason(reason: str) -> str:
    said = reason.strip()
    if not said or len(said) > DRIFT_REASON_CHARACTERS:
        message = f"Say in up to {DRIFT_REASON_CHARACTERS} characters why this is right as it is."
        raise BadInput(message, errors=[{"path": "reason", "message": message}])
    return said
