"""Who waits for what: for an ECS service that another execution changes, for a delegate (rule 13)."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from deployments.models import Call, Execution, Slot, SlotClaim, StageExecution
from steps.states import TERMINAL, CallState

_SLOT_OF_CLAIM = Slot.objects.filter(key=OuterRef("key"), stage=OuterRef("stage"))


def ahead_of(claim: SlotClaim) -> QuerySet[SlotClaim]:
    """The claims of other stages that hold, or wait for, the same slot and came before this one."""
    others = SlotClaim.objects.filter(key=claim.key).exclude(stage=claim.stage_id)
    earlier = Q(wanted_at__lt=claim.wanted_at) | Q(wanted_at=claim.wanted_at, pk__lt=claim.pk)
    return others.exclude(stage__status__in=TERMINAL).filter(earlier)


def waiting_claims() -> QuerySet[SlotClaim]:
    """The claims of all stages that are not granted now, the oldest first."""
    return SlotClaim.objects.filter(~Exists(_SLOT_OF_CLAIM)).order_by("wanted_at", "pk")


def queue_of(execution: Execution, stages: list[StageExecution]) -> dict[str, Any] | None:
    """Where each step stands that waits for its ECS service, who waits longest at the top too (rule 13)."""
    if execution.is_over:
        return None
    open_stages = [stage for stage in stages if stage.status not in TERMINAL]
    claims = list(waiting_claims().filter(stage__in=open_stages).select_related("step"))
    if not claims:
        return None
    others = SlotClaim.objects.filter(key__in={one.key for one in claims})
    open_others = others.exclude(stage__status__in=TERMINAL).select_related("stage__execution")
    in_line = list(open_others.order_by("wanted_at", "pk"))
    places = [_place_in_line(claim, in_line) for claim in claims]
    return {**places[0], "steps": places}


def _place_in_line(claim: SlotClaim, in_line: Sequence[SlotClaim]) -> dict[str, Any]:
    """The place of one claim among those that want the same, as `ahead_of` counts them."""
    came = (claim.wanted_at, claim.pk)
    others = [one for one in in_line if one.key == claim.key and one.stage_id != claim.stage_id]
    earlier = [one for one in others if (one.wanted_at, one.pk) < came]
    return {
        "position": len({one.stage_id for one in earlier}),
        "waits_for": f"#{earlier[0].stage.execution.number}" if earlier else None,
        "ecs_service": claim.ecs_service,
        "step": claim.step.identifier,
    }


def waits_for_delegate(execution: Execution) -> dict[str, Any] | None:
    """Why the call that comes next is with no delegate yet, and what would help."""
    if execution.is_over:
        return None
    queued = Call.objects.filter(execution=execution, state=CallState.PLANNED, task__status="QUEUED")
    call = queued.filter(task__offered_to=None).exclude(task__reason="").select_related("task", "step").last()
    if call is None or call.task is None:
        return None
    return {
        "step": call.step.identifier,
        "selectors": call.task.selectors,
        "selectors_from": call.task.selectors_from or None,
        "reason": call.task.reason,
        "since": call.task.queued_at.isoformat(),
        "until": call.task.deadline.isoformat(),
        "task": str(call.task.pk),
    }
