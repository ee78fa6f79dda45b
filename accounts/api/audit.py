"""Routes about the audit trail."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.audit_export import FORMS, export_of
from accounts.audit_trail import readable
from accounts.forms.audit import SOURCES, AuditFilter, kinds_of_things
from rbac.models import AuditEntry
from rbac.policy import Principal
from web.rest import ORG, PAGED, PROJECT, Route, narrowed


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


def _condition(name: str, description: str, kind: Any = OpenApiTypes.STR, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, description=description, **more)


CONDITIONS = [
    _condition("who", "Only what this user did."),
    _condition("action", "Only this action, `connector.update`, or all of one kind, `connector`."),
    _condition(
        "kind", "Only entries about things of this kind.", enum=[kind for kind, _ in kinds_of_things()]
    ),
    _condition("thing", "Only entries about things with this in their name."),
    _condition("thing_id", "Only entries about the thing with this id."),
    _condition("source", "Only what came this way.", enum=[source for source, _ in SOURCES]),
    _condition("request_id", "Only what this request did."),
    _condition("address", "Only what came from this address."),
    _condition("since", "Only entries at this moment or later; a day stands for its beginning, in UTC."),
    _condition("until", "Only entries before this moment; a day stands for its end, in UTC."),
]


FORM = _condition("as", "The form of the file.", enum=FORMS, default="json")


class ExportDocument(serializers.Serializer[Any]):
    """An export as JSON."""

    results = AuditDocument(many=True)
    is_cut = serializers.BooleanField(help_text="Whether there are older entries that it has no room for.")


EXPORTS = {(200, "application/json"): ExportDocument, (200, "text/csv"): OpenApiTypes.STR}


class Audit(Route):
    """The audit trail of the scopes where one may read it, newest first."""

    @extend_schema(parameters=[ORG, PROJECT, *CONDITIONS, *PAGED], responses=AuditDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.page(wanted_entries(request, self.principal), AuditDocument)


class AuditExport(Route):
    """The audit trail as a file: all entries that are asked for, up to what an export holds."""

    @extend_schema(parameters=[ORG, PROJECT, FORM, *CONDITIONS], responses=EXPORTS)
    def get(self, request: Request) -> StreamingHttpResponse:
        entries = wanted_entries(request, self.principal)
        return export_of(request._request, entries, request.GET.get("as", "json"))


class OneAuditEntry(Route):
    """One entry of the audit trail."""

    @extend_schema(responses=AuditDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AuditDocument(self.one_of(readable(self.principal), pk=pk)).data)


def wanted_entries(request: Request, principal: Principal) -> QuerySet[AuditEntry]:
    """Return the entries that a request asks for. Raises `BadInput`."""
    found = narrowed(request, readable(principal), by_identifier=False)
    return found.filter(AuditFilter(request.GET).condition)
