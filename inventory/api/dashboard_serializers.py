"""Serializers that describe the responses of the dashboard routes."""

from typing import Any

from rest_framework import serializers

from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceEvent


class TileExecutionDocument(serializers.Serializer[Any]):
    """An execution as a tile of the overview names it."""

    id = serializers.UUIDField()
    pipeline = serializers.CharField()
    number = serializers.IntegerField()
    status = serializers.CharField()
    outcome = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    failure = serializers.CharField(allow_null=True)


class TileDocument(serializers.Serializer[Any]):
    """How many executions there are, and the newest five."""

    count = serializers.IntegerField()
    newest = TileExecutionDocument(many=True)


class DisconnectedDelegateDocument(serializers.Serializer[Any]):
    """A delegate that is late or disconnected."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.CharField()
    reason = serializers.CharField()


class DelegatesTileDocument(serializers.Serializer[Any]):
    """The delegates that serve the scope."""

    total = serializers.IntegerField()
    connected = serializers.IntegerField()
    away = DisconnectedDelegateDocument(many=True)


class DeploymentNumbersDocument(serializers.Serializer[Any]):
    """How deployments ended and how long they took; null where there is nothing to count."""

    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    rolled_back = serializers.IntegerField()
    aborted = serializers.IntegerField()
    failure_rate = serializers.FloatField(
        allow_null=True, help_text="From 0 to 1; aborted ones are left out."
    )
    deployment_duration_seconds = serializers.FloatField(
        allow_null=True, help_text="Median, from the start to a good end."
    )
    restore_time_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Median, from the start of what failed to its rollback or the next success.",
    )


class DailyDeploymentsDocument(DeploymentNumbersDocument):
    """The same of one day, in UTC."""

    day = serializers.DateField()


class OverviewDocument(serializers.Serializer[Any]):
    """What goes on in a scope, and how deployments went."""

    deploying = TileDocument()
    waiting = TileDocument()
    failed_or_rolled_back = TileDocument()
    drifted = serializers.IntegerField(help_text="ECS services that were changed outside Slipway.")
    delegates = DelegatesTileDocument()
    all = DeploymentNumbersDocument()
    days = DailyDeploymentsDocument(many=True)


class RunningVersionDocument(serializers.Serializer[Any]):
    """Tasks of one image and one revision."""

    version = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()
    task_definition = serializers.CharField()
    tasks = serializers.IntegerField()


class RunningServiceDocument(serializers.Serializer[Any]):
    """One ECS service with the versions that it runs, the one of most tasks first."""

    ecs_service = serializers.CharField()
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    account = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    desired = serializers.IntegerField()
    running = serializers.IntegerField()
    pending = serializers.IntegerField()
    task_definition = serializers.CharField()
    version = serializers.CharField(allow_null=True)
    versions = RunningVersionDocument(many=True)
    scaling = serializers.JSONField(
        allow_null=True, help_text="min, max and what is suspended; {} without auto scaling; null: not known."
    )
    seen_at = serializers.DateTimeField()


class DeploymentDocument(serializers.Serializer[Any]):
    """One deployment of a service; `can_return` says whether it may be rolled back to."""

    id = serializers.IntegerField()
    execution = serializers.UUIDField()
    number = serializers.IntegerField()
    pipeline = serializers.CharField()
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    ecs_service = serializers.CharField(allow_null=True)
    image = serializers.CharField(allow_null=True)
    tag = serializers.CharField(allow_null=True)
    digest = serializers.CharField(allow_null=True)
    status = serializers.CharField()
    outcome = serializers.CharField(allow_null=True)
    replays = serializers.IntegerField(allow_null=True, help_text="The number of the execution it repeats.")
    started_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    can_return = serializers.BooleanField()


class UnhealthyTargetDocument(serializers.Serializer[Any]):
    """A target that is not healthy, with AWS's code and sentence."""

    target = serializers.CharField()
    port = serializers.IntegerField(allow_null=True)
    zone = serializers.CharField()
    state = serializers.CharField()
    reason = serializers.CharField()
    description = serializers.CharField()
    task = serializers.CharField(allow_null=True, help_text="The id of the ECS task behind it.")
    hint = serializers.CharField(help_text="What somebody can do about it.")


class TargetGroupDocument(serializers.Serializer[Any]):
    """How healthy the targets of a group are; read once a minute while the dashboard is looked at."""

    arn = serializers.CharField()
    name = serializers.CharField()
    is_missing = serializers.BooleanField(help_text="AWS knows no such group.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    total = serializers.IntegerField()
    unhealthy = UnhealthyTargetDocument(
        many=True, help_text="The first of those that should get traffic and get none."
    )
    unhealthy_total = serializers.IntegerField()
    others = UnhealthyTargetDocument(
        many=True, help_text="The first of those that are initial, draining or unused."
    )
    read_at = serializers.DateTimeField(allow_null=True, help_text="Null: not read yet.")


class UsagePointDocument(serializers.Serializer[Any]):
    """The averages of five minutes, in per cent of what is reserved."""

    at = serializers.DateTimeField(help_text="When the five minutes begin.")
    cpu = serializers.FloatField(allow_null=True)
    memory = serializers.FloatField(allow_null=True)


class UsageDocument(serializers.Serializer[Any]):
    """CPU and memory three hours back, the oldest first."""

    read_at = serializers.DateTimeField()
    points = UsagePointDocument(many=True)


class ServiceDriftDocument(serializers.Serializer[Any]):
    """How an ECS service compares with what was deployed to it last."""

    comparison = serializers.IntegerField()
    state = serializers.ChoiceField(choices=DriftComparison.State.choices)


class DashboardServiceDocument(RunningServiceDocument):
    """One ECS service with what is read of it while somebody looks."""

    target_groups = TargetGroupDocument(many=True)
    usage = UsageDocument(allow_null=True, help_text="Null: not read yet.")
    drift = ServiceDriftDocument(allow_null=True, help_text="Null: never compared.")
    kept_back = serializers.DictField(
        child=serializers.CharField(), help_text="The IAM action that is missing, by AWS operation."
    )


class DashboardDocument(serializers.Serializer[Any]):
    """What runs of a service, and what is being deployed."""

    places = DashboardServiceDocument(many=True)
    active = DeploymentDocument(many=True)


class ServiceReferenceDocument(serializers.Serializer[Any]):
    """A service by its names."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()


class MatrixRowDocument(serializers.Serializer[Any]):
    """A service with what runs of it in each environment; `differs` where versions do."""

    service = ServiceReferenceDocument()
    scope = serializers.CharField()
    differs = serializers.BooleanField()
    places = RunningServiceDocument(many=True)


# A key that is a word of Python.
_FROM_FIELD = {"from": DeploymentDocument()}
DifferenceDocument = type(
    "DifferenceDocument",
    (serializers.Serializer,),
    {
        "__doc__": "Task definitions of two deployments compared; values of environments are hidden.",
        **_FROM_FIELD,
        "to": DeploymentDocument(),
        "diff": serializers.CharField(allow_null=True, help_text="Unified; null: one registered none."),
        "added": serializers.IntegerField(),
        "removed": serializers.IntegerField(),
    },
)


class StartedExecutionDocument(serializers.Serializer[Any]):
    """The execution that was started."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()


class EventDocument(serializers.Serializer[Any]):
    """What ECS or auto scaling said, when, and of what."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=EcsServiceEvent.Kind.choices)
    message = serializers.CharField()
    count = serializers.IntegerField(
        allow_null=True, help_text="The desired count that auto scaling set, or to which it changed."
    )
    count_before = serializers.IntegerField(allow_null=True, help_text="The one that it changed from.")
    ecs_service = serializers.CharField()
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    account = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
