"""Scenarios of an acceptance run: which version is deployed, and how it should end."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from deployments.execution.operations import roll_back_execution, run_pipeline
from deployments.models import AwsCall, Execution
from ops.acceptance.observations import Observation
from ops.acceptance.observer import Observer
from ops.acceptance.resources import (
    BLUE_GREEN_SUFFIX,
    CRASHING,
    SERVING,
    RunKey,
    add_pipeline,
)
from ops.acceptance.targets import AcceptanceTarget, BlueGreenTarget
from rbac.models import Scope, User
from steps.states import CallState

MAX_LENGTH: Final = timedelta(minutes=45)
# Events and tasks go on for a while after the execution has ended.
SETTLE_LENGTH: Final = timedelta(seconds=90)
# The circuit breaker of ECS is to decide, not Slipway.
PATIENT: Final = {"failedTasks": 0, "onFatalReason": False}
# A tag that the repository does not have.
MISSING_TAG: Final = "nopull"


@dataclass(frozen=True)
class Scenario:
    """A deployment, with the status and the outcome that Slipway promises for it."""

    name: str
    title: str
    status: str
    outcome: str
    script: str = SERVING
    tag: str = ""
    version: str = ""
    is_rolled_back: bool = False
    uses_load_balancer: bool = False
    task_minutes: float = 4.0
    """Minutes of running tasks on AWS, roughly, for the estimate of the cost."""


SCENARIOS: Final = (
    Scenario("first", "The first deployment of a service", "SUCCESS", "COMPLETED", version="1"),
    Scenario("update", "A new version that runs", "SUCCESS", "COMPLETED", version="2"),
    Scenario(
        "crash",
        "A version whose container exits with code 1",
        "FAILED",
        "ROLLED_BACK_BY_AWS",
        script=CRASHING,
        version="3",
        task_minutes=8,
    ),
    Scenario(
        "unpullable",
        "An image that cannot be pulled",
        "FAILED",
        "ROLLED_BACK_BY_AWS",
        tag=MISSING_TAG,
        version="4",
        task_minutes=16,
    ),
    Scenario(
        "roll_back",
        "A finished deployment that is rolled back",
        "ROLLED_BACK",
        "ROLLED_BACK",
        version="5",
        is_rolled_back=True,
        task_minutes=6,
    ),
    Scenario(
        "blue_green_first",
        "The first blue/green deployment",
        "SUCCESS",
        "COMPLETED",
        version="1",
        uses_load_balancer=True,
    ),
    Scenario(
        "blue_green_swap",
        "A blue/green deployment that swaps the target groups",
        "SUCCESS",
        "COMPLETED",
        version="2",
        uses_load_balancer=True,
        task_minutes=10,
    ),
)


SCENARIOS_BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}


def list_scenarios(target: AcceptanceTarget) -> list[Scenario]:
    """Return the scenarios that a target allows: blue/green needs a load balancer."""
    return [each for each in SCENARIOS if target.blue_green or not each.uses_load_balancer]


class ScenarioPhase(StrEnum):
    """What a scenario waits for."""

    DEPLOYING = "deploying"
    SETTLING = "settling"
    ROLLING_BACK = "rolling back"
    SETTLING_AGAIN = "settling again"


@dataclass
class ScenarioProgress:
    """Position of a scenario that runs; `ends_at` is the latest end of its phase, in ISO 8601."""

    scenario: str
    execution: str
    phase: ScenarioPhase
    ends_at: str

    def enter(self, phase: ScenarioPhase, ends_at: datetime) -> None:
        self.phase, self.ends_at = phase, ends_at.isoformat()

    def get_execution(self) -> Execution:
        return Execution.objects.get(pk=self.execution)


def start_scenario(
    scenario: Scenario, *, actor: User, run: RunKey, scope: Scope, target: AcceptanceTarget, now: datetime
) -> ScenarioProgress:
    """Create the pipeline of a scenario, and run it. Raises the errors of `run_pipeline`."""
    pipeline = add_pipeline(
        actor=actor,
        run=run,
        scope=scope,
        name=scenario.name,
        steps=_build_steps(scenario, target.blue_green),
        script=scenario.script,
        version=scenario.version,
    )
    execution = run_pipeline(actor=actor, pipeline=pipeline, artifact_tag=scenario.tag, inputs={})
    ends_at = (now + MAX_LENGTH).isoformat()
    return ScenarioProgress(scenario.name, str(execution.pk), ScenarioPhase.DEPLOYING, ends_at)


def advance_scenario(progress: ScenarioProgress, *, actor: User, now: datetime) -> bool:
    """Enter the next phase where the former one is over, and return whether the scenario is.

    Raises the errors of `roll_back_execution`.
    """
    scenario, execution = SCENARIOS_BY_NAME[progress.scenario], progress.get_execution()
    is_late = now >= datetime.fromisoformat(progress.ends_at)
    match progress.phase:
        case ScenarioPhase.DEPLOYING:
            if execution.is_over or is_late:
                progress.enter(ScenarioPhase.SETTLING, now + SETTLE_LENGTH)
        case ScenarioPhase.SETTLING if is_late:
            if not scenario.is_rolled_back or not execution.is_over:
                return True
            progress.execution = str(roll_back_execution(actor=actor, execution=execution).pk)
            progress.enter(ScenarioPhase.ROLLING_BACK, now + MAX_LENGTH)
        case ScenarioPhase.ROLLING_BACK:
            if is_late or (execution.is_over and execution.status == scenario.status):
                progress.enter(ScenarioPhase.SETTLING_AGAIN, now + SETTLE_LENGTH)
        case ScenarioPhase.SETTLING_AGAIN:
            return is_late
    return False


def finish_scenario(progress: ScenarioProgress, observer: Observer) -> Observation:
    """Return what was seen, with the result of the execution."""
    observation = observer.finish()
    _record_result(observation, progress.get_execution(), observer)
    return observation


def list_aws_services(run: RunKey, scenario: Scenario) -> tuple[str, ...]:
    """Return the names of the ECS services of a scenario; blue/green has two."""
    if not scenario.uses_load_balancer:
        return (run.aws_name,)
    return tuple(f"{run.aws_name}{BLUE_GREEN_SUFFIX}__{number}" for number in (1, 2))


def _record_result(observation: Observation, execution: Execution, observer: Observer) -> None:
    observation.status, observation.outcome = execution.status, execution.outcome
    failure = execution.failure or {}
    text = f"{failure.get('code', '')}: {failure.get('message', '')}" if failure else ""
    observation.failure = observer.normalizer.normalize(text)
    if execution.started_at and execution.ended_at:
        observation.seconds = round((execution.ended_at - execution.started_at).total_seconds(), 1)
    failed = AwsCall.objects.filter(execution=execution, state=CallState.FAILED).exclude(error=None)
    errors = (error or {} for error in failed.values_list("error", flat=True))
    denied = (str(error.get("action", "")) for error in errors if error.get("kind") == "Denied")
    observation.refused = sorted(filter(None, {*observation.refused, *denied}))


def _build_steps(scenario: Scenario, balancing: BlueGreenTarget | None) -> dict[str, Any]:
    if scenario.uses_load_balancer and balancing is not None:
        listeners = {
            "loadBalancer": balancing.load_balancer,
            "prodListener": balancing.prod_listener,
            "prodListenerRuleArn": balancing.prod_rule,
            "stageListener": balancing.stage_listener,
            "stageListenerRuleArn": balancing.stage_rule,
        }
        return {
            "steps": [
                _build_step("create", "EcsBlueGreenCreateService", listeners),
                _build_step("swap", "EcsBlueGreenSwapTargetGroups", {}),
            ],
            "rollbackSteps": [_build_step("rollback", "EcsBlueGreenRollback", {})],
        }
    return {
        "steps": [_build_step("deploy", "EcsRollingDeploy", {"failFast": PATIENT})],
        "rollbackSteps": [_build_step("rollback", "EcsRollingRollback", {})],
    }


def _build_step(identifier: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    # The circuit breaker takes about twelve minutes over an image that cannot be pulled.
    step = {"identifier": identifier, "name": identifier, "type": kind, "timeout": "40m", "spec": spec}
    return {"step": step}
