"""Records that the deployments of a delegate leave in projects, with what they made in AWS."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from catalog.models import Infrastructure
from delegates.install.plan import SpecPlan
from delegates.installations import DelegateInstallation
from delegates.models import Delegate
from delegates.operations.installation import build_spec_request
from deployments.delegate_installs.documents import build_deployed_plan, creates_task_role
from deployments.models import Execution, StageExecution, StepExecution
from rbac.models import Scope
from steps.states import Status

# The stage of a run that removes a delegate.
REMOVAL_STAGE: Final = "remove"
_MOST_RUNS = 20


def build_identifier(delegate: Delegate) -> str:
    """Return the identifier of the resources with which Slipway deploys a delegate."""
    return f"slipway_delegate_{delegate.pk}"


def build_secret_identifier(delegate: Delegate) -> str:
    """Return the identifier of the secret with the token in the project."""
    return f"{build_identifier(delegate)}_token"


def build_stack_name(delegate: Delegate) -> str:
    """Return the name of the stack with roles, secret and log group."""
    return f"slipway-delegate-{delegate.name}"


def list_installation_places(delegate: Delegate) -> QuerySet[Infrastructure]:
    """Return the infrastructures where Slipway deployed a delegate and has not removed it, newest first."""
    identifier = build_identifier(delegate)
    runs = Execution.objects.filter(
        scope=OuterRef("environment__scope"), pipeline__identifier=identifier
    ).order_by("-created_at")
    removals = StageExecution.objects.filter(
        execution=OuterRef("last_run"), identifier=REMOVAL_STAGE, execution__status=Status.SUCCESS
    )
    places = Infrastructure.objects.filter(
        _is_below(delegate, "environment__scope"), environment__identifier=identifier
    )
    left = places.alias(last_run=Subquery(runs.values("pk")[:1])).filter(~Exists(removals))
    return left.select_related("environment__scope", "connector__scope").order_by("-pk")


def list_delegate_installations(delegate: Delegate) -> list[DelegateInstallation]:
    """Return where Slipway deployed a delegate and has not removed it, the newest first."""
    return [_build_installation(delegate, place) for place in list_installation_places(delegate)]


def find_last_run(delegate: Delegate, project: Scope | None = None) -> Execution | None:
    """Return the newest deployment or removal of a delegate, by a project or by any."""
    runs = Execution.objects.filter(pipeline__identifier=build_identifier(delegate))
    chosen = runs if project is None else runs.filter(scope=project)
    return chosen.select_related("pipeline", "scope").order_by("-created_at").first()


def is_removal(run: Execution) -> bool:
    """Return whether a run of a delegate's pipeline removes it."""
    return run.stages.filter(identifier=REMOVAL_STAGE).exists()


@dataclass(frozen=True)
class DeployedParts:
    """What the deployments of a delegate made: deployments or task definitions of ECS, and stacks, by id."""

    deployments: tuple[str, ...]
    stacks: tuple[str, ...]


def list_deployed_parts(delegate: Delegate, project: Scope) -> DeployedParts:
    """Return what the last deployments of a delegate by a project made, and the stacks of all projects.

    After a deployment that was rolled back, what runs again has a new id of ECS: then the task definitions of
    the earlier deployments belong to them. Projects with the same account and region share the stack.
    """
    steps = _list_steps(delegate, "EcsRollingDeploy").filter(stage__execution__scope=project)
    # Runs that failed early made nothing.
    made = Q(outputs__has_key="deploymentId") | Q(outputs__has_key="taskDefinitionArn")
    deployed = list(steps.filter(made)[:_MOST_RUNS])
    completed = [step for step in deployed if step.stage.execution.outcome == "COMPLETED"]
    ids = _list_outputs(deployed, "deploymentId")
    if deployed and steps.first() not in completed:
        ids += _list_outputs(completed, "taskDefinitionArn")
    return DeployedParts(tuple(ids), tuple(_list_stacks(delegate)))


def _list_stacks(delegate: Delegate) -> list[str]:
    """Return the ids of the stacks that deployments of a delegate made, the newest first."""
    steps = _list_steps(delegate, "CreateStack").filter(
        _is_below(delegate, "stage__execution__scope"), outputs__has_key="stackId"
    )
    return list(dict.fromkeys(str(stack) for stack in steps.values_list("outputs__stackId", flat=True)))


def _list_steps(delegate: Delegate, kind: str) -> QuerySet[StepExecution]:
    """Return the steps of a kind in the runs of a delegate, the newest run first."""
    steps = StepExecution.objects.filter(
        stage__execution__pipeline__identifier=build_identifier(delegate), type=kind
    )
    # Not by number, which starts again if the pipeline was deleted and created anew.
    return steps.select_related("stage__execution").order_by("-stage__execution__created_at")


def _is_below(delegate: Delegate, field: str) -> Q:
    """Return the condition that the scope in a field is that of a delegate or below."""
    path = delegate.scope.path
    return Q(**{f"{field}__path": path}) | Q(**{f"{field}__path__startswith": f"{path}/"})


def _list_outputs(steps: Iterable[StepExecution], name: str) -> list[str]:
    """Return the distinct values of an output."""
    return list(dict.fromkeys(str(value) for step in steps if (value := step.outputs.get(name))))


def _build_installation(delegate: Delegate, place: Infrastructure) -> DelegateInstallation:
    request = build_spec_request(delegate)
    deployed = build_deployed_plan(replace(request, cluster=place.cluster, region=place.region))
    parts = ["secret with the token", "execution role"]
    if creates_task_role(deployed):
        parts.append("task role")
    if not request.log_group:
        parts.append(f"log group {deployed.log_group}")
    return DelegateInstallation(
        project=place.environment.scope,
        connector=place.connector,
        plan=SpecPlan(deployed.request),
        stack=build_stack_name(delegate),
        stack_parts=tuple(parts),
        identifier=build_identifier(delegate),
        secret=build_secret_identifier(delegate),
    )
