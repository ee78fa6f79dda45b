"""What is told of executions: how they end, that they go back and why, that they wait for people.

Each is called in the commit that settles the status; nothing but one query is done where nobody listens.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from deployments.models import Approval, Execution, StepExecution
from guards.masks import Mask
from notifications.facts import Event, Fact
from notifications.outbox import notify, wanted_events
from steps.states import Outcome, Status
from web.page_paths import get_page_path

_ENDED: Final = {
    Status.SUCCESS: "succeeded",
    Status.IGNORE_FAILED: "succeeded, with a failure that was ignored",
    Status.ABORTED: "was aborted",
    Status.EXPIRED: "expired",
    Status.APPROVAL_REJECTED: "was rejected",
    Status.ROLLED_BACK: "was rolled back",
}


def tell_end(execution: Execution, mask: Mask) -> None:
    """An execution has come to its end."""
    events = _events_of_end(execution)
    wanted = wanted_events(execution.scope, events)
    if not wanted:
        return
    word = _ENDED.get(Status(execution.status), "failed")
    back = execution.outcome == Outcome.ROLLED_BACK and execution.status != Status.ROLLED_BACK
    fact = _fact(execution, f"{word} and was rolled back" if back else word, _why(execution), mask)
    notify(*(replace(fact, event=event) for event in events if event in wanted))


def tell_rollback(execution: Execution, mask: Mask, cause: str = "") -> None:
    """A rollback starts, because of what failed, or of what somebody asked for (P19)."""
    if wanted_events(execution.scope, (Event.ROLLBACK_STARTED,)):
        fact = _fact(execution, "rolls back", cause or _why(execution), mask)
        notify(replace(fact, event=Event.ROLLBACK_STARTED))


def tell_approval(approval: Approval, mask: Mask) -> None:
    """Somebody is asked to approve."""
    execution = approval.execution
    if wanted_events(execution.scope, (Event.APPROVAL_WAITING,)):
        text = f"waits for approval by {', '.join(approval.group_names)} until {_time(approval.expires_at)}"
        fact = _fact(execution, text, approval.message, mask)
        notify(replace(fact, event=Event.APPROVAL_WAITING))


def tell_intervention(execution: Execution, step: StepExecution, until: datetime | None, mask: Mask) -> None:
    """A step has failed, and a person is asked what to do about it."""
    if wanted_events(execution.scope, (Event.INTERVENTION_WAITING,)):
        limit = f" until {_time(until)}" if until else ""
        text = f"needs a person at step {step.name}{limit}"
        cause = str((step.failure or {}).get("message", ""))
        fact = _fact(execution, text, cause, mask)
        notify(replace(fact, event=Event.INTERVENTION_WAITING))


def _events_of_end(execution: Execution) -> tuple[Event, ...]:
    was_rolled_back = execution.outcome == Outcome.ROLLED_BACK
    back = (Event.ROLLBACK_ENDED,) if was_rolled_back else ()
    if execution.status in (Status.SUCCESS, Status.IGNORE_FAILED, Status.ROLLED_BACK):
        return back or (Event.EXECUTION_SUCCEEDED,)
    first = Event.EXECUTION_ABORTED if execution.status == Status.ABORTED else Event.EXECUTION_FAILED
    return (first, *back)


def _why(execution: Execution) -> str:
    return str((execution.failure or {}).get("message", ""))


def _fact(execution: Execution, what: str, cause: str, mask: Mask) -> Fact:
    """What every fact about an execution says; its event is filled in by who asks."""
    deployed = list(execution.stages.order_by("position").values_list("values", flat=True))
    services, environments = _named(deployed, "service"), _named(deployed, "env")
    where = f" ({', '.join(services)} to {', '.join(environments)})" if services and environments else ""
    said = mask.text(cause)
    reason = f": {said}" if said else "."
    return Fact(
        event=Event.EXECUTION_FAILED,
        scope=execution.scope,
        text=mask.text(f"{execution.pipeline.name} #{execution.number} {what}{where}{reason}"),
        path=get_page_path("execution", execution.pk),
        status=execution.status,
        cause=said,
        pipeline=execution.pipeline.identifier,
        execution=str(execution.pk),
        services=services,
        environments=environments,
    )


def _named(deployed: Iterable[dict[str, Any]], key: str) -> tuple[str, ...]:
    """The identifiers of the services, or environments, each once, in the order of the stages."""
    found = (str(one[key]["identifier"]) for one in deployed if one.get(key))
    return tuple(dict.fromkeys(found))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
