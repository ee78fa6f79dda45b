"""What a person may do with an execution, and which buttons that comes to."""

from dataclasses import dataclass

from deployments.models import (
    Execution,
)
from rbac.models import User
from rbac.policy import permissions_at
from steps.states import RETRYABLE


@dataclass(frozen=True)
class Rights:
    """What a person may do with an execution, whatever its state."""

    abort: bool
    run: bool


def rights_on(execution: Execution, principal: User) -> Rights:
    """Ask for the permissions of a person on an execution."""
    return rights_among(permissions_at(principal, execution))


def rights_among(granted: frozenset[str]) -> Rights:
    """Say what permissions on an execution come to."""
    return Rights(abort="core_pipeline_abort" in granted, run="core_pipeline_execute" in granted)


def buttons(execution: Execution, rights: Rights) -> dict[str, bool]:
    """Which buttons work: what the state allows and this person may do."""
    over = execution.is_over
    turning = execution.rolling_back or bool(execution.ending)
    rolled_back = execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
    return {
        "abort": rights.abort and not over and not turning,
        "rollback": rights.run and not turning and not rolled_back,
        "retry": rights.run and execution.status in RETRYABLE,
        "decide": rights.run and not over,
        "stop": rights.abort and not over,
    }
