"""Operations that deploy a delegate to Amazon ECS: plan, and run as a pipeline of a project."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from aws.policies import get_policy
from catalog.manifests.stores import INLINE
from catalog.models import Environment, Infrastructure, Manifest, Service
from catalog.operations.environments import EnvironmentSpec, create_environment
from catalog.operations.infrastructures import (
    InfrastructureSpec,
    create_infrastructure,
    update_infrastructure,
)
from catalog.operations.manifests import ManifestSpec
from catalog.operations.services import ServiceSpec, create_service, update_service
from connectors.models import Connector, Secret
from connectors.operations.secrets import create_secret, update_secret
from connectors.required_access import get_connector_requirements, require_access
from delegates.install.plan import SpecPlan
from delegates.models import Delegate
from delegates.operations.installation import INSTALL_PERMISSION, build_spec_request
from delegates.operations.tokens import reveal_token
from deployments.delegate_installs import documents
from deployments.delegate_installs.checks import list_deployment_problems
from deployments.delegate_installs.records import (
    build_identifier,
    build_secret_identifier,
    build_stack_name,
    find_open_run,
    is_removal,
    list_stacks,
)
from deployments.execution.operations import run_pipeline
from deployments.models import Execution
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from rbac.policy import Forbidden, can, require
from web.http.problems import BadInput, Conflict
from web.managed_resources import require_unmanaged

# Needed in the project, which gets the resources of the deployment.
PROJECT_PERMISSIONS: Final = (
    "core_environment_edit",
    "core_service_edit",
    "core_secret_edit",
    "core_pipeline_edit",
    "core_pipeline_execute",
)
# Needed by the connector besides the policies of deployments and stacks.
CREATING_ACTIONS: Final = (
    "iam:AttachRolePolicy",
    "iam:CreateRole",
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "iam:PassRole",
    "iam:PutRolePolicy",
    # CloudFormation passes the tags of a stack on to its resources.
    "iam:TagRole",
    "logs:CreateLogGroup",
    "logs:DeleteLogGroup",
    "logs:DescribeLogGroups",
    "logs:PutRetentionPolicy",
    "logs:TagResource",
    "secretsmanager:CreateSecret",
    "secretsmanager:DeleteSecret",
    "secretsmanager:DescribeSecret",
    "secretsmanager:TagResource",
    "secretsmanager:UpdateSecret",
)


@dataclass(frozen=True)
class DelegateDeploymentPlan:
    """What a deployment of a delegate creates or updates; `is_update` if an earlier one made its pipeline."""

    delegate: Delegate
    project: Scope
    connector: Connector
    spec: SpecPlan
    creates_log_group: bool
    is_update: bool

    @property
    def identifier(self) -> str:
        """Return the identifier of environment, service and pipeline in the project."""
        return build_identifier(self.delegate)

    @property
    def secret(self) -> str:
        """Return the identifier of the secret with the token in the project."""
        return build_secret_identifier(self.delegate)

    @property
    def stack(self) -> str:
        return build_stack_name(self.delegate)

    @property
    def creates_task_role(self) -> bool:
        return documents.creates_task_role(self.spec)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the cluster needs before the deployment, as sentences."""
        number = self.spec.request.desired_count + 1
        if self.spec.request.is_fargate:
            return ()
        if self.spec.takes_host_port:
            return (
                f"Each task takes a port of its EC2 instance, and a new one starts before an earlier one "
                f"stops: the cluster needs {number} instances.",
            )
        return (f"The EC2 instances of the cluster need room for {number} tasks while one replaces another.",)

    @property
    def files(self) -> dict[str, str]:
        """Return the documents by title; the token is in none of them."""
        return {
            "CloudFormation template": _render(self.template),
            "Task definition": _render(documents.build_deployed_task_definition(self.spec)),
            "Service definition": _render(documents.build_deployed_service(self.spec)),
        }

    @property
    def digest(self) -> str:
        """Return a hash of all that a person confirms."""
        place = [self.spec.region, self.spec.cluster, self.connector.pk, self.project.pk]
        parts = [self.files, self.stack, *place]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def template(self) -> dict[str, Any]:
        return documents.build_template(self.spec, creates_log_group=self.creates_log_group)

    @property
    def actions(self) -> tuple[str, ...]:
        """Return the IAM actions that the connector needs, by name."""
        policies = [policy for name in ("ecs", "cloudformation") if (policy := get_policy(name))]
        return tuple(
            sorted({*CREATING_ACTIONS, *(action for policy in policies for action in policy.actions)})
        )


def require_permissions(actor: User, delegate: Delegate, project: Scope) -> None:
    """Check the permissions to deploy a delegate by a project, whatever the connector. Raises `Forbidden`."""
    require(actor, INSTALL_PERMISSION, delegate)
    for permission in PROJECT_PERMISSIONS:
        # Who sees the delegate knows its projects: nothing is hidden there.
        if not can(actor, permission, project):
            raise Forbidden(permission)


def plan_delegate_deployment(
    *, actor: User, delegate: Delegate, project: Scope, connector: Connector
) -> DelegateDeploymentPlan:
    """Return what a deployment of a delegate would do. Only reads Slipway's own records.

    Raises `BadInput` with the reason why Slipway cannot deploy it, `Conflict` during a removal, and the
    errors of missing permissions.
    """
    require_permissions(actor, delegate, project)
    require_access(actor, get_connector_requirements(connector, path="connector"))
    for path, message in list_deployment_problems(delegate, project, connector):
        raise BadInput(message, errors=[{"path": path, "message": message}])
    # The removal could delete the stack after this deployment has checked it.
    if (open_run := find_open_run(delegate)) is not None and is_removal(open_run):
        raise Conflict(f"{open_run} is still removing the delegate. Wait for its end, or abort it.")
    request = build_spec_request(delegate)
    return DelegateDeploymentPlan(
        delegate,
        project,
        connector,
        documents.build_deployed_plan(request),
        creates_log_group=not request.log_group,
        is_update=Pipeline.objects.filter(scope=project, identifier=build_identifier(delegate)).exists(),
    )


def deploy_delegate(*, actor: User, plan: DelegateDeploymentPlan, cause: str = "") -> Execution:
    """Create or update the resources of a plan in its project, and run its pipeline.

    `cause` is what started it without a person.

    Raises the errors of `plan_delegate_deployment`, and those of each resource and of the run.
    """
    delegate, project = plan.delegate, plan.project
    with transaction.atomic():
        # A removal by another project waits for this, and then finds the run.
        Delegate.objects.select_for_update().get(pk=delegate.pk)
        plan_delegate_deployment(actor=actor, delegate=delegate, project=project, connector=plan.connector)
        _require_unmanaged_rows(plan)
        _save_secret(actor, plan)
        _save_place(actor, plan)
        _save_service(actor, plan)
        text = documents.build_pipeline(
            delegate.name,
            plan.identifier,
            stack=plan.stack,
            template=plan.template,
            secret=plan.secret,
            stacks=list_stacks(delegate),
        )
        pipeline = Pipeline.objects.filter(scope=project, identifier=plan.identifier).first()
        if pipeline is None or pipeline.yaml != text:
            pipeline = save_pipeline(actor=actor, scope=project, yaml=text, pipeline=pipeline)
        return run_pipeline(
            actor=actor, pipeline=pipeline, cause=cause or f"Deployment of the delegate {delegate}"
        )


def _require_unmanaged_rows(plan: DelegateDeploymentPlan) -> None:
    """Raise `ManagedElsewhere` for a resource of an earlier deployment that a Git sync has taken over."""
    own = {"scope": plan.project, "identifier": plan.identifier}
    places = Infrastructure.objects.filter(
        environment__scope=plan.project, environment__identifier=plan.identifier
    )
    for row in (*Service.objects.filter(**own), *places, *Pipeline.objects.filter(**own)):
        require_unmanaged(row)


def _save_secret(actor: User, plan: DelegateDeploymentPlan) -> None:
    """Store the token as a secret of the project, so that only AWS gets its value."""
    assert plan.delegate.token is not None  # noqa: S101 - the plan was checked
    value = reveal_token(
        actor=actor, token=plan.delegate.token, shown_for=f"the deployment of {plan.delegate}"
    )
    secret = Secret.objects.filter(scope=plan.project, identifier=plan.secret).first()
    name = f"Token of the delegate {plan.delegate}"
    if secret is None:
        create_secret(actor=actor, scope=plan.project, identifier=plan.secret, name=name, value=value)
    else:
        update_secret(actor=actor, secret=secret, value=value)


def _save_place(actor: User, plan: DelegateDeploymentPlan) -> None:
    environment = Environment.objects.filter(scope=plan.project, identifier=plan.identifier).first()
    if environment is None:
        environment = create_environment(
            actor=actor,
            scope=plan.project,
            identifier=plan.identifier,
            spec=EnvironmentSpec(f"Delegate {plan.delegate}", "The ECS cluster of a delegate."),
        )
    spec = InfrastructureSpec("Cluster", plan.connector, plan.spec.region, plan.spec.cluster)
    place = Infrastructure.objects.filter(
        environment=environment, identifier=documents.INFRASTRUCTURE
    ).first()
    if place is None:
        create_infrastructure(
            actor=actor, environment=environment, identifier=documents.INFRASTRUCTURE, spec=spec
        )
    else:
        update_infrastructure(actor=actor, infrastructure=place, spec=spec)


def _save_service(actor: User, plan: DelegateDeploymentPlan) -> None:
    kinds = Manifest.Kind
    manifests = (
        (
            "task_definition",
            kinds.TASK_DEFINITION,
            _render(documents.build_deployed_task_definition(plan.spec)),
        ),
        (
            "service_definition",
            kinds.SERVICE_DEFINITION,
            _render(documents.build_deployed_service(plan.spec)),
        ),
    )
    spec = ServiceSpec(
        name=f"Delegate {plan.delegate}",
        description="Deployed from the page of the delegate, which overwrites changes.",
        manifests=[
            ManifestSpec(identifier, kind, INLINE, content=text) for identifier, kind, text in manifests
        ],
    )
    service = Service.objects.filter(scope=plan.project, identifier=plan.identifier).first()
    if service is None:
        create_service(actor=actor, scope=plan.project, identifier=plan.identifier, spec=spec)
    else:
        update_service(actor=actor, service=service, spec=spec)


def _render(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2)
