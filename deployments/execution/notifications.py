"""Notifications about executions: end, rollback, approval, intervention.

They are written in the commit that sets the status. Without a matching rule, one query is all.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from deployments.models import Approval, Execution, StepExecution
from guards.masks import SecretMask
from notifications.events import EventType, NotificationEvent
from notifications.outbox import list_subscribed_events, notify
from steps.states import Outcome, Status
from web.page_paths import get_page_path

_END_PHRASES: Final = {
    Status.SUCCESS: "succeeded",
    Status.IGNORE_FAILED: "succeeded, with a failure that was ignored",
    Status.ABORTED: "was aborted",
    Status.EXPIRED: "expired",
    Status.APPROVAL_REJECTED: "was rejected",
    Status.ROLLED_BACK: "was rolled back",
}


def notify_end(execution: Execution, mask: SecretMask) -> None:
    """Notify about the end of an execution."""
    events = _list_end_events(execution)
    subscribed = list_subscribed_events(execution.scope, events)
    if not subscribed:
        return
    word = _END_PHRASES.get(Status(execution.status), "failed")
    back = execution.outcome == Outcome.ROLLED_BACK and execution.status != Status.ROLLED_BACK
    fact = _build_fact(
        execution, f"{word} and was rolled back" if back else word, _describe_reason(execution), mask
    )
    notify(*(replace(fact, event=event) for event in events if event in subscribed))


def notify_rollback(execution: Execution, mask: SecretMask, cause: str = "") -> None:
    """Notify about the start of a rollback, with its failure or its requester (P19)."""
    if list_subscribed_events(execution.scope, (EventType.ROLLBACK_STARTED,)):
        fact = _build_fact(execution, "rolls back", cause or _describe_reason(execution), mask)
        notify(replace(fact, event=EventType.ROLLBACK_STARTED))


def notify_approval(approval: Approval, mask: SecretMask) -> None:
    """Notify about a requested approval."""
    execution = approval.execution
    if list_subscribed_events(execution.scope, (EventType.APPROVAL_WAITING,)):
        text = (
            f"awaits approval by {', '.join(approval.group_names)} until {_format_time(approval.expires_at)}"
        )
        fact = _build_fact(execution, text, approval.message, mask)
        notify(replace(fact, event=EventType.APPROVAL_WAITING))


def notify_intervention(
    execution: Execution, step: StepExecution, until: datetime | None, mask: SecretMask
) -> None:
    """Notify about a failed step that waits for a decision."""
    if list_subscribed_events(execution.scope, (EventType.INTERVENTION_WAITING,)):
        limit = f" until {_format_time(until)}" if until else ""
        text = f"awaits manual intervention at step {step.name}{limit}"
        cause = str((step.failure or {}).get("message", ""))
        fact = _build_fact(execution, text, cause, mask)
        notify(replace(fact, event=EventType.INTERVENTION_WAITING))


def _list_end_events(execution: Execution) -> tuple[EventType, ...]:
    was_rolled_back = execution.outcome == Outcome.ROLLED_BACK
    back = (EventType.ROLLBACK_ENDED,) if was_rolled_back else ()
    if execution.status in (Status.SUCCESS, Status.IGNORE_FAILED, Status.ROLLED_BACK):
        return back or (EventType.EXECUTION_SUCCEEDED,)
    first = EventType.EXECUTION_ABORTED if execution.status == Status.ABORTED else EventType.EXECUTION_FAILED
    return (first, *back)


def _describe_reason(execution: Execution) -> str:
    return str((execution.failure or {}).get("message", ""))


def _build_fact(execution: Execution, verb_phrase: str, cause: str, mask: SecretMask) -> NotificationEvent:
    """Return the fields of every event about an execution; the caller sets the type."""
    deployed = list(execution.stages.order_by("position").values_list("values", flat=True))
    services, environments = _list_identifiers(deployed, "service"), _list_identifiers(deployed, "env")
    location = f" ({', '.join(services)} to {', '.join(environments)})" if services and environments else ""
    masked_cause = mask.mask_text(cause)
    reason = f": {masked_cause}" if masked_cause else "."
    return NotificationEvent(
        event=EventType.EXECUTION_FAILED,
        scope=execution.scope,
        text=mask.mask_text(f"{execution.pipeline.name} #{execution.number} {verb_phrase}{location}{reason}"),
        path=get_page_path("execution", execution.pk),
        status=execution.status,
        cause=masked_cause,
        pipeline=execution.pipeline.identifier,
        execution=str(execution.pk),
        services=services,
        environments=environments,
    )


def _list_identifiers(deployed: Iterable[dict[str, Any]], key: str) -> tuple[str, ...]:
    """Return the identifiers of the services, or environments, each once, in the order of the stages."""
    identifiers = (str(values[key]["identifier"]) for values in deployed if values.get(key))
    return tuple(dict.fromkeys(identifiers))


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
