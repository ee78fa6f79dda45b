"""Routes of freeze windows."""

from typing import Any

from django.db import transaction
from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Environment
from deployments.freezes import operations
from deployments.models import FreezeWindow
from guards.limits import DESCRIPTION_CHARACTERS, FREEZE_NAMES
from rbac.policy import filter_visible
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, SHARED_PARAMETER
from web.api.views import BaseApiView, check_version, filter_by_scope, respond_with_etag

LOCAL_TIME_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d\Z"


class FreezeDocument(serializers.Serializer[Any]):
    """Freeze window; `begins` and `ends` are local times in `time_zone`."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    reason = serializers.CharField(source="description")
    time_zone = serializers.CharField()
    begins = serializers.CharField()
    ends = serializers.CharField()
    weekly = serializers.BooleanField()
    services = serializers.ListField(child=serializers.CharField())
    environments = serializers.ListField(child=serializers.CharField())
    environment_kind = serializers.CharField()
    enabled = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


def _build_name_list() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=128), max_length=int(FREEZE_NAMES), default=list
    )


class FreezeChange(serializers.Serializer[Any]):
    """Freeze window without its identifier; an update sends all fields. An empty list matches everything."""

    name = serializers.CharField(max_length=128)
    reason = serializers.CharField(allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS), default="")
    time_zone = serializers.CharField(max_length=64, default="UTC")
    begins = serializers.RegexField(LOCAL_TIME_PATTERN)
    ends = serializers.RegexField(LOCAL_TIME_PATTERN)
    weekly = serializers.BooleanField(default=False)
    services = _build_name_list()
    environments = _build_name_list()
    environment_kind = serializers.ChoiceField(choices=Environment.Kind.choices, allow_blank=True, default="")
    enabled = serializers.BooleanField(default=True)


class FreezeInput(FreezeChange):
    """Fields of a new freeze window."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class FreezeWindows(BaseApiView):
    """Freeze windows."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=FreezeDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = FreezeWindow.objects.select_related("scope")
        if not self.is_flag_set("shared"):
            return self.list_visible(operations.MANAGE, rows, FreezeDocument)
        own_windows = filter_by_scope(request, filter_visible(self.principal, operations.MANAGE, rows))
        applicable_windows = operations.list_applicable_windows(self.principal, self.get_named_scope())
        if identifier := request.GET.get("identifier"):
            applicable_windows = applicable_windows.filter(identifier=identifier)
        windows = rows.filter(Q(pk__in=own_windows.values("pk")) | Q(pk__in=applicable_windows.values("pk")))
        return self.paginate(windows, FreezeDocument)

    @extend_schema(request=FreezeInput, responses={201: FreezeDocument})
    def post(self, request: Request) -> Response:
        data, scope = self.get_validated_body(FreezeInput), self.get_named_scope()
        made = operations.create_freeze(
            actor=self.principal, scope=scope, identifier=data["identifier"], spec=_build_spec(data)
        )
        return respond_with_etag(FreezeDocument(made).data, made.version, status=201)


class FreezeWindowDetail(BaseApiView):
    """Freeze window."""

    def window(self, pk: int, *, lock: bool = False) -> FreezeWindow:
        """Return the freeze window in the URL."""
        rows = FreezeWindow.objects.select_related("scope")
        return self.get_visible(operations.MANAGE, rows, lock=lock, pk=pk)

    @extend_schema(responses=FreezeDocument)
    def get(self, request: Request, pk: int) -> Response:
        window = self.window(pk)
        return respond_with_etag(FreezeDocument(window).data, window.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=FreezeChange, responses=FreezeDocument)
    def put(self, request: Request, pk: int) -> Response:
        window = self.window(pk)
        check_version(request, window.version)
        spec = _build_spec(self.get_validated_body(FreezeChange))
        saved = operations.update_freeze(
            actor=self.principal, window=window, spec=spec, version=window.version
        )
        return respond_with_etag(FreezeDocument(saved).data, saved.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            window = self.window(pk, lock=True)
            check_version(request, window.version)
            operations.delete_freeze(actor=self.principal, window=window)
        return Response(status=204)


def _build_spec(data: dict[str, Any]) -> operations.FreezeSpec:
    names = ("name", "reason", "time_zone", "begins", "ends", "weekly", "environment_kind", "enabled")
    return operations.FreezeSpec(
        **{name: data[name] for name in names},
        services=tuple(data["services"]),
        environments=tuple(data["environments"]),
    )
