"""Routes of acceptance runs."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ops.acceptance import operations
from ops.acceptance.operations import AcceptanceSpec
from ops.acceptance.plans import AcceptancePlan
from ops.acceptance.reports import AcceptanceReport, list_scenario_progress
from ops.acceptance.targets import DEFAULT_IMAGE, BlueGreenTarget, find_connector
from ops.models import AcceptanceRun
from rbac.models import Scope
from rbac.policy import require
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView
from web.http.problems import Conflict

_ID_CHARACTERS, _ARN_CHARACTERS, MAX_IDS = 64, 500, 16


class LoadBalancingInput(serializers.Serializer[Any]):
    """ARNs of a load balancer for blue/green; without a rule, the default rule of its listener."""

    load_balancer = serializers.CharField(max_length=_ARN_CHARACTERS)
    prod_listener = serializers.CharField(max_length=_ARN_CHARACTERS)
    prod_rule = serializers.CharField(max_length=_ARN_CHARACTERS, allow_blank=True, default="")
    stage_listener = serializers.CharField(max_length=_ARN_CHARACTERS)
    stage_rule = serializers.CharField(max_length=_ARN_CHARACTERS, allow_blank=True, default="")


def _build_id_list() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=_ID_CHARACTERS), max_length=MAX_IDS, default=list
    )


class AcceptanceRunInput(serializers.Serializer[Any]):
    """Place of a run. `connector` is an identifier, or the path of its scope and its identifier.

    Without `region`, subnets or security groups, the run uses the test region of the connector and the
    network of a service of the cluster.
    """

    connector = serializers.CharField(max_length=400)
    cluster = serializers.CharField(max_length=255)
    region = serializers.CharField(max_length=64, allow_blank=True, default="")
    organization = serializers.CharField(
        max_length=128, allow_blank=True, default="", help_text="For a connector of the account."
    )
    subnets = _build_id_list()
    security_groups = _build_id_list()
    image = serializers.CharField(max_length=330, default=DEFAULT_IMAGE)
    execution_role = serializers.CharField(max_length=_ARN_CHARACTERS, allow_blank=True, default="")
    has_public_ip = serializers.BooleanField(default=True)
    load_balancing = LoadBalancingInput(required=False, allow_null=True, default=None)


class NewAcceptanceRunInput(AcceptanceRunInput):
    """Place of a run that starts at once."""

    delete_leftovers = serializers.BooleanField(
        default=False, help_text="Delete first what earlier runs left in the cluster."
    )


class AcceptancePlanDocument(serializers.Serializer[Any]):
    """What a run would create and cost; `leftovers` of earlier runs have to be deleted first."""

    region = serializers.CharField(source="target.region")
    cluster = serializers.CharField(source="target.cluster")
    subnets = serializers.ListField(child=serializers.CharField(), source="target.subnets")
    security_groups = serializers.ListField(child=serializers.CharField(), source="target.security_groups")
    scenarios = serializers.SerializerMethodField()
    ecs_service_count = serializers.SerializerMethodField()
    swapped_rules = serializers.ListField(child=serializers.CharField())
    cost_usd = serializers.CharField(source="cost")
    actions = serializers.ListField(child=serializers.CharField(), source="permissions.actions")
    denied_actions = serializers.ListField(child=serializers.CharField(), source="permissions.denied")
    leftovers = serializers.SerializerMethodField()

    def get_scenarios(self, plan: AcceptancePlan) -> list[str]:
        return [scenario.name for scenario in plan.scenarios]

    def get_ecs_service_count(self, plan: AcceptancePlan) -> int:
        return len(plan.services)

    def get_leftovers(self, plan: AcceptancePlan) -> list[str]:
        return [run.aws_name for run in plan.leftovers]


class ScenarioDocument(serializers.Serializer[Any]):
    """Scenario of a run; `result` has status and outcome of its execution."""

    name = serializers.CharField(source="scenario.name")
    title = serializers.CharField(source="scenario.title")
    state = serializers.CharField()
    result = serializers.CharField()


class AcceptanceRunDocument(serializers.Serializer[Any]):
    """Acceptance run; `left` has a sentence for each resource that could not be deleted."""

    id = serializers.IntegerField()
    key = serializers.CharField()
    connector = serializers.CharField(source="connector_name")
    region = serializers.CharField()
    cluster = serializers.CharField()
    status = serializers.ChoiceField(choices=AcceptanceRun.Status.choices)
    requested_by = serializers.CharField(source="requested_by.username", default=None, allow_null=True)
    version = serializers.CharField()
    scenarios = serializers.SerializerMethodField()
    verdicts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of rules by result.")
    problem = serializers.CharField()
    left = serializers.ListField(child=serializers.CharField())
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(ScenarioDocument(many=True))
    def get_scenarios(self, run: AcceptanceRun) -> list[dict[str, Any]]:
        return list(ScenarioDocument(list_scenario_progress(run), many=True).data)


class AcceptanceRunDetailDocument(AcceptanceRunDocument):
    """Acceptance run with its report, as far as it has come."""

    report = serializers.SerializerMethodField()

    def get_report(self, run: AcceptanceRun) -> dict[str, Any]:
        return AcceptanceReport.of(run).to_json()


class AcceptanceRunView(BaseApiView):
    """Base of the routes of acceptance runs, for those who manage the installation."""

    def require_manager(self) -> None:
        """Raise `Forbidden` without the permission to manage the installation."""
        require(self.principal, operations.MANAGE, Scope.objects.account())

    def get_run(self, pk: int) -> AcceptanceRun:
        """Return the run in the URL."""
        self.require_manager()
        rows = AcceptanceRun.objects.select_related("connector__scope", "connector__secret", "requested_by")
        run: AcceptanceRun = self.get_row(rows, pk=pk)
        return run

    def build_plan(self, data: dict[str, Any]) -> AcceptancePlan:
        """Return the plan of the run in the request body."""
        balancing = data["load_balancing"]
        names = ("cluster", "region", "image", "execution_role", "has_public_ip")
        spec = AcceptanceSpec(
            connector=find_connector(data["connector"]),
            organization=self.get_scope(f"{Scope.ROOT}/{data['organization']}")
            if data["organization"]
            else None,
            subnets=tuple(data["subnets"]),
            security_groups=tuple(data["security_groups"]),
            blue_green=BlueGreenTarget(**balancing) if balancing else None,
            **{name: data[name] for name in names},
        )
        return operations.plan_run(actor=self.principal, spec=spec)


class AcceptanceRuns(AcceptanceRunView):
    """Acceptance runs."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=AcceptanceRunDocument(many=True))
    def get(self, request: Request) -> Response:
        self.require_manager()
        return self.paginate(AcceptanceRun.objects.select_related("requested_by"), AcceptanceRunDocument)

    @extend_schema(request=NewAcceptanceRunInput, responses={201: AcceptanceRunDetailDocument})
    def post(self, request: Request) -> Response:
        self.require_manager()
        data = self.get_validated_body(NewAcceptanceRunInput)
        plan = self.build_plan(data)
        if plan.leftovers and not data["delete_leftovers"]:
            names = ", ".join(run.aws_name for run in plan.leftovers)
            raise Conflict(
                f"Earlier runs left {names} in the cluster. Set delete_leftovers to delete them first."
            )
        run = operations.start_run(actor=self.principal, plan=plan)
        return Response(AcceptanceRunDetailDocument(run).data, status=201)


class PlanAcceptanceRun(AcceptanceRunView):
    """Plan of an acceptance run, which changes nothing."""

    @extend_schema(request=AcceptanceRunInput, responses=AcceptancePlanDocument)
    def post(self, request: Request) -> Response:
        self.require_manager()
        plan = self.build_plan(self.get_validated_body(AcceptanceRunInput))
        return Response(AcceptancePlanDocument(plan).data)


class AcceptanceRunDetail(AcceptanceRunView):
    """Acceptance run with its report."""

    @extend_schema(responses=AcceptanceRunDetailDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AcceptanceRunDetailDocument(self.get_run(pk)).data)


class CancelAcceptanceRun(AcceptanceRunView):
    """Cancellation of an acceptance run: its deployment is aborted, and what it created is deleted."""

    @extend_schema(request=None, responses=AcceptanceRunDetailDocument)
    def post(self, request: Request, pk: int) -> Response:
        run = self.get_run(pk)
        operations.cancel_run(actor=self.principal, run=run)
        run.refresh_from_db()
        return Response(AcceptanceRunDetailDocument(run).data)


class DeleteAcceptanceLeftovers(AcceptanceRunView):
    """Deletion of what an acceptance run could not delete at its end."""

    @extend_schema(request=None, responses=AcceptanceRunDetailDocument)
    def post(self, request: Request, pk: int) -> Response:
        run = self.get_run(pk)
        operations.delete_leftovers(actor=self.principal, run=run)
        return Response(AcceptanceRunDetailDocument(run).data)
