"""Scenarios of an acceptance run: which version is deployed, and how it should end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from deployments.execution.operations import abort_execution, roll_back_execution, run_pipeline
from deployments.models import AwsCall, Execution
from ops.acceptance.observations import Observation
from ops.acceptance.observer import Observer
from ops.acceptance.resources import (
    BLUE_GREEN_SUFFIX,
    CRASHING,
    SERVING,
    AcceptanceRun,
    DisposableProject,
)
from ops.acceptance.targets import AcceptanceTarget, BlueGreenTarget
from rbac.models import User
from steps.states import TERMINAL_STATUSES, CallState
from web.http.problems import Conflict

Pause = Callable[[float], None]
"""Lets seconds pass: really, or on the clock of a test."""
POLL_SECONDS: Final = 5.0
MAX_SECONDS: Final = 45 * 60.0
# Events and tasks go on for a while after the execution has ended.
SETTLE_SECONDS: Final = 90.0
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


def list_scenarios(target: AcceptanceTarget) -> list[Scenario]:
    """Return the scenarios that a target allows: blue/green needs a load balancer."""
    return [each for each in SCENARIOS if target.blue_green or not each.uses_load_balancer]


@dataclass
class ScenarioRunner:
    """Runs scenarios one after the other, through the engine that workers drive."""

    project: DisposableProject
    target: AcceptanceTarget
    pause: Pause
    announce: Callable[[str], None]

    def run_all(self) -> Iterator[Observation]:
        """Yield the observation of each scenario as it ends."""
        run = self.project.run
        observer = Observer(self.target.caller, self.target.cluster, {run.aws_name: "acceptance"})
        for scenario in list_scenarios(self.target):
            self.announce(f"{scenario.title} …")
            observation = self._run(scenario, observer)
            result = " ".join(filter(None, (observation.status, observation.outcome)))
            self.announce(f"  {result} after {observation.seconds:.0f} s")
            yield observation

    def _run(self, scenario: Scenario, observer: Observer) -> Observation:
        observer.begin(scenario.name, list_aws_services(self.project.run, scenario))
        pipeline = self.project.add_pipeline(
            scenario.name,
            _build_steps(scenario, self.target.blue_green),
            script=scenario.script,
            version=scenario.version,
        )
        execution = run_pipeline(
            actor=self.project.actor, pipeline=pipeline, artifact_tag=scenario.tag, inputs={}
        )
        wait_for_end(execution, self.pause, observer.poll)
        self._settle(observer)
        if scenario.is_rolled_back and execution.is_over:
            execution = roll_back_execution(actor=self.project.actor, execution=execution)
            execution.refresh_from_db()
            wait_for_end(execution, self.pause, observer.poll, until_status=scenario.status)
            self._settle(observer)
        observation = observer.finish()
        _record_result(observation, execution, observer)
        return observation

    def _settle(self, observer: Observer) -> None:
        waited = 0.0
        while waited < SETTLE_SECONDS:
            self.pause(POLL_SECONDS)
            waited += POLL_SECONDS
            observer.poll()


def wait_for_end(
    execution: Execution, pause: Pause, look: Callable[[], None], *, until_status: str = ""
) -> None:
    """Wait until an execution is over, in this status if one is given, and call `look` meanwhile."""
    waited = 0.0
    while waited < MAX_SECONDS:
        look()
        execution.refresh_from_db()
        if execution.is_over and until_status in ("", execution.status):
            return
        pause(POLL_SECONDS)
        waited += POLL_SECONDS


def abort_open_executions(*, actor: User, run: AcceptanceRun, pause: Pause) -> None:
    """Abort the executions of a run that still run, and wait for their end."""
    executions = Execution.objects.filter(pipeline__identifier__startswith=run.identifier)
    for execution in executions.exclude(status__in=TERMINAL_STATUSES):
        with suppress(Conflict):
            abort_execution(actor=actor, execution=execution)
        wait_for_end(execution, pause, lambda: None)


def list_aws_services(run: AcceptanceRun, scenario: Scenario) -> tuple[str, ...]:
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
