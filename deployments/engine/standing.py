"""What an execution is said to do, derived from all of its steps that are open; inside a commit."""

from deployments.engine.shared import Shared
from deployments.models import StepExecution
from steps.states import Status

# What needs a person is said before what goes on by itself.
_SAID_FIRST = (Status.INTERVENTION_WAITING, Status.APPROVAL_WAITING, Status.INPUT_WAITING)


def settle(shared: Shared) -> None:
    """Set the status of the execution to what its steps come to."""
    execution = shared.execution
    found = set(
        StepExecution.objects.filter(stage=shared.stage, status__in=_SAID_FIRST).values_list(
            "status", flat=True
        )
    )
    otherwise = Status.ROLLING_BACK if execution.rolling_back else Status.RUNNING
    status = next((one for one in _SAID_FIRST if one in found), otherwise)
    if execution.status != status:
        execution.status = status
        execution.save(update_fields=["status"])
