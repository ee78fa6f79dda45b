"""Dispatch of due executions in batches that share one describe call per ten ECS services."""

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from aws.apis.ecs import SERVICES_PER_CALL, EcsClient
from aws.apis.ecs_types import EcsService
from aws.caller import split_batches
from aws.errors import AwsError
from delegates.access.aws_access import ConnectorUnavailable
from delegates.event_queues.coverage import (
    CoveredReads,
    find_coverages,
    list_receiving_coverages,
    record_silence,
)
from deployments.engine.event_wakes import build_covered_reads
from deployments.engine.reconcile import reconcile
from deployments.engine.reconcile_context import ServiceSnapshot
from deployments.engine.service_waits import (
    EARLY,
    NO_EVENTS,
    EventTimes,
    get_batch_key,
    get_next_check,
    get_rate_limit_key,
    hash_observed_state,
    is_through_delegate,
)
from deployments.journal import rate_limits, recent_reads
from deployments.journal.runtime import LIVE_RUNTIME, DirectAwsAccess, EngineRuntime
from deployments.models import Execution, Pulse, StageExecution
from steps.actions.context import ServiceObservation
from web.http.outages import is_interruption

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WaitingExecution:
    """Waiting execution with the columns that the check of its batch needs."""

    pk: UUID
    waits_for_service: str
    observed_state: str
    recheck_at: datetime | None
    dispatch_token: str
    waiting_since: datetime | None
    event_at: datetime | None
    batch_key: str


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
            "pk",
            "waits_for_service",
            "observed_state",
            "recheck_at",
            "dispatch_token",
            "waiting_since",
            "event_at",
            "batch_key",
        )
    ]


def list_changed_executions(
    waiting: Sequence[WaitingExecution], *, runtime: EngineRuntime, snapshot: ServiceSnapshot
) -> list[UUID]:
    """Return the executions whose ECS service has changed since the last pass.

    Nothing is written for the others: their next check is already scheduled.
    """
    if not waiting:
        return []
    all_ids = [execution.pk for execution in waiting]
    stage = _get_waiting_stage(waiting[0])
    if stage is None or any(execution.batch_key != waiting[0].batch_key for execution in waiting):
        return all_ids
    try:
        aws_access = snapshot.aws_access_pool.open(runtime, stage.connector, stage.region)
    except ConnectorUnavailable:
        return all_ids
    if hasattr(aws_access, "queue"):
        return all_ids
    try:
        return [
            pk
            for batch in split_batches(waiting, SERVICES_PER_CALL)
            for pk in _list_changed_in_cluster(batch, stage, aws_access, runtime=runtime, snapshot=snapshot)
        ]
    except Exception as error:
        if is_interruption(error):
            raise
        # Each pass reads by itself then, so that a response which nobody can read fails its execution only.
        logger.exception("The services of %s could not be read together", stage.cluster)
        return all_ids


def _list_changed_in_cluster(
    batch: Sequence[WaitingExecution],
    stage: StageExecution,
    aws_access: DirectAwsAccess,
    *,
    runtime: EngineRuntime,
    snapshot: ServiceSnapshot,
) -> list[UUID]:
    started_at = runtime.now()
    try:
        descriptions = EcsClient(aws_access).describe_raw_services(
            stage.cluster, [execution.waits_for_service for execution in batch]
        )
    except AwsError as error:
        # Each pass makes the call itself then, and logs the error.
        rate_limits.record_throttling(get_rate_limit_key(stage), error, runtime.now())
        return [execution.pk for execution in batch]
    rate_limits.record_success(get_rate_limit_key(stage), "ecs", "DescribeServices", runtime.now())
    services: dict[str, dict[str, Any]] = {
        service.get("serviceName", ""): service for service in descriptions
    }
    changed_ids: list[UUID] = []
    unannounced: list[datetime] = []
    published: dict[str, dict[str, Any] | None] = {}
    for execution in batch:
        raw = services.get(execution.waits_for_service)
        if (
            execution.observed_state == hash_observed_state(raw)
            and execution.recheck_at is not None
            and started_at < execution.recheck_at
        ):
            continue
        service = None if raw is None else EcsService.from_aws(raw)
        snapshot.add(
            execution.batch_key,
            execution.waits_for_service,
            ServiceObservation(execution.waits_for_service, service, started_at),
        )
        changed_ids.append(execution.pk)
        events = EventTimes(execution.event_at)
        if at := events.find_unannounced_change(service, started_at, since=execution.waiting_since):
            unannounced.append(at)
        published[execution.waits_for_service] = raw
    if unannounced:
        reads = build_covered_reads(get_batch_key(stage), get_rate_limit_key(stage), stage.scope.path)
        record_silence(reads, started_at, changed_at=max(unannounced))
    # Sync of the same cluster reuses these reads.
    recent_reads.publish_reads(recent_reads.SERVICES, get_batch_key(stage), published, started_at=started_at)
    return changed_ids


def _get_waiting_stage(waiting: WaitingExecution) -> StageExecution | None:
    """Return the last stage with the connector, region and cluster of the wait.

    Not the last stage of all: a rollback waits in an earlier one. None after a change of the connector.
    """
    stages = StageExecution.objects.filter(execution=waiting.pk).exclude(ecs_service="")
    newest_first = stages.select_related("connector__secret").order_by("-position")
    return next((stage for stage in newest_first if get_batch_key(stage) == waiting.batch_key), None)


DISPATCH_BACKOFF = timedelta(seconds=15)
MOST_ACTIVE_CLAIMS = 500
MOST_WAITING_CLAIMS = 5000
BATCH_SIZE = 50
# A pass takes up to half a minute, and Celery interrupts a batch after 45 seconds.
START_WITHIN_SECONDS = 10
DISPATCHER = "dispatcher"
PULSE_INTERVAL = timedelta(seconds=5)
_last_pulse: dict[str, datetime] = {}


@dataclass(frozen=True)
class ExecutionBatch:
    """Executions of one connector, region and cluster; `token` identifies the dispatch."""

    execution_ids: tuple[UUID, ...]
    token: str = ""


_WAIT_COLUMNS = (
    "pk",
    "batch_key",
    "rate_limit_key",
    "scope__path",
    "waiting_since",
    "observed_state",
    "recheck_at",
    "check_at",
    "event_at",
    "woken_at",
)


@dataclass(frozen=True)
class _DueWait:
    """A waiting execution whose check is due."""

    pk: UUID
    batch_key: str
    rate_limit_key: str
    scope_path: str
    since: datetime
    observed_state: str
    recheck_at: datetime | None
    check_at: datetime
    events: EventTimes

    def is_needless(self, now: datetime, queue_event_at: datetime) -> bool:
        """Return whether events replace this check; only that of a wait for a change."""
        is_due = self.recheck_at is None or now >= self.recheck_at
        return (
            self.is_for_change
            and not is_due
            and self.events.covers(self.check_at, now, since=self.since, queue_event_at=queue_event_at)
        )

    @property
    def is_for_change(self) -> bool:
        return self.observed_state != ""

    @property
    def reads(self) -> CoveredReads:
        return build_covered_reads(self.batch_key, self.rate_limit_key, self.scope_path)


def claim_due_batches(runtime: EngineRuntime = LIVE_RUNTIME) -> list[ExecutionBatch]:
    """Claim the due executions and return them in batches of one connector, region and cluster.

    A claim lasts fifteen seconds, for a waiting execution until its next check; a lost message delays an
    execution by no more.
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
    """Record every few seconds that a dispatcher runs; `/readyz` allows for fifteen."""
    if abs(now - _last_pulse.get(DISPATCHER, datetime.min.replace(tzinfo=UTC))) < PULSE_INTERVAL:
        return
    Pulse.objects.update_or_create(name=DISPATCHER, defaults={"at": now})
    _last_pulse[DISPATCHER] = now


def reconcile_batch(group: ExecutionBatch, *, runtime: EngineRuntime = LIVE_RUNTIME) -> None:
    """Reconcile the executions of a batch until a pass could reach the time limit; release the others."""
    started = runtime.monotonic()
    snapshot = ServiceSnapshot()
    waiting = list_waiting_executions(group.execution_ids)
    due_waits = {execution.pk for execution in waiting}
    # Executions with another token belong to a later message.
    own_executions = [
        execution for execution in waiting if execution.dispatch_token == group.token or not group.token
    ]
    changed = list_changed_executions(own_executions, runtime=runtime, snapshot=snapshot)
    active_ids = [pk for pk in group.execution_ids if pk not in due_waits]
    due_ids = [*active_ids, *changed]
    for number, execution_id in enumerate(due_ids):
        # The first pass always starts, however long the reads took, so that each batch makes progress.
        if number and runtime.monotonic() - started >= START_WITHIN_SECONDS:
            _release_claims(due_ids[number:], group.token)
            return
        reconcile(execution_id, runtime=runtime, snapshot=snapshot)


def _release_claims(pks: Sequence[UUID], token: str) -> None:
    """Let the next tick dispatch these executions again, unless that has happened already.

    Without their observed state, no event replaces the check that has found a change.
    """
    Execution.objects.filter(pk__in=pks, dispatch_token=token).update(
        dispatch_backoff_until=None, observed_state=""
    )


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
    """Claim the executions that have waited longest, within the rate limits; the others stay due."""
    due = (
        _filter_due(now)
        .exclude(waits_for_service="")
        .order_by(F("dispatch_backoff_until").asc(nulls_first=True), "due_at")
    )
    rows = due.annotate(check_at=Coalesce("dispatch_backoff_until", "due_at")).values_list(*_WAIT_COLUMNS)
    due_waits = [
        _DueWait(pk, group, key, path, since, observed_state, recheck_at, check_at, EventTimes(*events))
        for pk, group, key, path, since, observed_state, recheck_at, check_at, *events in rows[
            :MOST_WAITING_CLAIMS
        ]
    ]
    receiving = _find_last_events(due_waits, now)
    skipped = {
        due_wait.pk
        for due_wait in due_waits
        if due_wait.pk in receiving and due_wait.is_needless(now, receiving[due_wait.pk])
    }
    _skip([due_wait for due_wait in due_waits if due_wait.pk in skipped], now)
    by_check_time: dict[datetime, list[UUID]] = defaultdict(list)
    for due_wait in _apply_rate_limits([wait for wait in due_waits if wait.pk not in skipped], now):
        events = due_wait.events if due_wait.pk in receiving else NO_EVENTS
        check_at = get_next_check(
            now, due_wait.since, due_wait.batch_key, events, for_change=due_wait.is_for_change
        )
        by_check_time[check_at].append(due_wait.pk)
    return [
        row for check_at, members in by_check_time.items() for row in _claim(members, now, check_at, token)
    ]


def _skip(due_waits: Sequence[_DueWait], now: datetime) -> None:
    """Skip checks that events replace, unless somebody or an event woke the execution meanwhile."""
    by_check_time: dict[datetime, list[UUID]] = defaultdict(list)
    for due_wait in due_waits:
        check_at = get_next_check(now, due_wait.since, due_wait.batch_key, due_wait.events)
        by_check_time[check_at].append(due_wait.pk)
    is_asleep = Q(woken_at__isnull=True) | Q(woken_at__lte=now - EARLY)
    for check_at, members in by_check_time.items():
        waiting = _filter_due(now).filter(is_asleep, pk__in=members).exclude(waits_for_service="")
        waiting.update(dispatch_backoff_until=check_at)


def _find_last_events(due_waits: Sequence[_DueWait], now: datetime) -> dict[UUID, datetime]:
    """Return the last event of a queue by execution, for those whose events arrive.

    That takes two queries at most, one without event queues.
    """
    coverages = list_receiving_coverages(now) if due_waits else []
    if not coverages:
        return {}
    found = find_coverages([due_wait.reads for due_wait in due_waits], coverages)
    last = {reads: max(item.last_event_at or now for item in items) for reads, items in found.items()}
    return {due_wait.pk: last[due_wait.reads] for due_wait in due_waits if due_wait.reads in last}


def _claim(pks: Sequence[UUID], now: datetime, until: datetime, token: str) -> list[tuple[str, UUID]]:
    """Claim in one UPDATE; another dispatcher may have claimed some of them already."""
    if not pks or not _filter_due(now).filter(pk__in=pks).update(
        dispatch_backoff_until=until, dispatch_token=token
    ):
        return []
    claimed = Execution.objects.filter(pk__in=pks, dispatch_token=token)
    return list(claimed.order_by("waits_for_service", "due_at").values_list("batch_key", "pk"))


def _apply_rate_limits(due_waits: Iterable[_DueWait], now: datetime) -> list[_DueWait]:
    """Return as many batches of ten of each account and region as it has tokens.

    Calls through delegates take their tokens themselves.
    """
    batches: dict[str, list[list[_DueWait]]] = defaultdict(list)
    groups: dict[tuple[str, str], list[_DueWait]] = defaultdict(list)
    chosen: list[_DueWait] = []
    for due_wait in due_waits:
        if is_through_delegate(due_wait.batch_key):
            chosen.append(due_wait)
        else:
            groups[due_wait.rate_limit_key, due_wait.batch_key].append(due_wait)
    for (rate_limit_key, _), members in groups.items():
        batches[rate_limit_key] += split_batches(members, SERVICES_PER_CALL)
    for rate_limit_key, calls in batches.items():
        calls.sort(key=lambda batch: batch[0].check_at)
        tokens = rate_limits.take_tokens(
            rate_limit_key, rate_limits.SERVICE_READS, len(calls), now, holder=DISPATCHER
        )
        chosen += [due_wait for batch in calls[:tokens] for due_wait in batch]
    return chosen
