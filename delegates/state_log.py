"""Lines of the process log for changed states of delegate tasks and delegate instances."""

import logging
from functools import partial

from django.db import transaction

from delegates.models import DelegateEvent, DelegateTask
from guards.log_lines import parse_propagated_fields

logger = logging.getLogger(__name__)


def log_task_status(task: DelegateTask, *, previous: str = "") -> None:
    """Log the status of a task once the current transaction commits."""
    fields = {
        **parse_propagated_fields(task.trace_context),
        "delegate_task": task.pk,
        "kind": task.kind,
        "status": task.status,
        "previous": previous or None,
        "instance": task.instance_name or None,
    }
    transaction.on_commit(partial(logger.info, "Delegate task changed", extra=fields), robust=True)


def log_delegate_event(event: DelegateEvent) -> None:
    """Log an event of a delegate instance once the current transaction commits."""
    fields = {"delegate": event.name, "instance": event.instance_id, "kind": event.kind}
    transaction.on_commit(partial(logger.info, "Delegate event: %s", event.text, extra=fields), robust=True)
