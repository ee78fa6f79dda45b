"""A finished execution that is rolled back goes back stage by stage, the newest first; inside a commit."""

from django.db.models import F, QuerySet

from deployments.engine import slots
from deployments.engine.flow import flow_of
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.models import ActionRun, Execution, Interrupt, StageExecution, StepExecution
from steps.states import ActionState, Status

_ROLLBACK = StepExecution.Section.ROLLBACK
_ABOUT_ALL = (Interrupt.Kind.ROLL_BACK, Interrupt.Kind.RETRY)


def reopen(stage: StageExecution) -> None:
    """Let the rollback steps of a stage run, once more if they ran before."""
    stage.steps.filter(section=_ROLLBACK).update(
        status=Status.QUEUED, attempt=F("attempt") + 1, started_at=None, ended_at=None, skipped_because=""
    )
    flow = flow_of(stage, _ROLLBACK)
    around = {group.pk for step in flow.steps for group in flow.around(step)}
    stage.groups.filter(pk__in=around).update(status=Status.QUEUED, skipped_because="")


def had_ended_well(execution: Execution) -> bool:
    """Whether what is rolled back had ended well; an earlier rollback that failed changes nothing of that."""
    before = execution.status_before_rollback
    return before in (Status.SUCCESS, Status.IGNORE_FAILED) or (
        before in (Status.FAILED, Status.ROLLED_BACK) and execution.failure is None
    )


def is_all_undone(rows: QuerySet[ActionRun]) -> bool:
    """Whether something was put back, and nothing that was written was left."""
    is_left = rows.filter(state=ActionState.NOT_RESTORED).exists()
    return not is_left and bool(rows.filter(state=ActionState.UNDONE).exists())


def after_rollback(execution: Execution, rows: QuerySet[ActionRun]) -> str:
    """The status after a rollback of an execution, or of the stage whose actions these are.

    What had ended well is rolled back now, where that is so; what had failed stays so.
    """
    before = execution.status_before_rollback or Status.FAILED
    if not had_ended_well(execution):
        return before
    steps = StepExecution.objects.filter(stage__in=rows.values("step__stage"), section=_ROLLBACK)
    if rows.filter(state=ActionState.NOT_RESTORED).exists() or steps.filter(status=Status.FAILED).exists():
        return Status.FAILED
    return Status.ROLLED_BACK if is_all_undone(rows) else before


def go_further_back(shared: Shared) -> bool:
    """Close the stage that was rolled back and open the one before it; False if there is none to undo."""
    earlier = _stage_before(shared) if _is_about_all(shared) else None
    if earlier is None:
        return False
    rows = ActionRun.objects.filter(step__stage=shared.stage)
    shared.stage.status = after_rollback(shared.execution, rows)
    shared.stage.save(update_fields=["status"])
    slots.release(shared)
    reopen(earlier)
    earlier.status = Status.RUNNING
    earlier.save(update_fields=["status"])
    earlier.claims.update(wanted_at=shared.world.now())
    say(shared, earlier.steps.filter(section=_ROLLBACK).first(), f"Going back to stage {earlier.name}")
    return True


def _is_about_all(shared: Shared) -> bool:
    """Whether somebody asked for the whole execution; a stage that fails takes back itself alone."""
    asked = Interrupt.objects.filter(execution=shared.execution, step="", kind__in=_ABOUT_ALL)
    newest = asked.exclude(taken_at=None).order_by("-pk").first()
    return newest is not None and newest.kind == Interrupt.Kind.ROLL_BACK


def _stage_before(shared: Shared) -> StageExecution | None:
    before = shared.execution.stages.filter(position__lt=shared.stage.position, steps__section=_ROLLBACK)
    begun = before.filter(steps__started_at__isnull=False).distinct()
    found: StageExecution | None = begun.order_by("-position").first()
    return found
