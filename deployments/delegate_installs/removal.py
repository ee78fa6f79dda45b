"""Operations that remove a deployed delegate from AWS: plan, and run of its pipeline's removal."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from catalog.models import Infrastructure
from catalog.operations.infrastructures import InfrastructureSpec, update_infrastructure
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from delegates.installations import DelegateInstallation
from delegates.models import Delegate
from delegates.operations.delegates import count_open_tasks
from deployments.delegate_installs.checks import list_place_problems
from deployments.delegate_installs.documents import INFRASTRUCTURE, build_removal_pipeline
from deployments.delegate_installs.records import (
    REMOVAL_STAGE,
    DeployedParts,
    find_open_run,
    list_delegate_installations,
    list_deployed_parts,
)
from deployments.delegate_installs.upgrade_windows import delete_upgrade_window
from deployments.execution.operations import run_pipeline
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.policy import Forbidden, can, require
from web.http.problems import BadInput, Conflict

REMOVE_PERMISSION: Final = "core_delegate_delete"
# Needed in the project that deployed it.
RUN_PERMISSION: Final = "core_pipeline_execute"
# Needed to see the name of a project that deployed it.
VIEW_PERMISSION: Final = "core_pipeline_view"
REMOVING_ACTIONS: Final = (
    "cloudformation:DeleteStack",
    "cloudformation:DescribeStackEvents",
    "cloudformation:DescribeStacks",
    "ecs:DeleteService",
    "ecs:DescribeServices",
    "ecs:UpdateService",
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:GetRole",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "logs:DeleteLogGroup",
    "logs:DescribeLogGroups",
    "secretsmanager:DeleteSecret",
    "secretsmanager:DescribeSecret",
)


@dataclass(frozen=True)
class DelegateRemovalPlan:
    """What a removal deletes in AWS; `open_tasks` counts the unfinished tasks of the delegate.

    The `stack_users` are the other projects for which the stack stays, with the names that the actor may see.
    """

    delegate: Delegate
    installation: DelegateInstallation
    connector: Connector
    parts: DeployedParts
    stack_users: tuple[str, ...]
    open_tasks: int

    @property
    def deletes_stack(self) -> bool:
        return bool(self.parts.stacks)

    @property
    def project(self) -> Scope:
        return self.installation.project

    @property
    def document(self) -> str:
        """Return the run as the text of a pipeline."""
        return build_removal_pipeline(
            self.delegate.name,
            self.installation.identifier,
            service=self.installation.plan.service,
            stack=self.installation.stack,
            deployments=self.parts.deployments,
            stacks=self.parts.stacks,
            stage=REMOVAL_STAGE,
        )

    @property
    def digest(self) -> str:
        """Return a hash of all that a person confirms."""
        spec = self.installation.plan
        parts = [self.document, spec.region, spec.cluster, self.connector.pk, self.project.pk]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def actions(self) -> tuple[str, ...]:
        """Return the IAM actions that the connector needs, by name."""
        return tuple(name for name in REMOVING_ACTIONS if self.deletes_stack or name.startswith("ecs:"))


def require_removal_permissions(actor: User, delegate: Delegate, project: Scope) -> None:
    """Check the permissions to remove a delegate by a project, whatever the connector. Raises `Forbidden`."""
    require(actor, REMOVE_PERMISSION, delegate)
    if not can(actor, RUN_PERMISSION, project):
        raise Forbidden(RUN_PERMISSION)


def plan_delegate_removal(
    *, actor: User, delegate: Delegate, project: Scope, connector: Connector | None = None
) -> DelegateRemovalPlan:
    """Return what a removal would delete. Only reads Slipway's own records.

    Without a connector it is the one of the last deployment. Raises `BadInput` with the reason why Slipway
    cannot remove it, `Conflict` during a run, and the errors of missing permissions.
    """
    require_removal_permissions(actor, delegate, project)
    installations = (found for found in list_delegate_installations(delegate) if found.project == project)
    installation = next(installations, None)
    if installation is None:
        message = f"Slipway has not deployed {delegate} with {project}, or has removed it."
        raise BadInput(message, errors=[{"path": "project", "message": message}])
    chosen = connector or installation.connector
    require_access(actor, get_connector_requirements(chosen, path="connector"))
    parts = list_deployed_parts(delegate, project)
    for path, message in _list_problems(delegate, project, chosen, parts):
        raise BadInput(message, errors=[{"path": path, "message": message}])
    # A deployment by another project may be about to use the stack.
    if (open_run := find_open_run(delegate)) is not None:
        raise Conflict(f"{open_run} is still running. Wait for its end, or abort it.")
    users = {
        user.path if can(actor, VIEW_PERMISSION, user) else "another project" for user in parts.stack_users
    }
    return DelegateRemovalPlan(
        delegate, installation, chosen, parts, tuple(sorted(users)), count_open_tasks(delegate)
    )


def _list_problems(
    delegate: Delegate, project: Scope, connector: Connector, parts: DeployedParts
) -> Iterator[tuple[str, str]]:
    yield from list_place_problems(delegate, project, connector)
    if not parts.deployments:
        yield (
            "",
            "No deployment of this delegate reached its ECS service, so Slipway does not know which one is "
            "its own. Use the commands on the page that deletes the delegate.",
        )


def remove_delegate(*, actor: User, plan: DelegateRemovalPlan) -> Execution:
    """Run the removal of a plan. The delegate stays in Slipway, with its pipeline and history.

    Raises the errors of `plan_delegate_removal`, and those of the run.
    """
    delegate, project = plan.delegate, plan.project
    require_removal_permissions(actor, delegate, project)
    with transaction.atomic():
        # An automatic upgrade would deploy it again. One that starts now has the window before the delegate.
        delete_upgrade_window(actor=actor, delegate=delegate)
        # A deployment by another project waits for this, and then finds the run.
        Delegate.objects.select_for_update().get(pk=delegate.pk)
        plan_delegate_removal(actor=actor, delegate=delegate, project=project, connector=plan.connector)
        pipeline = Pipeline.objects.filter(scope=project, identifier=plan.installation.identifier).first()
        if pipeline is None:
            raise Conflict(
                "The pipeline that deployed this delegate was deleted. Deploy the delegate again first."
            )
        _use_connector(actor, plan)
        return run_pipeline(
            actor=actor, pipeline=pipeline, yaml=plan.document, cause=f"Removal of the delegate {delegate}"
        )


def _use_connector(actor: User, plan: DelegateRemovalPlan) -> None:
    """Let the infrastructure of the delegate use another connector, if another one is chosen."""
    if plan.connector == plan.installation.connector:
        return
    place = Infrastructure.objects.select_related("environment__scope").get(
        environment__scope=plan.project,
        environment__identifier=plan.installation.identifier,
        identifier=INFRASTRUCTURE,
    )
    spec = InfrastructureSpec(place.name, plan.connector, place.region, place.cluster)
    update_infrastructure(actor=actor, infrastructure=place, spec=spec)
