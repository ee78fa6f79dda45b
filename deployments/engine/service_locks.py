"""Service locks: one execution at a time changes an ECS service, others queue in order."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from deployments.engine.lease import wake_execution
from deployments.engine.reconcile_context import (
    ReconcileContext,
    append_log,
    append_notes,
    build_lock_key,
    update_execution_status,
)
from deployments.execution.queries import find_later_success, list_earlier_claims, list_waiting_claims
from deployments.journal.engine_signals import ServiceLockRequired
from deployments.models import ServiceLock, ServiceLockClaim, StageExecution, StepExecution
from steps.actions.base import ActionFailed
from steps.states import TERMINAL_STATUSES, Status

LOCK_RETRY_INTERVAL = timedelta(seconds=15)
PARALLEL_CHANGE, DEADLOCK = "SERVICE_CHANGED_BESIDE", "SERVICES_CROSSED"


def request_lock(
    reconcile_context: ReconcileContext, step: StepExecution, requirement: ServiceLockRequired, account: str
) -> None:
    """Claim the lock of an ECS service for this step; the stage's first call determines the account.

    Raises `ActionFailed` if a step in a parallel branch changes the same service.
    """
    stage, name = reconcile_context.stage, requirement.ecs_service
    stage.account = account
    key = build_lock_key(stage, name)
    _refuse_parallel_change(reconcile_context, step, key, name)
    # Of several locks of the first step, the last one is that of the service it names.
    is_first = all(claim.step_id == step.pk for claim in reconcile_context.claims)
    if requirement.is_main or is_first or not stage.ecs_service:
        stage.ecs_service = name
    now = reconcile_context.runtime.now()
    reconcile_context.change(stage, account=stage.account, ecs_service=stage.ecs_service)
    with reconcile_context.commit():
        # A lock that the stage holds for an earlier step counts for this one too.
        is_held = ServiceLock.objects.filter(key=key, stage=stage).exists()
        claim = ServiceLockClaim(stage=stage, step=step, key=key, ecs_service=name, requested_at=now)
        claim.granted_at = now if is_held else None
        ServiceLockClaim.objects.bulk_create([claim], ignore_conflicts=True)
    reconcile_context.reload_claims()


def is_waiting_for_lock(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Return whether this step waits for a service lock."""
    return any(claim.step_id == step.pk for claim in reconcile_context.waiting_claims)


def acquire_lock(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Acquire the locks of this step if they are free and nobody claimed them earlier.

    Raises `ActionFailed` for the later one of two executions in a deadlock.
    """
    claims = [claim for claim in reconcile_context.waiting_claims if claim.step_id == step.pk]
    has_another = len(reconcile_context.claims) > len(reconcile_context.waiting_claims)
    with reconcile_context.commit():
        is_acquired = _acquire_all(reconcile_context, claims, has_another=has_another)
        _update_stage_status(reconcile_context)
        if is_acquired:
            _restart_timeouts(reconcile_context, [step])
            _note_later_execution(reconcile_context, step, claims)
    if not is_acquired and has_another:
        for claim in claims:
            _refuse_deadlock(reconcile_context, claim)
    return is_acquired


def reacquire_locks(reconcile_context: ReconcileContext) -> bool:
    """Reacquire all locks of a reopened stage at once; return False while others hold them.

    Claims of ended steps, or of a stage that rolls back, are deleted first.
    """
    if obsolete := [
        claim.pk for claim in reconcile_context.waiting_claims if _is_obsolete(reconcile_context, claim)
    ]:
        with reconcile_context.commit():
            ServiceLockClaim.objects.filter(pk__in=obsolete).delete()
        reconcile_context.reload_claims()
    lost = [claim for claim in reconcile_context.waiting_claims if claim.granted_at is not None]
    if not lost:
        return True
    with reconcile_context.commit():
        is_acquired = _acquire_all(reconcile_context, lost, has_another=False)
        _update_stage_status(reconcile_context)
        if is_acquired:
            _restart_timeouts(
                reconcile_context, reconcile_context.rows.list_stage_steps(reconcile_context.stage)
            )
    return is_acquired


def release_locks(reconcile_context: ReconcileContext) -> None:
    """Release the locks and wake the next execution; inside the commit that ends the stage or rollback."""
    stage = reconcile_context.stage
    locks = ServiceLock.objects.filter(stage=stage)
    keys = list(locks.order_by("key").values_list("key", flat=True))
    locks.delete()
    reconcile_context.reload_claims()
    for key in keys:
        waiting = (
            ServiceLockClaim.objects.filter(key=key)
            .exclude(stage=stage)
            .exclude(stage__status__in=TERMINAL_STATUSES)
        )
        first = waiting.order_by("requested_at", "pk").values_list("stage__execution", flat=True).first()
        if first is not None:
            wake_execution(first, reconcile_context.runtime.now())


def _is_obsolete(reconcile_context: ReconcileContext, claim: ServiceLockClaim) -> bool:
    if claim.granted_at is not None:
        return False
    is_winding_down = reconcile_context.execution.rolling_back or bool(
        reconcile_context.execution.final_status
    )
    return is_winding_down or claim.step.status in TERMINAL_STATUSES


def _acquire_all(
    reconcile_context: ReconcileContext, claims: Sequence[ServiceLockClaim], *, has_another: bool
) -> bool:
    """Acquire all of these locks or none; inside a commit.

    A stage that holds another lock skips the queue, because queued stages could wait for it in turn.
    """
    if not has_another and any(list_earlier_claims(claim).exists() for claim in claims):
        return False
    now, stage = reconcile_context.runtime.now(), reconcile_context.stage
    keys = sorted({claim.key for claim in claims})
    ServiceLock.objects.bulk_create(
        [ServiceLock(key=key, stage=stage, acquired_at=now) for key in keys], ignore_conflicts=True
    )
    acquired = ServiceLock.objects.filter(key__in=keys, stage=stage)
    if acquired.count() < len(keys):
        acquired.delete()
        return False
    granted = ServiceLockClaim.objects.filter(pk__in=[claim.pk for claim in claims])
    if reconcile_context.execution.rolling_back:
        # A rollback is no newer deployment.
        granted = granted.filter(granted_at=None)
    granted.update(granted_at=now)
    reconcile_context.reload_claims()
    return True


def _update_stage_status(reconcile_context: ReconcileContext) -> None:
    """Set the stage to QUEUED if all its open steps wait for locks; inside a commit."""
    waiting = {claim.step_id for claim in reconcile_context.waiting_claims}
    has_lost = any(claim.granted_at for claim in reconcile_context.waiting_claims)
    steps = reconcile_context.rows.list_stage_steps(reconcile_context.stage)
    open_step_ids = {
        step.pk for step in steps if step.started_at is not None and step.status not in TERMINAL_STATUSES
    }
    is_queued = has_lost or waiting >= open_step_ids
    status = Status.QUEUED if is_queued and waiting else Status.RUNNING
    if reconcile_context.stage.status != status:
        reconcile_context.change(reconcile_context.stage, status=status)
    if status == Status.RUNNING:
        update_execution_status(reconcile_context)
    elif reconcile_context.execution.status != status and not reconcile_context.execution.rolling_back:
        reconcile_context.change(reconcile_context.execution, status=status)


def _note_later_execution(
    reconcile_context: ReconcileContext, step: StepExecution, claims: Sequence[ServiceLockClaim]
) -> None:
    """Note that a later execution was faster: it deploys what this one replaces now; inside a commit."""
    execution = reconcile_context.execution
    later = find_later_success(claims, execution)
    if later is None:
        return
    # The reader may not view another pipeline.
    is_same = later.pipeline_id == execution.pipeline_id
    name = f"Execution {later.number}" if is_same else "An execution of another pipeline"
    services = ", ".join(sorted({claim.ecs_service for claim in claims}))
    text = f"{name} was started later and has deployed Service {services} already. This one replaces that."
    append_log(reconcile_context, step, text, "warning")
    append_notes(reconcile_context, step, [text])


def _restart_timeouts(reconcile_context: ReconcileContext, steps: Iterable[StepExecution]) -> None:
    """Restart the timeouts: time spent in the queue does not count."""
    now = reconcile_context.runtime.now()
    for step in steps:
        if step.status in (Status.RUNNING, Status.ASYNC_WAITING):
            reconcile_context.change(step, timeout_at=now + timedelta(seconds=step.timeout_seconds))


def _refuse_parallel_change(
    reconcile_context: ReconcileContext, step: StepExecution, key: str, ecs_service: str
) -> None:
    """Refuse a change of the same service in parallel branches: the order of undos would be undefined (rule
    16).
    """
    other_steps = [
        claim.step for claim in reconcile_context.claims if claim.key == key and claim.step_id != step.pk
    ]
    if not other_steps:
        return
    flow = reconcile_context.rows.build_flow(reconcile_context.stage)
    other = next((candidate for candidate in other_steps if flow.is_parallel(step, candidate)), None)
    if other is not None:
        raise build_parallel_conflict(step, other, ecs_service)


def build_parallel_conflict(step: StepExecution, other: StepExecution, ecs_service: str) -> ActionFailed:
    """Return the failure for two parallel branches that change one ECS service."""
    return ActionFailed(
        PARALLEL_CHANGE,
        f"Step {other.name} changes Service {ecs_service} too, in a branch beside this one. Let "
        f"{other.identifier} and {step.identifier} run one after the other.",
    )


def _refuse_deadlock(reconcile_context: ReconcileContext, claim: ServiceLockClaim) -> None:
    """Refuse the latest claim of a deadlock."""
    cycle = _find_deadlock(claim)
    if cycle and max((cycle_claim.requested_at, cycle_claim.pk) for cycle_claim in cycle) == (
        claim.requested_at,
        claim.pk,
    ):
        other = StageExecution.objects.select_related("execution").get(locks__key=claim.key)
        raise ActionFailed(
            DEADLOCK,
            f"This step waits for Service {claim.ecs_service}, which execution #{other.execution.number} "
            "holds while that waits for a Service that this execution holds. It came later, so it gives way: "
            "run it again.",
        )


def _find_deadlock(claim: ServiceLockClaim) -> list[ServiceLockClaim]:
    """Return the cycle of claims that leads back to this stage; empty if there is none."""
    paths, visited = [[claim]], {claim.pk}
    while paths:
        path = paths.pop(0)
        holder = ServiceLock.objects.filter(key=path[-1].key).values_list("stage", flat=True).first()
        if holder == claim.stage_id:
            return path
        if holder is None:
            continue
        for next_claim in list_waiting_claims().filter(stage=holder):
            if next_claim.pk not in visited:
                visited.add(next_claim.pk)
                paths.append([*path, next_claim])
    return []
