"""Routes that plan the deployment of a delegate to Amazon ECS or its removal, and start it."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.models import Connector
from delegates.models import Delegate
from deployments.api.runs import RunDocument
from deployments.delegate_installs.operations import (
    DelegateDeploymentPlan,
    deploy_delegate,
    plan_delegate_deployment,
    require_permissions,
)
from deployments.delegate_installs.removal import (
    DelegateRemovalPlan,
    plan_delegate_removal,
    remove_delegate,
    require_removal_permissions,
)
from deployments.models import Execution
from guards.limits import NAME_CHARACTERS
from rbac.models import Scope
from web.api.views import BaseApiView
from web.http.problems import Conflict

VIEW: Final = "core_delegate_view"


class DelegateDeploymentInput(serializers.Serializer[Any]):
    """Connector and project of a delegate's deployment."""

    connector_id = serializers.IntegerField(
        min_value=1, help_text="AWS connector that creates the delegate; not through this delegate alone."
    )
    org = serializers.CharField(required=False, max_length=int(NAME_CHARACTERS))
    project = serializers.CharField(
        required=False,
        max_length=int(NAME_CHARACTERS),
        help_text="Project that gets the pipeline; by default the delegate's own.",
    )


class DelegateDeploymentStart(DelegateDeploymentInput):
    """Deployment of a delegate, as its plan describes it."""

    digest = serializers.CharField(
        required=False,
        max_length=64,
        help_text="Digest of the confirmed plan: nothing starts if the delegate has changed since.",
    )


class DelegateDeploymentPlanDocument(serializers.Serializer[Any]):
    """Parts that a deployment of a delegate creates or changes, and what it needs."""

    digest = serializers.CharField()
    project = serializers.CharField(source="project.path")
    connector_id = serializers.IntegerField(source="connector.pk")
    is_update = serializers.BooleanField(help_text="Whether an earlier deployment is changed.")
    region = serializers.CharField(source="spec.region")
    cluster = serializers.CharField(source="spec.cluster", help_text="It must exist.")
    stack = serializers.CharField(help_text="CloudFormation stack of roles, secret and log group.")
    creates_log_group = serializers.BooleanField()
    creates_task_role = serializers.BooleanField()
    ecs_service = serializers.CharField(source="spec.service")
    family = serializers.CharField(source="spec.family")
    image = serializers.CharField(source="spec.image")
    mirrors_image = serializers.BooleanField(
        source="spec.is_mirrored", help_text="Whether the image has to be mirrored before."
    )
    instances = serializers.IntegerField(source="spec.request.desired_count")
    identifier = serializers.CharField(help_text="Pipeline, service and environment in the project.")
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="What the cluster needs before, as sentences."
    )
    actions = serializers.ListField(
        child=serializers.CharField(), help_text="IAM actions that the connector needs."
    )
    files = serializers.DictField(
        child=serializers.CharField(), help_text="Template, task and service definition, by title."
    )


PLACE_EXAMPLE = OpenApiExample(
    "Connector and project",
    {"connector_id": 7, "org": "default", "project": "demo"},
    request_only=True,
)
START_EXAMPLE = OpenApiExample(
    "Confirmed plan",
    {"connector_id": 7, "digest": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"},
    request_only=True,
)


class DelegateRoute(BaseApiView):
    """Base of the routes that deploy or remove a delegate."""

    def get_place(self, pk: int, body: Mapping[str, Any]) -> tuple[Delegate, Scope]:
        """Return the delegate, and the project that a body names, by default the delegate's own."""
        rows = Delegate.objects.select_related("scope", "token__scope", "configuration")
        delegate = self.get_visible(VIEW, rows.prefetch_related("instances"), pk=pk)
        return delegate, self.get_named_scope() if body.get("org") else delegate.scope

    def get_connector(self, pk: int) -> Connector:
        """Return a connector that the user may see."""
        connectors = Connector.objects.select_related("scope", "secret")
        return self.get_visible("core_connector_view", connectors, pk=pk)


class DelegateDeploymentRoute(DelegateRoute):
    """Base of the routes of a delegate's deployment."""

    def build_plan(self, pk: int, body: Mapping[str, Any]) -> DelegateDeploymentPlan:
        """Return the plan for a body. Raises the errors of `plan_delegate_deployment`."""
        delegate, project = self.get_place(pk, body)
        require_permissions(self.principal, delegate, project)
        connector = self.get_connector(body["connector_id"])
        return plan_delegate_deployment(
            actor=self.principal, delegate=delegate, project=project, connector=connector
        )


class PlanDelegateDeployment(DelegateDeploymentRoute):
    """Plan of a delegate's deployment; nothing is created or changed."""

    @extend_schema(
        request=DelegateDeploymentInput, responses=DelegateDeploymentPlanDocument, examples=[PLACE_EXAMPLE]
    )
    def post(self, request: Request, pk: int) -> Response:
        plan = self.build_plan(pk, self.get_validated_body(DelegateDeploymentInput))
        return Response(DelegateDeploymentPlanDocument(plan).data)


class DelegateDeployments(DelegateDeploymentRoute):
    """Deployment of a delegate: the first one, or an upgrade to its changed setup."""

    @extend_schema(request=DelegateDeploymentStart, responses={201: RunDocument}, examples=[START_EXAMPLE])
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(DelegateDeploymentStart)
        plan = self.build_plan(pk, body)
        if body.get("digest", plan.digest) != plan.digest:
            raise Conflict("The delegate was changed after this plan was made. Request the plan again.")
        return _respond_with_run(deploy_delegate(actor=self.principal, plan=plan))


class DelegateRemovalInput(serializers.Serializer[Any]):
    """Connector and project of a delegate's removal; by default those of its deployment."""

    connector_id = serializers.IntegerField(
        required=False,
        min_value=1,
        help_text="AWS connector that deletes the parts; not through this delegate alone.",
    )
    org = serializers.CharField(required=False, max_length=int(NAME_CHARACTERS))
    project = serializers.CharField(
        required=False,
        max_length=int(NAME_CHARACTERS),
        help_text="Project that deployed the delegate; by default the delegate's own.",
    )


class DelegateRemovalStart(DelegateRemovalInput):
    """Removal of a delegate, as its plan describes it."""

    digest = serializers.CharField(
        max_length=64,
        help_text="Digest of the confirmed plan: nothing starts if the plan has changed since.",
    )


class DelegateRemovalPlanDocument(serializers.Serializer[Any]):
    """Parts that a removal of a delegate deletes in AWS; the delegate stays in Slipway."""

    digest = serializers.CharField()
    project = serializers.CharField(source="project.path")
    connector_id = serializers.IntegerField(source="connector.pk")
    region = serializers.CharField(source="installation.plan.region")
    cluster = serializers.CharField(source="installation.plan.cluster")
    ecs_service = serializers.CharField(
        source="installation.plan.service", help_text="It stays if somebody else has deployed it."
    )
    stack = serializers.CharField(source="installation.stack")
    stack_parts = serializers.ListField(child=serializers.CharField(), source="installation.stack_parts")
    deletes_stack = serializers.BooleanField(
        help_text="Whether the stack is deleted with its parts; it stays while another project uses it."
    )
    stack_users = serializers.ListField(
        child=serializers.CharField(),
        help_text='Other projects that use the stack; "another project" stands for those you may not see.',
    )
    family = serializers.CharField(
        source="installation.plan.family", help_text="Task definition, whose revisions stay."
    )
    identifier = serializers.CharField(
        source="installation.identifier", help_text="Pipeline in the project that runs the removal."
    )
    open_tasks = serializers.IntegerField(help_text="Unfinished tasks of the delegate.")
    actions = serializers.ListField(
        child=serializers.CharField(), help_text="IAM actions that the connector needs."
    )


REMOVAL_EXAMPLE = OpenApiExample(
    "Confirmed removal",
    {"digest": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"},
    request_only=True,
)


class DelegateRemovalRoute(DelegateRoute):
    """Base of the routes of a delegate's removal from AWS."""

    def build_plan(self, pk: int, body: Mapping[str, Any]) -> DelegateRemovalPlan:
        """Return the plan for a body. Raises the errors of `plan_delegate_removal`."""
        delegate, project = self.get_place(pk, body)
        require_removal_permissions(self.principal, delegate, project)
        chosen = body.get("connector_id")
        return plan_delegate_removal(
            actor=self.principal,
            delegate=delegate,
            project=project,
            connector=self.get_connector(chosen) if chosen else None,
        )


class PlanDelegateRemoval(DelegateRemovalRoute):
    """Plan of a delegate's removal from AWS; nothing is deleted."""

    @extend_schema(request=DelegateRemovalInput, responses=DelegateRemovalPlanDocument)
    def post(self, request: Request, pk: int) -> Response:
        plan = self.build_plan(pk, self.get_validated_body(DelegateRemovalInput))
        return Response(DelegateRemovalPlanDocument(plan).data)


class DelegateRemovals(DelegateRemovalRoute):
    """Removal of a delegate from AWS: its ECS service, and its stack unless another project uses it."""

    @extend_schema(request=DelegateRemovalStart, responses={201: RunDocument}, examples=[REMOVAL_EXAMPLE])
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(DelegateRemovalStart)
        plan = self.build_plan(pk, body)
        if body["digest"] != plan.digest:
            raise Conflict("The plan has changed after it was made. Request the plan again.")
        return _respond_with_run(remove_delegate(actor=self.principal, plan=plan))


def _respond_with_run(execution: Execution) -> Response:
    location = {"Location": f"/api/v1/executions/{execution.pk}"}
    return Response(RunDocument(execution).data, status=201, headers=location)
