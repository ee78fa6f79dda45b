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
from steps.states import OPEN_STATUSES, Outcome, Status

# The stage of a run that removes a delegate.
REMOVAL_STAGE: Final = "remove"
_MOST_RUNS = 20
# Steps of runs that failed early made nothing.
_HAS_DEPLOYED: Final = Q(outputs__has_key="deploymentId") | Q(outputs__has_key="taskDefinitionArn")


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


def find_last_run(delegate: Delegate) -> Execution | None:
    """Return the newest deployment or removal of a delegate by any project."""
    return _list_runs(delegate).first()


def find_open_run(delegate: Delegate) -> Execution | None:
    """Return the newest deployment or removal of a delegate that is not over, by any project."""
    return _list_runs(delegate).filter(status__in=OPEN_STATUSES).first()


def _list_runs(delegate: Delegate) -> QuerySet[Execution]:
    runs = Execution.objects.filter(
        _is_below(delegate, "scope"), pipeline__identifier=build_identifier(delegate)
    )
    return runs.select_related("pipeline", "scope").order_by("-created_at")


def is_removal(run: Execution) -> bool:
    """Return whether a run of a delegate's pipeline removes it."""
    return run.stages.filter(identifier=REMOVAL_STAGE).exists()


@dataclass(frozen=True)
class DeployedParts:
    """What a project may remove: deployments or task definitions of ECS, and stacks, by id.

    Without stacks, the stack of the delegate stays: the `stack_users` are other projects that use it.
    """

    deployments: tuple[str, ...]
    stacks: tuple[str, ...]
    stack_users: tuple[Scope, ...]


def list_deployed_parts(delegate: Delegate, project: Scope) -> DeployedParts:
    """Return what the last deployments of a delegate by a project made, except stacks that others use.

    After a deployment that was rolled back, what runs again has a new id of ECS: then the task definitions of
    the earlier deployments belong to them. Projects with the same cluster share the ECS service, and those
    with the same account and region the stack.
    """
    steps = _list_steps(delegate, "EcsRollingDeploy")
    deployed = list(steps.filter(_HAS_DEPLOYED, stage__execution__scope=project)[:_MOST_RUNS])
    ids = _list_outputs(deployed, "deploymentId")
    # From the oldest to the newest run, so that the newest one of each project remains.
    last = dict(steps.reverse().values_list("stage__execution__scope", "pk"))
    successes = steps.filter(_HAS_DEPLOYED, stage__execution__outcome=Outcome.COMPLETED, pk__in=last.values())
    if successes.count() < len(last):
        completed = [step for step in deployed if step.stage.execution.outcome == Outcome.COMPLETED]
        ids += _list_outputs(completed, "taskDefinitionArn")
    return DeployedParts(tuple(ids), *_list_removable_stacks(delegate, project))


def _list_removable_stacks(delegate: Delegate, project: Scope) -> tuple[tuple[str, ...], tuple[Scope, ...]]:
    """Return the stacks that a project may delete, or the other projects that use its own stack."""
    created = _list_created_stacks(delegate)
    # From the oldest to the newest, so that the place of each project's newest stack remains.
    places = {scope: _get_stack_place(stack) for scope, stack in reversed(created)}
    others = [owner for owner in _list_service_owners(delegate) if owner != project and owner.pk in places]
    if users := [other for other in others if places[other.pk] == places.get(project.pk)]:
        return (), tuple(users)
    # With another connector, a removal could otherwise reach the stack of another account.
    used = {places[other.pk] for other in others}
    stacks = [stack for _, stack in created if _get_stack_place(stack) not in used]
    return tuple(dict.fromkeys(stacks)), ()


def list_stacks(delegate: Delegate) -> list[str]:
    """Return the ids of the stacks that deployments of a delegate made, the newest first."""
    return list(dict.fromkeys(stack for _, stack in _list_created_stacks(delegate)))


def _list_created_stacks(delegate: Delegate) -> list[tuple[int, str]]:
    """Return project and stack id of the deployments of a delegate that had a stack, the newest first."""
    steps = _list_steps(delegate, "CreateStack").filter(outputs__has_key="stackId")
    rows = steps.values_list("stage__execution__scope", "outputs__stackId")
    return [(scope, str(stack)) for scope, stack in rows]


def _get_stack_place(stack: str) -> str:
    """Return the ARN of a stack without its last part, which is new whenever the stack is created again."""
    return stack.rpartition("/")[0]


def _list_service_owners(delegate: Delegate) -> list[Scope]:
    """Return the projects with an ECS service of a delegate; a deployment that was rolled back made none."""
    steps = _list_steps(delegate, "EcsRollingDeploy").filter(_HAS_DEPLOYED)
    deployed = steps.exclude(stage__execution__outcome=Outcome.ROLLED_BACK)
    places = list_installation_places(delegate).filter(
        environment__scope__in=deployed.values("stage__execution__scope")
    )
    return [place.environment.scope for place in places]


def _list_steps(delegate: Delegate, kind: str) -> QuerySet[StepExecution]:
    """Return the steps of a kind in the runs of a delegate, the newest run first."""
    steps = StepExecution.objects.filter(
        _is_below(delegate, "stage__execution__scope"),
        stage__execution__pipeline__identifier=build_identifier(delegate),
        type=kind,
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
