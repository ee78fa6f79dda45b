"""The route about the audit trail."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac.models import AuditEntry
from rbac.policy import visible_below
from web.rest import LISTED, Route, narrowed


class AuditDocument(serializers.Serializer[Any]):
    """One entry of the audit trail."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    api_key_prefix = serializers.CharField()
    action = serializers.CharField()
    thing_type = serializers.CharField()
    thing_id = serializers.CharField()
    thing_name = serializers.CharField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    before = serializers.JSONField()
    after = serializers.JSONField()
    source = serializers.CharField()  # type: ignore[assignment]
    request_id = serializers.CharField()
    address = serializers.CharField()


class Audit(Route):
    """The audit trail of the scopes where one may read it, newest first."""

    @extend_schema(parameters=LISTED, responses=AuditDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = AuditEntry.objects.select_related("scope")
        visible = visible_below(self.principal, "core_audit_view", rows)
        return self.page(narrowed(request, visible, by_identifier=False), AuditDocument)
