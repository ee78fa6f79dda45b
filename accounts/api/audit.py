"""API of the audit trail and its exports."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.audit_exports import EXPORT_FORMATS, export_entries
from accounts.forms.audit import AUDIT_SOURCES, AuditFilterForm, list_resource_types
from accounts.queries.audit import list_readable_entries
from rbac.models import AuditEntry
from rbac.policy import Principal
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView, filter_by_scope


class AuditDocument(serializers.Serializer[Any]):
    """Audit trail entry."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    actor_id = serializers.IntegerField(
        allow_null=True, help_text="ID of the user, also after a new name; null for Slipway itself."
    )
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


def _build_parameter(
    name: str, description: str, kind: Any = OpenApiTypes.STR, **more: Any
) -> OpenApiParameter:
    return OpenApiParameter(name, kind, description=description, **more)


FILTER_PARAMETERS = [
    _build_parameter("who", "Filter by user name."),
    _build_parameter(
        "action", "Filter by action, such as `connector.update`, or by resource type, such as `connector`."
    ),
    _build_parameter("kind", "Filter by resource type.", enum=[kind for kind, _ in list_resource_types()]),
    _build_parameter("thing", "Filter by part of the resource name."),
    _build_parameter("thing_id", "Filter by resource ID."),
    _build_parameter("source", "Filter by source.", enum=[source for source, _ in AUDIT_SOURCES]),
    _build_parameter("request_id", "Filter by request ID."),
    _build_parameter("address", "Filter by source address."),
    _build_parameter("since", "Entries at or after this time. A date means its start in UTC."),
    _build_parameter("until", "Entries before this time. A date means its end in UTC."),
]


FORMAT_PARAMETER = _build_parameter("as", "The file format.", enum=EXPORT_FORMATS, default="json")


class ExportDocument(serializers.Serializer[Any]):
    """Export in JSON."""

    results = AuditDocument(many=True)
    is_cut = serializers.BooleanField(help_text="Whether older entries were left out.")


EXPORT_RESPONSES = {(200, "application/json"): ExportDocument, (200, "text/csv"): OpenApiTypes.STR}


class AuditEntryListView(BaseApiView):
    """Audit trail of the scopes that the caller may audit, newest first."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, *FILTER_PARAMETERS, *PAGE_PARAMETERS],
        responses=AuditDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.paginate(filter_entries(request, self.principal), AuditDocument)


class AuditExportView(BaseApiView):
    """Audit trail as a file, up to the export limit."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, FORMAT_PARAMETER, *FILTER_PARAMETERS],
        responses=EXPORT_RESPONSES,
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        entries = filter_entries(request, self.principal)
        return export_entries(request._request, entries, request.GET.get("as", "json"))


class AuditEntryDetailView(BaseApiView):
    """Audit trail entry."""

    @extend_schema(responses=AuditDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AuditDocument(self.get_row(list_readable_entries(self.principal), pk=pk)).data)


def filter_entries(request: Request, principal: Principal) -> QuerySet[AuditEntry]:
    """Return the entries that match the query. Raises `BadInput`."""
    entries = filter_by_scope(request, list_readable_entries(principal), by_identifier=False)
    return entries.filter(AuditFilterForm(request.GET).condition)
