"""Dispatch of due executions in batches that share one describe call per ten ECS services."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from aws.apis.ecs import SERVICES_PER_CALL, EcsClient
from aws.apis.ecs_types import EcsService
from aws.caller import split_batches
from aws.errors import AwsError
from delegates.access.aws_access import ConnectorUnavailable
from deployments.engine.lease import PASS_SECONDS
from deployments.engine.reconcile import reconcile
from deployments.engine.reconcile_context import ServiceSnapshot
from deployments.engine.service_waits import (
    get_batch_key,
    get_next_check,
    get_rate_limit_key,
    hash_observed_state,
)
from deployments.journal import rate_limits, recent_reads
from deployments.journal.runtime import LIVE_RUNTIME, DirectAwsAccess, EngineRuntime
from deployments.models import Execution, Pulse, StageExecution
from steps.actions.context import ServiceObservation


@dataclass(frozen=True)
class WaitingExecution:
    """Waiting execution with the columns that the check of its batch needs."""

    pk: UUID
    waits_for_service: str
    observed_state: str
    recheck_at: datetime | None
    dispatch_token: str


def list_waiting_executions(execution_ids: Sequence[UUID]) -> list[WaitingExecution]:
    """Return the waiting executions."""
    rows = (
        Execution.objects.filter(pk__in=execution_ids)
        .exclude(waits_for_service="")
        .order_by("waits_for_service")
    )
    return [
        WaitingExecution(*row)
        for row in rows.values_list(
            "pk", "waits_for_service", "observed_state", "recheck_at", "dispatch_token"
        )
    ]


def find_changed(
    waiting: Sequence[WaitingExecution], *, runtime: EngineRuntime, snapshot: ServiceSnapshot
) -> list[UUID]:
    """Return the executions to reconcile: the state of their service has changed since the last pass.

    The others are as they were, and nothing is written about them: their next turn is set already.
    """
    if not waiting:
        return []
    everybody = [one.pk for one in waiting]
    stage = _get_waiting_stage(waiting[0])
    if stage is None:
        return everybody
    try:
        aws_access = snapshot.aws_access_pool.open(runtime, stage.connector, stage.region)
    except ConnectorUnavailable:
        return everybody
    if hasattr(aws_access, "queue"):
        return everybody
    return [
        pk
        for batch in split_batches(waiting, SERVICES_PER_CALL)
        for pk in _find_changed_in_cluster(batch, stage, aws_access, runtime=runtime, snapshot=snapshot)
    ]


def _find_changed_in_cluster(
    batch: Sequence[WaitingExecution],
    stage: StageExecution,
    aws_access: DirectAwsAccess,
    *,
    runtime: EngineRuntime,
    snapshot: ServiceSnapshot,
) -> list[UUID]:
    begun = runtime.now()
    try:
        answered = EcsClient(aws_access).describe_raw_services(
            stage.cluster, [one.waits_for_service for one in batch]
        )
    except AwsError as error:
        # Each pass makes the call itself then, and logs the error.
        rate_limits.record_throttling(get_rate_limit_key(stage), error, runtime.now())
        return [one.pk for one in batch]
    found: dict[str, dict[str, Any]] = {service.get("serviceName", ""): service for service in answered}
    wanted: list[UUID] = []
    news: dict[str, dict[str, Any] | None] = {}
    for one in batch:
        raw = found.get(one.waits_for_service)
        if (
            one.observed_state == hash_observed_state(raw)
            and one.recheck_at is not None
            and begun < one.recheck_at
        ):
            continue
        service = None if raw is None else EcsService.from_aws(raw)
        snapshot.keep(
            stage.cluster, one.waits_for_service, ServiceObservation(one.waits_for_service, service, begun)
        )
        wanted.append(one.pk)
        news[one.waits_for_service] = raw
    # Sync of the same cluster takes from there what it would ask AWS for once more.
    recent_reads.publish_reads(recent_reads.SERVICES, get_batch_key(stage), news, started_at=begun)
    return wanted


def _get_waiting_stage(waiting: WaitingExecution) -> StageExecution | None:
    """Return the waiting stage, which has the connector, region and cluster of the batch.

    It may wait for another service than its own: a canary, one of a blue/green pair.
    """
    stages = StageExecution.objects.filter(execution=waiting.pk).exclude(ecs_service="")
    return stages.select_related("connector__secret").order_by("position").last()


DISPATCH_BACKOFF = timedelta(seconds=15)
MOST_ACTIVE_CLAIMS = 500
MOST_WAITING_CLAIMS = 5000
BATCH_SIZE = 50
DISPATCHER = "dispatcher"
PULSE_INTERVAL = timedelta(seconds=5)
_last_pulse: dict[str, datetime] = {}


@dataclass(frozen=True)
class ExecutionBatch:
    """Executions of one connector, region and cluster; `token` names the dispatch that claimed them."""

    execution_ids: tuple[UUID, ...]
    token: str = ""


@dataclass(frozen=True)
class _DueWait:
    """A waiting execution whose check is due."""

    pk: UUID
    batch_key: str
    rate_limit_key: str
    since: datetime
    check_at: datetime


def claim_due_batches(runtime: EngineRuntime = LIVE_RUNTIME) -> list[ExecutionBatch]:
    """Claim the due executions and return them in batches of one connector, region and cluster.

    A claim holds for fifteen seconds; that of a waiting execution holds until its next check. A lost message
    costs no more than that.
    """
    now = runtime.now()
    _write_pulse(now)
    token = uuid.uuid4().hex
    claimed = _claim_active(now, token) + _claim_waiting(now, token)
    groups: dict[str, list[UUID]] = defaultdict(list)
    for group, pk in claimed:
        groups[group].append(pk)
    return [
        ExecutionBatch(tuple(members), token)
        for group in groups.values()
        for members in split_batches(group, BATCH_SIZE)
    ]


def _write_pulse(now: datetime) -> None:
    """Note every few seconds that a dispatcher runs; `/readyz` allows for fifteen."""
    if abs(now - _last_pulse.get(DISPATCHER, datetime.min.replace(tzinfo=UTC))) < PULSE_INTERVAL:
        return
    Pulse.objects.update_or_create(name=DISPATCHER, defaults={"at": now})
    _last_pulse[DISPATCHER] = now


def reconcile_batch(group: ExecutionBatch, *, runtime: EngineRuntime = LIVE_RUNTIME) -> None:
    """Reconcile the executions of a batch for at most thirty seconds; the rest stays due."""
    began = runtime.monotonic()
    snapshot = ServiceSnapshot()
    waiting = list_waiting_executions(group.execution_ids)
    due_waits = {one.pk for one in waiting}
    # What a later message has taken over is in its hands.
    ours = [one for one in waiting if one.dispatch_token == group.token or not group.token]
    changed = find_changed(ours, runtime=runtime, snapshot=snapshot)
    awake = [pk for pk in group.execution_ids if pk not in due_waits]
    for execution_id in (*awake, *changed):
        if runtime.monotonic() - began >= PASS_SECONDS:
            return
        reconcile(execution_id, runtime=runtime, snapshot=snapshot)


def _filter_due(now: datetime) -> QuerySet[Execution]:
    return (
        Execution.objects.filter(due_at__lte=now)
        .filter(Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now))
        .filter(Q(dispatch_backoff_until__isnull=True) | Q(dispatch_backoff_until__lte=now))
    )


def _claim_active(now: datetime, token: str) -> list[tuple[str, UUID]]:
    due = (
        _filter_due(now)
        .filter(waits_for_service="")
        .order_by("due_at")
        .values_list("pk", flat=True)[:MOST_ACTIVE_CLAIMS]
    )
    return _claim(list(due), now, now + DISPATCH_BACKOFF, token)


def _claim_waiting(now: datetime, token: str) -> list[tuple[str, UUID]]:
    """Those who have waited longest first, as many as calls may be made for; the others stay due."""
    due = (
        _filter_due(now)
        .exclude(waits_for_service="")
        .order_by(F("dispatch_backoff_until").asc(nulls_first=True), "due_at")
    )
    fields = ("pk", "batch_key", "rate_limit_key", "waiting_since", "dispatch_backoff_until", "due_at")
    due_waits = [
        _DueWait(pk, group, of_quota, since, dispatch_backoff_until or due_at)
        for pk, group, of_quota, since, dispatch_backoff_until, due_at in due.values_list(*fields)[
            :MOST_WAITING_CLAIMS
        ]
    ]
    by_check_time: dict[datetime, list[UUID]] = defaultdict(list)
    for one in _apply_rate_limits(due_waits, now):
        by_check_time[get_next_check(now, one.since, one.batch_key)].append(one.pk)
    return [
        row for check_at, members in by_check_time.items() for row in _claim(members, now, check_at, token)
    ]


def _claim(pks: Sequence[UUID], now: datetime, until: datetime, token: str) -> list[tuple[str, UUID]]:
    """Claim in one UPDATE; another dispatcher may have been faster with some of them."""
    if not pks or not _filter_due(now).filter(pk__in=pks).update(
        dispatch_backoff_until=until, dispatch_token=token
    ):
        return []
    mine = Execution.objects.filter(pk__in=pks, dispatch_token=token)
    return list(mine.order_by("waits_for_service", "due_at").values_list("batch_key", "pk"))


def _apply_rate_limits(due_waits: Iterable[_DueWait], now: datetime) -> list[_DueWait]:
    """Of each account and region as many tens as it has tokens for."""
    batches: dict[str, list[list[_DueWait]]] = defaultdict(list)
    groups: dict[tuple[str, str], list[_DueWait]] = defaultdict(list)
    for one in due_waits:
        groups[one.rate_limit_key, one.batch_key].append(one)
    for (of_quota, _), members in groups.items():
        batches[of_quota] += split_batches(members, SERVICES_PER_CALL)
    chosen: list[_DueWait] = []
    for of_quota, calls in batches.items():
        calls.sort(key=lambda batch: batch[0].check_at)
        tokens = rate_limits.take_tokens(of_quota, rate_limits.SERVICE_READS, len(calls), now)
        chosen += [one for batch in calls[:tokens] for one in batch]
    return chosen
