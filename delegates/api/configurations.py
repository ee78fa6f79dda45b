"""Routes of delegate configurations."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.models import Delegate, DelegateConfiguration, DelegateTask
from delegates.operations import configurations as operations
from delegates.queries.configurations import list_configuration_runs, list_configurations_with_use
from guards.limits import SCRIPT_SECONDS
from rbac.policy import filter_visible
from web.api.parameters import LIST_PARAMETERS, SHARED_PARAMETER
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW = "core_delegateconfiguration_view"


class DelegateConfigurationDocument(serializers.Serializer[Any]):
    """Delegate configuration with its number of delegates."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    script = serializers.CharField()
    timeout_seconds = serializers.IntegerField()
    requires_approval = serializers.BooleanField()
    is_primary = serializers.BooleanField()
    environments = serializers.ListField(child=serializers.CharField())
    task_kinds = serializers.ListField(child=serializers.CharField())
    delegates = serializers.IntegerField(source="delegate_count")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class DelegateConfigurationChange(serializers.Serializer[Any]):
    """Writable fields of a configuration."""

    name = serializers.CharField(max_length=128, required=False)
    script = serializers.CharField(required=False, allow_blank=True, trim_whitespace=False)
    timeout_seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=int(SCRIPT_SECONDS), help_text="Timeout of the script."
    )
    requires_approval = serializers.BooleanField(required=False)
    environments = serializers.ListField(
        child=serializers.CharField(max_length=512),
        required=False,
        max_length=200,
        help_text="Paths such as account/acme/shop/production; an empty list means all.",
    )
    task_kinds = serializers.ListField(
        child=serializers.CharField(max_length=16),
        required=False,
        max_length=len(DelegateTask.LIMITABLE),
        help_text=f"Kinds of tasks: {', '.join(DelegateTask.LIMITABLE)}; an empty list means all.",
    )


class DelegateConfigurationInput(DelegateConfigurationChange):
    """Fields of a new configuration."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class DelegatesToConfigure(serializers.Serializer[Any]):
    """Delegate ids."""

    delegates = serializers.ListField(child=serializers.IntegerField(min_value=1), max_length=200)


class ConfigurationRunDocument(serializers.Serializer[Any]):
    """Script run on one instance."""

    id = serializers.IntegerField()
    delegate = serializers.CharField(source="instance.delegate.name")
    instance = serializers.CharField(source="instance.key")
    started_at = serializers.DateTimeField()
    duration_ms = serializers.IntegerField()
    exit_code = serializers.IntegerField()
    output = serializers.CharField()


class ConfigurationRunList(serializers.Serializer[Any]):
    """Latest runs of a script."""

    results = ConfigurationRunDocument(many=True)
    next = serializers.CharField(allow_null=True)


class DelegateConfigurations(BaseApiView):
    """Delegate configurations."""

    @extend_schema(
        parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=DelegateConfigurationDocument(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, list_configurations_with_use(), DelegateConfigurationDocument)

    @extend_schema(request=DelegateConfigurationInput, responses={201: DelegateConfigurationDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(DelegateConfigurationInput)
        values = {name: value for name, value in body.items() if name not in ("org", "project")}
        made = operations.create_configuration(actor=self.principal, scope=self.get_named_scope(), **values)
        return Response(_serialize_configuration(made.pk), status=201)


class DelegateConfigurationDetail(BaseApiView):
    """Delegate configuration."""

    @extend_schema(responses=DelegateConfigurationDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(_serialize_configuration(_get_configuration(self, pk).pk))

    @extend_schema(request=DelegateConfigurationChange, responses=DelegateConfigurationDocument)
    def patch(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(DelegateConfigurationChange)
        operations.update_configuration(
            actor=self.principal, configuration=_get_configuration(self, pk), **body
        )
        return Response(_serialize_configuration(pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_configuration(actor=self.principal, configuration=_get_configuration(self, pk))
        return Response(status=204)


class DelegateConfigurationRuns(BaseApiView):
    """Latest 50 runs of a configuration's script."""

    @extend_schema(responses=ConfigurationRunList)
    def get(self, request: Request, pk: int) -> Response:
        runs = list_configuration_runs(_get_configuration(self, pk), self.principal)
        return Response({"results": ConfigurationRunDocument(runs, many=True).data, "next": None})


class DelegateConfigurationApplication(BaseApiView):
    """Assignment of a configuration to delegates."""

    @extend_schema(request=DelegatesToConfigure, responses=DelegateConfigurationDocument)
    def post(self, request: Request, pk: int) -> Response:
        configuration = _get_configuration(self, pk)
        delegate_ids = set(self.get_validated_body(DelegatesToConfigure)["delegates"])
        rows = Delegate.objects.filter(pk__in=delegate_ids).select_related("scope", "configuration")
        delegates = list(filter_visible(self.principal, "core_delegate_view", rows))
        if missing := sorted(delegate_ids - {delegate.pk for delegate in delegates}):
            message = f"delegate {missing[0]} does not exist"
            raise BadInput("No such delegate.", errors=[{"path": "delegates", "message": message}])
        operations.apply_configuration(actor=self.principal, configuration=configuration, delegates=delegates)
        return Response(_serialize_configuration(pk))


def _get_configuration(route: BaseApiView, pk: int) -> DelegateConfiguration:
    return route.get_visible(VIEW, DelegateConfiguration.objects.select_related("scope"), pk=pk)


def _serialize_configuration(pk: int) -> Any:
    return DelegateConfigurationDocument(list_configurations_with_use().get(pk=pk)).data
