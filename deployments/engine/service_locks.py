"""Service locks: one execution at a time changes an ECS service, others queue in order."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from deployments.engine.lease import wake_execution
from deployments.engine.reconcile_context import ReconcileContext, build_lock_key, update_execution_status
from deployments.execution.queries import list_earlier_claims, list_waiting_claims
from deployments.journal.engine_signals import ServiceLockRequired
from deployments.models import ServiceLock, ServiceLockClaim, StageExecution, StepExecution
from steps.actions.base import ActionFailed
from steps.states import TERMINAL_STATUSES, Status

LOCK_RETRY_INTERVAL = timedelta(seconds=15)
BESIDE, CROSSED = "SERVICE_CHANGED_BESIDE", "SERVICES_CROSSED"


def request_lock(
    reconcile_context: ReconcileContext, step: StepExecution, wanted: ServiceLockRequired, account: str
) -> None:
    """Name the ECS service that this step must hold; the account is pinned by the stage's first call.

    Raises `ActionFailed` where a step in a branch beside this one changes the same.
    """
    stage, name = reconcile_context.stage, wanted.ecs_service
    stage.account = account
    key = build_lock_key(stage, name)
    _refuse_parallel_change(reconcile_context, step, key, name)
    if wanted.is_main or not stage.ecs_service:
        stage.ecs_service = name
    now = reconcile_context.runtime.now()
    reconcile_context.change(stage, account=stage.account, ecs_service=stage.ecs_service)
    with reconcile_context.commit():
        # What the stage holds already, for an earlier step, this one has too.
        has_it = ServiceLock.objects.filter(key=key, stage=stage).exists()
        claim = ServiceLockClaim(stage=stage, step=step, key=key, ecs_service=name, requested_at=now)
        claim.granted_at = now if has_it else None
        ServiceLockClaim.objects.bulk_create([claim], ignore_conflicts=True)
    reconcile_context.forget_claims()


def is_waiting_for_lock(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Return whether this step wants to change an ECS service that its stage does not hold yet."""
    return any(claim.step_id == step.pk for claim in reconcile_context.waiting)


def acquire_lock(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Take what this step waits for, if it is free and nobody came earlier.

    Raises `ActionFailed` where two executions would wait for each other for ever, and this one came later.
    """
    wanted = [claim for claim in reconcile_context.waiting if claim.step_id == step.pk]
    has_another = len(reconcile_context.claims) > len(reconcile_context.waiting)
    with reconcile_context.commit():
        taken = _acquire_all(reconcile_context, wanted, has_another=has_another)
        _update_stage_status(reconcile_context)
        if taken:
            _restart_timeouts(reconcile_context, [step])
    if not taken and has_another:
        for claim in wanted:
            _refuse_deadlock(reconcile_context, claim)
    return taken


def reacquire_locks(reconcile_context: ReconcileContext) -> bool:
    """Hold again, all at once, what a stage had that goes on after its end; False while others have it.

    What was wanted by steps that are over, or by a stage that turns round, is not wanted any more.
    """
    if needless := [
        claim.pk for claim in reconcile_context.waiting if _is_needless(reconcile_context, claim)
    ]:
        with reconcile_context.commit():
            ServiceLockClaim.objects.filter(pk__in=needless).delete()
        reconcile_context.forget_claims()
    lost = [claim for claim in reconcile_context.waiting if claim.granted_at is not None]
    if not lost:
        return True
    with reconcile_context.commit():
        taken = _acquire_all(reconcile_context, lost, has_another=False)
        _update_stage_status(reconcile_context)
        if taken:
            _restart_timeouts(reconcile_context, reconcile_context.rows.steps_in(reconcile_context.stage))
    return taken


def release_locks(reconcile_context: ReconcileContext) -> None:
    """Give the slots back and wake whoever waits; inside the commit that ends the stage or its rollback."""
    stage = reconcile_context.stage
    held = ServiceLock.objects.filter(stage=stage)
    keys = list(held.order_by("key").values_list("key", flat=True))
    held.delete()
    reconcile_context.forget_claims()
    for key in keys:
        waiting = (
            ServiceLockClaim.objects.filter(key=key)
            .exclude(stage=stage)
            .exclude(stage__status__in=TERMINAL_STATUSES)
        )
        first = waiting.order_by("requested_at", "pk").values_list("stage__execution", flat=True).first()
        if first is not None:
            wake_execution(first, reconcile_context.runtime.now())


def _is_needless(reconcile_context: ReconcileContext, claim: ServiceLockClaim) -> bool:
    if claim.granted_at is not None:
        return False
    is_winding_down = reconcile_context.execution.rolling_back or bool(
        reconcile_context.execution.final_status
    )
    return is_winding_down or claim.step.status in TERMINAL_STATUSES


def _acquire_all(
    reconcile_context: ReconcileContext, claims: Sequence[ServiceLockClaim], *, has_another: bool
) -> bool:
    """Take all of these slots or none; inside a commit.

    Who has another slot already waits for those who hold the wanted one, and not in line behind those who
    have nothing: they might wait for it in turn.
    """
    if not has_another and any(list_earlier_claims(claim).exists() for claim in claims):
        return False
    now, stage = reconcile_context.runtime.now(), reconcile_context.stage
    keys = sorted({claim.key for claim in claims})
    ServiceLock.objects.bulk_create(
        [ServiceLock(key=key, stage=stage, acquired_at=now) for key in keys], ignore_conflicts=True
    )
    mine = ServiceLock.objects.filter(key__in=keys, stage=stage)
    if mine.count() < len(keys):
        mine.delete()
        return False
    ServiceLockClaim.objects.filter(pk__in=[claim.pk for claim in claims], granted_at=None).update(
        granted_at=now
    )
    reconcile_context.forget_claims()
    return True


def _update_stage_status(reconcile_context: ReconcileContext) -> None:
    """A stage all of whose open steps wait for their ECS services is QUEUED; inside a commit."""
    waiting = {claim.step_id for claim in reconcile_context.waiting}
    has_lost = any(claim.granted_at for claim in reconcile_context.waiting)
    steps = reconcile_context.rows.steps_in(reconcile_context.stage)
    begun = {
        step.pk for step in steps if step.started_at is not None and step.status not in TERMINAL_STATUSES
    }
    is_queued = has_lost or waiting >= begun
    status = Status.QUEUED if is_queued and waiting else Status.RUNNING
    if reconcile_context.stage.status != status:
        reconcile_context.change(reconcile_context.stage, status=status)
    if status == Status.RUNNING:
        update_execution_status(reconcile_context)
    elif reconcile_context.execution.status != status and not reconcile_context.execution.rolling_back:
        reconcile_context.change(reconcile_context.execution, status=status)


def _restart_timeouts(reconcile_context: ReconcileContext, steps: Iterable[StepExecution]) -> None:
    """Time spent in the queue does not count towards a step's time-out."""
    now = reconcile_context.runtime.now()
    for step in steps:
        if step.status in (Status.RUNNING, Status.ASYNC_WAITING):
            reconcile_context.change(step, timeout_at=now + timedelta(seconds=step.timeout_seconds))


def _refuse_parallel_change(
    reconcile_context: ReconcileContext, step: StepExecution, key: str, ecs_service: str
) -> None:
    """Refuse what would let the order of the undos differ from the order of the steps (rule 16)."""
    same = [claim.step for claim in reconcile_context.claims if claim.key == key and claim.step_id != step.pk]
    if not same:
        return
    flow = reconcile_context.rows.flow_of(reconcile_context.stage)
    other = next((one for one in same if flow.is_beside(step, one)), None)
    if other is not None:
        raise describe_parallel_conflict(step, other, ecs_service)


def describe_parallel_conflict(step: StepExecution, other: StepExecution, ecs_service: str) -> ActionFailed:
    """What is said of two branches that turn out to change one ECS service."""
    return ActionFailed(
        BESIDE,
        f"Step {other.name} changes Service {ecs_service} too, in a branch beside this one. Let "
        f"{other.identifier} and {step.identifier} run one after the other.",
    )


def _refuse_deadlock(reconcile_context: ReconcileContext, claim: ServiceLockClaim) -> None:
    """Refuse the latest of those that wait for each other, each holding what another wants."""
    found = _find_deadlock(claim)
    if found and max((one.requested_at, one.pk) for one in found) == (claim.requested_at, claim.pk):
        other = StageExecution.objects.select_related("execution").get(locks__key=claim.key)
        raise ActionFailed(
            CROSSED,
            f"This step waits for Service {claim.ecs_service}, which execution #{other.execution.number} "
            "holds while that waits for a Service that this execution holds. It came later, so it gives way: "
            "run it again.",
        )


def _find_deadlock(claim: ServiceLockClaim) -> list[ServiceLockClaim]:
    """Return the claims along which a wait comes back to the stage of this one; none where it does not."""
    paths, seen = [[claim]], {claim.pk}
    while paths:
        path = paths.pop(0)
        holder = ServiceLock.objects.filter(key=path[-1].key).values_list("stage", flat=True).first()
        if holder == claim.stage_id:
            return path
        if holder is None:
            continue
        for one in list_waiting_claims().filter(stage=holder):
            if one.pk not in seen:
                seen.add(one.pk)
                paths.append([*path, one])
    return []
