"""API of set-ups of events."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.connectors import CONNECTOR_VIEW_PERMISSION
from connectors.api.event_queues import CONNECTOR_PARAMETER
from connectors.models import Connector, EventQueueSetup
from connectors.operations.event_queue_setups import NAME_CHARACTERS
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER, parse_number
from web.api.views import BaseApiView


class EventQueueSetupDocument(serializers.Serializer[Any]):
    """Stack that Slipway creates, whose queue becomes an event queue of the connector."""

    id = serializers.IntegerField()
    connector = serializers.IntegerField(source="connector_id")
    region = serializers.CharField()
    stack_name = serializers.CharField()
    account = serializers.CharField(help_text="Empty before the first call to AWS.")
    stack_id = serializers.CharField(help_text="ARN of the stack; empty before there is one.")
    status = serializers.ChoiceField(choices=EventQueueSetup.Status.choices)
    message = serializers.CharField(
        help_text="Progress, or why it ended without a queue, with the next step."
    )
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    dismissed_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was hidden from the page of the connector."
    )


class EventQueueSetupInput(serializers.Serializer[Any]):
    """Fields of a new set-up of events."""

    connector = serializers.IntegerField()
    region = serializers.CharField(
        max_length=64, required=False, help_text="By default the test region of the connector."
    )
    stack_name = serializers.CharField(
        max_length=NAME_CHARACTERS,
        required=False,
        help_text="Also the name of the queue. By default slipway-events- and the identifier.",
    )


class EventQueueSetups(BaseApiView):
    """Set-ups of events."""

    @extend_schema(
        parameters=[CONNECTOR_PARAMETER, ORG_PARAMETER, PROJECT_PARAMETER, *PAGE_PARAMETERS],
        responses=EventQueueSetupDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = EventQueueSetup.objects.select_related("connector__scope")
        if "connector" in request.query_params:
            rows = rows.filter(connector=parse_number(request, "connector"))
        return self.list_visible(
            CONNECTOR_VIEW_PERMISSION, rows, EventQueueSetupDocument, by_identifier=False
        )

    @extend_schema(request=EventQueueSetupInput, responses={201: EventQueueSetupDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(EventQueueSetupInput)
        connectors = Connector.objects.select_related("scope")
        connector = self.get_visible(CONNECTOR_VIEW_PERMISSION, connectors, pk=body["connector"])
        setup = operations.start_event_queue_setup(
            actor=self.principal,
            connector=connector,
            region=body.get("region", ""),
            stack_name=body.get("stack_name", ""),
        )
        return Response(EventQueueSetupDocument(setup).data, status=201)


class EventQueueSetupDetail(BaseApiView):
    """Set-up of events."""

    @extend_schema(responses=EventQueueSetupDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(EventQueueSetupDocument(_get_setup(self, pk)).data)


class StopEventQueueSetup(BaseApiView):
    """Stop of a set-up of events; what exists in AWS stays."""

    @extend_schema(request=None, responses=EventQueueSetupDocument)
    def post(self, request: Request, pk: int) -> Response:
        setup = _get_setup(self, pk)
        operations.stop_event_queue_setup(actor=self.principal, setup=setup)
        return Response(EventQueueSetupDocument(setup).data)


class DismissEventQueueSetup(BaseApiView):
    """Dismissal of a set-up of events that failed or was stopped."""

    @extend_schema(request=None, responses=EventQueueSetupDocument)
    def post(self, request: Request, pk: int) -> Response:
        setup = _get_setup(self, pk)
        operations.dismiss_event_queue_setup(actor=self.principal, setup=setup)
        return Response(EventQueueSetupDocument(setup).data)


def _get_setup(view: BaseApiView, pk: int) -> EventQueueSetup:
    rows = EventQueueSetup.objects.select_related("connector__scope")
    return view.get_visible(CONNECTOR_VIEW_PERMISSION, rows, pk=pk)
