"""REST API of the daemons of managed instances."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Infrastructure
from inventory.models.daemons import EcsDaemon
from inventory.queries.daemons import list_daemons
from inventory.queries.instances import VIEW_ENVIRONMENT, get_cluster
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView


class DaemonCapacityProviderDocument(serializers.Serializer[Any]):
    """The instances of one capacity provider."""

    name = serializers.CharField()
    running = serializers.IntegerField(help_text="Instances with a task of the daemon.")
    without_daemon = serializers.IntegerField(help_text="Instances that run without the daemon.")


class DaemonContainerDocument(serializers.Serializer[Any]):
    """One container of the revision that runs."""

    name = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()


class EcsDaemonDocument(serializers.Serializer[Any]):
    """A daemon of managed instances, which nothing in Slipway deploys."""

    name = serializers.CharField()
    arn = serializers.CharField()
    status = serializers.CharField(help_text="ACTIVE or DELETE_IN_PROGRESS.")
    running = serializers.IntegerField(help_text="Instances with a task of the daemon.")
    without_daemon = serializers.IntegerField(help_text="Instances that run without the daemon.")
    capacity_providers = DaemonCapacityProviderDocument(many=True)
    task_definition = serializers.CharField(help_text="Empty until its revision was read.")
    containers = DaemonContainerDocument(many=True)
    is_critical = serializers.BooleanField(
        allow_null=True, help_text="Whether ECS drains an instance whose daemon stops."
    )
    deployment = serializers.CharField(help_text="The ARN of the last deployment.")
    deployment_status = serializers.CharField()
    deployment_reason = serializers.CharField()
    created_at = serializers.DateTimeField(allow_null=True)
    updated_at = serializers.DateTimeField(allow_null=True)
    described_at = serializers.DateTimeField(allow_null=True, help_text="When AWS last described it.")


class DaemonsRoute(BaseApiView):
    """Daemons of the cluster of an infrastructure."""

    @extend_schema(parameters=[*PAGE_PARAMETERS], responses=EcsDaemonDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = Infrastructure.objects.select_related("environment__scope")
        infrastructure = self.get_visible(VIEW_ENVIRONMENT, rows, pk=pk)
        return self.paginate(list_daemons(get_cluster(infrastructure)), serialize_daemon)


def serialize_daemon(row: EcsDaemon) -> dict[str, Any]:
    """Serialize a daemon."""
    names = (
        "name", "arn", "status", "running", "without_daemon", "capacity_providers", "task_definition",
        "containers", "is_critical", "deployment", "deployment_status", "deployment_reason", "created_at",
        "updated_at", "described_at",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names}
