"""Attempts of a run: the stages that a retry may begin at, and the results that it reuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from deployments.execution.planning.rollback_to_earlier import list_read_manifests
from deployments.execution.planning.stored_inputs import store_texts
from deployments.models import ActionRun, Execution, Interrupt, StageExecution
from steps.states import TERMINAL_STATUSES, ActionState, Status
from web.http.problems import BadInput, Conflict

MOST_ATTEMPTS = 100
# Statuses of a stage that need not run again.
_COMPLETED_STATUSES = (Status.SUCCESS, Status.IGNORE_FAILED, Status.SKIPPED)
_ENDINGS = {
    Status.FAILED: "failed",
    Status.ABORTED: "was aborted",
    Status.EXPIRED: "expired",
    Status.APPROVAL_REJECTED: "was rejected",
    Status.ROLLED_BACK: "was rolled back",
}
_LARGE_COLUMNS = ("reused_from__values", "reused_from__sources", "reused_from__execution__yaml")
# Values of the new attempt itself; all others are those of the previous one.
_OWN_VALUES = ("pipeline", "stage", "infra")


@dataclass(frozen=True)
class StageChoice:
    """Stage of an ended execution, and why a retry cannot begin at it; empty if it can."""

    stage: StageExecution
    obstacle: str


@dataclass(frozen=True)
class AttemptStart:
    """Start of the next attempt: the previous attempt, and the first stage to run.

    A whole attempt reads manifests and variables again, any other has those of the previous one.
    """

    previous: Execution
    position: int = 0
    is_whole: bool = True

    @property
    def idempotency_key(self) -> str:
        """Return the key of the attempt: a repeated request of the same user returns the same one."""
        place = "whole" if self.is_whole else self.position
        return f"attempt {self.previous.attempt + 1} of {self.previous.first_attempt_pk} from {place}"

    def choose_artifact(self, artifact: dict[str, Any]) -> dict[str, Any]:
        """Return the image of the previous attempt; `artifact` is used if no attempt has found its digest."""
        previous = self.previous.artifact
        return artifact if previous.get("source") and not previous.get("digest") else previous

    def find_previous_stage(self, stage: StageExecution) -> StageExecution | None:
        """Return the stage whose manifests and variables a stage has; None for a whole attempt."""
        if self.is_whole:
            return None
        rows = self.previous.stages.select_related("execution", "reused_from__execution")
        return rows.filter(identifier=stage.identifier).first()


def filter_attempts(execution: Execution) -> QuerySet[Execution]:
    """Return all attempts of the run of an execution, the first one first."""
    first = execution.first_attempt_pk
    return Execution.objects.filter(Q(pk=first) | Q(first_attempt=first)).order_by("attempt").defer("yaml")


def list_stage_choices(execution: Execution) -> list[StageChoice]:
    """Return the stages of an execution with the reasons why a retry cannot begin at some of them."""
    choices: list[StageChoice] = []
    obstacle = ""
    stages = execution.stages.select_related("reused_from__execution").order_by("position")
    for stage in stages.defer("values", "sources", *_LARGE_COLUMNS):
        choices.append(StageChoice(stage, obstacle))
        obstacle = obstacle or _describe_obstacle(stage)
    return choices


def find_failed_stage(choices: Sequence[StageChoice]) -> StageExecution | None:
    """Return the first stage that has not completed, where a retry begins by default."""
    return next((choice.stage for choice in choices if _describe_obstacle(choice.stage)), None)


def choose_start(execution: Execution, stage: str, *, whole: bool) -> AttemptStart:
    """Return the start of the next attempt: at a stage, by default the failed one, or at the beginning.

    Raises `BadInput` for a missing stage, `Conflict` for one that a retry cannot begin at.
    """
    if whole:
        return AttemptStart(execution)
    choices = list_stage_choices(execution)
    if not stage:
        failed = find_failed_stage(choices)
        if failed is None:
            raise _build_error("No stage of this execution failed.", "name a stage, or retry the whole run")
        return AttemptStart(execution, failed.position, is_whole=False)
    choice = next((choice for choice in choices if choice.stage.identifier == stage), None)
    if choice is None:
        raise _build_error("This stage does not exist.", "this execution does not have this stage")
    if choice.obstacle:
        raise Conflict(f"A retry cannot begin at stage {choice.stage.name}. {choice.obstacle}")
    return AttemptStart(execution, choice.stage.position, is_whole=False)


def require_no_later_attempt(execution: Execution) -> None:
    """Raise `Conflict` if an execution has a next attempt; the row must be locked."""
    if execution.next_attempt_id is not None:
        raise Conflict(f"Attempt {execution.attempt + 1} of this run has started. Retry the last attempt.")


def require_retryable(execution: Execution) -> None:
    """Raise `Conflict` unless a next attempt of a locked execution may start."""
    if not execution.is_over:
        raise Conflict(f"This execution has not ended ({execution.status}). Abort it first.")
    require_no_later_attempt(execution)
    if Interrupt.objects.filter(execution=execution, applied_at=None).exists():
        raise Conflict("A rollback or retry of this execution was requested and will be applied shortly.")
    if execution.attempt >= MOST_ATTEMPTS:
        raise Conflict(f"A run has {MOST_ATTEMPTS} attempts at most. Run the pipeline again.")


def copy_inputs(stage: StageExecution, previous: StageExecution) -> None:
    """Give a planned stage the variables of the previous attempt, before its steps are planned."""
    own_values = {name: stage.values[name] for name in _OWN_VALUES if name in stage.values}
    stage.values = {**stage.values, **previous.values, **own_values}


def copy_sources(stage: StageExecution, previous: StageExecution) -> None:
    """Give a saved stage the manifests of the previous attempt, with the texts that it has read."""
    stage.sources = store_texts(stage, previous.sources)
    stage.save(update_fields=["sources"])


def list_own_manifests(previous: StageExecution) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the manifests that steps of the previous attempt have read, by step and by field of its spec."""
    return {step.identifier: list_read_manifests(step) for step in previous.steps.all()}


def reuse_results(stage: StageExecution, previous: StageExecution) -> None:
    """Skip a planned stage, and give its steps the outputs of the previous attempt."""
    origin = previous.reused_from or (None if previous.status == Status.SKIPPED else previous)
    reason = f"because execution {origin.execution.number} completed it" if origin else previous.skip_reason
    stage.status, stage.skip_reason, stage.reused_from = Status.SKIPPED, reason, origin
    stage.save(update_fields=["status", "skip_reason", "reused_from"])
    previous_steps = {step.identifier: step for step in previous.steps.all()}
    for step in stage.steps.all():
        if previous_step := previous_steps.get(step.identifier):
            step.outputs, step.secret_outputs = previous_step.outputs, previous_step.secret_outputs
        step.status, step.skip_reason = Status.SKIPPED, reason
        step.save(update_fields=["outputs", "secret_outputs", "status", "skip_reason"])
    stage.groups.update(status=Status.SKIPPED)
    ActionRun.objects.filter(step__stage=stage).update(state=ActionState.SKIPPED)


def _describe_obstacle(stage: StageExecution) -> str:
    """Return why the results of a stage cannot be reused; empty if they can."""
    if stage.status not in _COMPLETED_STATUSES:
        return f"Stage {stage.name} before it {_ENDINGS.get(Status(stage.status), 'has not ended')}."
    origin = stage.reused_from
    if origin is not None and origin.status not in _COMPLETED_STATUSES:
        change = "was rolled back" if origin.status in TERMINAL_STATUSES else "is being changed"
        return f"Stage {stage.name} before it {change} in execution {origin.execution.number}."
    return ""


def _build_error(summary: str, message: str) -> BadInput:
    return BadInput(summary, errors=[{"path": "stage", "message": message}])
