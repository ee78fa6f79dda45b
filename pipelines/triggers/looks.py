"""Looks at what triggers watch: one worker claims each, and one commit has its events and its findings."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.http import Http404

from pipelines.models import TriggerWatch
from pipelines.triggers.events import record_event
from pipelines.triggers.firings import EXPECTED_ERRORS, describe_refusal
from pipelines.triggers.queue_looks import look_at_queue
from pipelines.triggers.repository_looks import READING, look_at_repository
from pipelines.triggers.watches import WOKEN, Look
from rbac.models import User
from web.clock import get_database_time
from web.http.problems import Conflict

# Longer than a task may run.
CLAIM_DURATION: Final = timedelta(seconds=60)
# Until a delegate is expected to have answered.
ANSWER_CHECK: Final = timedelta(seconds=3)
WATCHES_PER_TICK: Final = 50
# At least, after a fault.
FAULT_PAUSE: Final = timedelta(seconds=60)
_LOOKS: Final[Mapping[str, Callable[[TriggerWatch, User], Look]]] = {
    TriggerWatch.Kind.REPOSITORY: look_at_repository,
    TriggerWatch.Kind.QUEUE: look_at_queue,
}


def list_due_watches(now: datetime) -> list[int]:
    """Return the keys of the watches to look at, the longest due first."""
    due = TriggerWatch.objects.filter(
        due_at__lte=now, trigger__is_enabled=True, trigger__pipeline__deleted_at=None
    )
    return list(due.order_by("due_at").values_list("pk", flat=True)[:WATCHES_PER_TICK])


def look(pk: int, now: datetime) -> bool:
    """Look at a watch, and return whether there were events; False if another worker looks."""
    claimed_until = now + CLAIM_DURATION
    if not TriggerWatch.objects.filter(pk=pk, due_at__lte=now).update(due_at=claimed_until):
        return False
    rows = TriggerWatch.objects.select_related(
        "trigger__pipeline__scope", "trigger__service_account__user", "lookup__task"
    )
    watch = rows.defer("trigger__secret").get(pk=pk)
    return _record(watch, claimed_until, _look(watch))


def record_crash(pk: int, error: Exception) -> None:
    """Show a bug that keeps a watch from being looked at; it is tried again after the claim."""
    problem = f"Slipway failed with an internal error ({type(error).__name__}). Report it."
    TriggerWatch.objects.filter(pk=pk).update(problem=problem, lookup=None)


def _look(watch: TriggerWatch) -> Look:
    account = watch.trigger.service_account
    try:
        if account is None:
            raise Conflict("The service account of the trigger was deleted. Choose another one.")
        return _LOOKS[watch.kind](watch, account.user)
    except Http404:
        problem = "The service account cannot view the connector, or its secret."
    except EXPECTED_ERRORS as refused:
        problem = describe_refusal(refused)
    # The next look begins anew: what was being read may have changed.
    return Look(_drop(watch.state, READING), problem=problem)


def _record(watch: TriggerWatch, claimed_until: datetime, result: Look) -> bool:
    """Write what a look found, unless the claim has passed to another worker or the settings changed."""
    now = get_database_time()
    # A part that begins a look has seen what the watch was woken for; a later part may have missed it.
    is_woken = WOKEN in watch.state and (watch.lookup is not None or READING in watch.state)
    state = _drop(result.state, WOKEN) | ({WOKEN: True} if is_woken else {})
    values: dict[str, Any] = {"state": state, "lookup": result.lookup}
    if result.lookup is not None:
        values["due_at"] = now + ANSWER_CHECK
    else:
        pause = timedelta(seconds=0 if result.continues or is_woken else watch.interval_seconds)
        due_at = now + max(pause, FAULT_PAUSE if result.problem else pause)
        values |= {"due_at": due_at, "looked_at": now, "problem": result.problem}
    with transaction.atomic():
        claimed = TriggerWatch.objects.filter(pk=watch.pk, due_at=claimed_until)
        if not claimed.update(**values):
            return False
        # The events of a look keep their order: the newest push starts the last run.
        for place, event in enumerate(result.events):
            record_event(watch.trigger, event, now=now + timedelta(microseconds=place))
        for event, reason in result.refused:
            record_event(watch.trigger, event, now=now, refusal=reason)
    if watch.lookup is not None and watch.lookup != result.lookup:
        watch.lookup.delete()
    return bool(result.events)


def _drop(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != name}
