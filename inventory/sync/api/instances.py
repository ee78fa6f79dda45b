"""Routes of service instances and of their sync."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Infrastructure, Service
from inventory.models.instances import ServiceInstance
from inventory.sync import operations, queries
from inventory.sync.finding import EXACT, narrowing
from web.clock import database_now
from web.rest import PAGED, Route

STOPPED = OpenApiParameter(
    "stopped", OpenApiTypes.BOOL, description="Those that stopped, with why, instead of those that run."
)


NARROWED = [
    *(
        OpenApiParameter(name, OpenApiTypes.STR, description="Only those with exactly this.")
        for name in EXACT
    ),
    OpenApiParameter(
        "status", OpenApiTypes.STR, description="Only those in this state of ECS, such as RUNNING."
    ),
    OpenApiParameter("stop_code", OpenApiTypes.STR, description="Only those that stopped by this."),
    OpenApiParameter("origin", OpenApiTypes.STR, enum=ServiceInstance.Origin.values),
    OpenApiParameter("execution", OpenApiTypes.UUID, description="Only what this execution started."),
    OpenApiParameter("q", OpenApiTypes.STR, description="In image, task, ECS service, machine, reason."),
]


class MachineSeen(serializers.Serializer[Any]):
    """The machine of a task of launch type EC2."""

    arn = serializers.CharField()
    ec2_instance = serializers.CharField()
    instance_type = serializers.CharField()
    zone = serializers.CharField()
    status = serializers.CharField()
    agent_connected = serializers.BooleanField(allow_null=True)
    cpu = serializers.IntegerField(allow_null=True, help_text="CPU units that it has for tasks.")
    cpu_left = serializers.IntegerField(allow_null=True)
    memory = serializers.IntegerField(allow_null=True, help_text="MiB that it has for tasks.")
    memory_left = serializers.IntegerField(allow_null=True)
    seen_at = serializers.DateTimeField()


class StartedBy(serializers.Serializer[Any]):
    """Who or what started a task."""

    origin = serializers.ChoiceField(choices=ServiceInstance.Origin.choices)
    name = serializers.CharField()
    execution = serializers.UUIDField(allow_null=True)
    number = serializers.IntegerField(allow_null=True)
    deployment = serializers.CharField(help_text="What ECS says: the deployment of the ECS service.")


class ContainerSeen(serializers.Serializer[Any]):
    """One container of a task."""

    name = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()
    status = serializers.CharField()
    health = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField()


class InstanceDocument(serializers.Serializer[Any]):
    """A service instance: one ECS task as AWS last showed it."""

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
    containers = ContainerSeen(many=True)
    zone = serializers.CharField()
    launch_type = serializers.CharField()
    capacity_provider = serializers.CharField()
    address = serializers.CharField(allow_null=True)
    host = serializers.CharField()
    container_instance = MachineSeen(allow_null=True)
    started_by = StartedBy()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    stopped_at = serializers.DateTimeField(allow_null=True)
    stop_code = serializers.CharField()
    stopped_reason = serializers.CharField()
    seen_at = serializers.DateTimeField()


class SyncDocument(serializers.Serializer[Any]):
    """How fresh the picture of a cluster is; `age_seconds` is null until the first one is whole."""

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
    next_step = serializers.CharField(help_text="What somebody can do about the failure.")
    rests_until = serializers.DateTimeField(
        allow_null=True,
        help_text="Until when it rests with all that share its account, or connector, and region.",
    )
    lacking = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()),
        help_text="Parts of the picture that AWS kept back, each with its `action` and `why`.",
    )


class InstancesOfService(Route):
    """The service instances of a service."""

    @extend_schema(parameters=[STOPPED, *NARROWED, *PAGED], responses=InstanceDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        service = self.one(queries.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
        rows = queries.instances_of(self.principal, service, stopped=self.is_set("stopped"))
        narrow = narrowing(self.request.GET)
        return self.page(rows.filter(narrow), queries.instance_document)


class SyncOfInfrastructure(Route):
    """The picture of the cluster of an infrastructure."""

    @extend_schema(responses=SyncDocument)
    def get(self, request: Request, pk: int) -> Response:
        cluster = queries.cluster_of(self._found(pk))
        return Response(queries.sync_document(cluster, database_now()))

    @extend_schema(request=None, responses={202: SyncDocument})
    def post(self, request: Request, pk: int) -> Response:
        cluster = operations.sync_infrastructure(actor=self.principal, infrastructure=self._found(pk))
        return Response(queries.sync_document(cluster, database_now()), status=202)

    def _found(self, pk: int) -> Infrastructure:
        rows = Infrastructure.objects.select_related("environment__scope", "connector")
        return self.one(queries.VIEW_ENVIRONMENT, rows, pk=pk)
