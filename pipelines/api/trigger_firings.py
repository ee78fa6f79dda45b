"""REST routes of firings of triggers."""

import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pipelines.models import TriggerFiring
from pipelines.triggers import operations
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView
from web.http.problems import BadInput

STATUS_PARAMETER = OpenApiParameter(
    "status",
    OpenApiTypes.STR,
    enum=TriggerFiring.Status.values,
    description="Only firings with this status.",
)


class FiringSummary(serializers.Serializer[Any]):
    """Firing of a trigger in a list."""

    id = serializers.UUIDField()
    trigger = serializers.IntegerField(source="trigger_id")
    delivery_id = serializers.CharField()
    received_at = serializers.DateTimeField()
    summary = serializers.CharField()
    status = serializers.ChoiceField(choices=TriggerFiring.Status.choices)
    reason = serializers.CharField()
    execution = serializers.UUIDField(source="execution_id", allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class FiringDocument(FiringSummary):
    """Firing of a trigger with its event and the decision about it."""

    values = serializers.DictField()
    payload = serializers.DictField()
    decision = serializers.DictField()


class FiringList(BaseApiView):
    """Firings of a trigger, newest first."""

    order = "received_at"

    @extend_schema(parameters=[STATUS_PARAMETER, *PAGE_PARAMETERS], responses=FiringSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        trigger = self.get_visible(operations.VIEW, operations.list_triggers(), pk=pk)
        rows = TriggerFiring.objects.filter(trigger=trigger).defer("payload", "values", "decision")
        if status := request.GET.get("status", ""):
            if status not in TriggerFiring.Status.values:
                message = f"must be one of {', '.join(TriggerFiring.Status.values)}"
                raise BadInput("The input is not valid.", errors=[{"path": "status", "message": message}])
            rows = rows.filter(status=status)
        return self.paginate(rows, FiringSummary)


class FiringView(BaseApiView):
    """Base of the routes of one firing."""

    def get_firing(self, pk: uuid.UUID) -> TriggerFiring:
        """Return the firing in the URL. Raises `NotVisible` (404)."""
        rows = TriggerFiring.objects.filter(trigger__pipeline__deleted_at=None)
        return self.get_visible(operations.VIEW, rows.select_related("trigger__pipeline__scope"), pk=pk)


class FiringDetail(FiringView):
    """Firing of a trigger."""

    @extend_schema(responses=FiringDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(FiringDocument(self.get_firing(pk)).data)


class FiringRedelivery(FiringView):
    """Repeated handling of an event with the current settings of its trigger."""

    @extend_schema(request=None, responses={201: FiringDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        made = operations.redeliver(actor=self.principal, firing=self.get_firing(pk))
        return Response(FiringDocument(made).data, status=201)
