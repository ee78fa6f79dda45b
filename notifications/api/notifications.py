"""API of the notifications of a rule: list, test and resend."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from notifications import operations
from notifications.events import EventType
from notifications.models import Notification, NotificationRule
from notifications.operations import VIEW
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView


class NotificationDocument(serializers.Serializer[Any]):
    """Notification; its header carries `id`, which is the same for every attempt."""

    id = serializers.UUIDField()
    rule = serializers.IntegerField(source="rule_id")
    event = serializers.ChoiceField(choices=EventType.choices)
    text = serializers.CharField()
    status = serializers.ChoiceField(choices=Notification.Status.choices)
    attempts = serializers.IntegerField()
    answer_code = serializers.IntegerField(source="response_status", allow_null=True)
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()
    next_attempt_at = serializers.SerializerMethodField()
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_next_attempt_at(self, row: Notification) -> Any:
        return row.due_at if row.status == Notification.Status.WAITING else None


class NotificationListView(BaseApiView):
    """Notifications of a rule, newest first; POST sends a test."""

    order = "created_at"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=NotificationDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rule = self.get_visible(VIEW, NotificationRule.objects.select_related("scope"), pk=pk)
        return self.paginate(Notification.objects.filter(rule=rule).defer("body"), NotificationDocument)

    @extend_schema(request=None, responses={201: NotificationDocument})
    def post(self, request: Request, pk: int) -> Response:
        rule = self.get_visible(VIEW, NotificationRule.objects.select_related("scope"), pk=pk)
        made = operations.create_test_notification(actor=self.principal, rule=rule)
        return Response(NotificationDocument(made).data, status=201)


class NotificationResendView(BaseApiView):
    """Repeated delivery of a notification."""

    @extend_schema(request=None, responses=NotificationDocument)
    def post(self, request: Request, pk: str) -> Response:
        found = self.get_visible(VIEW, Notification.objects.select_related("rule__scope"), pk=pk)
        sent = operations.resend_notification(actor=self.principal, notification=found)
        return Response(NotificationDocument(sent).data)
