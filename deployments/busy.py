"""Says that executions are under way in a scope, which therefore cannot be archived."""

from deployments.models import Execution
from rbac.busy import Work
from rbac.models import Scope
from rbac.policy import at_or_below
from steps.states import TERMINAL

NEXT_STEP = "Wait until they are over or abort them, then archive it."


def executions_in(scope: Scope) -> Work | None:
    """Count the executions at or below `scope` that are not over."""
    count = Execution.objects.filter(at_or_below(scope)).exclude(status__in=TERMINAL).count()
    if not count:
        return None
    return Work("1 execution is" if count == 1 else f"{count} executions are", NEXT_STEP)
