"""API of event queues."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.connectors import CONNECTOR_VIEW_PERMISSION
from connectors.models import Connector, EventQueue
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER, parse_number
from web.api.views import BaseApiView
from web.clock import get_database_time

CONNECTOR_PARAMETER = OpenApiParameter(
    "connector", OpenApiTypes.INT, description="Only event queues of this connector."
)


class EventQueueDocument(serializers.Serializer[Any]):
    """Queue that receives the events of AWS for a connector and region."""

    id = serializers.IntegerField()
    connector = serializers.IntegerField(source="connector_id")
    region = serializers.CharField()
    queue_url = serializers.CharField()
    state = serializers.SerializerMethodField(help_text="Only RECEIVING replaces frequent polling.")
    reason = serializers.SerializerMethodField(help_text="Why it does not; empty if it does.")
    read_at = serializers.DateTimeField(allow_null=True)
    last_event_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()

    @extend_schema_field(serializers.ChoiceField(choices=EventQueue.State.choices))
    def get_state(self, queue: EventQueue) -> str:
        return str(queue.get_state(get_database_time()))

    def get_reason(self, queue: EventQueue) -> str:
        return queue.get_reason(get_database_time())


class EventQueueInput(serializers.Serializer[Any]):
    """Fields of a new event queue."""

    connector = serializers.IntegerField()
    queue_url = serializers.CharField(max_length=400)
    region = serializers.CharField(
        max_length=64, required=False, help_text="By default the region in the URL."
    )


class EventQueues(BaseApiView):
    """Event queues."""

    @extend_schema(
        parameters=[CONNECTOR_PARAMETER, ORG_PARAMETER, PROJECT_PARAMETER, *PAGE_PARAMETERS],
        responses=EventQueueDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = EventQueue.objects.select_related("connector__scope")
        if "connector" in request.query_params:
            rows = rows.filter(connector=parse_number(request, "connector"))
        return self.list_visible(CONNECTOR_VIEW_PERMISSION, rows, EventQueueDocument, by_identifier=False)

    @extend_schema(request=EventQueueInput, responses={201: EventQueueDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(EventQueueInput)
        connectors = Connector.objects.select_related("scope", "secret__scope", "session_token__scope")
        connector = self.get_visible(CONNECTOR_VIEW_PERMISSION, connectors, pk=body["connector"])
        queue = operations.create_event_queue(
            actor=self.principal,
            connector=connector,
            queue_url=body["queue_url"],
            region=body.get("region", ""),
        )
        return Response(EventQueueDocument(queue).data, status=201)


class EventQueueDetail(BaseApiView):
    """Event queue."""

    @extend_schema(responses=EventQueueDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(EventQueueDocument(self._get_queue(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_event_queue(actor=self.principal, queue=self._get_queue(pk))
        return Response(status=204)

    def _get_queue(self, pk: int) -> EventQueue:
        rows = EventQueue.objects.select_related("connector__scope")
        return self.get_visible(CONNECTOR_VIEW_PERMISSION, rows, pk=pk)
