"""Waiting firings, which one worker each turns into a run, or into the reason why there is none."""

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import Http404

from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.decisions import Decision, decide
from pipelines.triggers.runs import StartedRun, TriggeredRun, get_run_starter
from rbac.archive_guards import ScopeBusy
from rbac.models import Scope
from rbac.policy import build_not_archived_filter
from web.clock import get_database_time
from web.http.problems import Conflict, Problem, convert_exception

WAITING, STARTED, IGNORED, REFUSED = TriggerFiring.Status
# A worker that died within it has its firing taken up by another one.
CLAIM_DURATION: Final = timedelta(seconds=30)
MOST_ATTEMPTS: Final = 5
FIRINGS_PER_MESSAGE: Final = 20
# What a run by hand would be refused with.
EXPECTED_ERRORS: Final = (Problem, PermissionDenied, Http404, ScopeBusy, ValidationError)


def has_due_firings(now: datetime) -> bool:
    """Return whether a firing waits for a worker."""
    return TriggerFiring.objects.filter(status=WAITING, due_at__lte=now).exists()


def list_due_firings(now: datetime) -> list[uuid.UUID]:
    """Return the keys of waiting firings, oldest first, as many as one message handles."""
    due = TriggerFiring.objects.filter(status=WAITING, due_at__lte=now).order_by("due_at", "received_at")
    return list(due.values_list("pk", flat=True)[:FIRINGS_PER_MESSAGE])


def process_firing(pk: uuid.UUID, now: datetime) -> bool:
    """Turn a firing into a run, or into the reason why there is none; False if another worker has it.

    The claim is committed first, so that what kills workers ends after a few attempts.
    """
    free = TriggerFiring.objects.filter(pk=pk, status=WAITING, due_at__lte=now)
    if not free.update(due_at=now + CLAIM_DURATION, attempts=F("attempts") + 1):
        return False
    firing = _list_firings().get(pk=pk)
    if firing.attempts > MOST_ATTEMPTS:
        _end(firing, REFUSED, f"Slipway could not finish it in {MOST_ATTEMPTS} attempts.", now)
        return True
    decision = decide(firing.trigger, firing.values, firing.payload)
    status, reason = _judge(firing.trigger, decision)
    if status != STARTED:
        _end(firing, status, reason, now, decision=decision.to_json())
        return True
    try:
        # The run and the end of its firing are one commit: a death before it leaves neither.
        with transaction.atomic():
            key = f"trigger:{firing.pk}"
            run = build_run(firing.trigger, decision, firing.summary, firing.values, key)
            started = get_run_starter().start(run)
            _end(firing, STARTED, "", now, run=started, decision=decision.to_json())
    except EXPECTED_ERRORS as refused:
        _end(firing, REFUSED, describe_refusal(refused), now, decision=decision.to_json())
    return True


def build_run(
    trigger: Trigger, decision: Decision, summary: str, event_values: Mapping[str, Any], key: str = ""
) -> TriggeredRun:
    """Return the run of a decision about an event; that of a trial has no key."""
    account = trigger.service_account
    if account is None:
        raise Conflict("The service account of the trigger was deleted. Choose another one.")
    values = event_values if event_values.get("tag") == decision.tag else {}
    return TriggeredRun(
        actor=account.user,
        pipeline=trigger.pipeline,
        tag=decision.tag,
        inputs=decision.inputs,
        key=key,
        cause=f"{trigger.name}: {summary}"[:255],
        repository=str(values.get("repository") or ""),
        digest=str(values.get("digest") or ""),
    )


def describe_refusal(error: Exception) -> str:
    """Return the reason of a refused run as a text."""
    if isinstance(error, Http404):
        return f"{error} The service account needs access to the pipeline."
    content = convert_exception(error) or {"detail": str(error)}
    detail = str(content["detail"])
    details = [
        f"{item['path']}: {item['message']}" if item.get("path") else str(item["message"])
        for item in content.get("errors", ())
        # That of a missing permission is its name, which the detail has.
        if item.get("path") or item["message"] not in detail
    ]
    return f"{detail} ({'; '.join(details)})" if details else detail


def record_crash(pk: uuid.UUID, error: Exception) -> None:
    """End a firing that a bug prevents from being handled."""
    reason = f"Slipway failed with an internal error ({type(error).__name__}). Report it, then redeliver."
    waiting = TriggerFiring.objects.filter(pk=pk, status=WAITING)
    waiting.update(status=REFUSED, reason=reason, ended_at=get_database_time())


def hold_waiting_firings(reason: str, now: datetime) -> int:
    """Refuse all waiting firings with a reason, and return their number; people may redeliver them."""
    waiting = TriggerFiring.objects.filter(status=WAITING)
    return waiting.update(status=REFUSED, reason=reason, ended_at=now)


def find_last_firings(triggers: Collection[Trigger]) -> dict[int, TriggerFiring]:
    """Return the newest firing of each trigger by the trigger's key; two queries."""
    newest = TriggerFiring.objects.filter(trigger=OuterRef("pk")).order_by("-received_at", "-pk")
    rows = Trigger.objects.filter(pk__in=[trigger.pk for trigger in triggers])
    keys = rows.annotate(last=Subquery(newest.values("pk")[:1])).values_list("last", flat=True)
    firings = TriggerFiring.objects.filter(pk__in=list(keys)).defer("payload", "values", "decision")
    return {firing.trigger_id: firing for firing in firings}


def _list_firings() -> "QuerySet[TriggerFiring]":
    return TriggerFiring.objects.select_related(
        "trigger__pipeline__scope", "trigger__service_account__user"
    ).defer("trigger__secret")


def _judge(trigger: Trigger, decision: Decision) -> tuple[str, str]:
    """Return the status that a decision leads to, and its reason."""
    if not trigger.is_enabled:
        return IGNORED, "The trigger is disabled."
    if trigger.pipeline.deleted_at is not None:
        return REFUSED, "The pipeline was deleted."
    if not Scope.objects.filter(build_not_archived_filter(), pk=trigger.pipeline.scope_id).exists():
        return REFUSED, f"{trigger.pipeline.scope.path} is archived."
    if check := decision.failed_check:
        return IGNORED, f"{check.text}: {check.reason}"
    return (REFUSED, decision.refusal) if decision.refusal else (STARTED, "")


def _end(
    firing: TriggerFiring,
    status: str,
    reason: str,
    now: datetime,
    *,
    run: StartedRun | None = None,
    decision: dict[str, Any] | None = None,
) -> None:
    """Set what came of a firing, unless another worker has."""
    values: dict[str, Any] = {"status": status, "reason": reason, "ended_at": now}
    if run is not None:
        values |= {"execution_id": run.execution_id, "execution_number": run.number}
    waiting = TriggerFiring.objects.filter(pk=firing.pk, status=WAITING)
    waiting.update(**values, decision=decision or {})
