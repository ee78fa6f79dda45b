"""Routes of freeze windows."""

from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Environment
from deployments import freezes
from deployments.models import FreezeWindow
from guards.limits import DESCRIPTION_CHARACTERS, FREEZE_NAMES
from rbac.policy import visible_to
from web.rest import IF_MATCH, LISTED, SHARED, Route, check_version, narrowed, versioned

MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d\Z"


class FreezeDocument(serializers.Serializer[Any]):
    """A freeze window; `begins` and `ends` are times of the wall clock in `time_zone`."""

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


def _names() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=128), max_length=int(FREEZE_NAMES), default=list
    )


class FreezeChange(serializers.Serializer[Any]):
    """A freeze window without its identifier; given whole. Empty lists concern everything."""

    name = serializers.CharField(max_length=128)
    reason = serializers.CharField(allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS), default="")
    time_zone = serializers.CharField(max_length=64, default="UTC")
    begins = serializers.RegexField(MOMENT)
    ends = serializers.RegexField(MOMENT)
    weekly = serializers.BooleanField(default=False)
    services = _names()
    environments = _names()
    environment_kind = serializers.ChoiceField(choices=Environment.Kind.choices, allow_blank=True, default="")
    enabled = serializers.BooleanField(default=True)


class FreezeInput(FreezeChange):
    """A new freeze window."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class FreezeWindows(Route):
    """Freeze windows."""

    @extend_schema(parameters=[*LISTED, SHARED], responses=FreezeDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = FreezeWindow.objects.select_related("scope")
        if not self.is_set("shared"):
            return self.listed(freezes.MANAGE, rows, FreezeDocument)
        here = narrowed(request, visible_to(self.principal, freezes.MANAGE, rows))
        above = freezes.windows_above(self.principal, self.scope_named())
        if identifier := request.GET.get("identifier"):
            above = above.filter(identifier=identifier)
        found = rows.filter(Q(pk__in=here.values("pk")) | Q(pk__in=above.values("pk")))
        return self.page(found, FreezeDocument)

    @extend_schema(request=FreezeInput, responses={201: FreezeDocument})
    def post(self, request: Request) -> Response:
        given, scope = self.given(FreezeInput), self.scope_named()
        made = freezes.create_freeze(
            actor=self.principal, scope=scope, identifier=given["identifier"], spec=_spec(given)
        )
        return versioned(FreezeDocument(made).data, made.version, status=201)


class OneFreezeWindow(Route):
    """One freeze window."""

    def window(self, pk: int) -> FreezeWindow:
        """Return the window of the address."""
        return self.one(freezes.MANAGE, FreezeWindow.objects.select_related("scope"), pk=pk)

    @extend_schema(responses=FreezeDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = self.window(pk)
        return versioned(FreezeDocument(found).data, found.version)

    @extend_schema(parameters=[IF_MATCH], request=FreezeChange, responses=FreezeDocument)
    def put(self, request: Request, pk: int) -> Response:
        found = self.window(pk)
        check_version(request, found.version)
        spec = _spec(self.given(FreezeChange))
        saved = freezes.update_freeze(actor=self.principal, window=found, spec=spec, version=found.version)
        return versioned(FreezeDocument(saved).data, saved.version)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        found = self.window(pk)
        check_version(request, found.version)
        freezes.delete_freeze(actor=self.principal, window=found)
        return Response(status=204)


def _spec(given: dict[str, Any]) -> freezes.FreezeSpec:
    names = ("name", "reason", "time_zone", "begins", "ends", "weekly", "environment_kind", "enabled")
    return freezes.FreezeSpec(
        **{name: given[name] for name in names},
        services=tuple(given["services"]),
        environments=tuple(given["environments"]),
    )
