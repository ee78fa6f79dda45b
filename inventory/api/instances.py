"""Routes of service instances and of their sync."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Infrastructure, Service
from inventory.models.instances import ServiceInstance
from inventory.operations import sync
from inventory.queries import instances
from inventory.queries.instance_filters import EXACT_FILTERS, build_instance_filter
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView
from web.clock import get_database_time

STOPPED_PARAMETER = OpenApiParameter(
    "stopped",
    OpenApiTypes.BOOL,
    description="Stopped tasks with their stop reasons, instead of running tasks.",
)


FILTER_PARAMETERS = [
    *(
        OpenApiParameter(name, OpenApiTypes.STR, description="Only tasks with exactly this value.")
        for name in EXACT_FILTERS
    ),
    OpenApiParameter(
        "status", OpenApiTypes.STR, description="Only tasks in this ECS state, such as RUNNING."
    ),
    OpenApiParameter("stop_code", OpenApiTypes.STR, description="Only tasks with this stop code."),
    OpenApiParameter("origin", OpenApiTypes.STR, enum=ServiceInstance.Origin.values),
    OpenApiParameter("execution", OpenApiTypes.UUID, description="Only tasks that this execution started."),
    OpenApiParameter(
        "q",
        OpenApiTypes.STR,
        description="Text in image, task, ECS service, container instance or stop reason.",
    ),
]


class ContainerInstanceDocument(serializers.Serializer[Any]):
    """EC2 container instance of a task."""

    arn = serializers.CharField()
    ec2_instance = serializers.CharField()
    instance_type = serializers.CharField()
    zone = serializers.CharField()
    status = serializers.CharField()
    agent_connected = serializers.BooleanField(allow_null=True)
    cpu = serializers.IntegerField(allow_null=True, help_text="CPU units for tasks.")
    cpu_left = serializers.IntegerField(allow_null=True)
    memory = serializers.IntegerField(allow_null=True, help_text="Memory in MiB for tasks.")
    memory_left = serializers.IntegerField(allow_null=True)
    seen_at = serializers.DateTimeField()


class TaskOriginDocument(serializers.Serializer[Any]):
    """The origin of a task."""

    origin = serializers.ChoiceField(choices=ServiceInstance.Origin.choices)
    name = serializers.CharField()
    execution = serializers.UUIDField(allow_null=True)
    number = serializers.IntegerField(allow_null=True)
    deployment = serializers.CharField(help_text="ECS deployment that started the task.")


class ContainerDocument(serializers.Serializer[Any]):
    """Container of a task."""

    name = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()
    status = serializers.CharField()
    health = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField()


class InstanceDocument(serializers.Serializer[Any]):
    """Service instance: one ECS task in its last known state."""

    id = serializers.IntegerField()
    task = serializers.CharField()
    task_id = serializers.CharField()
    ecs_service = serializers.CharField(allow_null=True)
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()
    task_definition = serializers.CharField()
    status = serializers.CharField()
    desired_status = serializers.CharField()
    health = serializers.CharField()
    containers = ContainerDocument(many=True)
    zone = serializers.CharField()
    launch_type = serializers.CharField()
    capacity_provider = serializers.CharField()
    address = serializers.CharField(allow_null=True)
    host = serializers.CharField()
    container_instance = ContainerInstanceDocument(allow_null=True)
    started_by = TaskOriginDocument()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    stopped_at = serializers.DateTimeField(allow_null=True)
    stop_code = serializers.CharField()
    stopped_reason = serializers.CharField()
    seen_at = serializers.DateTimeField()


class SyncDocument(serializers.Serializer[Any]):
    """Freshness of a cluster; `age_seconds` is null until the first complete sync."""

    synced_at = serializers.DateTimeField(allow_null=True)
    age_seconds = serializers.FloatField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True)
    under_way = serializers.BooleanField()
    seconds = serializers.FloatField(allow_null=True)
    calls = serializers.IntegerField()
    failures = serializers.IntegerField()
    failed_at = serializers.DateTimeField(allow_null=True)
    failure = serializers.CharField()
    failure_code = serializers.CharField()
    next_step = serializers.CharField(help_text="Recommended action after the failure.")
    rests_until = serializers.DateTimeField(
        allow_null=True,
        help_text="End of the pause of all syncs with the same account or connector and region.",
    )
    lacking = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()),
        help_text="Reads that failed, each with `why`, and with its `action` if AWS denied it.",
    )


class ServiceInstancesRoute(BaseApiView):
    """Service instances of a service."""

    @extend_schema(
        parameters=[STOPPED_PARAMETER, *FILTER_PARAMETERS, *PAGE_PARAMETERS],
        responses=InstanceDocument(many=True),
    )
    def get(self, request: Request, pk: int) -> Response:
        service = self.get_visible(instances.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
        rows = instances.list_service_instances(self.principal, service, stopped=self.is_flag_set("stopped"))
        condition = build_instance_filter(self.request.GET)
        return self.paginate(rows.filter(condition), instances.serialize_instance)


class InfrastructureSyncRoute(BaseApiView):
    """Sync state of an infrastructure's cluster."""

    @extend_schema(responses=SyncDocument)
    def get(self, request: Request, pk: int) -> Response:
        cluster = instances.get_cluster(self._get_infrastructure(pk))
        return Response(instances.serialize_sync(cluster, get_database_time()))

    @extend_schema(request=None, responses={202: SyncDocument})
    def post(self, request: Request, pk: int) -> Response:
        cluster = sync.sync_infrastructure(actor=self.principal, infrastructure=self._get_infrastructure(pk))
        return Response(instances.serialize_sync(cluster, get_database_time()), status=202)

    def _get_infrastructure(self, pk: int) -> Infrastructure:
        rows = Infrastructure.objects.select_related("environment__scope", "connector")
        return self.get_visible(instances.VIEW_ENVIRONMENT, rows, pk=pk)
