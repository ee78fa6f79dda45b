"""Operations on executions, shared by pages, API and Celery tasks."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from connectors.required_access import require_access
from deployments.engine.lease import wake_execution
from deployments.engine.service_waits import get_batch_key
from deployments.execution.interventions import (
    RESTORE_DECISIONS,
    RESTORED,
    STOPPING_DECISIONS,
    TOO_LATE_MESSAGE,
    list_choices,
)
from deployments.execution.planning.attempts import (
    AttemptStart,
    choose_start,
    require_no_later_attempt,
    require_retryable,
)
from deployments.execution.planning.rows import CannotPlanError, resolve_artifact, write_plan
from deployments.execution.planning.run_requests import RunRequest, resolve_targets, validate_run
from deployments.execution.policy_checks import (
    RunSettings,
    build_warning_lines,
    require_retry_allowed,
    require_run_allowed,
)
from deployments.execution.queries import ROLLED_BACK_OUTCOMES, SUCCEEDED, has_kept_stage, has_written
from deployments.execution_access import needs_of_execution
from deployments.freezes import operations
from deployments.log import NewLogLine, store_lines
from deployments.models import Execution, Interrupt, ServiceLockClaim, StageExecution, StepExecution
from deployments.tasks import request_reconcile
from guards.tracing import capture_trace_context
from pipelines.definition.execution_outlines import build_outline
from pipelines.inputs import input_sets
from pipelines.models import Pipeline
from pipelines.operations.pipelines import parse_valid_pipeline, require_no_problems
from rbac.archive_guards import lock_scope
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from steps.states import RETRYABLE_STATUSES
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict
from web.live import publish_change_on_commit

logger = logging.getLogger(__name__)


class RunOutline:
    """What a run of a pipeline would have, from one look-up of its targets."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Look the targets up. Raises `BadInput` for a pipeline that cannot run."""
        self._scope = pipeline.scope
        self.targets = resolve_targets(parse_valid_pipeline(pipeline.yaml), pipeline.scope)

    def list_stages(self) -> list[dict[str, Any]]:
        """Return the stages, steps, units and actions."""
        return build_outline(self.targets)

    def get_default_artifact(self) -> dict[str, Any]:
        """Return the image and the default tag."""
        return resolve_artifact(self.targets, "", self._scope)


def get_default_artifact(pipeline: Pipeline) -> dict[str, Any]:
    """Return the image and the default tag of a run."""
    return RunOutline(pipeline).get_default_artifact()


def run_pipeline(  # noqa: PLR0913 - the settings of a run
    *,
    actor: User,
    pipeline: Pipeline,
    artifact_tag: str = "",
    inputs: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    replays: Execution | None = None,
    yaml: str = "",
    override_freeze: bool = False,
    input_set_names: Sequence[str] = (),
    force_new_deployment: bool | None = None,
    start: AttemptStart | None = None,
    cause: str = "",
    digest: str = "",
) -> Execution:
    """Start a run. The same idempotency key of the same user returns the existing run.

    `yaml` replaces the pipeline's own for generated clean-up runs.

    `input_set_names` names the input sets in `inputs`, for their usage count.

    `force_new_deployment` replaces tasks even without differences. None leaves it to the step, which replaces
    them and logs a note.

    `start` makes the run a further attempt of an ended one: it has the inputs and the image of that.

    `cause` is what started it without a person, such as a trigger and its event. `digest` pins the image of
    the tag, which is otherwise looked up as the run begins.

    A freeze window never blocks a rollback; `override_freeze` ignores the windows that the actor may
    override.

    Raises `RunFrozen` in such a window, `PipelineNotRunnable` for an invalid pipeline, `BadInput` for a wrong
    tag or input, `PolicyViolated` for policy rules that refuse the run; a rollback is only warned.
    """
    require(actor, "core_pipeline_execute", pipeline)
    if idempotency_key and (earlier := _find_idempotent_run(actor, pipeline, idempotency_key)):
        return earlier
    source = start.previous if start else replays
    text = yaml or (source.yaml if source else pipeline.yaml)
    values = {**source.inputs, **source.secret_input_values} if source else inputs or {}
    request = validate_run(
        actor=actor,
        pipeline=pipeline,
        yaml=text,
        artifact_tag=artifact_tag,
        inputs=values,
        is_replay=replays is not None or (start is not None and not start.is_whole),
        has_run=source is not None,
    )
    if digest:
        request = replace(request, artifact=request.artifact | {"digest": digest})
    first_stage = start.position if start else 0
    freeze_targets = [] if replays else operations.list_targets(request.targets[first_stage:])
    overridden = operations.check_freeze_override(
        actor, pipeline.scope, freeze_targets, override=override_freeze
    )
    attempt = start.previous.attempt + 1 if start else 1
    settings = RunSettings(actor, overridden, attempt, cause, is_rollback=replays is not None)
    warnings = require_run_allowed(pipeline, request, settings)
    try:
        with transaction.atomic():
            execution = _create_execution(actor, pipeline, request, text, idempotency_key, replays, start)
            version = None if yaml else execution.pipeline_version
            Execution.objects.filter(pk=execution.pk).update(
                pipeline_version=version, force_new_deployment=force_new_deployment, cause=cause
            )
            write_plan(execution, request.spec, request.targets, start)
            operations.record_override(actor, execution, overridden)
            store_lines(execution.pk, build_warning_lines(warnings))
            input_sets.record_use(pipeline, input_set_names)
            after = {"number": execution.number, "artifact": request.artifact, "inputs": request.inputs}
            after |= {"input_sets": list(input_set_names)} if input_set_names else {}
            after |= {"cause": cause} if cause else {}
            if force_new_deployment is not None:
                after["force_new_deployment"] = force_new_deployment
            if start:
                after |= {"attempt": execution.attempt, "retry_of": start.previous.number}
            record_audit_entry(actor=actor, action="pipeline.execute", thing=execution, after=after)
            transaction.on_commit(lambda: _begin(execution))
            publish_change_on_commit("executions", execution.pk)
    except CannotPlanError as cannot:
        require_no_problems(cannot.missing)
    except IntegrityError:
        if idempotency_key and (earlier := _find_idempotent_run(actor, pipeline, idempotency_key)):
            return earlier
        raise
    return execution


def abort_execution(*, actor: User, execution: Execution, roll_back: bool = False) -> None:
    """Request the abort of a running execution, with a rollback if `roll_back`."""
    require(actor, "core_pipeline_abort", execution)
    if execution.is_over:
        raise Conflict(f"This execution has already ended ({execution.status}).")
    if execution.rolling_back or execution.final_status:
        raise Conflict("This execution is already rolling back or ending. A rollback cannot be interrupted.")
    if roll_back:
        require_access(actor, needs_of_execution(execution, rolling_back=True))
    kind = Interrupt.Kind.ABORT_AND_ROLL_BACK if roll_back else Interrupt.Kind.ABORT
    _create_interrupt(actor, execution, kind)


def roll_back_execution(*, actor: User, execution: Execution) -> Execution:
    """Roll back to the version before this execution.

    A running execution is aborted and rolled back. A finished one is undone if it is the newest on its ECS
    service. An older one starts a new execution that deploys the version before it. Returns the execution to
    watch.
    """
    require(actor, "core_pipeline_execute", execution)
    if not execution.is_over:
        abort_execution(actor=actor, execution=execution, roll_back=True)
        return execution
    require_access(actor, needs_of_execution(execution, rolling_back=True))
    earlier = find_execution_to_deploy(execution)
    if earlier is None:
        _create_interrupt(actor, execution, Interrupt.Kind.ROLL_BACK)
        return execution
    return run_pipeline(
        actor=actor, pipeline=earlier.pipeline, artifact_tag=earlier.artifact.get("tag", ""), replays=earlier
    )


def find_execution_to_deploy(execution: Execution) -> Execution | None:
    """Return the earlier execution that a rollback of a finished one deploys; None if it undoes its changes.

    Raises `Conflict` if a rollback is not possible.
    """
    if execution.outcome in ROLLED_BACK_OUTCOMES and not has_kept_stage(execution):
        raise Conflict("This execution is already rolled back.")
    stages = [
        stage for stage in execution.stages.filter(claims__isnull=False).distinct() if has_written(stage)
    ]
    if not stages:
        raise Conflict("This execution changed nothing in AWS, so there is nothing to roll back.")
    if all(_is_newest(stage) for stage in stages):
        return None
    earlier = _find_earlier_success(stages[0])
    if earlier is None:
        raise Conflict(
            "Newer executions have deployed this ECS service, and no earlier execution succeeded. Run "
            "the pipeline with the tag to deploy."
        )
    return earlier


def start_attempt(
    *,
    actor: User,
    execution: Execution,
    stage: str = "",
    whole: bool = False,
    override_freeze: bool = False,
) -> Execution:
    """Start the next attempt of an ended execution: at its failed stage, at another stage, or as a whole.

    A repeated request returns the existing attempt.

    Raises `BadInput` for a missing stage, `Conflict` if it cannot start there or now, and as `run_pipeline`.
    """
    require(actor, "core_pipeline_execute", execution)
    with transaction.atomic():
        lock_scope(execution.scope_id)
        # A concurrent request waits here for the result.
        rows = Execution.objects.select_for_update(of=("self",)).select_related("pipeline__scope", "rerun_of")
        previous = rows.get(pk=execution.pk)
        start = choose_start(previous, stage, whole=whole)
        key = start.idempotency_key
        if previous.next_attempt_id and (earlier := _find_idempotent_run(actor, previous.pipeline, key)):
            return earlier
        require_retryable(previous)
        attempt = run_pipeline(
            actor=actor,
            pipeline=previous.pipeline,
            artifact_tag=previous.artifact.get("tag", ""),
            idempotency_key=key,
            replays=previous.rerun_of,
            yaml="" if previous.pipeline_version else previous.yaml,
            override_freeze=override_freeze,
            force_new_deployment=previous.force_new_deployment,
            start=start,
        )
        Execution.objects.filter(pk=previous.pk).update(next_attempt=attempt)
        _log_start(attempt, start, actor)
        publish_change_on_commit("executions", previous.pk)
    return attempt


def _log_start(attempt: Execution, start: AttemptStart, actor: User) -> None:
    """Write the start of an attempt into its log."""
    reused = attempt.stages.filter(position__lt=start.position).values_list("name", flat=True)
    text = (
        f"Attempt {attempt.attempt} of execution {start.previous.number}, started by {actor.get_username()}"
    )
    if reused:
        text += f"; not run again: stage {', '.join(reused)}"
    store_lines(attempt.pk, [NewLogLine(timezone.now(), None, "", "", "info", text)])


def retry_execution(*, actor: User, execution: Execution, override_freeze: bool = False) -> None:
    """Retry the failed step in the same execution; its earlier attempts stay in the log.

    Raises `RunFrozen` in a freeze window, except for a rollback; `override_freeze` ignores the windows that
    the actor may override. Raises `PolicyViolated` for policy rules that refuse it; these only warn of a
    rollback.
    """
    require(actor, "core_pipeline_execute", execution)
    if execution.status not in RETRYABLE_STATUSES:
        raise Conflict(
            f"Only failed executions can be retried. The status of this execution is {execution.status}."
        )
    require_access(actor, needs_of_execution(execution))
    freeze_targets = operations.list_retry_targets(execution)
    overridden = operations.check_freeze_override(
        actor, execution.scope, freeze_targets, override=override_freeze
    )
    warnings = require_retry_allowed(actor, execution, overridden)
    with transaction.atomic():
        _create_interrupt(actor, execution, Interrupt.Kind.RETRY)
        operations.record_override(actor, execution, overridden)
        store_lines(execution.pk, build_warning_lines(warnings))


def decide_step(*, actor: User, execution: Execution, step: str, decision: str) -> None:
    """Decide about a step that waits for a person, or skip one that only waits for AWS.

    `decision` is one of `Interrupt.Kind`. Raises `BadInput` for a missing step, `Conflict` for an impossible
    decision.
    """
    stops = decision in STOPPING_DECISIONS
    require(actor, "core_pipeline_abort" if stops else "core_pipeline_execute", execution)
    if decision not in (Interrupt.Kind.ABORT, Interrupt.Kind.END_UNCHANGED):
        back = decision == Interrupt.Kind.ROLL_BACK
        require_access(actor, needs_of_execution(execution, rolling_back=back))
    steps = StepExecution.objects.filter(stage__execution=execution, identifier=step)
    rows = list(steps.prefetch_related("actions"))
    if not rows:
        message = "this execution does not have this step"
        raise BadInput("This step does not exist.", errors=[{"path": "step", "message": message}])
    choices = next((choices for row in rows if (choices := list_choices(row))), ())
    if execution.is_over or decision not in choices:
        can = (
            (f"Possible decisions: {', '.join(choices)}.")
            if choices and not execution.is_over
            else TOO_LATE_MESSAGE
        )
        raise Conflict(f"{decision} is not possible for step {step} now. {can}")
    _create_interrupt(actor, execution, decision, step=step)


def end_restored_execution(*, actor: User, execution: Execution) -> None:
    """Decide that an execution of a restored database ends without changes. Raises `Conflict` if it has."""
    question = StepExecution.objects.filter(stage__execution=execution, intervention__kind=RESTORED).first()
    if question is None:
        raise Conflict(TOO_LATE_MESSAGE)
    end = Interrupt.Kind.END_UNCHANGED
    decide_step(actor=actor, execution=execution, step=question.identifier, decision=end)


def _create_interrupt(actor: User, execution: Execution, kind: str, *, step: str = "") -> None:
    with transaction.atomic():
        lock_scope(execution.scope_id)
        # A concurrent request waits here for the result.
        locked = Execution.objects.select_for_update().get(pk=execution.pk)
        if kind == Interrupt.Kind.RETRY and not step:
            require_no_later_attempt(locked)
        if locked.restored_at and kind not in RESTORE_DECISIONS:
            raise Conflict(
                "This execution comes from a restored backup. Decide first whether it goes on or ends."
            )
        if locked.details_deleted_at:
            raise Conflict(
                "The AWS calls of this execution were deleted, so it cannot continue. Run it again."
            )
        waits = ~Q(step="") if step else Q(kind=kind, step="")
        if Interrupt.objects.filter(waits, execution=execution, applied_at=None).exists():
            raise Conflict("This was already requested and will be applied shortly.")
        Interrupt.objects.create(execution=execution, kind=kind, by=actor, step=step)
        wake_execution(execution.pk, get_database_time())
        record_audit_entry(
            actor=actor,
            action=f"execution.{kind.lower()}",
            thing=execution,
            before={"status": execution.status},
            after={"step": step} if step else None,
        )
        transaction.on_commit(lambda: request_reconcile(execution.pk))


def _begin(execution: Execution) -> None:
    logger.info("Execution created", extra={"execution": execution.pk, "status": execution.status})
    request_reconcile(execution.pk)


def _find_idempotent_run(actor: User, pipeline: Pipeline, key: str) -> Execution | None:
    return Execution.objects.filter(pipeline=pipeline, started_by=actor, idempotency_key=key).first()


def _create_execution(
    actor: User,
    pipeline: Pipeline,
    request: RunRequest,
    text: str,
    key: str | None,
    replays: Execution | None,
    start: AttemptStart | None,
) -> Execution:
    lock_scope(pipeline.scope_id)
    # A rollback may restore the version of a pipeline that was deleted since.
    pipelines = Pipeline.with_deleted if replays and not start else Pipeline.objects
    if not pipelines.filter(pk=pipeline.pk).update(next_number=F("next_number") + 1):
        raise Conflict("This pipeline was deleted. Its executions cannot be run again.")
    number = pipelines.values_list("next_number", flat=True).get(pk=pipeline.pk) - 1
    source = start.previous if start else replays
    return Execution.objects.create(
        scope=pipeline.scope,
        pipeline=pipeline,
        number=number,
        attempt=start.previous.attempt + 1 if start else 1,
        first_attempt=start.previous.first_attempt_pk if start else None,
        pipeline_version=source.pipeline_version if source else pipeline.version,
        yaml=text,
        inputs=request.inputs,
        secret_inputs=json.dumps(request.secret_inputs) if request.secret_inputs else "",
        artifact=start.choose_artifact(request.artifact) if start else request.artifact,
        rerun_of=replays,
        started_by=actor,
        idempotency_key=key or None,
        trace_context=capture_trace_context(),
        # A server whose clock is ahead would let it wait until that time comes.
        due_at=get_database_time(),
        batch_key=get_batch_key(request.targets[start.position if start else 0].infrastructure),
    )


def _is_newest(stage: StageExecution) -> bool:
    """Return whether no other execution has deployed the same ECS service since (rule 14)."""
    return not _list_other_deployments(stage).filter(granted_at__gt=_get_deployment_time(stage)).exists()


def _find_earlier_success(stage: StageExecution) -> Execution | None:
    succeeded = Execution.objects.filter(SUCCEEDED).exclude(outcome="ROLLED_BACK")
    claims = _list_other_deployments(stage).filter(
        granted_at__lt=_get_deployment_time(stage), stage__execution__in=succeeded
    )
    newest = claims.select_related("stage__execution__pipeline__scope").order_by("-granted_at", "-pk").first()
    return newest.stage.execution if newest is not None else None


def _list_other_deployments(stage: StageExecution) -> QuerySet[ServiceLockClaim]:
    """Return the claims of other executions that have deployed one of the ECS services of a stage.

    They tell the order of the deployments: who waits for an approval deploys after those created later.
    """
    claims = ServiceLockClaim.objects.filter(key__in=stage.claims.values("key"), granted_at__isnull=False)
    return claims.exclude(stage__execution=stage.execution_id).exclude(stage__deployment_id="")


def _get_deployment_time(stage: StageExecution) -> datetime:
    """Return when a stage got its last service lock; without one, when its execution was created."""
    granted_at: datetime | None = stage.claims.aggregate(at=Max("granted_at"))["at"]
    return granted_at or stage.execution.created_at
