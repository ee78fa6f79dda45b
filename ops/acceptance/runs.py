"""Acceptance runs from the first row to the deletion of the last one."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ops.acceptance.leftovers import delete_aws_resources, list_leftover_services
from ops.acceptance.observations import Observation
from ops.acceptance.resources import (
    AcceptanceRun,
    create_disposable_project,
    delete_disposable_rows,
    list_leftover_runs,
)
from ops.acceptance.scenarios import Pause, ScenarioRunner, abort_open_executions
from ops.acceptance.targets import AcceptanceTarget
from rbac.models import Scope, User


@dataclass
class AcceptanceResult:
    """What a run saw, and what of it could not be deleted."""

    run: AcceptanceRun
    observations: list[Observation] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    is_complete: bool = False


def create_run() -> AcceptanceRun:
    return AcceptanceRun(secrets.token_hex(4))


def run_scenarios(
    result: AcceptanceResult,
    *,
    actor: User,
    target: AcceptanceTarget,
    scope: Scope,
    pause: Pause,
    announce: Callable[[str], None],
) -> None:
    """Run all scenarios into `result`, and delete what they created, also after an interruption.

    `scope` is a project, or an organization, which gets one for the run.
    """
    with _cleaned_up(result, actor, target, pause, announce):
        project = create_disposable_project(actor=actor, run=result.run, target=target, scope=scope)
        for observation in ScenarioRunner(project, target, pause, announce).run_all():
            result.observations.append(observation)
        result.is_complete = True


@contextmanager
def _cleaned_up(
    result: AcceptanceResult,
    actor: User,
    target: AcceptanceTarget,
    pause: Pause,
    announce: Callable[[str], None],
) -> Iterator[None]:
    try:
        yield
    finally:
        announce("Deleting what the run created …")
        result.left += delete_run(actor=actor, target=target, run=result.run, pause=pause)


def delete_run(*, actor: User, target: AcceptanceTarget, run: AcceptanceRun, pause: Pause) -> list[str]:
    """Abort open executions of a run, delete its resources in AWS and in Slipway; return what is left.

    The rows stay while something is left in AWS: they lead a later clean-up to it.
    """
    abort_open_executions(actor=actor, run=run, pause=pause)
    left = list(delete_aws_resources(target.caller, target.cluster, run, pause))
    if not left:
        delete_disposable_rows(actor=actor, run=run)
    return left


def find_leftover_runs(target: AcceptanceTarget) -> list[AcceptanceRun]:
    """Return earlier runs that left something in Slipway or in the cluster. Raises `AwsError`."""
    runs = {service.run.id: service.run for service in list_leftover_services(target.caller, target.cluster)}
    runs |= {run.id: run for run in list_leftover_runs(target)}
    return [runs[identifier] for identifier in sorted(runs)]
