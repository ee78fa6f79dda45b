"""Routes of the overview: the facts that its pages show."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Service
from deployments.models import StageExecution
from inventory.dashboards import documents, operations
from inventory.dashboards.api import shapes
from inventory.dashboards.differences import difference
from inventory.dashboards.events import LONGEST, SINCE, USUAL, found_events, search_of
from inventory.dashboards.figures import RANGES, USUAL_RANGE, figures
from inventory.dashboards.history import active, deployments_of
from inventory.dashboards.matrix import matrix
from inventory.dashboards.running import places_of
from inventory.dashboards.under_way import executions_here, under_way
from inventory.sync.looks import note_look
from rbac.policy import NotVisible, require, visible_to
from web.paging import CursorPage
from web.problems import BadInput
from web.rest import ORG, PAGED, PROJECT, Route, narrowed

VIEW_SERVICE = "core_service_view"
MOST_DIGITS = 18
DAYS = OpenApiParameter(
    "days", {"type": "integer", "enum": list(RANGES), "default": USUAL_RANGE}, description="How far back."
)


def _text(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", "maxLength": LONGEST}, description=description)


def _key(name: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.INT, required=True, description="Key of a deployment.")


class Overview(Route):
    """What goes on in a scope, and how deployments went."""

    pagination_class = None

    @extend_schema(parameters=[ORG, PROJECT, DAYS], responses=shapes.OverviewDocument)
    def get(self, request: Request) -> Response:
        asked = request.GET.get("days", "") or str(USUAL_RANGE)
        days = next((one for one in RANGES if asked == str(one)), None)
        if days is None:
            message = f"must be one of {', '.join(map(str, RANGES))}"
            raise BadInput("The input is not valid.", errors=[{"path": "days", "message": message}])
        scope, now = self.scope_named(), timezone.now()
        executions = executions_here(self.principal, scope)
        now_here = under_way(self.principal, scope, executions, now, days)
        return Response(documents.overview_document(now_here, figures(executions, now, days)))


class WhatRunsWhere(Route):
    """Which version of each service runs in each environment."""

    @extend_schema(parameters=[ORG, PROJECT, *PAGED], responses=shapes.MatrixRow(many=True))
    def get(self, request: Request) -> Response:
        rows = visible_to(self.principal, VIEW_SERVICE, Service.objects.select_related("scope"))
        pages = CursorPage()
        services = pages.paginate_queryset(narrowed(request, rows, by_identifier=False), request, self)
        return pages.get_paginated_response(documents.matrix_documents(matrix(self.principal, services)))


class Events(Route):
    """What ECS and auto scaling said of services, newest first."""

    order = "at"

    @extend_schema(
        parameters=[
            ORG,
            PROJECT,
            _text("q", "A part of the message."),
            _text("service", "Identifier of a service."),
            _text("environment", "Identifier of an environment."),
            _text("account", "Number of an AWS account."),
            _text("region", "Name of a region."),
            OpenApiParameter("since", {"type": "string", "enum": list(SINCE), "default": USUAL}),
            *PAGED,
        ],
        responses=shapes.EventDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        search = search_of(request.GET.dict())
        rows = found_events(self.principal, None, search, timezone.now())
        return self.page(narrowed(request, rows, by_identifier=False), documents.event_document)


class _OfService(Route):
    """What is asked of one service."""

    def service(self, pk: int) -> Service:
        """The service that is meant. Raises `NotVisible` (404)."""
        return self.one(VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)

    def deployment(self, deployments: QuerySet[StageExecution], asked: object) -> StageExecution:
        """The deployment that is meant. Raises `NotVisible` (404)."""
        text = str(asked)
        if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
            return self.one_of(deployments, pk=int(text))
        raise NotVisible("There is nothing here that you may see.")


class DashboardOfService(_OfService):
    """What runs of a service, by environment and version, and what is being deployed."""

    pagination_class = None

    @extend_schema(responses=shapes.DashboardDocument)
    def get(self, request: Request, pk: int) -> Response:
        service = self.service(pk)
        places = places_of(self.principal, [service], detailed=True)
        note_look([one.seen for one in places], timezone.now())
        return Response(documents.dashboard_document(places, active(deployments_of(self.principal, service))))


class DeploymentsOfService(_OfService):
    """The deployments of a service, newest first."""

    @extend_schema(parameters=PAGED, responses=shapes.DeploymentDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        return self.page(deployments_of(self.principal, self.service(pk)), documents.deployment_document)


class ComparedDeployments(_OfService):
    """What differs between two deployments of a service."""

    pagination_class = None

    @extend_schema(parameters=[_key("from"), _key("to")], responses=shapes.DifferenceDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = deployments_of(self.principal, self.service(pk))
        old, new = (self.deployment(found, request.GET.get(name, "")) for name in ("from", "to"))
        return Response(documents.difference_document(difference(old, new)))


class ReturnToDeployment(_OfService):
    """The way back to a deployment."""

    pagination_class = None

    @extend_schema(request=None, responses={201: shapes.Begun})
    def post(self, request: Request, pk: int, deployment: int) -> Response:
        """Deploy again what an execution deployed, with its manifests, inputs and image."""
        target = self.deployment(deployments_of(self.principal, self.service(pk)), deployment)
        require(self.principal, "core_pipeline_execute", target.execution.pipeline)
        begun = operations.return_to(actor=self.principal, deployment=target)
        answer: dict[str, Any] = {"id": str(begun.pk), "number": begun.number}
        return Response(answer, status=201)
