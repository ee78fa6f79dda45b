"""Routes of the overview, the matrix, events, and service dashboards."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Service
from deployments.models import StageExecution
from inventory.api import dashboard_documents, dashboard_serializers
from inventory.dashboards.deployment_differences import compare_deployments
from inventory.dashboards.deployment_statistics import DEFAULT_RANGE, RANGES, compute_deployment_statistics
from inventory.dashboards.environment_matrix import build_environment_matrix
from inventory.dashboards.overview import get_overview_tiles, list_scope_executions
from inventory.dashboards.rollback_plans import build_rollback_plan
from inventory.dashboards.running_services import list_running_services
from inventory.operations import redeployments
from inventory.queries.events import (
    DEFAULT_TIME_RANGE,
    MAX_SEARCH_LENGTH,
    TIME_RANGES,
    parse_event_search,
    search_events,
)
from inventory.queries.service_deployments import (
    get_deployment,
    list_active_deployments,
    list_service_deployments,
)
from inventory.sync.watched_services import record_view
from rbac.policy import NotVisible, filter_visible, require
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView, filter_by_scope
from web.http.pagination import CursorPagination
from web.http.problems import BadInput

VIEW_SERVICE = "core_service_view"
DAYS_PARAMETER = OpenApiParameter(
    "days", {"type": "integer", "enum": list(RANGES), "default": DEFAULT_RANGE}, description="Time range."
)


def _build_text_parameter(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", "maxLength": MAX_SEARCH_LENGTH}, description=description)


def _build_key_parameter(name: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.INT, required=True, description="Key of a deployment.")


class OverviewRoute(BaseApiView):
    """Overview of a scope with deployment statistics."""

    pagination_class = None

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, DAYS_PARAMETER],
        responses=dashboard_serializers.OverviewDocument,
    )
    def get(self, request: Request) -> Response:
        text = request.GET.get("days", "") or str(DEFAULT_RANGE)
        days = next((choice for choice in RANGES if text == str(choice)), None)
        if days is None:
            message = f"must be one of {', '.join(map(str, RANGES))}"
            raise BadInput("The input is not valid.", errors=[{"path": "days", "message": message}])
        scope, now = self.get_named_scope(), timezone.now()
        executions = list_scope_executions(self.principal, scope)
        tiles = get_overview_tiles(self.principal, scope, executions, now, days)
        return Response(
            dashboard_documents.serialize_overview(
                tiles, compute_deployment_statistics(executions, now, days)
            )
        )


class EnvironmentMatrixRoute(BaseApiView):
    """Versions of each service by environment."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, *PAGE_PARAMETERS],
        responses=dashboard_serializers.MatrixRowDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = filter_visible(self.principal, VIEW_SERVICE, Service.objects.select_related("scope"))
        pagination = CursorPagination()
        services = pagination.paginate_queryset(
            filter_by_scope(request, rows, by_identifier=False), request, self
        )
        return pagination.get_paginated_response(
            dashboard_documents.serialize_matrix(build_environment_matrix(self.principal, services))
        )


class EventsRoute(BaseApiView):
    """Events of ECS and auto scaling, newest first."""

    order = "at"

    @extend_schema(
        parameters=[
            ORG_PARAMETER,
            PROJECT_PARAMETER,
            _build_text_parameter("q", "A part of the message."),
            _build_text_parameter("service", "Identifier of a service."),
            _build_text_parameter("environment", "Identifier of an environment."),
            _build_text_parameter("account", "Number of an AWS account."),
            _build_text_parameter("region", "Name of a region."),
            OpenApiParameter(
                "since", {"type": "string", "enum": list(TIME_RANGES), "default": DEFAULT_TIME_RANGE}
            ),
            *PAGE_PARAMETERS,
        ],
        responses=dashboard_serializers.EventDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        search = parse_event_search(request.GET.dict())
        rows = search_events(self.principal, None, search, timezone.now())
        return self.paginate(
            filter_by_scope(request, rows, by_identifier=False), dashboard_documents.serialize_event
        )


class _ServiceRoute(BaseApiView):
    """Base of the routes of one service."""

    def service(self, pk: int) -> Service:
        """Return the service. Raises `NotVisible` (404)."""
        return self.get_visible(VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)

    def deployment(self, deployments: QuerySet[StageExecution], key: object) -> StageExecution:
        """Return the deployment. Raises `NotVisible` (404)."""
        deployment = get_deployment(deployments, key)
        if deployment is None:
            raise NotVisible("Not found, or you cannot view it.")
        return deployment


class ServiceDashboardRoute(_ServiceRoute):
    """Running and active deployments of a service, by environment and version."""

    pagination_class = None

    @extend_schema(responses=dashboard_serializers.DashboardDocument)
    def get(self, request: Request, pk: int) -> Response:
        service = self.service(pk)
        running_services = list_running_services(self.principal, [service], detailed=True)
        record_view([running_service.ecs_service for running_service in running_services], timezone.now())
        return Response(
            dashboard_documents.serialize_dashboard(
                running_services, list_active_deployments(list_service_deployments(self.principal, service))
            )
        )


class ServiceDeploymentsRoute(_ServiceRoute):
    """Deployments of a service, newest first."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=dashboard_serializers.DeploymentDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        return self.paginate(
            list_service_deployments(self.principal, self.service(pk)),
            dashboard_documents.serialize_deployment,
        )


class CompareDeploymentsRoute(_ServiceRoute):
    """Differences between two deployments of a service."""

    pagination_class = None

    @extend_schema(
        parameters=[_build_key_parameter("from"), _build_key_parameter("to")],
        responses=dashboard_serializers.DifferenceDocument,
    )
    def get(self, request: Request, pk: int) -> Response:
        deployments = list_service_deployments(self.principal, self.service(pk))
        old, new = (self.deployment(deployments, request.GET.get(name, "")) for name in ("from", "to"))
        return Response(dashboard_documents.serialize_difference(compare_deployments(old, new)))


class RedeployRoute(_ServiceRoute):
    """Rollback to an earlier deployment: its plan, and its start."""

    pagination_class = None

    @extend_schema(responses=dashboard_serializers.RollbackPlanDocument)
    def get(self, request: Request, pk: int, deployment: int) -> Response:
        """Return the differences from the running version, and what prevents the rollback."""
        service = self.service(pk)
        deployments = list_service_deployments(self.principal, service)
        target = self.deployment(deployments, deployment)
        plan = build_rollback_plan(self.principal, service, deployments, target)
        return Response(dashboard_documents.serialize_rollback_plan(plan))

    @extend_schema(
        request=dashboard_serializers.RollbackInput,
        responses={201: dashboard_serializers.StartedExecutionDocument},
    )
    def post(self, request: Request, pk: int, deployment: int) -> Response:
        """Repeat a deployment with its manifests, inputs and image."""
        service = self.service(pk)
        target = self.deployment(list_service_deployments(self.principal, service), deployment)
        require(self.principal, "core_pipeline_execute", target.execution.pipeline)
        running = self.get_validated_body(dashboard_serializers.RollbackInput).get("running")
        begun = redeployments.redeploy(
            actor=self.principal, service=service, deployment=target, running=running
        )
        answer: dict[str, Any] = {"id": str(begun.pk), "number": begun.number}
        return Response(answer, status=201)
